"""The layer norms of non-Euclidean gradient descent: their dual and their maximiser.

For a norm ``||.||`` the dual is ``||m||_* = max_{||z|| <= 1} <m, z>`` and ``lmo(m)`` a maximiser.
Every norm here is given by one direction ``z`` with either

* ``||m||_* = <m, z>``,        ``lmo = z``          (`quadratic` is False), or
* ``||m||_* = sqrt(<m, z>)``,  ``lmo = z/||m||_*``  (`quadratic` is True).

A scale ``s`` turns ``||z||`` into ``||z|| / s``: dual and lmo are both multiplied by ``s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...] | list[Tensor]
NormKey = Literal["spectral", "linf", "adam_inf", "adam_2", "l2"]


@dataclass(frozen=True)
class Norm:
    """How a norm's dual follows from ``<m, z>``, and whether it reads the second moment."""

    quadratic: bool
    adaptive: bool


NORMS: dict[str, Norm] = {
    "spectral": Norm(quadratic=False, adaptive=False),  # z = polar(m)
    "linf": Norm(quadratic=False, adaptive=False),  # z = sign(m)
    "adam_inf": Norm(quadratic=False, adaptive=True),  # z = m / (sqrt(v) + eps)
    "adam_2": Norm(quadratic=True, adaptive=True),  # z = m / (sqrt(v) + eps)
    "l2": Norm(quadratic=True, adaptive=False),  # z = m
}


def elementwise_direction(norm: str, m: Tensors, v: Tensors, eps: float) -> Tensors:
    """``z`` of every norm but the spectral one, whose direction is `polar`."""
    if norm == "linf":
        return torch._foreach_sign(m)
    if norm == "l2":
        return m
    denominator = torch._foreach_sqrt(v)
    if eps > 0:
        torch._foreach_add_(denominator, eps)
    if eps < torch.finfo(v[0].dtype).tiny:
        # A coordinate without any gradient so far, or whose square underflows, gives 0, not 0/0.
        for d in denominator:
            d.masked_fill_(d == 0, torch.inf)
    return torch._foreach_div(m, denominator)
