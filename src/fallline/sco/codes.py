"""Binary linear codes whose minimum distance is known, and the two that are verified here."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bits = NDArray[np.uint8]
Vector = NDArray[np.float64]

ENUMERABLE = 20

# Minimum distances of the extended quadratic-residue codes (MacWilliams and Sloane, "The Theory of
# Error-Correcting Codes", chapter 16); those of dimension up to 20 are also enumerated.
QR_DISTANCES = {7: 4, 17: 6, 23: 8, 31: 8, 47: 12, 79: 16, 103: 20}


class LinearCode:
    """A binary linear code: words `b G mod 2` of messages `b`.

    Parameters
    ----------
    G
        Generator, an (N, n) array of 0 and 1: rank N over GF(2), no column of zeros.
    dmin
        A number that no two words are closer than, in bits. It is enumerated for N <= 20; above
        that it is taken as claimed, and `certified` is false.

    Attributes
    ----------
    N, n : int
        Bits of a message and of a word.
    d_min : int
        The claimed minimum distance.
    delta : float
        `d_min / n`.
    certified : bool
        Whether `d_min` was proved: by enumeration or, for `qr_code` and `rs_golay_code`, by theory.

    Raises
    ------
    ValueError
        If G is not a binary matrix of full rank, has a zero column, or if two words are closer
        than `dmin`.

    Examples
    --------
    >>> code = LinearCode([[1, 1, 1, 0], [0, 1, 1, 1]], 2)
    >>> code.encode([1, 1]), code.delta, code.certified
    (array([1, 0, 0, 1], dtype=uint8), 0.5, True)
    """

    N: int
    n: int
    d_min: int
    delta: float
    certified: bool

    def __init__(self, G: ArrayLike, dmin: int) -> None:
        given = np.asarray(G)
        if given.ndim != 2 or 0 in given.shape or not np.isin(given, (0, 1)).all():
            raise ValueError(
                f"G must be an (N, n) array of 0 and 1, got shape {given.shape} "
                f"and dtype {given.dtype}"
            )
        self._generator: Bits = given.astype(np.uint8)
        self.N, self.n = given.shape
        rank = len(row_basis(self._generator))
        if rank < self.N:
            raise ValueError(
                f"G must have full rank over GF(2), got rank {rank} for {self.N} rows; "
                "drop the rows that are sums of others"
            )
        empty = np.flatnonzero(~self._generator.any(axis=0))
        if empty.size:
            raise ValueError(
                f"G must have no column of zeros, since its words must average to zero; "
                f"columns {empty.tolist()} are zero: drop them"
            )
        self._claim(dmin, certified=False)
        if self.N <= ENUMERABLE:
            true = minimum_distance(self._generator)
            if dmin > true:
                raise ValueError(f"dmin must be <= {true}, the code's minimum distance, got {dmin}")
            self.certified = True

    def _claim(self, dmin: int, *, certified: bool) -> None:
        if not 1 <= dmin <= self.n:
            raise ValueError(f"dmin must lie in 1..{self.n}, got {dmin!r}")
        self.d_min = int(dmin)
        self.delta = self.d_min / self.n
        self.certified = certified

    @property
    def generator(self) -> Bits:
        """The matrix G, (N, n)."""
        return self._generator

    def encode(self, message: ArrayLike) -> Bits:
        """Return the word, (n,) bits, of a message of N bits."""
        rows = self._generator[self._checked(message).nonzero()[0]]
        word: Bits = np.bitwise_xor.reduce(rows, axis=0)
        return word

    def _checked(self, message: ArrayLike) -> Bits:
        bits = np.asarray(message)
        if bits.shape != (self.N,) or not ((bits == 0) | (bits == 1)).all():
            raise ValueError(f"message must be {self.N} bits, 0 or 1, got {message!r}")
        return bits.astype(np.uint8)

    def __repr__(self) -> str:
        return f"<[{self.n}, {self.N}, {self.d_min}] code{'' if self.certified else ', claimed'}>"


def qr_code(p: int) -> LinearCode:
    """Return the extended quadratic-residue code of a prime: length p + 1, rate 1/2.

    Parameters
    ----------
    p
        One of 7, 17, 23, 31, 47, 79, 103, which give the codes [8, 4, 4], [18, 9, 6], [24, 12, 8]
        (Golay), [32, 16, 8], [48, 24, 12], [80, 40, 16] and [104, 52, 20].

    Raises
    ------
    ValueError
        If p is another number.

    Examples
    --------
    >>> qr_code(23)
    <[24, 12, 8] code>
    """
    if p not in QR_DISTANCES:
        raise ValueError(f"p must be one of {', '.join(map(str, QR_DISTANCES))}, got {p!r}")
    residues = np.unique(np.arange(1, p) ** 2 % p)
    others = np.setdiff1d(np.arange(1, p), residues)
    for support in (residues, others, np.append(residues, 0), np.append(others, 0)):
        circulant = np.zeros((p, p), dtype=np.uint8)
        for shift in range(p):
            circulant[shift, (support + shift) % p] = 1
        basis = row_basis(circulant)
        if len(basis) == (p + 1) // 2:  # the code itself, not its even-weight or its dual cousin
            break
    parity = basis.sum(axis=1, dtype=np.uint8)[:, None] % 2
    code = LinearCode(np.hstack([basis, parity]), QR_DISTANCES[p])
    code.certified = True
    return code


def row_basis(G: Bits) -> Bits:
    """Return a reduced basis, over GF(2), of the rows' span."""
    rows = G.copy()
    rank = 0
    for column in range(rows.shape[1]):
        pivots = np.flatnonzero(rows[rank:, column])
        if not pivots.size:
            continue
        rows[[rank, rank + pivots[0]]] = rows[[rank + pivots[0], rank]]
        hit = rows[:, column].astype(bool)
        hit[rank] = False
        rows[hit] ^= rows[rank]
        rank += 1
        if rank == len(rows):
            break
    return rows[:rank]


def span_signs(G: Bits) -> Vector:
    """Return `1 - 2 (b G mod 2)` for all 2^N messages b in binary order, b_0 the highest bit."""
    signs = np.ones((1, G.shape[1]))
    for row in G[::-1]:
        signs = np.concatenate([signs, signs * (1.0 - 2.0 * row)])
    return signs


def minimum_distance(G: Bits) -> int:
    """Enumerate the smallest weight of a word other than zero."""
    # The signs of a sum of words are the product of theirs, so that all words times the vector of
    # ones, n - 2 weight each, are one matrix product of two half-size lists.
    half = len(G) // 2
    balance = span_signs(G[:half]) @ span_signs(G[half:]).T
    n: int = G.shape[1]
    second = float(np.partition(balance.ravel(), -2)[-2])  # the first is the zero word's, n
    return round((n - second) / 2)
