"""The pictures of the claim about sparse parities, and how it reads its rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fallline.claims._parity_runs import PUBLISHED, levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fallline.study import Results


def predicted(c: float, N: int = 100, rate: float = 1e-3) -> float:
    """Return the steps of the mean field to d < 0.01, NaN where it does not get there."""
    from fallline.parity import mean_field

    steps = mean_field(N, rate * N, c / N).steps
    return math.nan if steps is None else float(steps)


def mean_by(view: Results, metric: str, axis: str) -> dict[float, float]:
    """Mean over the seeds by the axis's value; NaN where a cell is missing."""
    grid = view.grid(metric, "product-node", [axis])
    return {
        float(x): math.nan if _nan(by_seed.values()) else statistics.fmean(by_seed.values())  # type: ignore[arg-type]
        for (x,), by_seed in grid.items()
    }


def every(view: Results, metric: str) -> list[float]:
    """Return every cell's value, NaN where there is none."""
    return [row.counted(metric, view.study.diverged) for row in view.rows]


def largest(values: Iterable[float]) -> float:
    """Return the largest value; NaN where one is NaN."""
    values = list(values)
    return math.nan if not values or _nan(values) else max(values)


def smallest(values: Iterable[float]) -> float:
    """Return the smallest value; NaN where one is NaN."""
    return -largest(-value for value in values)


def _nan(values: Iterable[float]) -> bool:
    return any(map(math.isnan, values))


def steps_against_density(r: Results) -> Figure:
    """Least steps to d < 0.01 near c = 2.2 active bits per sample, as the mean field predicts."""
    import numpy as np

    from fallline.study.plots import COLOURS, INK

    figure, axes = _picture("active bits per sample c", "steps", xscale="log", yscale="log")
    runs = r.where(part="density")
    fine = np.geomspace(0.1, 8.0, 60)
    axes.plot(fine, [predicted(c) for c in fine], color=INK, linewidth=1.2, label="mean field")
    whole = {c for c, share in mean_by(runs, "converged", "c").items() if share == 1.0}
    # Rings around the points where both counts agree.
    looks = {"steps": ("o", 4, "each output, mean"), "steps_of_mean": ("s", 9, "mean over outputs")}
    for colour, (metric, (marker, size, name)) in zip(COLOURS, looks.items()):
        found = {c: steps for c, steps in mean_by(runs, metric, "c").items() if c in whole}
        look: dict[str, Any] = {"color": colour, "markersize": size, "markerfacecolor": "none"}
        axes.plot(list(found), list(found.values()), marker, label=name, **look)
    axes.plot(
        list(PUBLISHED), list(PUBLISHED.values()), "x", color=COLOURS[2], label="published (mean)"
    )
    return _legend(figure)


def limits_against_size(r: Results) -> Figure:
    """Largest step size by N: runs converge below the limit N / 2 and fail above it."""
    import numpy as np

    from fallline.parity import paper_bounds, stability_limit
    from fallline.study.plots import COLOURS, INK

    figure, axes = _picture("inputs N", "step size α", xscale="log", yscale="log")
    N = np.unique(np.geomspace(25, 1000, 40).astype(int))
    limit = [stability_limit(int(n), 1 / n) for n in N]
    axes.plot(N, limit, color=INK, linewidth=1.2, label="limit, ≈ N/2")
    for i, name in enumerate(("alpha0", "alpha1", "alpha2")):
        bound = [getattr(paper_bounds(int(n)), name) for n in N]
        label = f"α{'₀₁₂'[i]} of the paper"
        axes.plot(N, bound, linestyle="--", linewidth=1.2, color=COLOURS[i], label=label)
    for outcome, marker, name in ((1.0, "o", "converges"), (0.0, "x", "fails")):
        runs = r.where(part=["stability limit", "paper's bound"]).rows
        at = [row for row in runs if row.counted("converged", {}) == outcome]
        points = {(row.config["N"], _rate(row.config)) for row in at}
        colour = COLOURS[3] if outcome else COLOURS[4]
        axes.plot(*zip(*sorted(points)) if points else ((), ()), marker, color=colour, label=name)
    return _legend(figure)


def samples_against_size(r: Results) -> Figure:
    """How many samples it takes to d < 0.01 by N: a number in proportion to N."""
    from fallline.study.plots import COLOURS, INK

    figure, axes = _picture("inputs N", "samples", xscale="log", yscale="log")
    samples = mean_by(r.where(part="samples"), "samples", "N")
    axes.plot(list(samples), list(samples.values()), "o", color=COLOURS[0], label="product node")
    sizes = list(samples)
    axes.plot(sizes, [26 * N for N in sizes], color=INK, linewidth=1.0, label="26 N")
    seen = [math.e * N * math.log(N) for N in sizes]
    label = "to see each bit alone, e N ln N"
    axes.plot(sizes, seen, color=COLOURS[1], linestyle="--", linewidth=1.2, label=label)
    return _legend(figure)


def weights_over_time(r: Results) -> Figure:
    """Weights of N = 100,000 inputs as the distance falls: one bell parts into two."""
    from fallline.study.plots import COLOURS

    figure, axes = _picture("weight", "density")
    found = _artifacts(r, "target")
    edges = found["edges"]
    names = [name for name in found if name.startswith("histogram")]
    for colour, name in zip(COLOURS, names):
        label = name.replace("histogram at", "d <")
        axes.stairs(found[name], edges, color=colour, linewidth=1.5, label=label)
    axes.set_xlim(-0.4, 1.4)
    axes.set_ylim(0, 4)
    return _legend(figure)


def classes_against_gaussian(r: Results) -> Figure:
    """Quantiles of the weights at d = 0.1: on the Gaussian's diagonal where batches are large."""
    from scipy import stats

    from fallline.study.plots import COLOURS, INK

    figure, axes = _picture("Gaussian quantile", "quantile of the weights")
    expected = stats.norm.ppf(levels())
    axes.plot(expected, expected, color=INK, linewidth=1.0)
    shown = (
        ("shape", 0, "o", "not in the target"),
        ("shape", 1, "^", "in the target"),
        ("target", 0, "x", "not in it, M = α / 0.01"),
    )
    for (part, which, marker, label), colour in zip(shown, COLOURS):
        quantiles = _artifacts(r, part)[f"quantiles of class {which}"]
        axes.plot(expected, quantiles, marker, color=colour, markersize=4, label=label)
    return _legend(figure)


def accuracy_against_coverage(r: Results) -> Figure:
    """Accuracy on all inputs by the share of them seen: the node is right after 3 %."""
    from fallline.study.plots import COLOURS, MARKERS

    figure, axes = _picture("share of the inputs seen", "accuracy on all inputs")
    curves = r.where(part="generalization").curves()
    if curves.empty:
        return figure
    for (arm, points), colour, marker in zip(curves.groupby("arm", sort=False), COLOURS, MARKERS):
        mean = points.groupby("step")[["coverage", "accuracy"]].mean()
        axes.plot(
            mean["coverage"], mean["accuracy"], color=colour, marker=marker, markersize=4, label=arm
        )
    return _legend(figure)


def _rate(config: Any) -> float:
    from fallline.parity import paper_bounds, stability_limit

    if "of_limit" in config:
        return float(config["of_limit"]) * stability_limit(config["N"], config["c"] / config["N"])
    return float(config["of_alpha2"]) * paper_bounds(config["N"]).alpha2


def _artifacts(r: Results, part: str) -> dict[str, Any]:
    """Return what the first seed attached at p_w = 1/2."""
    (_, found) = next(iter(r.where(part=part, p_w=0.5).artifacts()))
    return found


def _picture(xlabel: str, ylabel: str, **options: Any) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure()
    return figure, figure.add_subplot(xlabel=xlabel, ylabel=ylabel, **options)


def _legend(figure: Figure) -> Figure:
    figure.legend(loc="outside upper left", ncols=2, fontsize=10)
    return figure
