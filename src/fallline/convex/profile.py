"""Measure how curvature grows with the gradient along a set of points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.convex.laws import L0L1Smooth


class SmoothnessProfile(NamedTuple):
    """Per segment: the larger gradient norm of its ends, and the gradient's Lipschitz quotient."""

    grad_norm: NDArray[np.float64]
    local_lipschitz: NDArray[np.float64]


def smoothness_profile(
    fun: Callable[..., Any] | None, jac: Literal[True] | Callable[..., Any], points: ArrayLike
) -> SmoothnessProfile:
    """Measure ||g(b) - g(a)|| / ||b - a|| against the gradient along consecutive points.

    Parameters
    ----------
    fun
        The function; called only where `jac` is True, and then returns value and gradient.
    jac
        True, or a callable that returns the gradient (d,).
    points
        A path (n, d) with n >= 2, for instance the iterates of a run; repeated points are left out.

    Returns
    -------
    SmoothnessProfile
        `grad_norm` and `local_lipschitz`, each (m,) with m <= n - 1.

    Raises
    ------
    ValueError
        If there are fewer than two different points.

    Examples
    --------
    >>> profile = smoothness_profile(None, np.sinh, [[0.0], [0.1], [2.0]])
    >>> np.round(profile.grad_norm, 3), np.round(profile.local_lipschitz, 3)
    (array([0.1  , 3.627]), array([1.002, 1.856]))
    """
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(f"smoothness_profile: points must be (n, d) with n >= 2, got {x.shape}")
    if callable(jac):
        gradients = np.array([jac(point) for point in x], dtype=np.float64)
    elif jac is True and fun is not None:
        gradients = np.array([fun(point)[1] for point in x], dtype=np.float64)
    else:
        raise ValueError(
            f"smoothness_profile: jac must be True, with fun returning value and gradient, or a "
            f"callable, got jac={jac!r}, fun={fun!r}"
        )
    norms = np.linalg.norm(gradients, axis=1)
    length = np.linalg.norm(np.diff(x, axis=0), axis=1)
    moved = length > 0.0
    if not moved.any():
        raise ValueError("smoothness_profile: points must hold at least two different points")
    turned = np.linalg.norm(np.diff(gradients, axis=0), axis=1)
    return SmoothnessProfile(
        np.maximum(norms[1:], norms[:-1])[moved], turned[moved] / length[moved]
    )


def fit_l0l1(profile: SmoothnessProfile | tuple[ArrayLike, ArrayLike]) -> L0L1Smooth:
    """Return the tightest law L0 + L1 s above every measured point: an estimate, no certificate.

    Points that were not measured may lie above it, so a run under this law has no guarantee.
    Tightest means the smallest mean excess relative to the measured values.

    Parameters
    ----------
    profile
        What `smoothness_profile` returned, or a pair of arrays (grad_norm, local_lipschitz).

    Raises
    ------
    ValueError
        If no local Lipschitz quotient is positive and finite.

    Examples
    --------
    >>> s = np.linspace(0.0, 5.0, 50)
    >>> law = fit_l0l1((s, 2.0 + 3.0 * s))
    >>> round(law.L0, 6), round(law.L1, 6)
    (2.0, 3.0)
    """
    s, level = (np.asarray(values, dtype=np.float64) for values in profile)
    keep = np.isfinite(s) & np.isfinite(level) & (level > 0.0)
    s, level = s[keep], level[keep]
    if not s.size:
        raise ValueError("fit_l0l1: profile must hold a positive and finite local_lipschitz")
    # L0 = 0 is no law: the curvature at the minimizer is at least the smallest one measured.
    s, level = np.append(s, 0.0), np.append(level, level.min())
    # The excess is mean(1 / level) L0(L1) + mean(s / level) L1 with L0(L1) = max(level - L1 s),
    # convex and piecewise linear. It falls along lines with s > turn and rises along the others.
    turn = float(np.mean(s[:-1] / level[:-1]) / np.mean(1.0 / level[:-1]))
    left, right, L1 = int(level.argmax()), len(s) - 1, 0.0
    while s[left] > turn:
        L1 = float((level[left] - level[right]) / (s[left] - s[right]))
        above = level - L1 * s
        top = int(above.argmax())
        if above[top] <= max(above[left], above[right]) * (1.0 + 1e-15):
            break
        left, right = (top, right) if s[top] > turn else (left, top)
    L0 = float(np.max(level - L1 * s))
    # The envelope must hold in floating point too.
    raised = max(1.0, float(np.max(level / (L0 + L1 * s))))
    return L0L1Smooth(L0 * raised, L1 * raised)
