"""The pictures of the claims about optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fallline.study import Results


def loss_against_learning_rate(r: Results) -> Figure:
    """Loss on validation data against the learning rate: median and range over the seeds."""
    from fallline.study import plots

    return plots.sensitivity(r, "val_loss", over="lr")


def truncated_against_learning_rate(r: Results) -> Figure:
    """Share of steps that truncation shortened, against the learning rate."""
    from fallline.study import plots

    arms = [arm for arm in r.arms if "-momo" in arm]
    return plots.sensitivity(r.where(arm=arms), "truncated", over="lr")


def rate_over_time(r: Results) -> Figure:
    """Step size that MuonMax-Momo took, over the steps of the first seed, by learning rate."""
    from matplotlib.figure import Figure

    curves = r.where(arm="muonmax-momo", seed=r.seeds[0]).curves()
    figure = Figure()
    axes = figure.add_subplot(xlabel="step", ylabel="step size η", yscale="log")
    if not curves.empty:
        for lr, points in curves.groupby("lr"):
            axes.plot(points["step"], points["eta"], label=f"lr {lr:g}", linewidth=1.2)
        axes.legend(ncols=2)
    return figure


def ms_per_step(r: Results) -> Figure:
    """Median time of a whole training step, forward and backward pass included."""
    from matplotlib.figure import Figure

    medians = r.frame.groupby("arm", sort=False)["ms_per_step"].median()
    figure = Figure()
    axes = figure.add_subplot(xlabel="milliseconds per step")
    axes.barh(medians.index, medians)
    axes.invert_yaxis()
    return figure
