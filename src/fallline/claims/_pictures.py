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

    arms = [arm for arm in r.arms if "momo" in arm]
    return plots.sensitivity(r.where(arm=arms), "truncated", over="lr")


def rate_over_time(r: Results) -> Figure:
    """Step size that MuonMax-Momo took, over the steps of the first seed, by learning rate."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    curves = r.where(arm="muonmax-momo", seed=r.seeds[0]).curves()
    figure = Figure()
    axes = figure.add_subplot(xlabel="step", ylabel="step size η", yscale="log")
    if not curves.empty:
        by_lr = list(curves.groupby("lr"))
        for i, (lr, points) in enumerate(by_lr):
            colour = colormaps["viridis"](0.9 * i / max(1, len(by_lr) - 1))
            axes.plot(points["step"], points["eta"], color=colour, label=f"lr {lr:g}")
        figure.legend(loc="outside right upper", reverse=True)
    return figure


def ms_per_step(r: Results) -> Figure:
    """Median time of a whole training step, forward and backward pass included."""
    from matplotlib.figure import Figure

    from fallline.study import plots

    medians = r.frame.groupby("arm", sort=False)["ms_per_step"].median()
    figure = Figure()
    axes = figure.add_subplot(xlabel="milliseconds per step")
    axes.barh(medians.index, medians, color=plots.COLOURS[0])
    axes.invert_yaxis()
    return figure
