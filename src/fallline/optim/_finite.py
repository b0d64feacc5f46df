"""Refuse what is not finite, or would overflow, before it reaches an average."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fallline.optim._layers import Gradients
from fallline.optim._sharding import all_ranks_agree, local


def find_nonfinite(
    parts: Sequence[Gradients], gw: Tensor | None, loss: Tensor | None, like: Tensor
) -> str | None:
    """Name the first gradient that is of no use, or the loss; None if all is well. One host sync.

    Screened are the norms, which also must not overflow: the polar factor and the second moment
    of such a gradient would silently be 0. With truncation ``<g, w>`` is too, because its average
    would stay spoilt.
    """
    ok = _norms(parts, like).isfinite().all()
    if gw is not None:
        ok = ok & gw.isfinite().all()
    if loss is not None:
        ok = ok & loss.isfinite()
    if all_ranks_agree(ok, [p for part in parts for p in part.params]):
        return None
    return _first_trouble(parts, gw, loss, like) or "a gradient held by another rank is not finite"


def _norms(parts: Sequence[Gradients], like: Tensor) -> Tensor:
    norms: list[Tensor] = []
    for part in parts:
        grads = [local(grad) for grad in part.grads]
        half = grads[0].dtype in (torch.float16, torch.bfloat16)
        norms += torch._foreach_norm(grads, 2, torch.float32 if half else None)
    return torch.stack([norm.to(like) for norm in norms])


def _first_trouble(
    parts: Sequence[Gradients], gw: Tensor | None, loss: Tensor | None, like: Tensor
) -> str | None:
    if loss is not None and not loss.isfinite():
        return f"the loss is not finite: {float(loss)}"
    named = [(name, grad) for part in parts for name, grad in zip(part.names, part.grads)]
    for name, grad in named:
        if not local(grad).isfinite().all():
            return f"the gradient of {name} is not finite"
    for (name, _), norm in zip(named, _norms(parts, like)):
        if not norm.isfinite():
            return f"the norm of the gradient of {name} is not finite"
    if gw is not None:
        for (name, _), product in zip(named, gw):
            if not product.isfinite():
                return f"<g, w> of {name} is not finite: {float(product)}"
    return None
