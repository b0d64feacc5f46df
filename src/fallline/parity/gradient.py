"""The loss and its gradient, averaged over all inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.parity.checks import check_density

Floats = NDArray[np.float64]


def population_loss(w: ArrayLike, w_true: ArrayLike, p_e: float) -> Floats:
    """Return the expected squared error of the node at weights `w`.

    Parameters
    ----------
    w, w_true
        Weights and the target's, (N,) or (N, P).
    p_e
        Density of the inputs, in (0, 1].

    Returns
    -------
    ndarray
        One loss per output, of shape () or (P,).

    Raises
    ------
    ValueError
        If the shapes differ or `p_e` is out of range.

    References
    ----------
    arXiv:2605.28612, equation of the loss; the expectation factors over the inputs.

    Examples
    --------
    >>> round(float(population_loss([0.25, 0.5, 0.8], [0, 1, 1], p_e=0.5)), 6)
    0.153125
    """
    same, cross = _factors(w, w_true, p_e)
    # E Pi*^2 = 1.
    loss: Floats = 0.25 * (1.0 + same.prod(axis=0)) - 0.5 * cross.prod(axis=0)
    return loss


def population_gradient(w: ArrayLike, w_true: ArrayLike, p_e: float) -> Floats:
    """Return the expected gradient of the loss at weights `w`, in O(N).

    Parameters
    ----------
    w, w_true
        Weights and the target's, (N,) or (N, P).
    p_e
        Density of the inputs, in (0, 1].

    Returns
    -------
    ndarray
        The gradient, in the shape of `w`.

    Raises
    ------
    ValueError
        If the shapes differ or `p_e` is out of range.

    References
    ----------
    arXiv:2605.28612, proposition 14.

    Examples
    --------
    >>> population_gradient([0.25, 0.5, 0.8], [0, 1, 1], p_e=0.5).round(5).tolist()
    [0.115, -0.3, -0.09375]
    """
    w, w_true = np.asarray(w, np.float64), np.asarray(w_true, np.float64)
    same, cross = _factors(w, w_true, p_e)
    gradient: Floats = p_e * (
        (2.0 * w - 1.0) * _without_each(same) - (2.0 * w_true - 1.0) * _without_each(cross)
    )
    return gradient


def _factors(w: ArrayLike, w_true: ArrayLike, p_e: float) -> tuple[Floats, Floats]:
    """E a_i^2 and E a_i a*_i of each input."""
    w, w_true = np.asarray(w, np.float64), np.asarray(w_true, np.float64)
    if w.shape != w_true.shape or w.ndim not in (1, 2):
        raise ValueError(
            f"w and w_true must have one shape, (N,) or (N, P), got {w.shape} and {w_true.shape}"
        )
    check_density(p_e)
    same = 1.0 + 4.0 * p_e * w * (w - 1.0)
    cross = 1.0 + 4.0 * p_e * w * w_true - 2.0 * p_e * (w + w_true)
    return same, cross


def _without_each(factors: Floats) -> Floats:
    """Product of all factors but each one, along the first axis, without dividing."""
    one = np.ones_like(factors[:1])
    before = np.cumprod(np.concatenate([one, factors[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([one, factors[:0:-1]]), axis=0)[::-1]
    product: Floats = before * after
    return product
