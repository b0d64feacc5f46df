"""Inner products of layers, in at least single precision."""

from __future__ import annotations

import torch
from torch import Tensor

from fallline.optim._norms import Tensors


def inner(xs: Tensors, ys: Tensors, like: Tensor) -> Tensor:
    """``<x, y>`` of each pair as one vector, with the dtype and on the device of `like`."""
    return torch.stack(list(map(dot, xs, ys))).to(like)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """``<x, y>`` of two tensors of one shape."""
    if x.dtype != y.dtype or x.dtype not in (torch.float32, torch.float64):
        wide = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
        x, y = x.to(wide), y.to(wide)
    if x.is_contiguous() and y.is_contiguous():
        return torch.dot(x.view(-1), y.view(-1))
    return (x * y).sum()
