"""The shared pictures: what is drawn, on no global state, the same every time."""

from __future__ import annotations

import itertools
import math
import sys

import pytest
from tests.study import planted

from fallline.study import plots
from fallline.study.estimates import Estimate
from fallline.study.results import Results
from fallline.study.spec import Cell, Part

ARMS = ["a", "b", "c"]


def run(cell: Cell) -> dict[str, float]:
    lr = float(cell.config["lr"])
    for step in range(3):
        cell.report(step, train=3.0 - step + 0.1 * cell.seed)
    if cell.arm == "b" and lr == 1.0:
        return {"loss": math.nan}
    if cell.arm == "c" and lr == 1.0 and cell.seed == 0:
        return {"loss": math.nan}
    return {"loss": 1.0 + math.log10(lr) ** 2 + 0.1 * cell.seed}


def results(**more: object) -> Results:
    part = Part("lr", ARMS, seeds=3, lr=[0.01, 0.1, 1.0])
    return planted.results(planted.study(run, part), **more)


def words(figure: object) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]  # type: ignore[attr-defined]


def test_sensitivity_draws_a_labelled_line_per_arm_on_a_log_axis():
    figure = plots.sensitivity(results(), "loss", "lr", title="Loss")
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lr", "loss")
    lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_ydata())[:2] for line in lines] == [pytest.approx([5.1, 2.1])] * 3
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines})
    assert sorted(word for word in words(figure) if word in ARMS) == ARMS


def test_divergence_leaves_through_the_edge_and_is_marked_there():
    figure = plots.sensitivity(results(), "loss", "lr")
    axes = figure.axes[0]
    top = axes.get_ylim()[1]
    assert top < 10.0  # the declared value does not flatten the picture
    lost = [line for line in axes.lines if len(line.get_xdata()) == 3][1]
    assert lost.get_ydata()[-1] == top
    crosses = [text for text in axes.texts if text.get_text() == "×"]
    assert [cross.xy for cross in crosses] == [(1.0, top), (1.0, top)]
    assert crosses[0].get_position() != crosses[1].get_position()


def test_a_metric_to_maximize_diverges_at_the_bottom():
    def accuracy(cell: Cell) -> dict[str, float]:
        return {"accuracy": math.nan if cell.config["lr"] == 1.0 else 0.5}

    part = Part("lr", ["a"], seeds=3, lr=[0.01, 0.1, 1.0])
    study = planted.study(accuracy, part, metrics={"accuracy": "max"}, diverged={"accuracy": 0.0})
    axes = plots.sensitivity(planted.results(study), "accuracy", "lr").axes[0]
    assert axes.lines[0].get_ydata()[-1] == axes.get_ylim()[0]


def test_an_axis_of_words_is_named():
    part = Part("lr", ["a"], seeds=1, lr=["0.01", "0.1"])
    axes = plots.sensitivity(planted.results(planted.study(run, part)), "loss", "lr").axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.01", "0.1"]


def test_an_unfinished_run_is_drawn_as_far_as_it_is():
    partly = results(change=lambda cell: None if cell.seed or cell.config["lr"] > 0.5 else "")
    axes = plots.sensitivity(partly, "loss", "lr").axes[0]
    assert len(axes.lines[0].get_xdata()) == 2
    plots.sensitivity(results(change=lambda cell: None), "loss", "lr")


def test_curves_need_one_setting_and_a_reported_value():
    at = results().where(lr=0.1)
    axes = plots.curves(at, "train").axes[0]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([3.1, 2.1, 1.1])
    with pytest.raises(ValueError, match=r"where\(lr=\.\.\.\)"):
        plots.curves(results(), "train")
    with pytest.raises(ValueError, match="no cell reported a curve of 'test'"):
        plots.curves(at, "test")


def test_forest_tells_the_sure_from_the_unsure_and_the_unknown():
    nan = math.nan
    figure = plots.forest(
        {
            "sure": Estimate(1.0, 0.5, 1.5, 3),
            "unsure": Estimate(0.2, -0.5, 0.9, 3),
            "no interval": Estimate(0.2, nan, nan, 2),
            "gone": Estimate(nan, nan, nan, 0),
        },
        "gain",
    )
    axes = figure.axes[0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [point.get_markerfacecolor() == "none" for point in points] == [False, True, True]
    assert words(figure) == ["unknown"]


def test_labels_keep_apart_and_above_the_axis():
    placed = plots._apart({"a": 0.0, "b": 0.01, "c": 0.9, "d": -0.3}, gap=0.1)
    heights = sorted(placed.values())
    assert all(b - a >= 0.1 - 1e-12 for a, b in itertools.pairwise(heights))
    assert sorted(placed, key=placed.__getitem__) == ["d", "a", "b", "c"]


def test_no_global_figure_is_touched():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.sensitivity(results(), "loss", "lr")
    assert dict(matplotlib.rcParams) == before
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )


def test_an_arm_keeps_its_colour_in_every_picture():
    def colours(view: Results) -> dict[str, str]:
        lines = plots.sensitivity(view, "loss", "lr").axes[0].lines
        drawn = [line.get_color() for line in lines if len(line.get_xdata()) == 3]
        return dict(zip(view.arms, drawn))

    every, fewer = colours(results()), colours(results().where(arm=["b", "c"]))
    assert fewer == {arm: every[arm] for arm in ("b", "c")}
