"""Tuning at equal effort, with values that did not choose themselves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fallline.study import statistics
from fallline.study.estimates import Estimate
from fallline.study.spec import Direction, Scalar

if TYPE_CHECKING:
    from fallline.study.results import Results

Setting = tuple[Scalar, ...]


@dataclass(frozen=True)
class Tuned:
    """Each arm at its tuned setting.

    `values[arm][seed]` was measured at the setting that is best on the other seeds; that setting
    is `chosen[arm][seed]`. `settings[arm]` is the best on all seeds, for use elsewhere: it has no
    honest value here. `edges[arm]` names the axes on which it lies at the end of the grid.
    A setting is None, and a value NaN, where it cannot be known; `reason` says why.
    """

    metric: str
    direction: Direction
    axes: tuple[str, ...]
    where: Mapping[str, Any]
    cells: int
    values: dict[str, dict[int, float]]
    chosen: dict[str, dict[int, dict[str, Scalar] | None]]
    settings: dict[str, dict[str, Scalar] | None]
    edges: dict[str, list[str]] = field(default_factory=dict)
    reason: str = ""

    @property
    def median(self) -> dict[str, float]:
        """Median over seeds of each arm's tuned values."""
        return {arm: statistics.median_or_nan(v.values()) for arm, v in self.values.items()}

    def paired(self, a: str, b: str, *, relative: bool = False) -> Estimate:
        """Mean over seeds of the tuned difference, positive where `a` is better."""
        for arm in (a, b):
            if arm not in self.values:
                raise ValueError(f"no arm {arm!r} was tuned; there are {', '.join(self.values)}")
        return statistics.paired_difference(
            self.values[a], self.values[b], self.direction, relative=relative
        )

    def tally(self, arm: str) -> str:
        """Return the settings chosen for the seeds, each with how often, commonest first."""
        counts = Counter(
            "unknown" if pick is None else ", ".join(f"{k}={v}" for k, v in pick.items())
            for pick in self.chosen[arm].values()
        )
        return "; ".join(f"{pick} ×{n}" for pick, n in counts.most_common())


def tune(results: Results, metric: str, over: Sequence[str] | None = None) -> Tuned:
    """Choose each arm's setting for each seed on the other seeds.

    Raises
    ------
    ValueError
        If the arms do not have the same number of settings, seeds and cells: a longer search wins
        by itself.
    """
    direction = results.direction(metric)
    swept = [axis for axis, taken in results.axes.items() if len(taken) > 1]
    axes = tuple(swept if over is None else over)
    grids = {arm: results.grid(metric, arm, axes) for arm in results.arms}
    cells = _equal_effort(metric, grids)
    seeds = results.seeds
    sign = 1.0 if direction == "min" else -1.0
    values: dict[str, dict[int, float]] = {}
    chosen: dict[str, dict[int, dict[str, Scalar] | None]] = {}
    settings: dict[str, dict[str, Scalar] | None] = {}
    edges: dict[str, list[str]] = {}
    for arm, grid in grids.items():
        # The choice looks at raw counts: whether the arm diverged everywhere is known only with
        # the reported seed, and must not reach the choice made for it.
        raw = _raw_grid(results, metric, arm, axes)
        values[arm], chosen[arm] = {}, {}
        for seed in seeds:
            pick = _best(raw, sign, without=seed)
            chosen[arm][seed] = None if pick is None else dict(zip(axes, pick))
            values[arm][seed] = math.nan if pick is None else grid[pick][seed]
        winner = _best(raw, sign)
        settings[arm] = None if winner is None else dict(zip(axes, winner))
        edges[arm] = [] if winner is None else _edges(axes, winner, grid)
    return Tuned(
        metric,
        direction,
        axes,
        dict(results.filters),
        cells,
        values,
        chosen,
        settings,
        edges,
        _reason(seeds, chosen, values),
    )


def _equal_effort(metric: str, grids: Mapping[str, Mapping[Setting, Mapping[int, float]]]) -> int:
    effort = {arm: (len(grid), sum(map(len, grid.values()))) for arm, grid in grids.items()}
    seeds = {frozenset(by_seed) for grid in grids.values() for by_seed in grid.values()}
    if len(set(effort.values())) > 1 or len(seeds) > 1:
        told = ", ".join(
            f"{arm}: {n} settings, {cells} cells" for arm, (n, cells) in effort.items()
        )
        raise ValueError(
            f"tuned({metric!r}) needs the same grid size and the same seeds for every arm, got "
            f"{told}; choose a part, arms or settings with where(...)"
        )
    return next(iter(effort.values()))[1]


def _raw_grid(
    results: Results, metric: str, arm: str, axes: Sequence[str]
) -> dict[Setting, dict[int, tuple[float, bool]]]:
    """By setting and seed: what the cell counts as, and whether it diverged."""
    raw: dict[Setting, dict[int, tuple[float, bool]]] = {}
    for row in results.rows:
        if row.arm == arm:
            setting = tuple(row.config[axis] for axis in axes)
            value = row.counted(metric, results.study.diverged)
            raw.setdefault(setting, {})[row.seed] = (value, row.outcome == "diverged")
    return raw


def _best(
    raw: Mapping[Setting, Mapping[int, tuple[float, bool]]],
    sign: float,
    without: int | None = None,
) -> Setting | None:
    """Best median over seeds; None where a cell is unknown, no seed is left or all diverged."""
    scores: dict[Setting, float] = {}
    diverged = True
    for setting, by_seed in raw.items():
        used = [at for seed, at in by_seed.items() if seed != without]
        scores[setting] = statistics.median_or_nan(value for value, _ in used)
        diverged = diverged and all(was for _, was in used)
    if diverged or any(math.isnan(score) for score in scores.values()):
        return None
    return min(scores, key=lambda setting: sign * scores[setting])


def _edges(axes: Sequence[str], winner: Setting, grid: Mapping[Setting, Any]) -> list[str]:
    edges = []
    for i, axis in enumerate(axes):
        taken = {setting[i] for setting in grid}
        numbers = [v for v in taken if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if len(numbers) == len(taken) > 1 and winner[i] in (min(numbers), max(numbers)):
            edges.append(axis)
    return edges


def _reason(
    seeds: Sequence[int],
    chosen: Mapping[str, Mapping[int, dict[str, Scalar] | None]],
    values: Mapping[str, Mapping[int, float]],
) -> str:
    if len(seeds) < 2:
        return "one seed cannot both choose a setting and measure it: run at least 2 seeds"
    unknown = [arm for arm, v in values.items() if any(math.isnan(x) for x in v.values())]
    if unknown:
        return (
            f"no tuned value for {', '.join(unknown)}: cells are missing or failed, "
            "or every run diverged"
        )
    return ""
