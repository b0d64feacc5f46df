"""The computed answer: a figure, a threshold, and what follows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

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

    @property
    def answer(self) -> str:
        """The outcome in words: an open comparison is shown or not, and never fails."""
        if self.kind == "bar":
            return self.outcome.value
        if self.outcome is Verdict.HOLDS:
            return "shown at this scale"
        contradicted = " (contradicted)" if self.outcome is Verdict.FAILS else ""
        return f"not shown at this scale{contradicted}"

    def __str__(self) -> str:
        sign = {"<=": "≤", ">=": "≥"}[self.relation]
        wanted = "" if math.isnan(self.limit) else f", wanted {sign} {self.limit:.4g}"
        why = f": {self.text}" if math.isnan(self.figure.value) else ""
        return f"{self.kind} {self.name}: {self.answer} ({self.figure}{wanted}){why}"


def at_most(figure: float | Estimate, limit: float, text: str = "") -> Check:
    """`figure <= limit`; an estimate's whole interval must lie there, NaN is inconclusive."""
    if not isinstance(figure, Estimate):
        figure = Estimate.exact(figure)
    elif _is_tie(figure, limit):
        return Check(Verdict.INCONCLUSIVE, figure, "<=", limit, text)
    return Check(_below(figure, limit), figure, "<=", limit, text)


def at_least(figure: float | Estimate, limit: float, text: str = "") -> Check:
    """`figure >= limit`; an estimate's whole interval must lie there, NaN is inconclusive."""
    if not isinstance(figure, Estimate):
        figure = Estimate.exact(figure)
    elif _is_tie(figure, limit):
        return Check(Verdict.INCONCLUSIVE, figure, ">=", limit, text)
    return Check(_below(-figure, -limit), figure, ">=", limit, text)


def _is_tie(estimate: Estimate, limit: float) -> bool:
    """Whether every seed gave exactly the limit: two arms that are one show nothing."""
    return estimate.low == estimate.high == limit


def _below(estimate: Estimate, limit: float) -> Verdict:
    if any(math.isnan(v) for v in (estimate.value, estimate.low, estimate.high, limit)):
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
    """Compute every bar and open comparison of the study, in order.

    One that raises is inconclusive and says why: a mistake in a check must not cost the report.
    """
    kinds: tuple[tuple[Literal["bar", "open"], Any], ...] = (
        ("bar", results.study.bars),
        ("open", results.study.open),
    )
    checks = []
    for kind, functions in kinds:
        for function in functions:
            check = _computed(function, results)
            text = check.text or summary_of(function)
            checks.append(replace(check, name=name_of(function), kind=kind, text=text))
    return checks


def _computed(function: Callable[[Results], object], results: Results) -> Check:
    try:
        check = function(results)
    except (Exception, SystemExit) as error:
        return _unknown(f"could not be computed: {explain(error)}")
    if isinstance(check, Estimate):
        return at_least(check, 0.0)
    if isinstance(check, Check):
        return check
    return _unknown(f"returned {check!r}, which is neither a Check nor an Estimate")


def _unknown(text: str) -> Check:
    return Check(Verdict.INCONCLUSIVE, Estimate.exact(math.nan), ">=", math.nan, text)


def computed_notes(results: Results) -> list[str]:
    """Compute the study's notes; one that has nothing to say returns None and is left out."""
    notes = []
    for function in results.study.notes:
        try:
            note = function(results)
        except (Exception, SystemExit) as error:
            note = f"{name_of(function)} could not be computed: {explain(error)}"
        if note:
            notes.append(str(note))
    return notes


def explain(error: BaseException) -> str:
    """One line for an error of the study's own code."""
    # str(KeyError) is the repr of its argument: quotes around a sentence.
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    return f"{type(error).__name__}: {said}".strip().rstrip(":")


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name in words, that of the inner one where arguments were bound."""
    name = getattr(_inner(function), "__name__", type(function).__name__)
    return str(name).replace("_", " ").strip()


def summary_of(function: Callable[..., Any]) -> str:
    """First line of a function's docstring."""
    return (_inner(function).__doc__ or "").strip().split("\n")[0]


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function
