"""Does it beat what I use now, on my problem, at equal effort? One task, many optimizers."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fallline import arms as catalog
from fallline.arms.training import train
from fallline.study.driver import default_store
from fallline.study.errors import StudyError
from fallline.study.estimates import Estimate
from fallline.study.origin import Origin, blame, load_file, local_imports
from fallline.study.results import Results
from fallline.study.spec import Cell, Direction, Limits, Part, Study
from fallline.study.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fallline.study.tuning import Tuned
    from fallline.tasks import TrainingTask

DEFAULT_ARMS = ("adamw", "torch-muon", "muon-adam", "muonmax-momo")
SOURCES = ("fallline.optim", "fallline.tasks", "fallline.arms", "fallline.comparison")
DEFAULT_GRID = "1e-4:1e-1:7"


def compare(
    task: str | Path | Callable[[int], TrainingTask],
    *,
    arms: Sequence[str] = DEFAULT_ARMS,
    lr: str | Sequence[float] = DEFAULT_GRID,
    seeds: int = 3,
    minutes: float | None = None,
    jobs: int = 1,
    store: str | Path | None = None,
    retry: bool = False,
    fresh: bool = False,
) -> Results:
    """Race optimizers on a task and return who wins, by how much, and how surely.

    Every arm gets the same learning rates and seeds. Each seed's learning rate is chosen on the
    other seeds, so that no reported value chose itself.

    Parameters
    ----------
    task
        A file with `def task(seed: int) -> TrainingTask`, or that function, defined in a file.
    arms
        Names of optimizers: `fallline.arms.names()` lists them.
    lr
        Learning rates, or `"low:high:count"` for a geometric grid.
    seeds
        How many; an interval needs at least 3.
    minutes
        Stop handing out cells in time to end by then; whole seeds are reported.
    jobs
        Cells at a time.
    store
        Path of the SQLite file; by default `fallline-results/compare-<file>.db`.
    retry
        Run failed cells again.
    fresh
        Forget these cells and run them anew.

    Raises
    ------
    ValueError, TypeError
        If an argument, or the task, cannot work.

    Examples
    --------
    >>> results = compare("my_task.py", arms=["adamw", "muonmax-momo"])  # doctest: +SKIP
    >>> results.save("race.html")  # doctest: +SKIP
    """
    if callable(task):
        task = _file_of(task)
    grid = parse_grid(lr) if isinstance(lr, str) else list(lr)
    study = study_for(task, arms=arms, lr=grid, seeds=seeds)
    return study.execute("all", store=store, jobs=jobs, minutes=minutes, retry=retry, fresh=fresh)


def study_for(path: str | Path, *, arms: Sequence[str], lr: Sequence[float], seeds: int) -> Study:
    """Check the task on its first batch and turn it into a study."""
    unknown = [name for name in arms if name not in catalog.names()]
    if unknown or not arms:
        raise ValueError(
            f"arms: {', '.join(unknown) or 'none given'}; choose from {', '.join(catalog.names())}"
        )
    if not lr or any(not (rate > 0 and math.isfinite(rate)) for rate in lr):
        raise ValueError(f"lr must be finite numbers > 0, got {list(lr)!r}")
    path = Path(path).resolve()
    task = checked_task(path)
    part = Part("race", list(dict.fromkeys(arms)), seeds=seeds, fixed=_fixed(path), lr=list(lr))
    return _study(path, [part], task)


def study_of_store(path: str | Path, store: str | Path | None = None) -> Study:
    """Return the comparison of this task that was last asked for."""
    path = Path(path).resolve()
    with Store.read(store or default_store(_name(path))) as opened:
        asked = opened.request(_name(path))
    if asked is None:
        raise StudyError(f"no comparison of {path.name} is stored; run fallline compare first")
    parts = asked[1]
    if any(part.fixed != _fixed(path) for part in parts):
        raise StudyError(f"{path.name} was edited since its comparison; run fallline compare again")
    return _study(path, parts, checked_task(path))


def study_of_module(module: ModuleType) -> Study:
    """Return what a cell's process needs of the study: how to run it."""
    make = partial(run, make=module.task)
    return Study("cell", run=make, metrics={"score": "min"}, scales={}, sources=SOURCES)


def parse_grid(text: str) -> list[float]:
    """Read `low:high:count` as a geometric grid, or numbers with commas between them.

    Examples
    --------
    >>> parse_grid("1e-3:1e-1:5")
    [0.001, 0.003162, 0.01, 0.03162, 0.1]
    >>> parse_grid("0.1, 0.3")
    [0.1, 0.3]
    """
    wrong = ValueError(f"--lr: {text!r} is neither LOW:HIGH:COUNT, such as 1e-4:1e-1:7, nor a,b,c")
    try:
        if ":" not in text:
            return [float(number) for number in text.split(",")]
        low, high, count = text.split(":")
        start, end, n = float(low), float(high), int(count)
    except ValueError:
        raise wrong from None
    if not 0 < start <= end or n < 1 or not math.isfinite(end):
        raise wrong
    steps = [i / (n - 1) if n > 1 else 0.0 for i in range(n)]
    return [float(f"{start * (end / start) ** share:.4g}") for share in steps]


def checked_task(path: Path) -> TrainingTask:
    """Build the task once and take its first loss: a broken task costs seconds, not a night."""
    import torch
    from torch import Tensor

    from fallline.tasks import TrainingTask

    make = getattr(load_file(path), "task", None)
    if not callable(make):
        raise StudyError(
            f"{path.name} defines no function `task`; add: def task(seed: int) -> TrainingTask"
        )
    try:
        task = make(0)
        if not isinstance(task, TrainingTask):
            raise StudyError(
                f"{path.name}: task(0) returned {type(task).__name__}; return a "
                "fallline.tasks.TrainingTask (TrainingTask.from_torch builds one)"
            )
        batch = next(iter(task.batches), None)
        if batch is None:
            raise StudyError(f"{path.name}: task(0).batches is empty; there is nothing to train on")
        loss = task.loss(task.model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise StudyError(f"{path.name}: loss must return a scalar tensor, got {loss!r}")
        if not torch.isfinite(loss):
            raise StudyError(
                f"{path.name}: the loss is {loss.item()} before the first step; "
                "check the data and the loss"
            )
        untrained = task.score()
        if not all(math.isfinite(value) for value in untrained.values()):
            raise StudyError(f"{path.name}: evaluate returned {untrained} before the first step")
    except StudyError:
        raise
    except (Exception, SystemExit) as error:
        raise StudyError(blame(path, error)) from error
    return task


def run(cell: Cell, make: Callable[[int], TrainingTask]) -> dict[str, float]:
    """Train the task of the cell's seed with the cell's optimizer."""
    import torch

    torch.manual_seed(cell.seed)
    task = make(cell.seed)
    optimizer = catalog.build(cell.arm, task.model, cell.config["lr"])
    return train(task, optimizer, cell.report)


def best_arm(tuned: Tuned) -> str | None:
    """Return the arm with the best tuned median, or None where one is unknown."""
    medians = {arm: value for arm, value in tuned.median.items() if not math.isnan(value)}
    sign = 1.0 if tuned.direction == "min" else -1.0
    return min(medians, key=lambda arm: sign * medians[arm]) if medians else None


def winner(r: Results) -> str:
    """Name the winner, by how much and how surely."""
    seen = _whole(r)
    if seen is None or len(seen.seeds) < 2:
        return "No winner yet: every arm needs all its learning rates on at least two seeds."
    metric = _metric(r)
    tuned = seen.tuned(metric)
    best = best_arm(tuned)
    if best is None:
        return "No winner: no arm finished on every seed at a learning rate chosen on the others."
    others = [arm for arm in seen.arms if arm != best]
    gaps = {other: tuned.paired(best, other) for other in others}
    told = [f"{other}: {_gap(gap)}" for other, gap in gaps.items()]
    value = f"{metric} {tuned.median[best]:.4g}"
    if not told:
        return f"{best} reaches {value}; there is nothing to compare it with."
    ahead = "wins" if all(gap.low > 0 for gap in gaps.values()) else "leads"
    return f"{best} {ahead} with {value}, tuned. Its mean advantage over " + "; ".join(told) + "."


def sensitivity_note(r: Results) -> str | None:
    """Say how much each arm loses at the worst learning rate of the grid."""
    seen = _whole(r)
    if seen is None or len(seen.axes.get("lr", ())) < 2:
        return None
    spread = seen.spread(_metric(r), over="lr")
    known = {arm: value for arm, value in spread.items() if not math.isnan(value)}
    told = ", ".join(f"{arm} {known[arm]:.3g}" for arm in sorted(known, key=lambda a: known[a]))
    return f"Worst minus best median over the learning rates, least sensitive first: {told}."


def edge_note(r: Results) -> str | None:
    """Say whose best learning rate lies at the end of the grid."""
    seen = _whole(r)
    if seen is None or len(seen.axes.get("lr", ())) < 2:
        return None
    arms = [arm for arm, axes in seen.tuned(_metric(r)).edges.items() if axes]
    if not arms:
        return None
    return f"Widen the grid with --lr: the best learning rate of {', '.join(arms)} is at its end."


def cost_note(r: Results) -> str | None:
    """Say what a step costs in time and memory."""
    frame = r.frame.dropna(subset=["ms_per_step"]) if "ms_per_step" in r.frame else None
    if frame is None or frame.empty:
        return None
    by_arm = frame.groupby("arm", sort=False)[["ms_per_step", "state_mib", "peak_mib"]].median()
    told = "; ".join(
        f"{arm} {row.ms_per_step:.3g} ms, {row.state_mib:.3g} MiB of state, "
        f"{row.peak_mib:.0f} MiB in all"
        for arm, row in by_arm.iterrows()
    )
    return f"Median training step, optimizer state and peak memory of the process: {told}."


def score_against_learning_rate(r: Results) -> Figure:
    """Score against the learning rate: median and range over the seeds."""
    from fallline.study import plots

    return plots.sensitivity(r, _metric(r), over="lr")


def advantage_of_the_winner(r: Results) -> Figure:
    """Tuned advantage of the winner over each other arm, paired by seed, with 95 % intervals."""
    from fallline.study import plots

    seen = _whole(r)
    tuned = None if seen is None else seen.tuned(_metric(r))
    best = None if tuned is None else best_arm(tuned)
    if tuned is None or best is None:
        raise ValueError("there is no winner yet")
    gaps = {arm: tuned.paired(best, arm) for arm in r.arms if arm != best}
    return plots.forest(gaps, f"{_metric(r)}: how much better {best} is")


def training_curves(r: Results) -> Figure:
    """Training loss over the steps, each arm at its best learning rate."""
    from fallline.study import plots

    best = r.best_at(_metric(r), over="lr")
    rows = [
        placed
        for placed in r.placed
        if placed.cell.config["lr"] == best.get(placed.cell.arm, math.nan)
    ]
    chosen = Results(r.study, r.scale, rows, r.records, curves=r.curves_of)
    return plots.curves(chosen, "loss")


def _study(path: Path, parts: Sequence[Part], task: TrainingTask) -> Study:
    costs: dict[str, Direction] = {"ms_per_step": "min", "state_mib": "min"}
    return Study(
        _name(path),
        run=_not_here,
        question=f"Which optimizer is best on {path.name}, at equal effort?",
        metrics={**task.metrics, **costs},
        # A run that diverged is worth what no training is worth.
        diverged=task.score(),
        scales={"all": parts},
        notes=[winner, sensitivity_note, edge_note, cost_note],
        figures=[score_against_learning_rate, advantage_of_the_winner, training_curves],
        limits=Limits(seconds=24 * 3600, gib=_half_the_memory()),
        sources=SOURCES,
        preload=["torch", "fallline.tasks.training", "fallline.optim"],
        origin=Origin(path=str(path), builder="fallline.comparison:study_of_module"),
    )


def _not_here(cell: Cell) -> dict[str, float]:
    raise StudyError("a comparison's cells run in processes of their own; call study.execute")


def _name(path: Path) -> str:
    return "compare-" + "".join(c if c.isalnum() or c in "-_." else "-" for c in path.stem)


def _fixed(path: Path) -> dict[str, str]:
    # An edited task is another problem, and none of its old cells may be reused.
    digest = hashlib.sha256(path.read_bytes())
    for file in local_imports(path):
        digest.update(file.read_bytes())
    return {"task": digest.hexdigest()[:16]}


def _file_of(task: Callable[[int], Any]) -> Path:
    path = inspect.getsourcefile(task)
    if path is None or not Path(path).is_file() or task.__name__ != "task":
        raise StudyError(
            "task must be a function named `task` at the top level of a file, so that fresh "
            "processes can import it; in a notebook, write it with %%writefile and pass the path"
        )
    return Path(path)


def _metric(r: Results) -> str:
    return next(iter(r.study.metrics))


def _whole(r: Results) -> Results | None:
    """Return the rows of the seeds that every arm has finished: what is paired."""
    seeds = r.whole_seeds
    return r.where(seed=seeds) if seeds else None


def _gap(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "unknown, for it has no value that counts on some seed"
    if math.isnan(estimate.low):
        return f"{estimate.value:.3g} (too few seeds for an interval)"
    sure = "" if estimate.low > 0 else ", which may be chance"
    return f"{estimate.value:.3g} (95 % interval {estimate.low:.3g} to {estimate.high:.3g}{sure})"


def _half_the_memory() -> float:
    import psutil

    return max(1.0, psutil.virtual_memory().total / 2**31)
