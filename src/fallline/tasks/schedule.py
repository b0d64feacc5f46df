"""The learning-rate schedule that the training tasks share."""

from __future__ import annotations


def constant_then_linear(progress: float) -> float:
    """Return the multiplier of the learning rate: 1 for 40 % of the run, then linear to 0.1.

    Parameters
    ----------
    progress
        Share of the run that is done, in [0, 1].

    Examples
    --------
    >>> [round(constant_then_linear(p), 3) for p in (0.0, 0.4, 0.7, 1.0)]
    [1.0, 1.0, 0.55, 0.1]
    """
    return 1.0 - 0.9 * max(0.0, progress - 0.4) / 0.6
