"""Whether truncation makes the final loss insensitive to the learning rate.

"An Exploration of Non-Euclidean Gradient Descent: Muon and its Many Variants", Crawshaw, Modi,
Liu and Gower, ICML 2026, arXiv:2510.09827. The task is generated: a 2-layer GPT must infer in
context which of three Markov chains a sequence follows.
"""

from __future__ import annotations

import math

from fallline.claims._pictures import (
    loss_against_learning_rate,
    rate_over_time,
    seconds_per_step,
    truncated_against_learning_rate,
)
from fallline.claims._training import train
from fallline.study import (
    Arm,
    Cell,
    Check,
    Estimate,
    Limits,
    Part,
    Results,
    Study,
    at_least,
    at_most,
)

ENTROPY_RATE = 1.506
"""Nats per symbol once the chain is known: the best possible loss, as the tight `f_star`."""

ARMS = (
    "adamw",
    "scion",
    "muon-adam",
    "polargrad",
    "muonmax",
    "muon-adam-momo",
    "muonmax-momo",
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


def _ask(r: Results) -> Results:
    """Return the rows that the bars are about, with the seeds that a median needs."""
    if len(r.seeds) < 3:
        raise ValueError(f"the bars are medians over at least 3 seeds, got {len(r.seeds)}")
    return r.where(lr=BAR_LRS)


def worst_loss_of_muonmax_momo(r: Results) -> Check:
    """Over two decades of learning rates MuonMax-Momo never ends above 2.35 nats."""
    return at_most(_ask(r).worst("val_loss", over="lr")["muonmax-momo"], 2.35)


def spread_of_muonmax_momo(r: Results) -> Check:
    """MuonMax-Momo depends on the learning rate at most 0.4 times as much as MuonAdam."""
    spread = _ask(r).spread("val_loss", over="lr")
    return at_most(spread["muonmax-momo"] / spread["muon-adam"], 0.4)


def spread_of_muonadam_momo(r: Results) -> Check:
    """MuonAdam-Momo depends on the learning rate at most half as much as MuonAdam."""
    spread = _ask(r).spread("val_loss", over="lr")
    return at_most(spread["muon-adam-momo"] / spread["muon-adam"], 0.5)


def gain_at_a_large_learning_rate(r: Results) -> Check:
    """At learning rate 0.1 MuonMax-Momo beats MuonAdam by at least 0.3 nats."""
    loss = _ask(r).where(lr=0.1).median("val_loss")
    return at_least(loss["muon-adam"] - loss["muonmax-momo"], 0.3)


def price_of_truncating_muonadam(r: Results) -> Check:
    """At its best learning rate MuonAdam-Momo loses at most 0.01 nats to MuonAdam."""
    best = _ask(r).best("val_loss", over="lr")
    return at_most(best["muon-adam-momo"] - best["muon-adam"], 0.01)


def price_of_muonmax_momo(r: Results) -> Check:
    """At its best learning rate MuonMax-Momo loses at most 0.08 nats to MuonAdam."""
    best = _ask(r).best("val_loss", over="lr")
    return at_most(best["muonmax-momo"] - best["muon-adam"], 0.08)


def tuned_muonmax_momo_beats_adamw(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than AdamW."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "adamw")


def tuned_muonmax_momo_beats_muonadam(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than MuonAdam."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "muon-adam")


def muonmax_is_robust_without_truncation(r: Results) -> Check:
    """MuonMax depends less on the learning rate than MuonAdam, as at GPT-2 scale in the paper."""
    spread = _ask(r).spread("val_loss", over="lr")
    return at_most(spread["muonmax"] / spread["muon-adam"], 1.0)


def best_of_all(r: Results) -> str | None:
    """Name the lowest loss that any arm reaches."""
    best = {arm: v for arm, v in r.best("val_loss", over="lr").items() if not math.isnan(v)}
    if not best:
        return None
    arm = min(best, key=lambda name: best[name])
    at = r.best_at("val_loss", over="lr")[arm]
    return (
        f"The lowest median loss of all is {best[arm]:.3f}, by {arm} at learning rate {at:g}; "
        f"no model can go below {ENTROPY_RATE}."
    )


def robustness_of_polargrad(r: Results) -> str:
    """Compare the spreads of the arms without truncation."""
    spread = _ask(r).spread("val_loss", over="lr")
    untruncated = ("adamw", "scion", "muon-adam", "polargrad", "muonmax")
    told = ", ".join(f"{arm} {spread[arm]:.2f}" for arm in untruncated)
    return f"Worst minus best loss over learning rates 0.001 to 0.1, without truncation: {told}."


def worth_of_a_tight_bound(r: Results) -> str:
    """Say where knowing the best possible loss helps and where it hurts."""
    sentences = []
    for arm in ("muonmax-momo", "muon-adam-momo"):
        gains = []
        for lr in BAR_LRS:
            loss = _ask(r).where(lr=lr).median("val_loss")
            gains.append(f"{loss[arm] - loss[arm + '-tight']:+.3f} at {lr:g}")
        sentences.append(f"{arm} gains {', '.join(gains)}")
    return f"With f_star = {ENTROPY_RATE} instead of 0, {'; '.join(sentences)} (nats)."


study = Study(
    "muonmax-momo",
    run=run,
    question="Does MuonMax-Momo train well at any learning rate over two decades?",
    paper="arXiv:2510.09827",
    metrics={"val_loss": "min", "truncated": "min", "seconds_per_step": "min"},
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
        tuned_muonmax_momo_beats_muonadam,
        muonmax_is_robust_without_truncation,
    ],
    notes=[best_of_all, robustness_of_polargrad, worth_of_a_tight_bound],
    figures=[
        loss_against_learning_rate,
        truncated_against_learning_rate,
        rate_over_time,
        seconds_per_step,
    ],
    limits=Limits(seconds=300, gib=2, threads=1),
    sources=["fallline.optim", "fallline.tasks", "fallline.arms", "fallline.claims._training"],
    preload=["torch"],
)
