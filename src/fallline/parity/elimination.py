"""The exact peer without noise: Gaussian elimination over GF(2), 64 columns at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class GF2Solution:
    """A subset whose parity explains every label; made by `solve_gf2`.

    `support` is boolean, (N,) or (N, P); it is the only solution if `rank` is N, else bits that
    nothing decides are left out.
    """

    support: NDArray[np.bool_]
    rank: int

    @property
    def unique(self) -> bool:
        """Whether no other subset explains the labels."""
        return self.rank == len(self.support)


def solve_gf2(X: Any, y: ArrayLike) -> GF2Solution:
    """Solve X w = y over GF(2), with X bit-packed: about n N^2 / 64 word operations.

    Where labels are exact and data dense this is the right tool, up to some ten thousand bits.
    One flipped label leaves it without a solution.

    Parameters
    ----------
    X
        Bits (n, N), dense or sparse.
    y
        Labels 0 and 1, (n,) or (n, P).

    Raises
    ------
    ValueError
        If no subset explains the labels, or the shapes do not match.

    Examples
    --------
    >>> solution = solve_gf2([[1, 1, 0], [0, 1, 1], [0, 0, 1]], [1, 1, 0])
    >>> solution.support.tolist(), solution.unique
    ([False, True, False], True)
    """
    bits = (X.toarray() if issparse(X) else np.asarray(X)) != 0
    labels = np.asarray(y) != 0
    if bits.ndim != 2 or labels.ndim not in (1, 2) or len(labels) != len(bits):
        raise ValueError(
            f"X must be (n, N) and y (n,) or (n, P), got shapes {bits.shape} and {labels.shape}"
        )
    N = bits.shape[1]
    columns = labels.reshape(len(labels), -1)
    # The labels start a word of their own.
    A, B = _packed(bits), _packed(columns)
    words = A.shape[1]
    rows = np.ascontiguousarray(np.hstack([A, B]))
    pivots = np.full(N, -1, np.int64)
    rank = int(_echelon(rows, N, pivots))
    if rows[rank:, words:].any():
        raise ValueError(
            "no subset explains these labels: some are flipped, and elimination needs them all "
            "exact; ParityClassifier or count_parity take noisy ones"
        )
    solution = _substitute(rows, N, words, columns.shape[1], pivots)
    return GF2Solution(solution.reshape(N, *labels.shape[1:]) != 0, rank)


def _packed(bits: NDArray[np.bool_]) -> Words:
    octets = np.packbits(bits, axis=1, bitorder="little")
    octets = np.pad(octets, ((0, 0), (0, -octets.shape[1] % 8)))
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64)


@njit(cache=True)
def _echelon(rows: Words, N: int, pivots: NDArray[np.int64]) -> int:
    """Bring the first N columns to row echelon form; return the rank."""
    rank = 0
    for column in range(N):
        word, bit = column >> 6, uint64(1) << uint64(column & 63)
        pivot = -1
        for i in range(rank, len(rows)):
            if rows[i, word] & bit:
                pivot = i
                break
        if pivot < 0:
            continue
        if pivot != rank:
            for k in range(word, rows.shape[1]):
                rows[pivot, k], rows[rank, k] = rows[rank, k], rows[pivot, k]
        for i in range(pivot + 1, len(rows)):
            if rows[i, word] & bit:
                for k in range(word, rows.shape[1]):
                    rows[i, k] ^= rows[rank, k]
        pivots[column] = rank
        rank += 1
    return rank


@njit(cache=True)
def _substitute(
    rows: Words, N: int, words: int, P: int, pivots: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Read the solution from the echelon form, last column first."""
    solution = np.zeros((N, P), np.uint8)
    x = np.zeros(words, np.uint64)
    for p in range(P):
        x[:] = uint64(0)
        for column in range(N - 1, -1, -1):
            i = pivots[column]
            if i < 0:
                continue
            folded = uint64(0)
            for k in range(column >> 6, words):
                folded ^= rows[i, k] & x[k]
            for shift in (32, 16, 8, 4, 2, 1):
                folded ^= folded >> uint64(shift)
            value = (folded ^ (rows[i, words + (p >> 6)] >> uint64(p & 63))) & uint64(1)
            x[column >> 6] |= value << uint64(column & 63)
            solution[column, p] = value
    return solution
