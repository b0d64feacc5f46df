"""Checks and notes that both claims about MuonMax-Momo ask."""

from __future__ import annotations

import math

from fallline.study import Check, Estimate, Results, at_least


def with_three_seeds(r: Results) -> Results:
    """Return `r`, or refuse: the bars are about medians over at least three seeds."""
    if len(r.seeds) < 3:
        raise ValueError(f"a median needs at least 3 seeds here, got {len(r.seeds)}")
    return r


def spread_against_muonadam(r: Results, arm: str) -> float:
    """Return the arm's worst minus best loss over the learning rates, MuonAdam's as the unit."""
    spread = with_three_seeds(r).spread("val_loss", over="lr")
    return spread[arm] / spread["muon-adam"]


def gain_at_a_large_learning_rate(r: Results) -> Check:
    """At learning rate 0.1 MuonMax-Momo beats MuonAdam by at least 0.3 nats."""
    loss = with_three_seeds(r).where(lr=0.1).median("val_loss")
    return at_least(loss["muon-adam"] - loss["muonmax-momo"], 0.3)


def tuned_muonmax_momo_beats_adamw(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than AdamW."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "adamw")


def tuned_muonmax_momo_beats_torch_muon(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than torch's Muon beside AdamW."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "torch-muon")


def tuned_muonmax_momo_beats_muonadam(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than MuonAdam."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "muon-adam")


def tuned_muonmax_momo_beats_momo_adam(r: Results) -> Estimate:
    """With a tuned learning rate, MuonMax-Momo ends lower than MoMo-Adam."""
    return r.tuned("val_loss", over="lr").paired("muonmax-momo", "momo-adam")


def best_of_all(r: Results) -> str | None:
    """Name the lowest loss that any arm reaches."""
    best = {arm: v for arm, v in r.best("val_loss", over="lr").items() if not math.isnan(v)}
    if not best:
        return None
    arm = min(best, key=lambda name: best[name])
    at = r.best_at("val_loss", over="lr")[arm]
    return f"The lowest median loss of all is {best[arm]:.3f}, by {arm} at learning rate {at:g}."


def spread_of_each(r: Results) -> str:
    """List how much each arm depends on the learning rate."""
    spread = r.spread("val_loss", over="lr")
    rates = r.axes["lr"]
    told = ", ".join(f"{arm} {spread[arm]:.2f}" for arm in sorted(spread, key=lambda a: spread[a]))
    return (
        f"Worst minus best median loss over learning rates {rates[0]:g} to {rates[-1]:g}, "
        f"least first: {told}."
    )
