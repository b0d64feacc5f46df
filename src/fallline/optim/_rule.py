"""The settings that all parameters of one optimizer share, checked once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from fallline.optim._aggregation import Aggregation
from fallline.optim._checks import auto_or_floating, choice, number, positive_int
from fallline.optim._norms import NORMS, NormKey
from fallline.optim._polar import PolarDtype, PolarMethod

LowerBound = float | Callable[[int], float] | Literal["auto"]
Nuclear = Literal["cached", "stale", "frobenius"]
ShapeScale = Literal["rms", "jordan", "match_rms_adamw"] | None
MomentumInit = Literal["first", "zeros", "corrected"]
OnNonfinite = Literal["raise", "skip"]


@dataclass(frozen=True)
class Rule:
    """A method of the family; see `NonEuclidean` for the meaning of each setting."""

    matrix_norm: NormKey
    other_norm: NormKey
    aggregation: Aggregation
    constrained: bool
    truncate: bool
    f_star: LowerBound
    lb0: float
    beta: float
    beta2: float
    eps: float
    matrix_lr_ratio: float
    polar: PolarMethod
    polar_steps: int
    polar_dtype: PolarDtype
    nuclear: Nuclear
    shape_scale: ShapeScale
    nesterov: bool
    momentum_init: MomentumInit
    on_nonfinite: OnNonfinite
    foreach: bool

    def __post_init__(self) -> None:
        choice("matrix_norm", self.matrix_norm, NORMS)
        choice("other_norm", self.other_norm, NORMS)
        choice("aggregation", self.aggregation, get_args(Aggregation))
        choice("polar", self.polar, get_args(PolarMethod))
        choice("nuclear", self.nuclear, get_args(Nuclear))
        choice("shape_scale", self.shape_scale, (None, "rms", "jordan", "match_rms_adamw"))
        choice("momentum_init", self.momentum_init, get_args(MomentumInit))
        choice("on_nonfinite", self.on_nonfinite, get_args(OnNonfinite))
        positive_int("polar_steps", self.polar_steps)
        number("beta", self.beta, valid="[0, 1)", ok=lambda x: 0 <= x < 1)
        number("beta2", self.beta2, valid="[0, 1)", ok=lambda x: 0 <= x < 1)
        number("eps", self.eps, valid="[0, inf)", ok=lambda x: 0 <= x < math.inf)
        number("lb0", self.lb0, valid="(-inf, inf)", ok=math.isfinite)
        ratio = self.matrix_lr_ratio
        number("matrix_lr_ratio", ratio, valid="(0, inf)", ok=lambda x: 0 < x < math.inf)
        auto_or_floating("polar_dtype", self.polar_dtype)
        if isinstance(self.f_star, str):
            choice("f_star", self.f_star, ("auto",))
        elif not callable(self.f_star):
            number("f_star", self.f_star, valid="(-inf, inf)", ok=math.isfinite)
        if self.nesterov and self.truncate:
            raise ValueError(
                "nesterov=True cannot be combined with truncate=True: the truncated model is the "
                "average of past linearisations, whose slope is the momentum itself"
            )

    def lower_bound(self, step: int) -> float | Tensor:
        """`f_star` of truncated step number `step`, or the first value of the estimate."""
        if isinstance(self.f_star, str):
            return self.lb0
        if not callable(self.f_star):
            return self.f_star
        bound = self.f_star(step)
        # As the constant is checked, but without waiting for a device.
        known = not isinstance(bound, Tensor) or bound.device.type == "cpu"
        finite = math.isfinite if known else lambda _: True
        number(f"f_star({step})", bound, valid="(-inf, inf)", ok=finite)
        return bound

    @property
    def matrix_scale(self) -> float:
        """The scale ``s`` of the spectral norm at which matrices step `matrix_lr_ratio` times."""
        return self.matrix_lr_ratio if self.constrained else math.sqrt(self.matrix_lr_ratio)

    @property
    def kinds_differ(self) -> bool:
        """Whether it matters for the step if a parameter counts as matrix or as other."""
        return self.matrix_norm != self.other_norm or self.aggregation == "hybrid"
