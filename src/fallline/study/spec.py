"""What a study is: parts that unfold into cells, and the key that names each cell for ever."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fallline.study.origin import Origin, calling_module

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from fallline.study.checks import Check
    from fallline.study.estimates import Estimate
    from fallline.study.progress import Progress
    from fallline.study.results import Results

Scalar: TypeAlias = str | int | float | bool | None
Direction: TypeAlias = Literal["min", "max"]
RESERVED = ("part", "arm", "seed")  # rows are chosen by these names
COLUMNS = ("outcome", "seconds", "peak_mib", "step")


@dataclass(frozen=True)
class Limits:
    """What one cell may use: wall-clock seconds, resident GiB and native threads."""

    seconds: float = 600.0
    gib: float = 4.0
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("seconds", "gib"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"Limits: {name} must be > 0 and finite, got {value!r}")
        if self.threads < 1:
            raise ValueError(f"Limits: threads must be >= 1, got {self.threads!r}")


@dataclass(frozen=True)
class Arm:
    """A named method with its settings; a new `version` redoes this arm's cells only."""

    name: str
    version: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Cell:
    """One call of a study's `run`, which must be a pure function of `config` and `seed`.

    `report` streams points of a curve; `attach` keeps a named result that is not a number.
    """

    study: str
    version: int
    arm: str
    arm_version: int
    config: dict[str, Any]
    seed: int
    artifacts: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    on_point: Callable[[dict[str, float]], None] | None = field(
        default=None, repr=False, compare=False
    )

    @cached_property
    def key(self) -> str:
        """sha256 of everything that decides the outcome."""
        return hashlib.sha256(canonical(self.to_dict()).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, enough to build an equal cell elsewhere with `Cell(**data)`."""
        names = ("study", "version", "arm", "arm_version", "config", "seed")
        return {name: getattr(self, name) for name in names}

    def report(self, step: float, **values: float) -> None:
        """Add one point to the cell's curve."""
        if self.on_point is not None:
            self.on_point({"step": step, **values})

    def attach(self, name: str, value: Any) -> None:
        """Keep `value` (JSON data, bytes or a NumPy array of numbers) under `name`."""
        self.artifacts[name] = value


class Part:
    """Arms x axes x seeds with some fixed settings.

    Parameters
    ----------
    name
        The experiment that these cells belong to; parts of one name are joined.
    arms
        Names, or `Arm` where a method has settings or a version of its own.
    seeds
        How many (`range(seeds)`), or which.
    fixed
        Settings that all cells share: any JSON data.
    **axes
        Swept settings, each a sequence of scalars.
    """

    def __init__(
        self,
        name: str,
        arms: Sequence[str | Arm],
        *,
        seeds: int | Sequence[int],
        fixed: Mapping[str, Any] | None = None,
        **axes: Sequence[Scalar],
    ) -> None:
        self.name = name
        self.arms = tuple(Arm(a) if isinstance(a, str) else a for a in arms)
        self.seeds = _seeds(name, seeds)
        self.fixed = {k: plain(v, f"{name}: fixed setting {k!r}") for k, v in (fixed or {}).items()}
        self.axes = {k: tuple(plain(v, f"{name}: axis {k!r}") for v in axes[k]) for k in axes}
        if not self.arms:
            raise ValueError(f"part {name!r}: arms is empty; name at least one arm")
        for arm in self.arms:
            twice = {*self.fixed} & {*self.axes} | {*arm.settings} & {*self.fixed, *self.axes}
            if twice:
                raise ValueError(
                    f"part {name!r}, arm {arm.name!r}: {', '.join(sorted(twice))} is set twice "
                    "(as an axis, a fixed setting or a setting of the arm)"
                )
        for setting in (*self.axes, *self.fixed):
            if setting in RESERVED:
                raise ValueError(f"part {name!r}: no setting may be called {setting!r}; rename it")
        for axis, values in self.axes.items():
            if axis in COLUMNS:
                raise ValueError(
                    f"part {name!r}: no axis may be called {axis!r}, which each cell has; rename it"
                )
            if not values:
                raise ValueError(f"part {name!r}: axis {axis!r} is empty")
            if any(isinstance(value, (list, dict)) for value in values):
                raise ValueError(f"part {name!r}: axis {axis!r} must hold scalars, got {values!r}")

    def __repr__(self) -> str:
        axes = "".join(f", {k}={list(v)}" for k, v in self.axes.items())
        return f"Part({self.name!r}, {[a.name for a in self.arms]}, seeds={len(self.seeds)}{axes})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, enough to build an equal part again."""
        arms = [
            {"name": a.name, "version": a.version, "settings": dict(a.settings)} for a in self.arms
        ]
        return {
            "name": self.name,
            "arms": plain(arms, f"part {self.name!r}: arms"),
            "seeds": list(self.seeds),
            "fixed": self.fixed,
            "axes": {axis: list(values) for axis, values in self.axes.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """Undo `to_dict`."""
        arms = [Arm(**arm) for arm in data["arms"]]
        return cls(data["name"], arms, seeds=data["seeds"], fixed=data["fixed"], **data["axes"])

    def cells(self, study: str, version: int) -> Iterator[Cell]:
        """Yield every cell, seeds slowest, so that a study cut short has whole seeds to pair."""
        for seed in self.seeds:
            for values in itertools.product(*self.axes.values()):
                for arm in self.arms:
                    settings = plain(dict(arm.settings), f"arm {arm.name!r}: settings")
                    config = {**self.fixed, **settings, **dict(zip(self.axes, values))}
                    yield Cell(study, version, arm.name, arm.version, config, seed)


@dataclass(frozen=True)
class Study:
    """A named question, answered by cells, with the bars that decide the answer.

    Parameters
    ----------
    name
        Short and unique: it names the store, the report and the verdict.
    run
        `run(cell) -> dict of numbers`: the metrics of one cell.
    metrics
        Each metric's better direction, `"min"` or `"max"`. The first one is the main metric.
    scales
        Scale name to parts; a scale only selects parts.
    question, paper
        What is asked, and the paper's arXiv id: shown by the report.
    version
        A new version redoes every cell.
    diverged
        What a diverged cell counts as, per metric.
    bars, open, notes, figures
        Functions of `Results`: a bar and an open comparison return a `Check`, a note a sentence
        (or `None`), a figure a matplotlib `Figure` whose docstring describes the picture.
    limits
        What one cell may use.
    plan
        `plan(results) -> parts`: called when all cells are finished, until it returns none.
    sources
        Packages whose source decides the cells (`"fallline.optim"`): hashed beside the study's own.
    preload
        Heavy modules that the process server imports once.
    """

    name: str
    run: Callable[[Cell], Mapping[str, float]]
    metrics: Mapping[str, Direction]
    scales: Mapping[str, Sequence[Part]]
    question: str = ""
    paper: str = ""
    version: int = 1
    diverged: Mapping[str, float] = field(default_factory=dict)
    bars: Sequence[Callable[[Results], Check]] = ()
    open: Sequence[Callable[[Results], Check | Estimate]] = ()
    notes: Sequence[Callable[[Results], str | None]] = ()
    figures: Sequence[Callable[[Results], Figure]] = ()
    limits: Limits = field(default_factory=Limits)
    plan: Callable[[Results], Sequence[Part]] | None = None
    sources: Sequence[str] = ()
    preload: Sequence[str] = ()
    origin: Origin = field(default_factory=lambda: calling_module(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "-_." for c in self.name):
            raise ValueError(
                f"study name {self.name!r}: use letters, digits, '-', '_' and '.': it names files"
            )
        if not isinstance(self.metrics, Mapping) or not self.metrics:
            raise ValueError(
                f"study {self.name!r}: metrics must map each metric to 'min' or 'max', "
                f"got {self.metrics!r}"
            )
        for metric, direction in self.metrics.items():
            if direction not in ("min", "max"):
                raise ValueError(
                    f"study {self.name!r}: metric {metric!r} has direction {direction!r}; "
                    "use 'min' or 'max'"
                )
        if not callable(self.run):
            raise TypeError(f"study {self.name!r}: run must be a function, got {self.run!r}")
        for what in ("bars", "open", "notes", "figures"):
            functions = getattr(self, what)
            if not isinstance(functions, Sequence) or not all(map(callable, functions)):
                raise TypeError(
                    f"study {self.name!r}: {what} must be a list of functions, got {functions!r}"
                )
        for scale, parts in self.scales.items():
            if not all(isinstance(part, Part) for part in parts):
                raise TypeError(f"study {self.name!r}: scale {scale!r} must be a list of Part")
        for metric, value in self.diverged.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and math.isfinite(value)):
                raise ValueError(
                    f"study {self.name!r}: diverged[{metric!r}] must be a finite number, "
                    f"got {value!r}"
                )
        unknown = set(self.diverged) - set(self.metrics)
        if unknown:
            raise ValueError(
                f"study {self.name!r}: diverged names {', '.join(sorted(unknown))}, "
                f"which is not a metric; metrics are {', '.join(self.metrics)}"
            )

    def parts(self, scale: str) -> Sequence[Part]:
        """Return the parts of one scale."""
        if scale not in self.scales:
            raise ValueError(
                f"study {self.name!r} has no scale {scale!r}; it has "
                f"{', '.join(self.scales) or 'none'}"
            )
        return self.scales[scale]

    def execute(
        self,
        scale: str = "laptop",
        *,
        store: str | Path | None = None,
        jobs: int = 1,
        seeds: int | None = None,
        arms: Sequence[str] | None = None,
        retry: bool = False,
        fresh: bool = False,
        minutes: float | None = None,
        progress: Progress | None = None,
    ) -> Results:
        """Run every cell that the store lacks and return the results.

        Parameters
        ----------
        scale
            Which parts to run.
        store
            Path of the SQLite file; by default `fallline-results/<study>.db`.
        jobs
            Cells at a time.
        seeds, arms
            Run this many seeds, or these arms, instead of what the scale says.
        retry
            Run failed, timed-out and killed cells again.
        fresh
            Forget what the store holds of these cells.
        minutes
            Stop handing out cells in time to end by then; without it, run all of them.
        progress
            Where to show progress; by default a bar on a terminal and plain lines elsewhere.

        Raises
        ------
        StudyError
            If another driver holds the store, the file is not a store, the disk is full, or a
            fresh process could not import the study.
        """
        from fallline.study.driver import execute

        return execute(
            self,
            scale,
            store=store,
            jobs=jobs,
            seeds=seeds,
            arms=arms,
            retry=retry,
            fresh=fresh,
            minutes=minutes,
            progress=progress,
        )


def _seeds(part: str, seeds: int | Sequence[int]) -> tuple[int, ...]:
    try:
        chosen = tuple(range(operator.index(seeds)))  # type: ignore[arg-type]
    except TypeError:
        chosen = ()
        if isinstance(seeds, Iterable) and not isinstance(seeds, str):
            with contextlib.suppress(TypeError):
                chosen = tuple(dict.fromkeys(map(operator.index, seeds)))
    # SQLite's integers have 64 bits.
    if not chosen or not all(-(2**63) <= seed < 2**63 for seed in chosen):
        raise ValueError(
            f"part {part!r}: seeds must be a count >= 1 or integers of 64 bits, got {seeds!r}"
        )
    return chosen


def canonical(data: Any) -> str:
    """One text for equal data: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any, what: str) -> Any:
    """Return `value` as JSON data (tuples as lists, NumPy scalars as Python's) or say why not."""
    if isinstance(value, (bool, type(None), int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{what}: {value!r} is not a finite number")
        return float(value)  # NumPy's float64 is a float with a repr of its own
    if isinstance(value, (list, tuple)):
        return [plain(v, what) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain(v, what) for k, v in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain(value.item(), what)
    raise TypeError(f"{what}: {value!r} of type {type(value).__name__} is not JSON data")
