"""``f_star="auto"``: MoMo's running estimate of a lower bound. Experimental, never certified."""

from __future__ import annotations

import torch
from torch import Tensor


def reset_if_above(lb: Tensor, F: Tensor, lb0: float) -> Tensor:
    """Before the step: a bound above the model's value ``F`` is refuted and starts again."""
    return torch.where(lb > F, (F / 2).clamp_min(lb0), lb)


def after_step(F: Tensor, eta: Tensor, G: Tensor, lb0: float, *, constrained: bool) -> Tensor:
    """After the step: half of the decrease that the model promises is still to come."""
    decrease = eta * G if constrained else eta * G * G
    return (F - 0.5 * decrease).clamp_min(lb0)
