"""Refuse a non-finite gradient or loss before it reaches an average."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fallline.optim._layers import Gradients
from fallline.optim._sharding import all_ranks_agree, local


def find_nonfinite(
    parts: Sequence[Gradients], gw: Tensor | None, loss: Tensor | None
) -> str | None:
    """Name the first non-finite gradient, or the loss; None if all is well. One host sync.

    One pass over the gradients screens them: ``<g, w>`` where truncation has it anyway, else
    the norms. Neither is finite if an entry of ``g`` is not.
    """
    home = parts[0].params[0].device
    screened = _norms(parts, home) if gw is None else gw
    ok = screened.isfinite().all()
    if loss is not None:
        ok = ok & loss.isfinite()
    owners = [p for part in parts for p in part.params]
    if all_ranks_agree(ok, owners):
        return None
    # A product or a sum can overflow where no entry does, so the entries decide.
    trouble = _first_nonfinite(parts, loss)
    if all_ranks_agree(torch.tensor(trouble is None, device=home), owners):
        return None
    return trouble or "a gradient held by another rank is not finite"


def _norms(parts: Sequence[Gradients], home: torch.device) -> Tensor:
    norms: list[Tensor] = []
    for part in parts:
        grads = [local(grad) for grad in part.grads]
        half = grads[0].dtype in (torch.float16, torch.bfloat16)
        found = torch._foreach_norm(grads, 2, torch.float32 if half else None)
        norms += [norm.to(home, torch.float32) for norm in found]
    return torch.stack(norms)


def _first_nonfinite(parts: Sequence[Gradients], loss: Tensor | None) -> str | None:
    if loss is not None and not loss.isfinite():
        return f"the loss is not finite: {float(loss)}"
    for part in parts:
        for name, grad in zip(part.names, part.grads):
            if not local(grad).isfinite().all():
                return f"the gradient of {name} is not finite"
    return None
