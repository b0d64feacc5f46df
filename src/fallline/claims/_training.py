"""One training run as a cell, shared by the claims about optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fallline.study import Cell
    from fallline.tasks import TrainingTask


def train(task: TrainingTask, cell: Cell) -> dict[str, float]:
    """Train with the cell's arm at its `lr` and return the scores and costs.

    `optimizer` in the settings names the optimizer where an arm is a variant of one; `f_star` is
    passed to it.
    """
    from fallline import arms
    from fallline.arms.training import train as run

    name = cell.config.get("optimizer", cell.arm)
    options = {key: cell.config[key] for key in ("f_star",) if key in cell.config}
    optimizer = arms.build(name, task.model, cell.config["lr"], **options)
    return run(task, optimizer, cell.report)
