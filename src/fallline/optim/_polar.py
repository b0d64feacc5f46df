"""The orthogonal polar factor of a matrix, by matrix products only (arXiv:2510.09827)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor

from fallline.optim._checks import choice, positive_int

PolarMethod = Literal["polar_express", "newton_schulz", "svd"]
PolarDtype = torch.dtype | Literal["auto"]
Safety = Literal["every_step", "all_but_last"]
Row = tuple[float, float, float]

POLAR_EXPRESS: tuple[Row, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115952949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)
NEWTON_SCHULZ: Row = (3.4445, -4.7750, 2.0315)
SAFETY = 1.01  # rounding must not push a singular value out of the basin of convergence

# Measured with AMX: below this side the call overhead of a bfloat16 product exceeds its gain.
_AMX_MIN_SIDE = 128
# On the m x m Gram matrix a step costs 8 m^3 flops, on the m x n matrix 4 m^2 n + 2 m^3.
_GRAM_MIN_ASPECT = 2


def polar(
    m: Tensor,
    *,
    method: PolarMethod = "polar_express",
    steps: int = 5,
    dtype: PolarDtype = "auto",
    safety: Safety = "every_step",
) -> Tensor:
    """Orthogonal polar factor ``U @ Vh`` of the thin SVD ``m = U @ diag(S) @ Vh``.

    It is the maximiser of ``<m, z>`` over ``||z||_op <= 1``, the step direction of every
    method of the Muon family; ``(m * polar(m)).sum()`` is the nuclear norm of `m`.

    Parameters
    ----------
    m : Tensor, shape (..., rows, columns)
        Real matrices. Zero and rank-deficient matrices are fine: their null directions stay 0.
    method : {"polar_express", "newton_schulz", "svd"}, default "polar_express"
        Polar Express (Amsel et al. 2025), Newton-Schulz with Jordan's coefficients (singular
        values end in about [0.7, 1.2]), or the exact SVD, which drops the singular vectors with
        ``sigma <= 1e-7 * sigma_max``.
    steps : int, default 5
        Iterations; ignored by ``"svd"``.
    dtype : torch.dtype or "auto", default "auto"
        What the iteration computes in. ``"auto"``: float64 for float64 input; bfloat16 on GPUs
        and, from 128 rows and columns on, on CPUs with AMX; float32 otherwise.
    safety : {"every_step", "all_but_last"}, default "every_step"
        Polar Express divides each polynomial by 1.01, which leaves singular values at 0.990;
        ``"all_but_last"`` leaves the last one whole, for accuracy.

    Returns
    -------
    Tensor
        Same shape, dtype and device as `m`.

    Raises
    ------
    ValueError
        If `m` has fewer than two dimensions, or an option is not in its range.
    TypeError
        If `m` is not a real floating-point tensor.

    References
    ----------
    arXiv:2510.09827 (Polar Express as the default of the Muon variants).

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import polar
    >>> polar(torch.diag(torch.tensor([3.0, 4.0])), method="svd")
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not m.is_floating_point():
        raise TypeError(f"m must be a real floating-point tensor, got {m.dtype}")
    if m.ndim < 2:
        raise ValueError(f"m must have at least 2 dimensions, got shape {tuple(m.shape)}")
    choice("method", method, get_args(PolarMethod))
    choice("safety", safety, get_args(Safety))
    positive_int("steps", steps)
    if m.numel() == 0:
        return torch.zeros_like(m)
    if method == "svd":
        return _exact(m)
    rows, columns = m.shape[-2:]
    X = _normalised(m, method, working_dtype(m, dtype))
    if rows > columns:
        X = X.mT
    if X.ndim > 3:
        X = X.flatten(0, -3)
    X = _iterate(X, _coefficients(method, steps, safety))
    if rows > columns:
        X = X.mT
    return X.to(m.dtype, memory_format=torch.contiguous_format).view(m.shape)


def polar_each(
    matrices: Sequence[Tensor], *, method: PolarMethod, steps: int, dtype: PolarDtype
) -> list[Tensor]:
    """`polar` of each 2-D matrix; equal shapes share one batched product where that is faster.

    It is for bfloat16 matrix units (many small products leave them waiting), and it is not for
    float32 on a CPU, where one product after another stays in cache.
    """
    result: list[Tensor | None] = [None] * len(matrices)
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, m in enumerate(matrices):
        alike[(m.shape, m.dtype, m.device)].append(i)
    for indices in alike.values():
        first = matrices[indices[0]]
        batch = method != "svd" and working_dtype(first, dtype) == torch.bfloat16
        if batch and len(indices) > 1:
            stacked = torch.stack([matrices[i] for i in indices])
            factors = polar(stacked, method=method, steps=steps, dtype=dtype).unbind()
        else:
            factors = tuple(
                polar(matrices[i], method=method, steps=steps, dtype=dtype) for i in indices
            )
        for i, factor in zip(indices, factors):
            result[i] = factor
    return [factor for factor in result if factor is not None]


def working_dtype(m: Tensor, dtype: PolarDtype) -> torch.dtype:
    """Resolve ``dtype="auto"`` for the matrices of `m`."""
    if dtype != "auto":
        return dtype
    if m.dtype == torch.float64:
        return torch.float64
    if m.device.type == "cpu":
        fast = min(m.shape[-2:]) >= _AMX_MIN_SIDE and _cpu_has_bf16_matrix_unit()
        return torch.bfloat16 if fast else torch.float32
    return torch.bfloat16 if m.device.type == "cuda" else torch.float32


@cache
def _cpu_has_bf16_matrix_unit() -> bool:
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16", False))


def _coefficients(method: PolarMethod, steps: int, safety: Safety) -> list[Row]:
    if method == "newton_schulz":
        return [NEWTON_SCHULZ] * steps
    last = len(POLAR_EXPRESS) - 1
    rows = [POLAR_EXPRESS[min(i, last)] for i in range(steps)]
    whole = steps - 1 if safety == "all_but_last" else steps
    return [
        (a / SAFETY, b / SAFETY, c / SAFETY) if i < whole else (a, b, c)
        for i, (a, b, c) in enumerate(rows)
    ]


def _normalised(m: Tensor, method: PolarMethod, dtype: torch.dtype) -> Tensor:
    precise = torch.float64 if m.dtype == torch.float64 else torch.float32
    norm: Tensor = torch.linalg.vector_norm(m, dim=(-2, -1), keepdim=True, dtype=precise)
    if method == "newton_schulz":
        return (m / (norm + 1e-7)).to(dtype)
    # Below this the squares underflow and the norm is noise: such a matrix counts as zero.
    floor = 100 * torch.finfo(precise).tiny ** 0.5
    return (m / (SAFETY * norm).clamp_min(floor)).to(dtype)


def _iterate(X: Tensor, rows: list[Row]) -> Tensor:
    """Odd polynomials ``X <- a X + (b A + c A^2) X``, ``A = X X^T``, on wide matrices."""
    m, n = X.shape[-2:]
    if n >= _GRAM_MIN_ASPECT * m:
        if X.dtype in (torch.float32, torch.float64):
            return _iterate_gram(X, rows)
        # In half precision R drifts away from X X^T: build it anew after two steps.
        X = _iterate_gram(X, rows[:2])
        return _iterate_gram(X, rows[2:]) if rows[2:] else X
    fma = _fused(X)
    for a, b, c in rows:
        A = X @ X.mT
        B = fma(A, A, A, beta=b, alpha=c)
        X = fma(X, B, X, beta=a)
    return X


def _iterate_gram(X: Tensor, rows: list[Row]) -> Tensor:
    """Apply the same polynomials through ``R = X X^T``.

    ``Q <- P Q``, ``R <- P R P``, result ``Q X``, with ``P = a I + B``, ``B = b R + c R^2``. ``P``
    is never formed: the products with ``a I`` are exact in the fused form.
    """
    fma = _fused(X)
    R = X @ X.mT
    Q: Tensor | None = None
    for i, (a, b, c) in enumerate(rows):
        B = fma(R, R, R, beta=b, alpha=c)
        if i < len(rows) - 1:
            RP = fma(R, R, B, beta=a)
            R = fma(RP, B, RP, beta=a)
        if Q is None:
            Q = B
            Q.diagonal(dim1=-2, dim2=-1).add_(a)
        else:
            Q = fma(Q, B, Q, beta=a)
    return X if Q is None else Q @ X


def _fused(X: Tensor) -> Callable[..., Tensor]:
    """``fma(C, A, B, beta=, alpha=)`` is ``beta C + alpha A @ B``, of matrices or of batches."""
    return torch.addmm if X.ndim == 2 else torch.baddbmm


def _exact(m: Tensor) -> Tensor:
    precise = m if m.dtype in (torch.float32, torch.float64) else m.float()
    U, S, Vh = torch.linalg.svd(precise, full_matrices=False)
    # A null direction has no sign: dropping it keeps <m, u> the nuclear norm and ||u||_op <= 1.
    keep = 1e-7 * S[..., :1] < S
    factor: Tensor = (U * keep.unsqueeze(-2)) @ Vh
    return factor.to(m.dtype)
