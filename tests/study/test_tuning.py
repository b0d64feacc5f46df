"""A setting is chosen on the other seeds, at equal effort, and the edge of the grid is told."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study import planted

from fallline.study.record import Outcome, Record
from fallline.study.spec import Cell, Part

LRS = [0.01, 0.1, 1.0]
Table = dict[tuple[str, float, int], float]


def tuned(table: Table, seeds: int = 3, **more: Any):
    def run(cell: Cell) -> dict[str, float]:
        return {"loss": table[cell.arm, cell.config["lr"], cell.seed]}

    study = planted.study(run, Part("lr", ["a", "b"], seeds=seeds, lr=LRS))
    return planted.results(study, **more).tuned("loss")


def flat(seeds: int = 3) -> Table:
    """Arm a is best at 0.1, arm b at the upper end."""
    loss = {("a", 0.01): 3.0, ("a", 0.1): 1.0, ("a", 1.0): 2.0}
    loss |= {("b", 0.01): 4.0, ("b", 0.1): 3.0, ("b", 1.0): 2.0}
    return {(*at, seed): v + 0.1 * seed for at, v in loss.items() for seed in range(seeds)}


def test_the_best_setting_is_found_and_its_edge_reported():
    found = tuned(flat())
    assert found.settings == {"a": {"lr": 0.1}, "b": {"lr": 1.0}}
    assert found.edges == {"a": [], "b": ["lr"]}
    assert found.values["a"] == pytest.approx({0: 1.0, 1: 1.1, 2: 1.2})
    assert found.median == pytest.approx({"a": 1.1, "b": 2.1})
    assert found.paired("a", "b").value == pytest.approx(1.0)
    assert found.tally("a") == "lr=0.1 ×3"
    assert (found.cells, found.reason) == (9, "")


def test_a_lucky_seed_does_not_choose_itself():
    table = flat()
    table["a", 0.01, 2] = -100.0
    found = tuned(table)
    assert found.chosen["a"][2] == {"lr": 0.1}
    assert found.values["a"][2] == pytest.approx(1.2)


VALUES = st.one_of(st.floats(-5, 5, allow_nan=False), st.just(math.nan))
TABLES = st.fixed_dictionaries(
    {(arm, lr, seed): VALUES for arm in "ab" for lr in LRS for seed in range(4)}
)


@settings(max_examples=60, deadline=None)
@given(table=TABLES, other=TABLES, seed=st.integers(0, 3))
def test_a_seed_never_chooses_the_setting_it_reports(table: Table, other: Table, seed: int):
    changed = {at: other[at] if at[2] == seed else value for at, value in table.items()}
    first, second = tuned(table, seeds=4), tuned(changed, seeds=4)
    for arm in "ab":
        assert first.chosen[arm][seed] == second.chosen[arm][seed]
    for arm in "ab":
        for at, pick in first.chosen[arm].items():
            value = first.values[arm][at]
            if pick is not None and not math.isnan(value):
                planted_value = table[arm, pick["lr"], at]
                assert value == (10.0 if math.isnan(planted_value) else planted_value)


def test_one_seed_is_inconclusive_and_says_why():
    found = tuned(flat(), seeds=1)
    assert math.isnan(found.paired("a", "b").value)
    assert math.isnan(found.median["a"])
    assert found.settings["a"] == {"lr": 0.1}
    assert "one seed cannot both choose" in found.reason


@pytest.mark.parametrize("missing", [True, False])
def test_a_missing_or_failed_cell_is_unknown(missing: bool):
    def change(cell: Cell) -> Record | str | None:
        if (cell.arm, cell.config["lr"], cell.seed) != ("a", 1.0, 0):
            return ""
        return None if missing else Record(Outcome.FAILED, error="x")

    found = tuned(flat(), change=change)
    assert found.chosen["a"] == {0: {"lr": 0.1}, 1: None, 2: None}
    assert math.isnan(found.paired("a", "b").value)
    assert found.median["b"] == pytest.approx(2.1)
    assert "no tuned value for a" in found.reason


def test_an_arm_that_never_trains_is_unknown():
    table = {at: math.nan if at[0] == "a" else v for at, v in flat().items()}
    found = tuned(table)
    assert found.settings["a"] is None
    assert found.chosen["a"] == {0: None, 1: None, 2: None}
    assert math.isnan(found.median["a"])
    assert found.edges["a"] == []


def test_unequal_effort_is_refused():
    def run(cell: Cell) -> dict[str, float]:
        return {"loss": 1.0}

    more = [Part("lr", ["a"], seeds=3, lr=LRS), Part("lr", ["b"], seeds=3, lr=LRS[:2])]
    with pytest.raises(ValueError, match=r"same grid size.*a: 3 settings, 9 cells, b: 2 settings"):
        planted.results(planted.study(run, *more)).tuned("loss")
    seeds = [Part("lr", ["a"], seeds=[0, 1], lr=LRS), Part("lr", ["b"], seeds=[2, 3], lr=LRS)]
    with pytest.raises(ValueError, match="same seeds"):
        planted.results(planted.study(run, *seeds)).tuned("loss")


def test_several_axes_are_chosen_together_and_others_must_be_named():
    def run(cell: Cell) -> dict[str, float]:
        return {"loss": abs(cell.config["lr"] - 0.1) + cell.config["beta"] + cell.config["n"]}

    part = Part("p", ["a"], seeds=2, lr=LRS, beta=[0.1, 0.2, 0.3], n=[1, 2])
    results = planted.results(planted.study(run, part))
    assert results.where(n=2).tuned("loss").settings["a"] == {"lr": 0.1, "beta": 0.1}
    assert results.where(n=2).tuned("loss").edges["a"] == ["beta"]
    with pytest.raises(ValueError, match=r"where\(n=\.\.\.\)"):
        results.tuned("loss", over=["lr", "beta"])


def test_a_choice_is_made_once_and_remembered_for_the_report():
    def run(cell: Cell) -> dict[str, float]:
        return {"loss": cell.config["lr"]}

    results = planted.results(planted.study(run, Part("lr", ["a", "b"], seeds=2, lr=LRS)))
    assert results.tuned("loss") is results.tuned("loss")
    results.where(arm="a").tuned("loss")
    assert [len(t.values) for t in results.tunings] == [2, 1]
