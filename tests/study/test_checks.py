"""What a figure and a threshold say, and that no mistake in a check costs the report."""

from __future__ import annotations

import functools
import math

import pytest
from tests.study import planted

from fallline.study.checks import Check, Verdict, all_of, at_least, at_most
from fallline.study.estimates import Estimate
from fallline.study.results import Results
from fallline.study.spec import Cell, Part

HOLDS, FAILS, DOUBT = Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("figure", "below", "above"),
    [
        (0.3, HOLDS, FAILS),
        (0.4, HOLDS, HOLDS),
        (0.5, FAILS, HOLDS),
        (math.nan, DOUBT, DOUBT),
        (Estimate(0.3, 0.2, 0.35, 3), HOLDS, FAILS),
        (Estimate(0.3, 0.2, 0.45, 3), DOUBT, DOUBT),
        (Estimate(0.6, 0.5, 0.7, 3), FAILS, HOLDS),
        (Estimate(0.4, 0.4, 0.4, 5), DOUBT, DOUBT),  # a tie on every seed
        (Estimate(0.3, math.nan, math.nan, 2), DOUBT, DOUBT),
        (Estimate(math.nan, 0.1, 0.2, 3), DOUBT, DOUBT),
    ],
)
def test_a_figure_against_a_limit(figure: float | Estimate, below: Verdict, above: Verdict):
    assert at_most(figure, 0.4).outcome is below
    assert at_least(figure, 0.4).outcome is above


def test_an_unknown_limit_is_a_doubt():
    assert at_most(1.0, math.nan).outcome is DOUBT


@pytest.mark.parametrize(
    ("figures", "joined"),
    [
        ([0.0, 0.0], HOLDS),
        ([0.0, math.nan], DOUBT),
        ([math.nan, 2.0], FAILS),
        ([], DOUBT),
    ],
)
def test_bars_joined(figures: list[float], joined: Verdict):
    assert all_of([at_most(figure, 1.0) for figure in figures]) is joined


def run(cell: Cell) -> dict[str, float]:
    return {"loss": cell.seed + (0.5 if cell.arm == "b" else 0.0)}


def good_bar(results: Results) -> Check:
    """The median is at most one.

    More about it.
    """
    return at_most(results.median("loss")["a"], 1.0)


def raises(results: Results) -> Check:
    """It should have been computed."""
    return at_most(results.median("loss")["nobody"], 1.0)


def forgets(results: Results) -> Check:
    pass  # type: ignore[return]


def bound(limit: float, results: Results) -> Check:
    """With a limit of its own."""
    return at_most(results.median("loss")["b"], limit)


def difference(results: Results) -> Estimate:
    """Arm a is better."""
    return results.paired("loss", "a", "b")


def other_way(results: Results) -> Estimate:
    return results.paired("loss", "b", "a")


def note(results: Results) -> str:
    return "a wins"


def silent(results: Results) -> None:
    return None


def broken_note(results: Results) -> str:
    raise RuntimeError("no note")


def checked(**more: object) -> Results:
    return planted.results(planted.study(run, Part("p", ["a", "b"], seeds=3), **more))


def test_checks_are_named_and_explained_by_their_functions():
    bars = [good_bar, functools.partial(bound, 1.0)]
    first, second, third = checked(bars=bars, open=[difference]).checks
    assert (first.name, first.kind, first.text) == (
        "good bar",
        "bar",
        "The median is at most one.",
    )
    assert (second.name, second.text) == ("bound", "With a limit of its own.")
    assert second.outcome is FAILS
    assert (third.kind, third.limit, third.outcome) == ("open", 0.0, HOLDS)


def test_a_check_that_raises_is_inconclusive_and_says_why():
    results = checked(bars=[good_bar, raises, forgets])
    assert [check.outcome for check in results.checks] == [HOLDS, DOUBT, DOUBT]
    assert "KeyError: no arm 'nobody'" in results.checks[1].text
    assert "returned None" in results.checks[2].text
    assert results.verdict is DOUBT
    assert "could not be computed" in str(results.checks[1])


def test_open_comparisons_are_shown_or_not_and_never_fail_a_study():
    results = checked(bars=[good_bar], open=[difference, other_way])
    answers = [check.answer for check in results.checks]
    assert answers[1] == "shown at this scale"
    assert answers[2] == "not shown at this scale (contradicted)"
    assert results.verdict is HOLDS


def test_an_unfinished_run_cannot_hold_but_can_fail():
    study = planted.study(run, Part("p", ["a", "b"], seeds=3), Part("q", ["a"], seeds=1), bars=[])

    def lower(results: Results) -> Check:
        return at_most(results.where(part="p").median("loss")["a"], 1.0)

    def too_low(results: Results) -> Check:
        return at_most(results.where(part="p").median("loss")["a"], 0.0)

    for bar, verdict in ((lower, DOUBT), (too_low, FAILS)):
        study = planted.study(
            run,
            Part("p", ["a"], seeds=3),
            Part("q", ["a"], seeds=1, fixed={"more": 1}),
            bars=[bar],
        )
        results = planted.results(study, change=lambda c: None if "more" in c.config else "")
        assert results.verdict is verdict


def test_checks_are_computed_once():
    calls = []

    def counted(results: Results) -> Check:
        calls.append(1)
        return at_most(0.0, 1.0)

    results = checked(bars=[counted])
    for _ in range(3):
        assert results.verdict is HOLDS
        repr(results)
    assert len(calls) == 1


def test_notes_with_nothing_to_say_are_left_out_and_broken_ones_say_so():
    results = checked(notes=[note, silent, broken_note])
    assert results.notes == [
        "a wins",
        "broken note could not be computed: RuntimeError: no note",
    ]
