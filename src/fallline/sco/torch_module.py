"""The loss as a torch module, so that any torch optimizer runs on it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from fallline.sco.codes import span_signs
from fallline.sco.maxima import check_enumerable

if TYPE_CHECKING:
    from fallline.sco.instance import HardInstance

LIMIT = 16


class HardLoss(nn.Module):
    """f(x; z) of a `HardInstance` with the parameter x; made by `HardInstance.to_torch`.

    Autograd gives the subgradients of `HardInstance.subgradient`: `relu` has slope 0 at its kink,
    and `amax` shares its slope among ties, which is 0 for C at the origin. Projection on the unit
    ball is left to the user.
    """

    def __init__(self, inst: HardInstance) -> None:
        super().__init__()
        check_enumerable(inst.N, LIMIT)
        self.N = inst.N
        self.alpha, self.beta, self.gamma = inst.alpha, inst.beta, inst.gamma
        self.theta, self.lam, self.rho0, self.scale = inst.theta, inst.lam, inst.rho0, inst.scale
        self.x = nn.Parameter(torch.zeros(inst.d, dtype=torch.float64))
        messages = -span_signs(np.eye(inst.N, dtype=np.uint8))
        words = span_signs(inst.code.generator) / math.sqrt(inst.n)
        self.messages: Tensor
        self.words: Tensor
        self.register_buffer("messages", torch.from_numpy(messages), persistent=False)
        self.register_buffer("words", torch.from_numpy(words), persistent=False)

    def forward(self, z: ArrayLike | Tensor) -> Tensor:
        """Return the losses, in the shape of z, of integer points z in 0..N-1."""
        z = torch.as_tensor(z, device=self.x.device)
        if z.is_floating_point() or (z.numel() and (z.min() < 0 or z.max() >= self.N)):
            raise ValueError(f"z must hold integers in 0..{self.N - 1}, got {z}")
        z = z.long()
        y, u = self.x[: self.N], self.x[self.N :]
        heights = self.words @ u
        # min(y, theta) = theta - relu(theta - y) and the like.
        A = self.alpha * (torch.relu(self.theta - y[z]) - self.theta)
        A = A + self.alpha / self.N * (torch.relu(y + self.theta) - self.theta).sum()
        C = self.beta * (self.messages @ y - self.gamma * heights).amax()
        Phi = self.rho0 + torch.relu(self._highest(heights) - self.rho0)[z]
        losses: Tensor = self.scale * (A + C + Phi + self.lam / 2 * (self.x @ self.x))
        return losses

    def _highest(self, heights: Tensor) -> Tensor:
        """For each z, the maximum over messages with s_z = -1: the half whose bit z is 0."""
        halves = [heights.view(2**z, 2, -1)[:, 0].amax() for z in range(self.N)]
        return torch.stack(halves)
