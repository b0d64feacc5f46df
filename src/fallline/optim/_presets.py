"""The named members of the family (arXiv:2510.09827, the table of methods)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from torch import Tensor

from fallline.optim._non_euclidean import NonEuclidean
from fallline.optim._polar import PolarDtype, PolarMethod
from fallline.optim._routing import ParamsLike
from fallline.optim._rule import LowerBound, MomentumInit, Nuclear, OnNonfinite, ShapeScale


class Options(TypedDict, total=False):
    """Options of `NonEuclidean` that every preset takes."""

    f_star: LowerBound
    lb0: float
    beta: float
    weight_decay: float
    momentum_init: MomentumInit
    on_nonfinite: OnNonfinite
    foreach: bool
    process_group: Any


class AdamOptions(Options, total=False):
    """Options of the presets that scale each coordinate by its second moment."""

    beta2: float
    eps: float


class SpectralOptions(AdamOptions, total=False):
    """Options of the presets that move matrices along their polar factor."""

    matrix_lr_ratio: float
    polar: PolarMethod
    polar_steps: int
    polar_dtype: PolarDtype
    nuclear: Nuclear
    shape_scale: ShapeScale
    nesterov: bool


_FIXED = ("matrix_norm", "other_norm", "aggregation", "constrained", "truncate")


def _refuse_fixed(
    owner: NonEuclidean, options: Mapping[str, object], untruncated: str = ""
) -> None:
    name = type(owner).__name__
    for option in _FIXED:
        if option in options:
            other = f"{untruncated} or " if option == "truncate" and untruncated else ""
            raise TypeError(f"{name} fixes {option}; use {other}NonEuclidean")


class MuonMaxMomo(NonEuclidean):
    """MuonMax with Momo truncation: the recommended setting of the family.

    ``dW = -eta_t * ratio * (sum over matrices of ||m_j||_nuc) * polar(m_l)``, the others
    ``-eta_t * m / (sqrt(v) + eps)``, with ``eta_t = min(lr, (F - f_star)_+ / G^2)``. Its final
    loss depends little on the learning rate.

    Parameters
    ----------
    params : module, named parameters, parameters, groups, or ``(matrix_params, other_params)``
        See `NonEuclidean`.
    lr : float or Tensor, default 1e-3
        Cap of the step size.
    **options
        ``f_star, lb0, beta, beta2, eps, weight_decay, matrix_lr_ratio, polar, polar_steps,
        polar_dtype, nuclear, shape_scale, nesterov, momentum_init, on_nonfinite, foreach,
        process_group`` of `NonEuclidean`.

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, MuonMax-Momo.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import MuonMaxMomo
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> opt = MuonMaxMomo(model, lr=1e-2)
    >>> x = torch.randn(32, 4)
    >>> first = model(x).square().mean().item()
    >>> for _ in range(20):
    ...     opt.zero_grad()
    ...     loss = model(x).square().mean()
    ...     loss.backward()
    ...     _ = opt.step(loss=loss)
    >>> loss.item() < first / 2
    True
    """

    def __init__(
        self, params: ParamsLike, lr: float | Tensor = 1e-3, **options: Unpack[SpectralOptions]
    ) -> None:
        _refuse_fixed(self, options, "MuonMax")
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="adam_2",
            aggregation="hybrid",
            constrained=False,
            truncate=True,
            **options,
        )


class MuonMax(NonEuclidean):
    """MuonMax: every matrix moves by the sum of all matrices' nuclear norms.

    ``dW = -lr * ratio * (sum over matrices of ||m_j||_nuc) * polar(m_l)``, the others Adam
    without bias correction. Parameters as `MuonMaxMomo`, and `truncate` (default False).

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; truncated, ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, MuonMax.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import MuonMax
    >>> W = torch.nn.Parameter(torch.zeros(2, 2))
    >>> opt = MuonMax(([W], []), lr=0.1, polar="svd", weight_decay=0.0)
    >>> W.grad = torch.diag(torch.tensor([3.0, 4.0]))
    >>> _ = opt.step()  # -lr * 10 * (3 + 4) * I
    >>> [[round(entry, 4) for entry in row] for row in W.tolist()]
    [[-7.0, 0.0], [0.0, -7.0]]
    """

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        truncate: bool = False,
        **options: Unpack[SpectralOptions],
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="adam_2",
            aggregation="hybrid",
            constrained=False,
            truncate=truncate,
            **options,
        )


class PolarGrad(NonEuclidean):
    """PolarGrad: each matrix moves by its own nuclear norm.

    ``dW = -lr * ratio * ||m_l||_nuc * polar(m_l)``, the others Adam without bias correction.
    Parameters as `MuonMaxMomo`, and `truncate` (default False).

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; truncated, ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, PolarGrad in the table of methods.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import PolarGrad
    >>> opt = PolarGrad(torch.nn.Linear(3, 2), lr=1e-3)
    """

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        truncate: bool = False,
        **options: Unpack[SpectralOptions],
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="adam_2",
            aggregation="l2",
            constrained=False,
            truncate=truncate,
            **options,
        )


class MuonAdam(NonEuclidean):
    """MuonAdam: what practice calls Muon, with Adam for everything that is no matrix.

    ``dW = -lr * ratio * polar(m_l)``, the others ``-lr * m / (sqrt(v) + eps)``. Parameters as
    `MuonMaxMomo`, and `truncate` (default False).

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; truncated, ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, MuonAdam in the table of methods.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import MuonAdam
    >>> W = torch.nn.Parameter(torch.zeros(2, 2))
    >>> opt = MuonAdam(([W], []), lr=0.1, polar="svd", weight_decay=0.0)
    >>> W.grad = torch.diag(torch.tensor([3.0, 4.0]))
    >>> _ = opt.step()  # -lr * 10 * I
    >>> W.tolist()
    [[-1.0, 0.0], [0.0, -1.0]]
    """

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        truncate: bool = False,
        **options: Unpack[SpectralOptions],
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="adam_inf",
            aggregation="linf",
            constrained=True,
            truncate=truncate,
            **options,
        )


class MuonAdamMomo(NonEuclidean):
    """MuonAdam with Momo truncation: ``eta_t = min(lr, (F - f_star)_+ / G)``.

    Parameters as `MuonMaxMomo`.

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, MuonAdam-Momo.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import MuonAdamMomo
    >>> model = torch.nn.Linear(3, 1)
    >>> opt = MuonAdamMomo(model, lr=1e-2)
    >>> loss = model(torch.ones(2, 3)).square().mean()
    >>> loss.backward()
    >>> _ = opt.step(loss=loss)
    """

    def __init__(
        self, params: ParamsLike, lr: float | Tensor = 1e-3, **options: Unpack[SpectralOptions]
    ) -> None:
        _refuse_fixed(self, options, "MuonAdam")
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="adam_inf",
            aggregation="linf",
            constrained=True,
            truncate=True,
            **options,
        )


class Scion(NonEuclidean):
    """Scion: the polar factor for matrices, the sign of the momentum for the rest.

    ``dW = -lr * ratio * polar(m_l)``, the others ``-lr * sign(m)``. Parameters as `MuonMaxMomo`
    (`beta2` and `eps` have no effect), and `truncate` (default False).

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; truncated, ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, Scion in the table of methods.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import Scion
    >>> b = torch.nn.Parameter(torch.zeros(2))
    >>> opt = Scion(([], [b]), lr=0.5)
    >>> b.grad = torch.tensor([3.0, -4.0])
    >>> _ = opt.step()
    >>> b.tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        truncate: bool = False,
        **options: Unpack[SpectralOptions],
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="spectral",
            other_norm="linf",
            aggregation="linf",
            constrained=True,
            truncate=truncate,
            **options,
        )


class SignGD(NonEuclidean):
    """Sign descent with momentum: every parameter moves by ``-lr * sign(m)``.

    Parameters
    ----------
    params : module, named parameters, parameters, groups, or ``(matrix_params, other_params)``
        All are treated alike; see `NonEuclidean`.
    lr : float or Tensor, default 1e-3
        Learning rate.
    truncate : bool, default False
        Momo truncation.
    **options
        ``f_star, lb0, beta, weight_decay, momentum_init, on_nonfinite, foreach, process_group``
        of `NonEuclidean`.

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; truncated, ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, sign descent in the table of methods.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import SignGD
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> opt = SignGD([w], lr=0.5)
    >>> w.grad = torch.tensor([3.0, -4.0])
    >>> _ = opt.step()
    >>> w.tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        truncate: bool = False,
        **options: Unpack[Options],
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="linf",
            other_norm="linf",
            aggregation="linf",
            constrained=True,
            truncate=truncate,
            **options,
        )


class Momo(NonEuclidean):
    """MoMo (Schaipp et al., ICML 2024): momentum SGD with the truncated step, Euclidean norm.

    ``dw = -min(lr, (F - f_star)_+ / ||m||^2) * m``. Parameters as `SignGD`, without `truncate`.

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; ``step()`` without a loss is a ValueError.

    References
    ----------
    arXiv:2510.09827, MoMo as a member of the family; MoMo itself: Schaipp et al., ICML 2024.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import Momo
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> opt = Momo([w], lr=1.0, weight_decay=0.0)
    >>> loss = w.square().sum() / 2
    >>> loss.backward()
    >>> _ = opt.step(loss=loss)
    >>> w.tolist()
    [1.5, 2.0]
    """

    def __init__(
        self, params: ParamsLike, lr: float | Tensor = 1e-3, **options: Unpack[Options]
    ) -> None:
        _refuse_fixed(self, options)
        super().__init__(
            params,
            lr,
            matrix_norm="l2",
            other_norm="l2",
            aggregation="l2",
            constrained=False,
            truncate=True,
            **options,
        )


class MomoAdam(NonEuclidean):
    """MoMo-Adam (Schaipp et al., ICML 2024): Adam with the truncated step.

    ``dw = -eta_t * m / (sqrt(v) + eps)``, ``eta_t = min(lr, (F - f_star)_+ / G^2)`` and
    ``G^2 = sum m^2 / (sqrt(v) + eps)``, where ``m``, ``v`` and ``F`` are bias-corrected. Parameters
    as `SignGD`, with `beta2` and `eps`, without `truncate`.

    The package ``momo-opt`` takes the same steps if nothing decays (its decay is proximal) and
    every parameter has a gradient at every step.

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As `NonEuclidean`; ``step()`` without a loss is a ValueError.

    References
    ----------
    MoMo-Adam: Schaipp et al., "MoMo: Momentum Models for Adaptive Learning Rates", ICML 2024,
    arXiv:2305.07583; a baseline of arXiv:2510.09827.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import MomoAdam
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> opt = MomoAdam([w], lr=0.1, weight_decay=0.0)
    >>> loss = w.square().sum() / 2
    >>> loss.backward()
    >>> _ = opt.step(loss=loss)
    >>> [round(entry, 4) for entry in w.tolist()]
    [2.9, 3.9]
    """

    def __init__(
        self, params: ParamsLike, lr: float | Tensor = 1e-3, **options: Unpack[AdamOptions]
    ) -> None:
        _refuse_fixed(self, options)
        options.setdefault("momentum_init", "corrected")
        super().__init__(
            params,
            lr,
            matrix_norm="adam_2",
            other_norm="adam_2",
            aggregation="l2",
            constrained=False,
            truncate=True,
            **options,
        )
