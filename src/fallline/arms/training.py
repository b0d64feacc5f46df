"""One training run with its curve and its costs, as comparisons and claims report it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from fallline.tasks import TrainingTask


def train(
    task: TrainingTask, optimizer: Optimizer, report: Callable[..., None]
) -> dict[str, float]:
    """Train, report each step's loss and step size, and return the scores and the costs.

    Returns
    -------
    dict
        The task's metrics; `truncated`, the share of steps that a loss-aware optimizer shortened
        (0 for others); `ms_per_step`, the median whole training step in milliseconds; and
        `state_mib`, the size of the optimizer's state at the end.
    """
    truncated: list[float] = []
    marks = [time.perf_counter()]
    for step, loss in task.run(optimizer):
        marks.append(time.perf_counter())
        last: Any = None if task.diverged else getattr(optimizer, "last", None)
        truncated.append(float(last.truncated) if last is not None else 0.0)
        eta = float(last.eta) if last is not None else optimizer.param_groups[0]["lr"]
        report(step, loss=loss, eta=eta)
    return {
        **task.score(),
        "truncated": statistics.fmean(truncated),
        "ms_per_step": 1e3 * statistics.median(b - a for a, b in pairwise(marks)),
        "state_mib": state_bytes(optimizer) / 2**20,
    }


def state_bytes(optimizer: Optimizer) -> int:
    """Return the bytes of all tensors that the optimizer keeps between steps."""
    from torch import Tensor

    kept = (value for state in optimizer.state.values() for value in state.values())
    return sum(t.numel() * t.element_size() for t in kept if isinstance(t, Tensor))
