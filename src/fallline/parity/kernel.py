"""Compiled loops over active bits: sample, label, gather, scan, scatter.

Arrays are `indptr` (M + 1,) and `indices` (active bits,) as in CSR, weights `w` (N, P), targets
(N, P) of 0 and 1, and signs (M, P) of +1 and -1: Pi* = 1 - 2 y*.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int32, int64, njit, types, uint8
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bits = NDArray[np.uint8]
Index = NDArray[np.int32]

_rng = types.npy_rng
_index, _order = int32[::1], int64[::1]
_w, _bits = float64[:, ::1], uint8[:, ::1]


# Signatures make numba compile, or load from its disk cache, when this module is imported: a
# process server that has imported it hands every cell the machine code.
@njit(int32[::1](_rng, int64, int64, float64, _index, _index), cache=True)
def sample_bits(
    rng: np.random.Generator, N: int, M: int, p_e: float, indptr: Index, indices: Index
) -> Index:
    """Draw an M x N Bernoulli(p_e) matrix by the gaps between its ones; fill `indptr`.

    Returns `indices`, or a longer copy where it was too short.
    """
    # floor(E / -log(1 - p)) with E exponential is geometric; p = 1 leaves no gap.
    rate = math.inf if p_e == 1.0 else -math.log1p(-p_e)
    left = float(N) * float(M)
    column, row, count = -1, 0, 0
    indptr[0] = 0
    while True:
        gap = rng.standard_exponential() / rate
        if gap >= left:
            break
        skipped = int(gap)
        left -= skipped + 1
        column += skipped + 1
        while column >= N:
            column -= N
            row += 1
            indptr[row] = count
        if count == len(indices):
            longer = np.empty(2 * count + 64, np.int32)
            longer[:count] = indices
            indices = longer
        indices[count] = column
        count += 1
    for m in range(row + 1, M + 1):
        indptr[m] = count
    return indices


@njit((_bits, _index, _index, _w), cache=True)
def label(target: Bits, indptr: Index, indices: Index, signs: Floats) -> None:
    """Fill `signs` with the parities of the target's bits."""
    for m in range(len(indptr) - 1):
        signs[m] = 1.0
        for t in range(indptr[m], indptr[m + 1]):
            chosen = target[indices[t]]
            for p in range(len(chosen)):
                signs[m, p] *= 1.0 - 2.0 * chosen[p]


@njit((_rng, float64, _w), cache=True)
def flip(rng: np.random.Generator, noise: float, signs: Floats) -> None:
    """Flip each label with probability `noise`."""
    for m in range(signs.shape[0]):
        for p in range(signs.shape[1]):
            if rng.random() < noise:
                signs[m, p] = -signs[m, p]


@njit((_w, _index, _index, _w, _order, float64, _w), cache=True)
def contributions(
    w: Floats,
    indptr: Index,
    indices: Index,
    signs: Floats,
    rows: NDArray[np.int64],
    r: float,
    g: Floats,
) -> None:
    """Fill `g` with what each active bit of these rows adds to its weight, r = alpha / M.

    -dl/dw_j = e prod_{i != j} a_i with a_i = 1 - 2 w_i and e = Pi - Pi*: the product without j is
    that before it times that after it, since a division by a_j fails at w_j = 1/2.
    """
    P = w.shape[1]
    scan = np.empty(P)
    at = 0
    for m in rows:
        first, last = indptr[m], indptr[m + 1]
        for p in range(P):
            scan[p] = 1.0
        for t in range(first, last):
            for p in range(P):
                g[at, p] = scan[p]
                scan[p] *= 1.0 - 2.0 * w[indices[t], p]
            at += 1
        for p in range(P):
            scan[p] = r * (scan[p] - signs[m, p])
        back = at
        for t in range(last - 1, first - 1, -1):
            back -= 1
            for p in range(P):
                g[back, p] *= scan[p]
                scan[p] *= 1.0 - 2.0 * w[indices[t], p]


@njit((_w, _index, _index, _w, _order, int64, float64), cache=True)
def pass_over(
    w: Floats,
    indptr: Index,
    indices: Index,
    signs: Floats,
    order: NDArray[np.int64],
    M: int,
    r: float,
) -> None:
    """Take one step per M rows of `order`, in place; a last short batch keeps r = alpha / M."""
    g = np.empty((64, w.shape[1]))
    for start in range(0, len(order), M):
        rows = order[start : start + M]
        active = 0
        for m in rows:
            active += indptr[m + 1] - indptr[m]
        if active > len(g):
            g = np.empty((2 * active, w.shape[1]))
        contributions(w, indptr, indices, signs, rows, r, g)
        at = 0
        for m in rows:
            for t in range(indptr[m], indptr[m + 1]):
                for p in range(w.shape[1]):
                    w[indices[t], p] += g[at, p]
                at += 1


@njit((_w, _index, _index, _w), cache=True)
def nodes(w: Floats, indptr: Index, indices: Index, Pi: Floats) -> None:
    """Fill `Pi` (M, P) with the products of each row."""
    for m in range(len(indptr) - 1):
        for p in range(w.shape[1]):
            Pi[m, p] = 1.0
        for t in range(indptr[m], indptr[m + 1]):
            for p in range(w.shape[1]):
                Pi[m, p] *= 1.0 - 2.0 * w[indices[t], p]


@njit((_w, _bits, _index, int64, _w, float64[::1]), cache=True)
def scatter_and_measure(
    w: Floats, target: Bits, indices: Index, count: int, g: Floats, distance: Floats
) -> None:
    """Add the contributions, and to `distance` (P,) the change of sum_i |w_i - w*_i|."""
    for at in range(count):
        i = indices[at]
        for p in range(w.shape[1]):
            old = w[i, p] - target[i, p]
            new = old + g[at, p]
            w[i, p] += g[at, p]
            distance[p] += abs(new) - abs(old)


@njit(
    int64(_rng, _w, _bits, float64[::1], float64[::1], int64, float64, float64, boolean, int64,
          float64[::1], _order),
    cache=True,
)  # fmt: skip
def train(
    rng: np.random.Generator,
    w: Floats,
    target: Bits,
    p_e: Floats,
    alpha: Floats,
    M: int,
    noise: float,
    tol: float,
    each: bool,
    step: int,
    distance: Floats,
    hits: NDArray[np.int64],
) -> int:
    """Take len(alpha) minibatch steps on fresh samples, in place; return how many were taken.

    Stops when the mean distance falls below `tol`, or when each output's has (`each`), or when a
    distance is no longer finite. `distance` (P,) holds sum_i |w_i - w*_i|; `hits` (P,) the step
    count, from `step` on, at which an output's mean first fell below `tol`, else -1.
    """
    N, P = w.shape
    indptr = np.empty(M + 1, np.int32)
    indices = np.empty(64, np.int32)
    g = np.empty((0, P))
    signs = np.empty((M, P))
    rows = np.arange(M)
    for k in range(len(alpha)):
        indices = sample_bits(rng, N, M, p_e[k], indptr, indices)
        label(target, indptr, indices, signs)
        if noise > 0:
            flip(rng, noise, signs)
        if len(g) < len(indices):
            g = np.empty((len(indices), P))
        contributions(w, indptr, indices, signs, rows, alpha[k] / M, g)
        scatter_and_measure(w, target, indices, indptr[M], g, distance)
        total, waiting = 0.0, 0
        for p in range(P):
            if hits[p] < 0:
                if distance[p] < tol * N:
                    hits[p] = step + k + 1
                else:
                    waiting += 1
            total += distance[p]
        done = waiting == 0 if each else total < tol * N * P
        if done or not math.isfinite(total):
            return k + 1
    return len(alpha)
