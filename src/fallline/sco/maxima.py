"""The two maxima over all 2^N messages: enumerated, or decoded with a proof that they are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fallline.sco.codes import ENUMERABLE, LinearCode, Vector, span_signs


class CertificateError(RuntimeError):
    """A maximum over messages that the decoder found but cannot prove to be the maximum."""


@dataclass(frozen=True)
class Maxima:
    """Where the maxima of the coupling and the Feldman term are attained.

    s, w
        Maximizing message (N,) in +-1 and its word (n,); zeros at the origin, where all tie.
    coupling
        <s, y> - gamma <w, u>.
    words, heights
        The words whose <w, u> exceeds rho0 for some z, (k, n), and those numbers, (k,).
    word_of
        Row of `words` that charges z, (N,); -1 where no word does.
    """

    s: Vector
    w: Vector
    coupling: float
    words: Vector
    heights: Vector
    word_of: NDArray[np.intp]


class Certified:
    """Decodes the message from sign(y) and checks the two inequalities that make it the maximum.

    The word is kept between calls and re-encoded only where signs change.
    """

    def __init__(self, code: LinearCode, gamma: float, rho0: float) -> None:
        self.code, self.gamma, self.rho0 = code, gamma, rho0
        self.bits = np.zeros(code.N, dtype=np.uint8)
        self.s = np.full(code.N, -1.0)
        self.word = np.zeros(code.n, dtype=np.uint8)
        self.w = np.full(code.n, 1 / math.sqrt(code.n))
        self.uncharged = np.full(code.N, -1)
        self.no_words, self.no_heights = np.empty((0, code.n)), np.empty(0)

    @property
    def decoder(self) -> Certified:
        """Itself: the part of an oracle that decodes."""
        return self

    def __call__(self, y: Vector, u: Vector) -> Maxima:
        """Return the maxima, or raise `CertificateError` naming the inequality that fails."""
        sy = self.s * y
        low = sy.min()
        if low <= 0:
            self._decode(y)
            sy = self.s * y
            low = sy.min()
        rho, norm = float(self.w @ u), math.sqrt(u @ u)
        if norm == 0 and not y.any():
            zero = np.zeros_like(y), np.zeros_like(u), 0.0
            return Maxima(*zero, self.no_words, self.no_heights, self.uncharged)
        # A message that differs from sign(y) at j loses at least 2 |y_j| and gains at most
        # gamma (<w_s, u> - <w', u>) <= gamma (rho + |u|).
        if 2 * low < self.gamma * (rho + norm):
            raise CertificateError(
                "coupling term: 2 min|y_j| >= gamma (rho + |u|) does not hold, "
                f"{2 * low:.6g} < {self.gamma * (rho + norm):.6g}: "
                "sign(y) may not be the maximizing message"
            )
        coupling = float(sy.sum()) - self.gamma * rho
        if norm <= self.rho0:
            return Maxima(self.s, self.w, coupling, self.no_words, self.no_heights, self.uncharged)
        # <w', w_s> <= 1 - 2 delta bounds <w', u> only if rho >= 0: w' = -w_s may be a word.
        across = math.sqrt(max(norm**2 - rho**2, 0.0))
        others = rho * (1 - 2 * self.code.delta) + across if rho >= 0 else norm
        if others > self.rho0:
            raise CertificateError(
                "Feldman term: max over other words of <w, u> <= rho0 cannot be shown, "
                f"bound {others:.6g} > {self.rho0:.6g} (|u| = {norm:.6g}, rho = {rho:.6g})"
            )
        if rho <= self.rho0:
            return Maxima(self.s, self.w, coupling, self.no_words, self.no_heights, self.uncharged)
        word_of = np.where(self.s < 0, 0, -1)
        return Maxima(self.s, self.w, coupling, self.w[None], np.array([rho]), word_of)

    def _decode(self, y: Vector) -> None:
        bits = (y > 0).astype(np.uint8)
        # New arrays: what was handed out before must keep its value.
        self.word = self.word ^ self.code.encode(bits ^ self.bits)
        self.bits = bits
        self.s = 2.0 * bits - 1.0
        self.w = (1.0 - 2.0 * self.word) / math.sqrt(self.code.n)


class Enumerated:
    """Takes the maxima over all messages, N <= 20.

    Words of sums of messages are products of signs, so that <w_s, u> for all s is one product of
    two lists of 2^(N/2) words.
    """

    decoder = None

    def __init__(self, code: LinearCode, gamma: float, rho0: float) -> None:
        check_enumerable(code.N, ENUMERABLE)
        self.code, self.gamma, self.rho0 = code, gamma, rho0
        half = code.N // 2
        self.messages = [-span_signs(np.eye(k, dtype=np.uint8)) for k in (half, code.N - half)]
        self.signs = [span_signs(code.generator[:half]), span_signs(code.generator[half:])]

    def __call__(self, y: Vector, u: Vector) -> Maxima:
        """Return the maxima; among ties, the first message."""
        first, second = self.signs
        half = self.messages[0].shape[1]
        heights = (first * (u / math.sqrt(self.code.n))) @ second.T
        total = (self.messages[0] @ y[:half])[:, None] + self.messages[1] @ y[half:]
        total -= self.gamma * heights
        top = int(total.argmax())
        if not y.any() and not u.any():
            s, w = np.zeros_like(y), np.zeros_like(u)
        else:
            s, w = self._message(top), self._word(top)
        return Maxima(s, w, float(total.flat[top]), *self._charging(heights.ravel()))

    def _charging(self, heights: Vector) -> tuple[Vector, Vector, NDArray[np.intp]]:
        """For each z, the highest word above rho0 among messages with s_z = -1."""
        above = np.flatnonzero(heights > self.rho0)
        above = above[np.argsort(-heights[above], kind="stable")]
        word_of = np.full(self.code.N, -1)
        chosen: list[int] = []
        for index in above.tolist():
            charges = (self._message(index) < 0) & (word_of < 0)
            if charges.any():
                word_of[charges] = len(chosen)
                chosen.append(index)
            if (word_of >= 0).all():
                break
        words = np.array([self._word(i) for i in chosen]).reshape(-1, self.code.n)
        return words, heights[chosen], word_of

    def _message(self, index: int) -> Vector:
        high, low = divmod(index, len(self.signs[1]))
        return np.concatenate([self.messages[0][high], self.messages[1][low]])

    def _word(self, index: int) -> Vector:
        high, low = divmod(index, len(self.signs[1]))
        signs: Vector = self.signs[0][high] * self.signs[1][low]
        return signs / math.sqrt(self.code.n)


def check_enumerable(N: int, limit: int) -> None:
    """Refuse to list 2^N messages where that cannot end well."""
    if limit < N:
        raise ValueError(
            f"enumeration lists 2^N messages and is limited to N <= {limit}, got N = {N}; "
            'use the certified oracle (oracle="certified") or a smaller code'
        )


class Auto:
    """The certified oracle, and the enumerated one where a certificate fails and N allows it."""

    def __init__(self, code: LinearCode, gamma: float, rho0: float) -> None:
        self.decoder = Certified(code, gamma, rho0)
        self.enumerated: Enumerated | None = None

    def __call__(self, y: Vector, u: Vector) -> Maxima:
        """Return the maxima, or raise as `Certified` does where N > 20."""
        try:
            return self.decoder(y, u)
        except CertificateError:
            code = self.decoder.code
            if code.N > ENUMERABLE:
                raise
            if self.enumerated is None:
                self.enumerated = Enumerated(code, self.decoder.gamma, self.decoder.rho0)
            return self.enumerated(y, u)


Oracle: TypeAlias = Certified | Enumerated | Auto
ORACLES: dict[str, Callable[[LinearCode, float, float], Oracle]] = {
    "auto": Auto,
    "certified": Certified,
    "enumerate": Enumerated,
}
