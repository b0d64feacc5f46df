"""The loss-aware contract: one loss per step, from a closure, an argument or `set_loss`."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from fallline.optim._checks import scalar_tensor

LossLike = Tensor | float
Closure = Callable[[], LossLike | None]


def one_loss(
    name: str, closure: Closure | None, loss: LossLike | None, pending: LossLike | None
) -> LossLike | None:
    """Return the step's loss, evaluating `closure`; at most one source may be given."""
    sources = {"step(closure)": closure, "step(loss=...)": loss, "set_loss(loss)": pending}
    given = [how for how, value in sources.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{name} got the loss more than once: {' and '.join(given)}; give one")
    if closure is not None:
        with torch.enable_grad():
            return closure()
    return pending if loss is None else loss


def checked_loss(loss: LossLike) -> LossLike:
    """Refuse what is not one real number; detach a tensor."""
    if isinstance(loss, Tensor):
        scalar_tensor("loss", loss)
        return loss.detach()
    if isinstance(loss, bool) or not isinstance(loss, Real):
        raise TypeError(f"loss must be a scalar Tensor or a float, got {type(loss).__name__}")
    return float(loss)


def mean_over_ranks(loss: Tensor, group: Any) -> Tensor:
    """Mean of each rank's loss over the process group `group` (``None``: this rank's own)."""
    if group is None:
        return loss
    total = loss.clone()
    torch.distributed.all_reduce(total, group=group)
    return total / torch.distributed.get_world_size(group)
