"""The honest peer under noise: read each bit off the samples where it stands alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Counts:
    """Votes of the samples with one active bit; made by `count_parity`, and joined by `+`.

    `sightings` (N,) counts the samples in which a bit stands alone, `odd`, (N,) or (N, P), those
    of them with label 1.
    """

    sightings: NDArray[np.int64]
    odd: NDArray[np.int64]

    @property
    def support(self) -> NDArray[np.bool_]:
        """Bits whose majority is label 1; one never seen alone counts as out."""
        seen = self.sightings.reshape(-1, *[1] * (self.odd.ndim - 1))
        majority: NDArray[np.bool_] = 2 * self.odd > seen
        return majority

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.sightings + other.sightings, self.odd + other.odd)


def count_parity(X: Any, y: ArrayLike) -> Counts:
    """Count the labels of each bit over the samples where no other bit is active.

    Labels may be flipped with any probability below 1/2. At density c / N a share c e^-c of the
    samples is of use.

    Parameters
    ----------
    X
        Bits (n, N), dense or sparse.
    y
        Labels 0 and 1, (n,) or (n, P).

    Raises
    ------
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> counts = count_parity([[0, 1], [0, 1], [1, 1], [1, 0]], [1, 1, 1, 0])
    >>> counts.support.tolist(), counts.sightings.tolist()
    ([False, True], [1, 2])
    """
    bits, labels = csr_array(X), np.asarray(y)
    if labels.ndim not in (1, 2) or len(labels) != bits.shape[0]:
        raise ValueError(
            f"X must be (n, N) and y (n,) or (n, P), got shapes {bits.shape} and {labels.shape}"
        )
    N = bits.shape[1]
    alone = np.flatnonzero(np.diff(bits.indptr) == 1)
    which = bits.indices[bits.indptr[alone]]
    sightings = np.bincount(which, minlength=N)
    columns = labels[alone].reshape(len(alone), -1) != 0
    odd = np.column_stack([np.bincount(which, column, N) for column in columns.T])
    return Counts(sightings, odd.astype(np.int64).reshape(N, *labels.shape[1:]))
