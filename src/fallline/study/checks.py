"""The computed answer: a figure, a threshold, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from fallline.study.estimates import Estimate

if TYPE_CHECKING:
    from fallline.study.results import Results


class Verdict(StrEnum):
    """What a check says, and what a study says when its bars are joined."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Check:
    """A figure against a threshold; `name` and `kind` are filled in by the study."""

    outcome: Verdict
    figure: Estimate
    relation: Literal["<=", ">="]
    limit: float
    text: str = ""
    name: str = ""
    kind: Literal["bar", "open"] = "bar"


def at_most(figure: float | Estimate, limit: float, text: str = "") -> Check:
    """`figure <= limit`; an estimate's whole interval must lie there, NaN is inconclusive."""
    estimate = figure if isinstance(figure, Estimate) else Estimate.exact(figure)
    return Check(_below(estimate, limit), estimate, "<=", limit, text)


def at_least(figure: float | Estimate, limit: float, text: str = "") -> Check:
    """`figure >= limit`; an estimate's whole interval must lie there, NaN is inconclusive."""
    estimate = figure if isinstance(figure, Estimate) else Estimate.exact(figure)
    return Check(_below(-estimate, -limit), estimate, ">=", limit, text)


def _below(estimate: Estimate, limit: float) -> Verdict:
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return Verdict.INCONCLUSIVE
    if estimate.high <= limit:
        return Verdict.HOLDS
    return Verdict.FAILS if estimate.low > limit else Verdict.INCONCLUSIVE


def all_of(checks: Iterable[Check]) -> Verdict:
    """Join bars: one failure fails, else one doubt is a doubt, and no bars at all say nothing."""
    outcomes = [check.outcome for check in checks if check.kind == "bar"]
    if Verdict.FAILS in outcomes:
        return Verdict.FAILS
    if Verdict.INCONCLUSIVE in outcomes or not outcomes:
        return Verdict.INCONCLUSIVE
    return Verdict.HOLDS


def evaluate(results: Results) -> list[Check]:
    """Compute every bar and open comparison of the study, in order."""
    checks = []
    for kind, functions in (("bar", results.study.bars), ("open", results.study.open)):
        for function in functions:
            check = function(results)
            if isinstance(check, Estimate):
                check = at_least(check, 0.0)
            name = function.__name__.replace("_", " ")
            text = check.text or (function.__doc__ or "").strip().split("\n")[0]
            checks.append(replace(check, name=name, kind=kind, text=text))  # type: ignore[arg-type]
    return checks
