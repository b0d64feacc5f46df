"""Reed-Solomon codes over GF(4096) with Golay inside: good binary codes of any size."""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.sco.codes import Bits, LinearCode, qr_code, span_signs

ORDER = 4095  # of the multiplicative group
PRIMITIVE = 0b1_0000_0101_0011  # x^12 + x^6 + x^4 + x + 1
MOST_SYMBOLS = 2047
BLOCK = 64  # message symbols encoded together: the table of products stays in cache


class ReedSolomonGolay(LinearCode):
    """Outer [2K, K, K + 1] Reed-Solomon, inner [24, 12, 8] Golay; made by `rs_golay_code`."""

    def __init__(self, K: int) -> None:
        if not 1 <= K <= MOST_SYMBOLS:
            raise ValueError(f"K must lie in 1..{MOST_SYMBOLS}, got {K!r}")
        self.K = int(K)
        self.N, self.n = 12 * self.K, 48 * self.K
        # Two outer words differ in at least K + 1 symbols, and each of those in at least 8 bits.
        self._claim(8 * (self.K + 1), certified=True)

    @cached_property
    def _points(self) -> NDArray[np.int64]:
        return np.arange(2 * self.K)  # logarithms of the evaluation points

    @property
    def generator(self) -> Bits:
        """The matrix G, (N, n): 576 K^2 bytes, built anew at each call."""
        return np.array([self.encode(bit) for bit in np.eye(self.N, dtype=np.uint8)])

    def encode(self, message: ArrayLike) -> Bits:
        """Return the word, (n,) bits, of a message of N bits; zero symbols cost nothing."""
        log, exp = _logarithms()
        bits = self._checked(message).reshape(self.K, 12)
        symbols = bits @ (1 << np.arange(12))
        # The message is a polynomial's coefficients; the outer word its values at the points.
        values = np.zeros(2 * self.K, dtype=np.int64)
        degrees = symbols.nonzero()[0]
        for start in range(0, len(degrees), BLOCK):
            k = degrees[start : start + BLOCK, None]
            terms = exp[(log[symbols[k]] + k * self._points) % ORDER]
            values ^= np.bitwise_xor.reduce(terms, axis=0)
        return _golay_words()[values].ravel()


def rs_golay_code(K: int) -> LinearCode:
    """Return a code of N = 12 K bits and length 48 K whose distance is at least 8 (K + 1).

    Encoding evaluates the Reed-Solomon polynomial in the log domain, so that no generator is
    stored (a dense one has 2.4 GB at K = 2047).

    Parameters
    ----------
    K
        Message symbols of 12 bits, 1 to 2047. `delta` falls from 1/3 at K = 1 to 1/6.

    Raises
    ------
    ValueError
        If K is out of range.

    Examples
    --------
    >>> rs_golay_code(40)
    <[1920, 480, 328] code>
    """
    return ReedSolomonGolay(K)


@cache
def _logarithms() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    exp = np.empty(ORDER, dtype=np.int64)
    value = 1
    for i in range(ORDER):
        exp[i] = value
        value <<= 1
        if value >> 12:
            value ^= PRIMITIVE
    log = np.zeros(ORDER + 1, dtype=np.int64)
    log[exp] = np.arange(ORDER)
    return log, exp


@cache
def _golay_words() -> Bits:
    """Golay word of each of the 4096 symbols."""
    return (span_signs(qr_code(23).generator) < 0).astype(np.uint8)
