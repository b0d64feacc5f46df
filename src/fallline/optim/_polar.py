"""The orthogonal polar factor of a matrix, by matrix products only (arXiv:2510.09827)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor

from fallline.optim._checks import auto_or_floating, choice, positive_int
from fallline.optim._inner import dot

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
# Measured: the Gram matrices of a batch must share the second-level cache, and buffers above a few
# MiB are returned to the system and paged in anew at every step.
_CPU_BATCH_VALUES = 2**17
_ALL = 2**30
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
    auto_or_floating("dtype", dtype)
    if m.numel() == 0:
        return torch.zeros_like(m)
    if method == "svd":
        return _exact(m)
    batch = m if m.ndim < 4 else m.flatten(0, -3)
    X = _normalised(batch, method, working_dtype(m, dtype))
    u = _factor(X, _coefficients(method, steps, safety))
    return u.to(m.dtype).view(m.shape)


def polar_each(
    matrices: Sequence[Tensor],
    *,
    method: PolarMethod,
    steps: int,
    dtype: PolarDtype,
    nuclear: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """`polar` of each 2-D matrix in the dtype of the iteration; with `nuclear`, ``<m, polar(m)>``.

    On a GPU and in bfloat16 equal shapes share batched products: matrix units wait for single small
    ones. In float32 on a CPU one matrix after another is faster, because it stays in cache. The
    nuclear norms are taken here for the same reason.
    """
    rows = _coefficients(method, steps, "every_step")
    factors: dict[int, Tensor] = {}
    norms: dict[int, Tensor] = {}
    for chunk in _chunks(matrices, method, dtype):
        some = [matrices[i] for i in chunk]
        for i, m, u in zip(chunk, some, _chunk_factors(some, method, rows, dtype)):
            factors[i] = u
            if nuclear:
                norms[i] = dot(m, u)
    order = range(len(matrices))
    return [factors[i] for i in order], [norms[i] for i in order if nuclear]


def _chunk_factors(
    matrices: list[Tensor], method: PolarMethod, rows: list[Row], dtype: PolarDtype
) -> Sequence[Tensor]:
    first = matrices[0]
    if first.numel() == 0:
        return [torch.zeros_like(first)]
    if method == "svd":
        return [_exact(first)]
    working = working_dtype(first, dtype)
    alone = len(matrices) == 1  # as a batch of one, X @ X.mT would miss the fast kernel
    if working == torch.bfloat16:
        X = _normalised_batch(matrices, method)
        X = X[0] if alone else X
    else:
        X = _normalised(first if alone else torch.stack(matrices), method, working)
    u = _factor(X, rows)
    return [u] if alone else u.unbind()


def _chunks(
    matrices: Sequence[Tensor], method: PolarMethod, dtype: PolarDtype
) -> Iterator[list[int]]:
    """Yield the indices of the matrices that go through one product together."""
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, m in enumerate(matrices):
        batched = m.device.type != "cpu" or working_dtype(m, dtype) == torch.bfloat16
        if m.numel() and method != "svd" and batched:
            alike[(m.shape, m.dtype, m.device)].append(i)
        else:
            yield [i]
    for indices in alike.values():
        size = _batch_size(matrices[indices[0]])
        for start in range(0, len(indices), size):
            yield indices[start : start + size]


def _batch_size(m: Tensor) -> int:
    """How many matrices like `m` go through one product: on a CPU what its cache holds."""
    if m.device.type != "cpu":
        return _ALL
    return max(1, _CPU_BATCH_VALUES // min(m.shape) ** 2)


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


def _factor(X: Tensor, rows: list[Row]) -> Tensor:
    """Iterate on the wide orientation of normalised matrices; contiguous in their own."""
    tall = X.shape[-2] > X.shape[-1]
    u = _iterate(X.mT if tall else X, rows)
    return (u.mT if tall else u).contiguous()


def _normalised(m: Tensor, method: PolarMethod, dtype: torch.dtype) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(m, dim=(-2, -1), keepdim=True, dtype=_precise(m))
    return (m / _divisor(norm, method)).to(dtype)


def _precise(m: Tensor) -> torch.dtype:
    return torch.float64 if m.dtype == torch.float64 else torch.float32


def _normalised_batch(matrices: list[Tensor], method: PolarMethod) -> Tensor:
    """`_normalised` into one bfloat16 batch, without a copy in the dtype of the matrices."""
    X = matrices[0].new_empty((len(matrices), *matrices[0].shape), dtype=torch.bfloat16)
    parts = list(X.unbind())
    norms = torch._foreach_norm(matrices, 2, _precise(matrices[0]))
    torch._foreach_copy_(parts, matrices)
    torch._foreach_div_(parts, [_divisor(norm, method) for norm in norms])
    return X


def _divisor(norm: Tensor, method: PolarMethod) -> Tensor:
    if method == "newton_schulz":
        return norm + 1e-7
    # Below this the squares underflow and the norm is noise: such a matrix counts as zero.
    return (SAFETY * norm).clamp_min(100 * torch.finfo(norm.dtype).tiny ** 0.5)


def _iterate(X: Tensor, rows: list[Row]) -> Tensor:
    """Odd polynomials ``X <- a X + (b A + c A^2) X``, ``A = X X^T``, on wide matrices."""
    m, n = X.shape[-2:]
    if n >= _GRAM_MIN_ASPECT * m:
        for run in _gram_runs(rows, X.dtype):
            X = _iterate_gram(X, run)
        return X
    fma = _fused(X)
    for a, b, c in rows:
        A = X @ X.mT
        B = fma(A, A, A, beta=b, alpha=c)
        X = fma(X, B, X, beta=a)
    return X


def _iterate_gram(X: Tensor, rows: list[Row]) -> Tensor:
    """Apply the same polynomials through ``R = X X^T``.

    ``Q <- P Q``, ``R <- P R P``, result ``Q X``, with ``P = a I + B``, ``B = b R + c R^2``. ``P``
    is never formed: ``a`` is large beside what remains of it in the direction of a large singular
    value, and in bfloat16 the difference of a rank-one matrix would be wrong by a sixth.
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


def _gram_runs(rows: list[Row], dtype: torch.dtype) -> list[list[Row]]:
    """Cut `rows` where ``R`` must be built anew from ``X``.

    Rounding gives ``R`` eigenvalues of about ``-eps`` in the null directions of ``X``. An update
    of ``R`` multiplies them by ``a^2``, and a negative one of order 1 diverges: the polar factor
    of a rank-deficient momentum would explode. Five Polar Express steps are one run in float32,
    2 + 3 in bfloat16.
    """
    runs: list[list[Row]] = [[]]
    roundoff = torch.finfo(dtype).eps / 2
    growth = roundoff
    for row in rows:
        if growth > 1:
            runs.append([])
            growth = roundoff
        runs[-1].append(row)
        growth *= row[0] ** 2
    return runs


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
