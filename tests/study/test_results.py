"""Planted numbers come back as the figures they are; a gap never becomes one."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from tests.study import planted

from fallline.study.checks import Verdict, at_most
from fallline.study.record import Outcome, Record
from fallline.study.results import Results
from fallline.study.spec import Arm, Cell, Part

LRS = [0.01, 0.1, 1.0]
# Losses by arm, learning rate and seed.
LOSS = {
    ("a", 0.01): [3.0, 5.0, 4.0],
    ("a", 0.1): [1.0, 2.0, 9.0],
    ("a", 1.0): [6.0, 7.0, 8.0],
    ("b", 0.01): [2.5, 2.5, 2.5],
    ("b", 0.1): [2.0, 4.0, 3.0],
    ("b", 1.0): [math.nan, 4.0, math.nan],
}


def run(cell: Cell) -> dict[str, float]:
    cell.report(1, train=2.0)
    cell.report(2, train=1.0)
    loss = LOSS[cell.arm, cell.config["lr"]][cell.seed]
    return {"loss": loss, "accuracy": -loss}


PARTS = (Part("lr", ["a", "b"], seeds=3, lr=LRS, fixed={"steps": 5, "shape": [1, 2]}),)


def grid(**more: object) -> Results:
    metrics = {"loss": "min", "accuracy": "max"}
    return planted.results(planted.study(run, *PARTS, metrics=metrics), **more)


def test_known_medians_and_means():
    at = grid().where(lr=0.1)
    assert at.median("loss") == {"a": 2.0, "b": 3.0}
    assert at.mean("loss") == {"a": 4.0, "b": 3.0}


def test_extremes_along_an_axis_are_medians_over_seeds_and_a_divergence_counts():
    results = grid()
    assert results.best("loss", over="lr") == {"a": 2.0, "b": 2.5}
    assert results.best_at("loss", over="lr") == {"a": 0.1, "b": 0.01}
    assert results.worst("loss", over="lr") == {"a": 7.0, "b": 10.0}
    assert results.spread("loss", over="lr") == {"a": 5.0, "b": 7.5}


def test_extremes_follow_the_metric_s_direction():
    def rising(cell: Cell) -> dict[str, float]:
        return {"accuracy": cell.config["lr"]}

    results = planted.results(
        planted.study(rising, *PARTS, metrics={"accuracy": "max"}, diverged={})
    )
    assert results.best("accuracy", over="lr")["a"] == 1.0
    assert results.worst("accuracy", over="lr")["a"] == 0.01


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.KILLED, None])
def test_a_cell_without_an_answer_makes_its_arm_unknown(outcome: Outcome | None):
    def change(cell: Cell) -> Record | str | None:
        if (cell.arm, cell.config["lr"], cell.seed) != ("a", 0.1, 2):
            return ""
        return None if outcome is None else Record(outcome, {"loss": 0.0})

    results = grid(change=change)
    assert math.isnan(results.best("loss", over="lr")["a"])
    assert results.best("loss", over="lr")["b"] == 2.5
    assert math.isnan(results.spread("loss", over="lr")["a"])
    assert math.isnan(results.best_at("loss", over="lr")["a"])
    assert math.isnan(results.where(lr=0.1).paired("loss", "a", "b").value)
    assert results.where(lr=1.0).median("loss")["a"] == 7.0
    assert at_most(results.best("loss", over="lr")["a"], 100.0).outcome is Verdict.INCONCLUSIVE
    assert not results.complete
    assert results.whole_seeds == [0, 1]


def test_an_undeclared_divergence_is_unknown():
    assert math.isnan(grid().where(lr=1.0).median("accuracy")["b"])


def test_an_arm_that_never_trains_is_unknown_and_one_that_diverges_here_counts():
    def dead(cell: Cell) -> dict[str, float]:
        gone = cell.arm == "b" or cell.config["lr"] == 1.0
        return {"loss": math.nan if gone else 1.0}

    results = planted.results(planted.study(dead, *PARTS))
    assert math.isnan(results.best("loss", over="lr")["b"])
    assert math.isnan(results.where(lr=0.1).median("loss")["b"])
    assert math.isnan(results.where(lr=0.1).paired("loss", "a", "b").value)
    assert results.where(lr=1.0).median("loss")["a"] == 10.0


def test_paired_is_positive_where_the_first_arm_is_better():
    at = grid().where(lr=0.1)
    estimate = at.paired("loss", "a", "b")
    assert estimate.value == pytest.approx(-1.0)  # 2 - 1, 4 - 2, 3 - 9
    assert (estimate.n, estimate.won) == (3, pytest.approx(2 / 3))
    assert at.paired("accuracy", "a", "b").value == pytest.approx(-1.0)
    back = at.paired("loss", "b", "a")
    assert back.value == pytest.approx(1.0)
    assert (back.low, back.high) == pytest.approx((-estimate.high, -estimate.low))
    relative = at.paired("loss", "a", "b", relative=True)
    assert relative.value == pytest.approx((1 / 2 + 2 / 4 - 6 / 3) / 3)


def test_an_ambiguous_request_says_which_where_is_missing():
    with pytest.raises(ValueError, match=r"lr: 0.01, 0.1, 1.0.*where\(lr=\.\.\.\)"):
        grid().median("loss")
    two = planted.study(run, *PARTS, Part("again", ["a"], seeds=3, lr=[0.1], fixed={"steps": 5}))
    with pytest.raises(ValueError, match=r"where\(part=\.\.\., shape=\.\.\.\)"):
        planted.results(two).where(lr=0.1).median("loss")


def test_where_takes_one_value_or_several_and_names_what_there_is():
    results = grid()
    assert len(results.where(arm="a", lr=[0.01, 0.1], seed=[0, 2]).rows) == 4
    assert results.where(lr=0.1 * (1 + 1e-12)).seeds == [0, 1, 2]
    assert results.where(arm="b").arms == ["b"]
    assert results.where(lr=[0.1, 1.0]).axes == {"lr": [0.1, 1.0]}
    with pytest.raises(ValueError, match=r"where\(lr=0.2\) leaves no cell; lr takes 0.01, 0.1, 1"):
        results.where(lr=0.2)
    with pytest.raises(ValueError, match="no cell has a setting 'beta'"):
        results.where(beta=1)
    with pytest.raises(ValueError, match=r"'c'.*takes 'a', 'b'"):
        results.where(arm="c")


def test_names_that_are_not_there_are_errors_that_name_those_that_are():
    results = grid().where(lr=0.1)
    with pytest.raises(ValueError, match="'los'; there are loss, accuracy"):
        results.median("los")
    with pytest.raises(KeyError, match="no arm 'c' in these results; they have a, b"):
        results.median("loss")["c"]
    with pytest.raises(ValueError, match="no arm 'c' here; there are a, b"):
        results.paired("loss", "a", "c")
    with pytest.raises(ValueError, match="no axis 'beta'"):
        results.best("loss", over="beta")


def test_slope_of_a_power_law_is_recovered():
    def power(cell: Cell) -> dict[str, float]:
        return {"loss": (1 + 0.1 * cell.seed) * cell.config["n"] ** (-0.5 + 0.01 * cell.seed)}

    part = Part("n", ["a"], seeds=3, n=[10, 100, 1000])
    slope = planted.results(planted.study(power, part)).slope("loss", over="n")["a"]
    assert slope.value == pytest.approx(-0.49)
    assert slope.low < -0.49 < slope.high
    assert slope.n == 3
    with pytest.raises(ValueError, match=r"needs positive numbers, got -"):
        grid().slope("accuracy", over="lr")


def test_frame_has_one_row_per_part_and_cell():
    frame = grid(change=lambda cell: None if cell.seed == 2 else "").frame
    assert list(frame.columns) == [
        *("part", "arm", "seed", "lr", "steps", "outcome", "loss", "accuracy"),
        *("seconds", "peak_mib"),
    ]
    assert len(frame) == 18
    assert frame["outcome"].value_counts().to_dict() == {"done": 11, "missing": 6, "diverged": 1}
    assert frame.loc[frame["outcome"] == "missing", "loss"].isna().all()


def test_a_cell_of_two_parts_stands_in_both_and_once_in_each():
    again = Part("again", ["a"], seeds=3, lr=[0.1], fixed={"steps": 5, "shape": [1, 2]})
    results = planted.results(planted.study(run, *PARTS, again, again))
    assert len(results.rows) == 21
    assert results.where(part="again").median("loss") == {"a": 2.0}


def test_clashing_names_keep_the_metric():
    def clash(cell: Cell) -> dict[str, float]:
        return {"steps": 7.0, "seconds": 8.0}

    study = planted.study(clash, *PARTS, metrics={"steps": "min"}, diverged={})
    frame = planted.results(study).frame
    assert frame["steps"].unique() == [7.0]
    assert frame["steps (setting)"].unique() == [5]
    assert frame["seconds (metric)"].unique() == [8.0]


def test_an_arm_s_own_settings_are_columns():
    arms = [Arm("a", settings={"beta": 0.9}), Arm("b")]
    results = planted.results(planted.study(run, Part("lr", arms, seeds=1, lr=[0.1])))
    assert results.frame["beta"].tolist()[0] == 0.9
    assert results.median("loss") == {"a": 1.0, "b": 2.0}


def test_curves_carry_their_cell():
    curves = grid().where(arm="a", lr=0.1).curves()
    assert list(curves.columns) == ["part", "arm", "lr", "seed", "step", "train"]
    assert len(curves) == 6
    assert grid(change=lambda cell: None).curves().empty


def test_repr_says_the_answer():
    text = repr(grid())
    assert text.startswith(
        "planted (laptop): no bar is set\n  18 of 18 cells (16 done, 2 diverged)"
    )


def test_importing_the_engine_loads_nothing_heavy():
    code = (
        "import sys, fallline.study.results, fallline.study.report, fallline.study.plots;"
        "heavy = {'pandas', 'matplotlib', 'scipy', 'torch', 'jinja2', 'numpy'} & {*sys.modules};"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
