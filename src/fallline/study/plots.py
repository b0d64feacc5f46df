"""Pictures that claims share, on matplotlib's object interface: no global figure, no window."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fallline.study.estimates import Estimate
from fallline.study.spec import Scalar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fallline.study.results import Results

# Okabe and Ito's colours without yellow and black, that vanish on white and on dark paper, and
# two of Paul Tol's; the marker tells arms apart where colour does not.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
    "#8C6BB1",
    "#7F7F7F",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p")

# Not quite black: the report turns it into the ink of the page.
INK = "#010203"
# As wide as a phone, so that letters keep their size there.
WIDTH = 5.2
LONGEST_LABEL = 22


@contextlib.contextmanager
def style(salt: str = "fallline") -> Iterator[None]:
    """Draw in the report's style inside this block; figure functions are called in it."""
    import matplotlib

    settings: dict[Any, Any] = {
        "axes.edgecolor": INK,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 12,
        "figure.constrained_layout.use": True,
        "figure.figsize": (WIDTH, 3.6),
        "font.family": "sans-serif",
        "font.size": 12,
        "grid.alpha": 0.3,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "lines.markersize": 6,
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.color": INK,
        "xtick.color": INK,
        "xtick.labelsize": 11,
        "ytick.color": INK,
        "ytick.labelsize": 11,
    }
    with matplotlib.rc_context(settings):
        yield


def sensitivity(
    results: Results,
    metric: str,
    over: str,
    *,
    part: str | None = None,
    title: str = "",
) -> Figure:
    """Draw the metric along an axis: each arm's median, with the range of its seeds as a band.

    Where a seed diverged there is a cross at the edge of the picture, and the line leaves through
    that edge where the median did, or where it is worse than what a diverged cell counts as: one
    lost run must not flatten all others.
    """
    from matplotlib.figure import Figure

    view = results if part is None else results.where(part=part)
    sign = 1.0 if results.direction(metric) == "min" else -1.0
    values = list(dict.fromkeys(row.config[over] for row in view.rows))
    place, labels = _positions(values)
    seen = {arm: _answers(view, metric, arm, over) for arm in view.arms}
    with style():
        figure = Figure()
        axes = figure.add_subplot()
        if labels:
            axes.set_xticks(list(labels), list(labels.values()))
        elif min(place.values()) > 0 and max(place.values()) >= 10 * min(place.values()):
            axes.set_xscale("log")
        lost_value = view.study.diverged.get(metric, sign * math.inf)
        drawn = [y for at in seen.values() for ys, _ in at.values() for y in ys]
        low, high = _limits([y for y in drawn if sign * y <= sign * lost_value])
        axes.set_ylim(low, high)
        worse = high if sign > 0 else low
        ends = {}
        crowd: Counter[float] = Counter()
        for arm, at in seen.items():
            colour, marker, dashes = _look(view, arm)
            x = [place[value] for value in at]
            medians = [_median(ys + [sign * math.inf] * lost) for ys, lost in at.values()]
            kept = [j for j, median in enumerate(medians) if sign * median <= sign * worse]
            y = [median if j in kept else worse for j, median in enumerate(medians)]
            axes.plot(x, y, dashes, color=colour, marker=marker, markevery=kept)
            lows, highs = (
                [end(ys, default=math.nan) for ys, _ in at.values()] for end in (min, max)
            )
            axes.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
            lost_at = [place[value] for value, (_, lost) in at.items() if lost]
            _crosses(axes, lost_at, worse, colour, crowd, inward=-sign)
            if x:
                ends[arm] = (x[-1], y[-1])
        axes.set_xlabel(over)
        axes.set_ylabel(metric)
        axes.set_title(title)
        _label_ends(axes, ends, view)
    return figure


def curves(results: Results, value: str, *, part: str | None = None, title: str = "") -> Figure:
    """Draw a reported value along the steps: each arm's median, with the range of its seeds."""
    from matplotlib.figure import Figure

    view = results if part is None else results.where(part=part)
    for arm in view.arms:
        view.grid(next(iter(view.study.metrics)), arm)  # says which where(...) is missing
    frame = view.curves()
    if value not in frame:
        raise ValueError(f"no cell reported a curve of {value!r}; there are {list(frame.columns)}")
    with style():
        figure = Figure()
        axes = figure.add_subplot()
        ends = {}
        for arm in view.arms:
            colour, _, dashes = _look(view, arm)
            by_step = frame[frame["arm"] == arm].groupby("step")[value]
            median, low, high = by_step.median().dropna(), by_step.min(), by_step.max()
            # More points than a screen has columns only make the file large.
            median = median.iloc[:: max(1, len(median) // 400)]
            axes.plot(median.index, median, dashes, color=colour)
            low, high = low.loc[median.index], high.loc[median.index]
            axes.fill_between(median.index, low, high, color=colour, alpha=0.15, linewidth=0)
            if len(median):
                ends[arm] = (float(median.index[-1]), float(median.iloc[-1]))
        axes.set_xlabel("step")
        axes.set_ylabel(value)
        axes.set_title(title)
        _label_ends(axes, ends, view)
    return figure


def forest(estimates: Mapping[str, Estimate], xlabel: str = "", *, title: str = "") -> Figure:
    """Draw estimates below each other with their intervals and the line of no difference."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(WIDTH, 1.0 + 0.42 * max(1, len(estimates))))
        axes = figure.add_subplot()
        axes.axvline(0.0, color=INK, linewidth=1.0, alpha=0.6)
        for y, estimate in enumerate(estimates.values()):
            if math.isnan(estimate.value):
                axes.annotate(
                    "unknown",
                    (0.5, y),
                    xycoords=axes.get_yaxis_transform(),
                    ha="center",
                    va="center",
                )
                continue
            sure = estimate.has_interval and not estimate.low <= 0 <= estimate.high
            colour = COLOURS[0] if sure else COLOURS[-1]
            if estimate.has_interval:
                axes.plot([estimate.low, estimate.high], [y, y], color=colour)
            # Hollow where the interval reaches zero, or where there is none.
            face = colour if sure else "none"
            axes.plot(
                [estimate.value],
                [y],
                "o",
                color=colour,
                markersize=8,
                markerfacecolor=face,
                markeredgewidth=2,
            )
        axes.set_yticks(range(len(estimates)), [_short(name) for name in estimates])
        axes.set_ylim(len(estimates) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(xlabel)
        axes.set_title(title)
    return figure


def _answers(
    view: Results, metric: str, arm: str, over: str
) -> dict[Scalar, tuple[list[float], int]]:
    """By axis value in order: the measured values, and how many seeds diverged."""
    found: dict[Scalar, tuple[list[float], int]] = {}
    view.grid(metric, arm, [over])  # says which where(...) is missing
    for row in view.where(arm=arm).rows:
        values, lost = found.get(row.config[over], ([], 0))
        value = row.counted(metric, {})
        if row.outcome == "diverged":
            lost += 1
        elif math.isfinite(value):
            values.append(value)
        found[row.config[over]] = (values, lost)
    order, _ = _positions(list(found))
    # A picture shows what there is: a missing cell costs the check, not the line.
    return {x: found[x] for x in sorted(found, key=order.__getitem__) if found[x] != ([], 0)}


def _crosses(
    axes: Axes, at: Sequence[float], y: float, colour: str, crowd: Counter[float], inward: float
) -> None:
    """Mark divergences at the edge, side by side (inward) where several arms have one."""
    for x in at:
        axes.annotate(
            "×",
            (x, y),
            xytext=(0, 10 * inward * crowd[x]),
            textcoords="offset points",
            color=colour,
            fontsize=18,
            ha="center",
            va="center",
            annotation_clip=False,
        )
        crowd[x] += 1


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else (low + high) / 2


def _positions(values: Sequence[Scalar]) -> tuple[dict[Scalar, float], dict[float, str]]:
    """Return where each axis value stands; words stand side by side, under their names."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return {v: float(v) for v in values}, {}  # type: ignore[arg-type]
    return {v: float(i) for i, v in enumerate(values)}, {
        float(i): _short(str(v)) for i, v in enumerate(values)
    }


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _look(view: Results, arm: str) -> tuple[str, str, str]:
    i = view.all_arms.index(arm)
    dashes = "-" if i < len(COLOURS) else "--"
    return COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], dashes


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"


def _label_ends(axes: Axes, ends: Mapping[str, tuple[float, float]], view: Results) -> None:
    """Write each arm's name at the end of its line, moved apart where two would touch."""
    if not ends:
        return
    transform = axes.transData + axes.transAxes.inverted()
    heights = {arm: float(transform.transform(end)[1]) for arm, end in ends.items()}
    heights = _apart(heights, gap=0.08)
    for arm, height in heights.items():
        colour, marker, _ = _look(view, arm)
        axes.annotate(
            "",
            ends[arm],
            xytext=(1.05, height),
            textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.6, "shrinkA": 0},
            annotation_clip=False,
        )
        axes.plot([1.05], [height], marker, color=colour, transform=axes.transAxes, clip_on=False)
        axes.text(1.08, height, _short(arm), transform=axes.transAxes, va="center", fontsize=11)


def _apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Move labels apart by at least `gap`, in their order, and keep the whole pile in place."""
    order = sorted(heights, key=heights.__getitem__)
    placed: dict[str, float] = {}
    for arm in order:
        lowest = placed[list(placed)[-1]] + gap if placed else -math.inf
        placed[arm] = max(heights[arm], lowest)
    shift = sum(placed[arm] - heights[arm] for arm in order) / len(order)
    # Not below the axis, where its ticks are written.
    shift = min(shift, placed[order[0]])
    return {arm: height - shift for arm, height in placed.items()}
