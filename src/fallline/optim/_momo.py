"""Momo truncation: the step that a lower bound of the loss allows (arXiv:2510.09827; MoMo)."""

from __future__ import annotations

import torch
from torch import Tensor


def truncated_step_size(
    lr: Tensor, F: Tensor, f_star: Tensor, G: Tensor, *, constrained: bool
) -> Tensor:
    """``min(lr, (F - f_star)_+ / G)`` constrained, ``min(lr, (F - f_star)_+ / G^2)`` regularised.

    `F` is the value at ``w`` of the average of past linearisations; the step ends where the
    model ``F + <m, d>`` meets `f_star`. The positive part is ours: below `f_star` the untruncated
    formula would ascend. ``G = 0`` gives `lr` (the move is 0).
    """
    allowed = (F - f_star).clamp_min(0) / G
    if not constrained:
        allowed = allowed / G  # twice by G: G^2 could leave the range of float32
    return torch.where(G > 0, torch.minimum(lr, allowed), lr)
