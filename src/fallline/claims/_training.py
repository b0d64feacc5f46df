"""One training run as a cell, shared by the claims about optimizers."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fallline.study import Cell
    from fallline.tasks import TrainingTask


def train(task: TrainingTask, cell: Cell) -> dict[str, float]:
    """Train with the cell's arm at its `lr` and return the scores.

    `optimizer` in the settings names the optimizer where an arm is a variant of one; `f_star` is
    passed to it.

    Returns
    -------
    dict
        The task's metrics; `truncated`, the share of steps that were shortened (0 for optimizers
        that never do); and `seconds_per_step`, the median over whole training steps.
    """
    from fallline import arms

    name = cell.config.get("optimizer", cell.arm)
    options = {key: cell.config[key] for key in ("f_star",) if key in cell.config}
    optimizer = arms.build(name, task.model, cell.config["lr"], **options)
    truncated: list[float] = []
    marks = [time.perf_counter()]
    for step, loss in task.run(optimizer):
        marks.append(time.perf_counter())
        last: Any = None if task.diverged else getattr(optimizer, "last", None)
        truncated.append(float(last.truncated) if last is not None else 0.0)
        eta = float(last.eta) if last is not None else cell.config["lr"]
        cell.report(step, loss=loss, eta=eta)
    return {
        **task.score(),
        "truncated": statistics.fmean(truncated),
        "seconds_per_step": statistics.median(b - a for a, b in pairwise(marks)),
    }
