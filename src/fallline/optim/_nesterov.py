"""The core step of accelerated gradient descent as a step of Nesterov's SGD (arXiv:2508.06884)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.sgd import sgd

Tensors = list[Tensor]


class NesterovStep(NamedTuple):
    """The core step, which torch has one fused pass for.

    With a number ``t > 0`` and ``b = t (y - u)`` in the place of ``u``,

        u <- u - push g,    y <- (y + alpha u - gamma g) / (1 + alpha)

    is, for momentum^2 t = alpha / ((1 + alpha) gamma) and gain = momentum t (push - gamma),

        b <- momentum b + gain g,    y <- y - gamma (g + momentum b),

    and ``t`` becomes momentum t (1 + alpha).
    """

    gamma: float
    momentum: float
    gain: float
    t: float

    @classmethod
    def of(cls, gamma: float, alpha: float, push: float, t: float | None) -> NesterovStep:
        """Translate the core step; `t` is None as long as ``b`` is 0 and any would do."""
        if gamma == 0.0:  # only u moves
            t = 1.0 if t is None else t
            return cls(0.0, 1.0, t * push, t)
        lever = alpha / ((1.0 + alpha) * gamma)
        t = lever if t is None else t
        momentum = math.sqrt(lever / t)
        return cls(gamma, momentum, momentum * t * (push - gamma), momentum * t * (1.0 + alpha))

    def take(self, y: Tensors, g: Tensors, b: Tensors) -> None:
        """Do the step in place."""
        if _fit_fused_pass(y, g):
            sgd(
                y, g, [*b], fused=True, lr=self.gamma, momentum=self.momentum,
                dampening=1.0 - self.gain, nesterov=True, weight_decay=0.0, maximize=False,
            )  # fmt: skip
            return
        # Not sgd(foreach=True), which overwrites g.
        torch._foreach_mul_(b, self.momentum)
        torch._foreach_add_(b, g, alpha=self.gain)
        torch._foreach_add_(y, b, alpha=-self.gamma * self.momentum)
        torch._foreach_add_(y, g, alpha=-self.gamma)

    def take_without_gradient(self, y: Tensors, b: Tensors) -> None:
        """Do the step where the gradient is 0."""
        torch._foreach_mul_(b, self.momentum)
        torch._foreach_add_(y, b, alpha=-self.gamma * self.momentum)

    def undo(self, y: Tensors, g: Tensors, b: Tensors) -> None:
        """Go back to before the step, up to rounding: no step has to copy ``y`` and ``b``."""
        torch._foreach_add_(y, b, alpha=self.gamma * self.momentum)
        torch._foreach_add_(y, g, alpha=self.gamma)
        torch._foreach_add_(b, g, alpha=-self.gain)
        torch._foreach_div_(b, self.momentum)


def _fit_fused_pass(y: Tensors, g: Tensors) -> bool:
    """Whether all are plain and contiguous, as ``b`` then is: the pass runs over memory as it lies.

    Not in bfloat16, where torch's pass on a CPU leaves parameters as they are (seen in 2.13).
    """
    return (
        all(map(Tensor.is_contiguous, (*y, *g)))
        and {*map(type, y), *map(type, g)} <= {Tensor, Parameter}
        and {p.dtype for p in y} <= {torch.float32, torch.float64}
        and all(p.is_cpu or p.is_cuda for p in y)
    )
