"""`torch.optim.Muon` beside AdamW as one optimizer, for schedulers and loops that take one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from fallline.optim import split_params


class MuonAdamW(Optimizer):
    """Muon on the hidden matrices of `model`, AdamW on everything else.

    Both take the same `lr`: Muon's `match_rms_adamw` gives its moves the size of AdamW's. A
    convolution kernel goes to AdamW, since torch's Muon takes 2-D parameters only.

    Parameters
    ----------
    model
        Routed by `fallline.optim.split_params`.
    lr, weight_decay
        For both halves.
    """

    def __init__(self, model: nn.Module, lr: float, weight_decay: float = 0.1) -> None:
        matrices = [p for p in split_params(model)[0] if p.ndim == 2]
        hidden = {id(p) for p in matrices}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in hidden]
        self.halves: list[Optimizer] = []
        if matrices:
            self.halves.append(
                Muon(matrices, lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
            )
        if rest:
            self.halves.append(AdamW(rest, lr, betas=(0.95, 0.95), weight_decay=weight_decay))
        super().__init__([group for half in self.halves for group in half.param_groups], {})
        self._share()

    def _share(self) -> None:
        # The same dicts, not copies: a scheduler writes its lr here and the halves read it there,
        # the halves keep their state where a checkpoint looks for it.
        groups = iter(self.param_groups)
        for half in self.halves:
            half.param_groups = [next(groups) for _ in half.param_groups]
            half.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step both halves; `closure`, if given, is called once and its loss returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for half in self.halves:
            half.step()
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse what `__init__` did not make: a parameter alone does not tell its half."""
        if len(self.param_groups) == sum(len(half.param_groups) for half in self.halves):
            raise ValueError("the groups of MuonAdamW follow from its model; build a new one")
        super().add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"halves": self.halves}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of both halves."""
        super().load_state_dict(state_dict)
        self._share()
