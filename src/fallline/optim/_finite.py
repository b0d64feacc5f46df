"""Refuse a non-finite gradient or loss before it reaches an average."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fallline.optim._layers import Gradients
from fallline.optim._sharding import all_ranks_agree, local


def find_nonfinite(parts: Sequence[Gradients], loss: Tensor | None) -> str | None:
    """Name the first non-finite gradient or the loss; None if all is well. One host sync."""
    home = parts[0].params[0].device
    norms = []
    for part in parts:
        grads = [local(grad) for grad in part.grads]
        half = grads[0].dtype in (torch.float16, torch.bfloat16)
        found = torch._foreach_norm(grads, 2, torch.float32 if half else None)
        norms += [norm.to(home, torch.float32) for norm in found]
    scalars = norms if loss is None else [*norms, loss.to(torch.float32)]
    owners = [p for part in parts for p in part.params]
    if all_ranks_agree(torch.stack(scalars).isfinite().all(), owners):
        return None
    # A norm can overflow where no entry does, so the entries decide.
    trouble = _first_nonfinite(parts, loss)
    if all_ranks_agree(torch.tensor(trouble is None, device=home), owners):
        return None
    return trouble or "a gradient held by another rank is not finite"


def _first_nonfinite(parts: Sequence[Gradients], loss: Tensor | None) -> str | None:
    if loss is not None and not loss.isfinite():
        return f"the loss is not finite: {float(loss)}"
    for part in parts:
        for name, grad in zip(part.names, part.grads):
            if not local(grad).isfinite().all():
                return f"the gradient of {name} is not finite"
    return None
