"""Whether truncation makes the final loss insensitive to the learning rate.

"An Exploration of Non-Euclidean Gradient Descent: Muon and its Many Variants", Crawshaw, Modi,
Liu and Gower, ICML 2026, arXiv:2510.09827. The task is generated: a 2-layer GPT must infer in
context which of three Markov chains a sequence follows.
"""

from __future__ import annotations

from fallline.claims._pictures import (
    loss_against_learning_rate,
    ms_per_step,
    rate_over_time,
    truncated_against_learning_rate,
)
from fallline.claims._questions import (
    best_of_all,
    gain_at_a_large_learning_rate,
    spread_against_muonadam,
    spread_of_each,
    tuned_muonmax_momo_beats_adamw,
    tuned_muonmax_momo_beats_momo_adam,
    tuned_muonmax_momo_beats_muonadam,
    tuned_muonmax_momo_beats_torch_muon,
    with_three_seeds,
)
from fallline.claims._training import train
from fallline.study import Arm, Cell, Check, Limits, Part, Results, Study, at_most

ENTROPY_RATE = 1.506
"""Nats per symbol once the chain is known: the best possible loss, as the tight `f_star`."""

ARMS = (
    "adamw",
    "muonmax-momo",
    "torch-muon",
    "muon-adam",
    "muon-adam-momo",
    "scion",
    "polargrad",
    "muonmax",
    "momo",
    "momo-adam",
    Arm(
        "muon-adam-momo-tight",
        settings={"optimizer": "muon-adam-momo", "f_star": ENTROPY_RATE},
    ),
    Arm(
        "muonmax-momo-tight",
        settings={"optimizer": "muonmax-momo", "f_star": ENTROPY_RATE},
    ),
)
LRS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
BAR_LRS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)


def run(cell: Cell) -> dict[str, float]:
    """Train on the mixture that the seed draws."""
    from fallline.tasks import markov_mixture

    return train(markov_mixture(cell.seed, steps=cell.config["steps"]), cell)


def worst_loss_of_muonmax_momo(r: Results) -> Check:
    """Over two decades of learning rates MuonMax-Momo never ends above 2.35 nats."""
    worst = with_three_seeds(r.where(lr=BAR_LRS)).worst("val_loss", over="lr")
    return at_most(worst["muonmax-momo"], 2.35)


def spread_of_muonmax_momo(r: Results) -> Check:
    """MuonMax-Momo depends on the learning rate at most 0.4 times as much as MuonAdam."""
    return at_most(spread_against_muonadam(r.where(lr=BAR_LRS), "muonmax-momo"), 0.4)


def spread_of_muonadam_momo(r: Results) -> Check:
    """MuonAdam-Momo depends on the learning rate at most half as much as MuonAdam."""
    return at_most(spread_against_muonadam(r.where(lr=BAR_LRS), "muon-adam-momo"), 0.5)


def price_of_truncating_muonadam(r: Results) -> Check:
    """At its best learning rate MuonAdam-Momo loses at most 0.01 nats to MuonAdam."""
    best = with_three_seeds(r.where(lr=BAR_LRS)).best("val_loss", over="lr")
    return at_most(best["muon-adam-momo"] - best["muon-adam"], 0.01)


def price_of_muonmax_momo(r: Results) -> Check:
    """At its best learning rate MuonMax-Momo loses at most 0.08 nats to MuonAdam."""
    best = with_three_seeds(r.where(lr=BAR_LRS)).best("val_loss", over="lr")
    return at_most(best["muonmax-momo"] - best["muon-adam"], 0.08)


def muonmax_is_robust_without_truncation(r: Results) -> Check:
    """MuonMax depends less on the learning rate than MuonAdam, as at GPT-2 scale in the paper."""
    return at_most(spread_against_muonadam(r.where(lr=BAR_LRS), "muonmax"), 1.0)


def spread_on_the_bars_grid(r: Results) -> str:
    """List how much each arm depends on the learning rate where the bars look."""
    return spread_of_each(r.where(lr=BAR_LRS))


def worth_of_a_tight_bound(r: Results) -> str | None:
    """Say where knowing the best possible loss helps and where it hurts."""
    if "muonmax-momo-tight" not in r.arms or "muon-adam-momo-tight" not in r.arms:
        return None
    rates = [lr for lr in r.axes["lr"] if lr in BAR_LRS]
    sentences = []
    for arm in ("muonmax-momo", "muon-adam-momo"):
        gains = []
        for lr in rates:
            loss = r.where(lr=lr).median("val_loss")
            gains.append(f"{loss[arm] - loss[arm + '-tight']:+.3f} at {lr:g}")
        sentences.append(f"{arm} gains {', '.join(gains)}")
    return f"With f_star = {ENTROPY_RATE} instead of 0, {'; '.join(sentences)} (nats)."


study = Study(
    "muonmax-momo",
    run=run,
    question="Does MuonMax-Momo train well at any learning rate over two decades?",
    paper="arXiv:2510.09827",
    metrics={"val_loss": "min", "truncated": "min", "ms_per_step": "min"},
    # Just above ln 32 = 3.466, the loss of guessing: a diverged run is worth less than no run, but
    # not so much less that one alone could decide a spread.
    diverged={"val_loss": 4.0},
    scales={
        "smoke": [
            Part("learning rate", ARMS, seeds=1, lr=[1e-2, 0.1], fixed={"steps": 3}),
        ],
        "laptop": [Part("learning rate", ARMS, seeds=3, lr=LRS, fixed={"steps": 200})],
    },
    bars=[
        worst_loss_of_muonmax_momo,
        spread_of_muonmax_momo,
        spread_of_muonadam_momo,
        gain_at_a_large_learning_rate,
        price_of_truncating_muonadam,
        price_of_muonmax_momo,
    ],
    open=[
        tuned_muonmax_momo_beats_adamw,
        tuned_muonmax_momo_beats_torch_muon,
        tuned_muonmax_momo_beats_muonadam,
        tuned_muonmax_momo_beats_momo_adam,
        muonmax_is_robust_without_truncation,
    ],
    notes=[best_of_all, spread_on_the_bars_grid, worth_of_a_tight_bound],
    figures=[
        loss_against_learning_rate,
        truncated_against_learning_rate,
        rate_over_time,
        ms_per_step,
    ],
    limits=Limits(seconds=300, gib=2, threads=1),
    sources=["fallline.optim", "fallline.tasks", "fallline.arms", "fallline.claims._training"],
    # The first optimizer of a process imports torch._dynamo, which takes longer than torch itself.
    preload=["torch._dynamo", "fallline.optim", "fallline.tasks.language"],
)
