"""The optimizers that studies compare, by name, each with the settings its users would choose.

Every arm takes one learning rate, so that all can be tuned on one grid at equal effort; which
grid is the study's business. Nothing here loads torch before an arm is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

__all__ = ["build", "names"]


def _adamw(model: nn.Module, lr: float, **options: Any) -> Optimizer:
    """AdamW with betas (0.95, 0.95) and decay 0.1: the averaging and decay of the Muon family."""
    from torch.optim import AdamW

    return AdamW(model.parameters(), lr, **{"betas": (0.95, 0.95), "weight_decay": 0.1, **options})


def _sgd(model: nn.Module, lr: float, **options: Any) -> Optimizer:
    """SGD with momentum 0.9 and decay 1e-4, the recipe of image classification."""
    from torch.optim import SGD

    return SGD(model.parameters(), lr, **{"momentum": 0.9, "weight_decay": 1e-4, **options})


def _torch_muon(model: nn.Module, lr: float, **options: Any) -> Optimizer:
    """`torch.optim.Muon` on hidden matrices, `adamw` on the rest.

    `match_rms_adamw` is torch's own way to let both share a learning rate tuned for AdamW.
    """
    from fallline.arms.muon_adamw import MuonAdamW

    return MuonAdamW(model, lr, **options)


def _preset(name: str) -> Callable[..., Optimizer]:
    def factory(model: nn.Module, lr: float, **options: Any) -> Optimizer:
        from fallline import optim

        optimizer: Optimizer = getattr(optim, name)(model, lr=lr, **options)
        return optimizer

    return factory


_ARMS: dict[str, Callable[..., Optimizer]] = {
    "adamw": _adamw,
    "sgd": _sgd,
    "torch-muon": _torch_muon,
    # The presets keep their documented defaults: beta 0.95, decay 0.1, matrix_lr_ratio 10 and,
    # where the step is truncated, the lower bound f_star = 0.
    "momo": _preset("Momo"),
    "momo-adam": _preset("MomoAdam"),
    "muon-adam": _preset("MuonAdam"),
    "muon-adam-momo": _preset("MuonAdamMomo"),
    "muonmax": _preset("MuonMax"),
    "muonmax-momo": _preset("MuonMaxMomo"),
    "polargrad": _preset("PolarGrad"),
    "scion": _preset("Scion"),
    "sign-gd": _preset("SignGD"),
}


def names() -> list[str]:
    """Return the names that `build` knows."""
    return list(_ARMS)


def build(name: str, model: nn.Module, lr: float, **options: Any) -> Optimizer:
    """Build the named optimizer over the parameters of `model`.

    Parameters
    ----------
    name
        One of `names()`.
    model
        Hidden matrices are told from embeddings and heads by its parameters' names.
    lr
        The learning rate.
    **options
        Other settings of the optimizer, instead of the arm's own, such as `f_star`.

    Raises
    ------
    ValueError
        If there is no such arm.

    Examples
    --------
    >>> import torch
    >>> optimizer = build("adamw", torch.nn.Linear(2, 1), lr=0.01)
    >>> optimizer.param_groups[0]["lr"]
    0.01
    """
    if name not in _ARMS:
        raise ValueError(f"there is no arm {name!r}; choose one of {', '.join(_ARMS)}")
    return _ARMS[name](model, lr, **options)
