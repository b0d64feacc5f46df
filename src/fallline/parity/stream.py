"""Endless sparse samples of a parity, and training on them at a cost of their active bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fallline.parity import kernel
from fallline.parity.checks import check_count, check_density, check_noise

LARGEST = 2**31 - 1


class ParityStream:
    """Samples with independent Bernoulli(p_e) bits, labelled by the parity of a hidden subset.

    Parameters
    ----------
    n_features
        Number of bits N.
    p_e
        Density of ones, in (0, 1]; by default 1/N.
    support
        The target: the indices of its bits, a boolean (N,), or a boolean (N, P) for P outputs.
    p_w
        Instead of `support`: draw the target, each bit in it with probability `p_w`.
    n_outputs
        With `p_w`: the number of outputs P; by default one, with labels of shape (M,).
    noise
        Share of labels that are flipped, below 1/2.
    seed
        Draws the target and the samples: an integer or a `numpy.random.Generator`.

    Attributes
    ----------
    target
        Boolean, (N,) or (N, P).

    Raises
    ------
    ValueError
        If an argument is out of range, or not exactly one of `support` and `p_w` is given.

    Examples
    --------
    >>> stream = ParityStream(1000, support=[3, 14, 159], seed=0)
    >>> X, y = stream.sample(64)
    >>> X.shape, y.shape
    ((64, 1000), (64,))
    >>> bool((X[:, [3, 14, 159]].sum(axis=1) % 2 == y).all())
    True
    """

    def __init__(
        self,
        n_features: int,
        p_e: float | None = None,
        *,
        support: ArrayLike | None = None,
        p_w: float | None = None,
        n_outputs: int | None = None,
        noise: float = 0.0,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.n_features = check_count(n_features, "n_features")
        if self.n_features > LARGEST:
            raise ValueError(f"n_features must be <= {LARGEST}, got {n_features!r}")
        self.p_e = 1.0 / self.n_features if p_e is None else check_density(p_e)
        self.noise = check_noise(noise)
        self.rng = np.random.default_rng(seed)
        if (support is None) == (p_w is None):
            raise ValueError(
                f"give one of support and p_w, got support={support!r} and p_w={p_w!r}"
            )
        if p_w is not None:
            if not 0 <= p_w <= 1:
                raise ValueError(f"p_w must lie in [0, 1], got {p_w!r}")
            outputs = () if n_outputs is None else (check_count(n_outputs, "n_outputs"),)
            self.target = self.rng.random((self.n_features, *outputs)) < p_w
        else:
            if n_outputs is not None:
                raise ValueError(
                    f"n_outputs = {n_outputs!r} goes with p_w: the shape of support says it"
                )
            self.target = _target(np.asarray(support), self.n_features)
        self.target.flags.writeable = False
        self._bits = self.target.reshape(self.n_features, -1).astype(np.uint8)

    @property
    def n_outputs(self) -> int:
        """Number of outputs P."""
        return self._bits.shape[1]

    def sample(self, batch_size: int, p_e: float | None = None) -> tuple[Any, NDArray[np.int8]]:
        """Draw a batch.

        Parameters
        ----------
        batch_size
            Number of samples M.
        p_e
            Density of this batch; by default the stream's.

        Returns
        -------
        X : scipy.sparse.csr_array
            Bits (M, N) with sorted indices.
        y : ndarray
            Labels 0 and 1, (M,) or (M, P).
        """
        M = check_count(batch_size, "batch_size")
        p_e = self.p_e if p_e is None else check_density(p_e)
        check_room(M, self.n_features, p_e)
        indptr = np.empty(M + 1, np.int32)
        room = int(1.1 * M * self.n_features * p_e) + 64
        indices = kernel.sample_bits(
            self.rng, self.n_features, M, p_e, indptr, np.empty(room, np.int32)
        )[: indptr[M]]
        signs = np.empty((M, self.n_outputs))
        kernel.label(self._bits, indptr, indices, signs)
        if self.noise:
            kernel.flip(self.rng, self.noise, signs)
        X = csr_array((np.ones(len(indices), np.int8), indices, indptr), (M, self.n_features))
        y = (signs < 0).astype(np.int8)
        return X, y if self.target.ndim == 2 else y[:, 0]

    def batches(self, batch_size: int) -> Iterator[tuple[Any, NDArray[np.int8]]]:
        """Yield batches without end."""
        while True:
            yield self.sample(batch_size)


def check_room(M: int, N: int, p_e: float) -> None:
    """Refuse a batch whose active bits 32-bit indices cannot count."""
    if 1.1 * M * N * p_e > LARGEST:
        raise ValueError(
            f"a batch of {M} samples of density {p_e!r} has about {M * N * p_e:.2g} active bits, "
            f"more than {LARGEST}: use a smaller batch"
        )


def _target(support: NDArray[Any], N: int) -> NDArray[np.bool_]:
    if support.dtype == bool:
        if support.ndim not in (1, 2) or support.shape[0] != N or support.size == 0:
            raise ValueError(
                f"a boolean support must have shape ({N},) or ({N}, P), got {support.shape}"
            )
        return support.copy()
    if support.size == 0:
        support = support.astype(np.int64)
    if support.ndim != 1 or support.dtype.kind not in "iu":
        raise ValueError(
            "support must be indices or booleans, got an array of shape "
            f"{support.shape} and type {support.dtype}"
        )
    outside = support[(support < 0) | (support >= N)]
    if len(outside):
        raise ValueError(f"support must hold indices in 0..{N - 1}, got {int(outside[0])}")
    target = np.zeros(N, bool)
    target[support] = True
    return target
