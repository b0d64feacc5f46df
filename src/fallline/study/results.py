"""All rows of a study at one scale, and the figures that its checks are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fallline.study import statistics
from fallline.study.checks import Check, Verdict, all_of, computed_notes, evaluate
from fallline.study.estimates import Estimate
from fallline.study.record import Outcome, Record
from fallline.study.rows import Placed, Row, matches, varying
from fallline.study.spec import Cell, Direction, Scalar, Study

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

    from fallline.study.figures import Picture
    from fallline.study.tuning import Tuned

__all__ = ["PerArm", "Placed", "Results"]


class PerArm(dict[str, Any]):
    """A figure per arm; an arm that is not there is an error that names those that are."""

    def __missing__(self, arm: str) -> Any:
        raise KeyError(f"no arm {arm!r} in these results; they have {', '.join(self) or 'none'}")


class Results:
    """The union of a scale's parts: one row per part and cell; a cell not yet run is `missing`.

    Every figure is computed per arm and follows one rule. A diverged cell counts as the value
    that the study declares. The figure is NaN, so that a check on it is inconclusive, where a
    cell is missing, failed, timed out or was killed, where it diverged and nothing is declared,
    and where every cell that the arm has in this part diverged.
    """

    def __init__(
        self,
        study: Study,
        scale: str,
        placed: Sequence[Placed],
        records: Mapping[str, Record],
        *,
        curves: Callable[[str], list[dict[str, float | None]]] = lambda key: [],
        artifacts: Callable[[str], dict[str, Any]] = lambda key: {},
        environments: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.study = study
        self.scale = scale
        self.placed = placed
        self.records = records
        self.curves_of = curves
        self.artifacts_of = artifacts
        self.environments = environments or {}
        self.filters: Mapping[str, Any] = {}
        self._root = self
        self._tuned: dict[str, Tuned] = {}

    # What was run

    @cached_property
    def rows(self) -> list[Row]:
        """One row per part and cell, in the study's order."""
        once = {(placed.part, placed.cell.key): placed for placed in self.placed}
        return [Row(placed, self.records.get(key)) for (_, key), placed in once.items()]

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the study's order."""
        return list(dict.fromkeys(row.arm for row in self.rows))

    @property
    def all_arms(self) -> list[str]:
        """Every arm of the study at this scale: an arm's colour follows its place here."""
        parts = self.study.scales.get(self.scale, ())
        declared = [arm.name for part in parts for arm in part.arms]
        return list(dict.fromkeys([*declared, *self._root.arms]))

    @property
    def parts(self) -> list[str]:
        """Names of the parts, in the study's order."""
        return list(dict.fromkeys(row.part for row in self.rows))

    @property
    def axes(self) -> dict[str, list[Scalar]]:
        """The swept settings, each with the values it takes here."""
        axes: dict[str, dict[Scalar, None]] = {}
        for row in self.rows:
            for axis in row.placed.axes:
                axes.setdefault(axis, {})[row.config[axis]] = None
        return {axis: list(values) for axis, values in axes.items()}

    @property
    def seeds(self) -> list[int]:
        """The seeds, sorted."""
        return sorted({row.seed for row in self.rows})

    @property
    def whole_seeds(self) -> list[int]:
        """The seeds all of whose cells have answered: what an unfinished run can pair."""
        return sorted({*self.seeds} - {row.seed for row in self.rows if not row.answered})

    @property
    def outcomes(self) -> dict[str, int]:
        """How many cells ended how; `missing` ones have not run."""
        return dict(Counter(row.outcome for row in self.rows))

    @property
    def complete(self) -> bool:
        """Whether every cell has answered: one that failed or was killed is still owed."""
        return bool(self.rows) and all(row.answered for row in self.rows)

    def where(
        self,
        part: str | Sequence[str] | None = None,
        arm: str | Sequence[str] | None = None,
        **settings: Scalar | Sequence[Scalar],
    ) -> Results:
        """Return the rows of a part, an arm or a setting (`seed` too): one value or several."""
        rows = self.rows
        wanted: dict[str, Any] = {"part": part, "arm": arm}
        wanted = {name: value for name, value in wanted.items() if value is not None} | settings
        for name, value in wanted.items():
            before = [_column(row, name) for row in rows]
            rows = [row for row, has in zip(rows, before) if matches(has, value)]
            if not rows:
                has = ", ".join(dict.fromkeys(repr(v) for v in before if v is not _ABSENT))
                raise ValueError(
                    f"where({name}={value!r}) leaves no cell; "
                    + (f"{name} takes {has}" if has else f"no cell has a setting {name!r}")
                )
        view = Results(
            self.study,
            self.scale,
            [row.placed for row in rows],
            self.records,
            curves=self.curves_of,
            artifacts=self.artifacts_of,
            environments=self.environments,
        )
        view.__dict__["rows"] = rows
        view.filters = {**self.filters, **wanted}
        view._root = self._root
        view._tuned = self._tuned
        return view

    # Tables

    @cached_property
    def frame(self) -> DataFrame:
        """One row per part and cell.

        Columns: part, arm, seed, the scalar settings, outcome, the metrics as recorded (a
        diverged cell's are often NaN), seconds, peak_mib.
        """
        import pandas as pd

        scalars = [name for name in self._settings if name not in _OWN_COLUMNS]
        metrics = self.metrics
        columns: dict[str, list[Any]] = {name: [] for name in ("part", "arm", "seed")}
        for row in self.rows:
            for name in columns:
                columns[name].append(getattr(row, name))
        for name in scalars:
            # A metric of the same name keeps it: checks are about metrics.
            shown = f"{name} (setting)" if name in metrics else name
            columns[shown] = [row.config.get(name) for row in self.rows]
        columns["outcome"] = [row.outcome for row in self.rows]
        for name in metrics:
            shown = f"{name} (metric)" if name in _OWN_COLUMNS else name
            columns[shown] = [_recorded(row, name) for row in self.rows]
        for name in ("seconds", "peak_mib"):
            columns[name] = [
                getattr(row.record, name) if row.record else math.nan for row in self.rows
            ]
        return pd.DataFrame(columns)

    def curves(self) -> DataFrame:
        """Return every reported point: part, arm, the axes, seed, step and the values."""
        import pandas as pd

        axes = list(self.axes)
        points = [
            {"part": row.part, "arm": row.arm}
            | {axis: row.config.get(axis) for axis in axes}
            | {"seed": row.seed}
            | {name: value for name, value in point.items() if name not in axes}
            for row in self.rows
            if row.record is not None
            for point in self.curves_of(row.placed.cell.key)
        ]
        return pd.DataFrame(points, columns=None if points else ["part", "arm", *axes, "seed"])

    def artifacts(self) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each finished cell with what it attached, one at a time since they may be large."""
        for row in self.rows:
            if row.record is not None:
                yield row.placed.cell, self.artifacts_of(row.placed.cell.key)

    # Figures per arm

    def median(self, metric: str) -> dict[str, float]:
        """Median over seeds."""
        return self._over_seeds(metric, statistics.median_or_nan)

    def mean(self, metric: str) -> dict[str, float]:
        """Mean over seeds."""
        return self._over_seeds(metric, statistics.mean_or_nan)

    def best(self, metric: str, over: str) -> dict[str, float]:
        """Best median over seeds among an axis's values."""
        return PerArm({arm: ends[0][1] for arm, ends in self._extremes(metric, over).items()})

    def worst(self, metric: str, over: str) -> dict[str, float]:
        """Worst median over seeds among an axis's values."""
        return PerArm({arm: ends[1][1] for arm, ends in self._extremes(metric, over).items()})

    def best_at(self, metric: str, over: str) -> dict[str, Scalar]:
        """Return the axis value of the best median over seeds; NaN where that is unknown."""
        return PerArm({arm: ends[0][0] for arm, ends in self._extremes(metric, over).items()})

    def spread(self, metric: str, over: str) -> dict[str, float]:
        """How much the axis matters: worst minus best median over seeds, never negative."""
        ends = self._extremes(metric, over)
        return PerArm({arm: abs(worst[1] - best[1]) for arm, (best, worst) in ends.items()})

    def paired(self, metric: str, a: str, b: str, *, relative: bool = False) -> Estimate:
        """Mean over seeds of the difference between arms `a` and `b`, positive where `a` is better.

        `relative=True` divides by the size of `b`'s value, seed by seed.
        """
        first, second = self.grid(metric, a)[()], self.grid(metric, b)[()]
        return statistics.paired_difference(
            first, second, self.direction(metric), relative=relative
        )

    def slope(self, metric: str, over: str) -> dict[str, Estimate]:
        """Log-log slope of the metric along an axis, fitted per seed, with its interval."""
        return PerArm({arm: self._slope(metric, arm, over) for arm in self.arms})

    def tuned(self, metric: str, over: str | Sequence[str] | None = None) -> Tuned:
        """Choose each arm's setting for each seed on the other seeds, at equal effort.

        `over` names the axes to choose from; by default all that vary here.
        """
        from fallline.study.tuning import tune

        axes = [over] if isinstance(over, str) else over
        key = repr((metric, axes, self.filters))
        if key not in self._tuned:
            self._tuned[key] = tune(self, metric, axes)
        return self._tuned[key]

    @property
    def tunings(self) -> list[Tuned]:
        """Every choice of settings that checks, notes and figures asked for."""
        return list(self._tuned.values())

    def grid(
        self, metric: str, arm: str, over: Sequence[str] = ()
    ) -> dict[tuple[Scalar, ...], dict[int, float]]:
        """Return what an arm's cells count as, by values of the axes `over`, then by seed."""
        self._known(metric)
        rows = [row for row in self.rows if row.arm == arm]
        if not rows:
            raise ValueError(f"no arm {arm!r} here; there are {', '.join(self.arms) or 'none'}")
        for axis in over:
            if any(axis not in row.config for row in rows):
                raise ValueError(
                    f"arm {arm!r} has no axis {axis!r} everywhere here; axes are "
                    f"{', '.join(self.axes) or 'none'}: choose the part with where(part=...)"
                )
        taken = {name: v for name, v in varying(rows).items() if name not in over}
        if taken:
            named = "; ".join(f"{name}: {', '.join(map(repr, v))}" for name, v in taken.items())
            asked = ", ".join(f"{name}=..." for name in taken)
            raise ValueError(
                f"{metric!r} of arm {arm!r} has several values per seed ({named}); "
                f"choose one with where({asked})"
            )
        grid: dict[tuple[Scalar, ...], dict[int, float]] = {}
        for row in rows:
            setting = tuple(row.config[axis] for axis in over)
            grid.setdefault(setting, {})[row.seed] = self._counted(row, metric)
        return grid

    def direction(self, metric: str) -> Direction:
        """Return which way the metric is better."""
        if metric not in self.study.metrics:
            raise ValueError(
                f"{metric!r} has no better direction; study {self.study.name!r} declares "
                f"{', '.join(self.study.metrics)}"
            )
        return self.study.metrics[metric]

    # The answer

    @cached_property
    def checks(self) -> list[Check]:
        """Every bar and open comparison, computed once."""
        return evaluate(self)

    @cached_property
    def notes(self) -> list[str]:
        """The computed sentences."""
        return computed_notes(self)

    @cached_property
    def pictures(self) -> list[Picture]:
        """The study's figures, drawn once."""
        from fallline.study.figures import draw

        return draw(self)

    @property
    def verdict(self) -> Verdict:
        """The bars joined; an unfinished run may fail already but cannot hold yet."""
        verdict = all_of(self.checks)
        if verdict is Verdict.HOLDS and not self.complete:
            return Verdict.INCONCLUSIVE
        return verdict

    def save(self, path: str | Path) -> Path:
        """Write the report (`.html`), the table (`.csv`) or the answer for machines (`.json`)."""
        from fallline.study.report import save

        return save(self, path)

    def __repr__(self) -> str:
        from fallline.study.report.origins import mixtures

        done = sum(row.answered for row in self.rows)
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in self.outcomes.items())
        answer = str(self.verdict) if self.study.bars else "no bar is set"
        lines = [
            f"{self.study.name} ({self.scale}): {answer}",
            f"  {done} of {len(self.rows)} cells ({outcomes or 'none'})",
            *(f"  {check}" for check in self.checks),
            *(f"  note: {note}" for note in self.notes),
            *(f"  mixed: {mixture}" for mixture in mixtures(self)),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from fallline.study.report import fragment

        return fragment(self)

    # How cells count

    @cached_property
    def _all_diverged(self) -> set[tuple[str, str]]:
        outcomes: dict[tuple[str, str], set[str]] = {}
        for row in self.rows:
            outcomes.setdefault((row.part, row.arm), set()).add(row.outcome)
        return {arm for arm, found in outcomes.items() if found == {Outcome.DIVERGED.value}}

    def _counted(self, row: Row, metric: str) -> float:
        # Asked of the whole part and not of this view: an arm that trains at other settings did
        # diverge at this one, and that must count against it; an arm that never trains is broken.
        if (row.part, row.arm) in self._root._all_diverged:
            return math.nan
        return row.counted(metric, self.study.diverged)

    def _over_seeds(
        self, metric: str, figure: Callable[[Sequence[float]], float]
    ) -> dict[str, float]:
        grids = {arm: self.grid(metric, arm) for arm in self.arms}
        return PerArm({arm: figure(list(grid[()].values())) for arm, grid in grids.items()})

    def _extremes(
        self, metric: str, over: str
    ) -> dict[str, tuple[tuple[Scalar, float], tuple[Scalar, float]]]:
        """Best and worst of the medians along an axis, each as (axis value, median)."""
        sign = 1 if self.direction(metric) == "min" else -1
        extremes: dict[str, tuple[tuple[Scalar, float], tuple[Scalar, float]]] = {}
        for arm in self.arms:
            medians = [
                (setting[0], statistics.median_or_nan(by_seed.values()))
                for setting, by_seed in self.grid(metric, arm, [over]).items()
            ]
            if any(math.isnan(value) for _, value in medians):
                extremes[arm] = ((math.nan, math.nan), (math.nan, math.nan))
                continue
            medians.sort(key=lambda at: sign * at[1])
            extremes[arm] = (medians[0], medians[-1])
        return extremes

    def _slope(self, metric: str, arm: str, over: str) -> Estimate:
        by_seed: dict[int, dict[float, float]] = {}
        for (x,), values in self.grid(metric, arm, [over]).items():
            if isinstance(x, bool) or not isinstance(x, (int, float)):
                raise ValueError(f"a log-log slope needs numbers along {over!r}, got {x!r}")
            for seed, value in values.items():
                by_seed.setdefault(seed, {})[x] = value
        return statistics.mean_interval([statistics.log_log_slope(p) for p in by_seed.values()])

    def _known(self, metric: str) -> None:
        if metric not in self.metrics:
            raise ValueError(f"no cell reports {metric!r}; there are {', '.join(self.metrics)}")

    @cached_property
    def metrics(self) -> list[str]:
        """Declared metrics first, then what else the cells returned."""
        names = dict.fromkeys(self.study.metrics)
        for row in self._root.rows:
            if row.record is not None:
                names.update(dict.fromkeys(row.record.metrics))
        return list(names)

    @cached_property
    def _settings(self) -> list[str]:
        """Scalar settings: the axes first."""
        names = dict.fromkeys(self.axes)
        for row in self.rows:
            for name, value in row.config.items():
                if not isinstance(value, (list, dict)):
                    names[name] = None
        return list(names)


_ABSENT = object()
_OWN_COLUMNS = ("part", "arm", "seed", "outcome", "seconds", "peak_mib")


def _column(row: Row, name: str) -> Any:
    if name in ("part", "arm", "seed"):
        return getattr(row, name)
    return row.config.get(name, _ABSENT)


def _recorded(row: Row, metric: str) -> float:
    value = row.record.metrics.get(metric) if row.record else None
    return math.nan if value is None else value
