"""GPS traces as routes over the cells of a grid."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

OUTSIDE = -1


def routes_from_points(
    points: Iterable[ArrayLike],
    bbox: tuple[float, float, float, float],
    grid: tuple[int, int] = (100, 100),
) -> list[list[int]]:
    """Turn traces into the cells that they visit, in order and without repeats in a row.

    Parameters
    ----------
    points
        Traces, each an array (k, 2) of x and y (longitude and latitude).
    bbox
        Corners x_min, y_min, x_max, y_max of the grid.
    grid
        Number of columns and rows.

    Returns
    -------
    list of list of int
        For each trace the cells `row * columns + column`; -1 stands for everywhere outside the
        grid, so that a trace that leaves it is not taken for one that does not.

    Raises
    ------
    ValueError
        If a trace is not of shape (k, 2) or has a coordinate that is not finite, or the box or the
        grid is empty.

    Examples
    --------
    >>> routes_from_points([[(0.1, 0.1), (0.2, 0.1), (0.9, 0.1), (0.9, 0.9)]], (0, 0, 1, 1), (2, 2))
    [[0, 1, 3]]
    """
    x_min, y_min, x_max, y_max = bbox
    columns, rows = grid
    if not (x_min < x_max and y_min < y_max):
        raise ValueError(f"bbox={bbox!r}; it must be (x_min, y_min, x_max, y_max), not empty")
    if columns < 1 or rows < 1:
        raise ValueError(f"grid={grid!r}; it must be (columns, rows), each >= 1")
    traces = [_checked(i, trace) for i, trace in enumerate(points)]
    if not traces:
        return []
    xy = np.concatenate(traces)
    column = _cell(xy[:, 0], x_min, x_max, columns)
    row = _cell(xy[:, 1], y_min, y_max, rows)
    cell = np.where((column < 0) | (row < 0), OUTSIDE, row * columns + column)

    ends = np.cumsum([len(trace) for trace in traces])
    new = np.ones(len(cell), dtype=bool)
    new[1:] = cell[1:] != cell[:-1]
    new[ends[:-1][ends[:-1] < len(cell)]] = True
    kept = np.concatenate([[0], np.cumsum(new)])[np.concatenate([[0], ends])].tolist()
    visited = cell[new].tolist()
    return [visited[a:b] for a, b in pairwise(kept)]


def _checked(i: int, trace: ArrayLike) -> NDArray[np.float64]:
    xy = np.asarray(trace, dtype=np.float64)
    if xy.size == 0:
        return np.empty((0, 2))
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"points[{i}] has shape {xy.shape}; a trace is an array (k, 2) of x and y")
    if not np.isfinite(xy).all():
        raise ValueError(f"points[{i}] has a coordinate that is not finite; leave that point out")
    return xy


def _cell(x: NDArray[np.float64], low: float, high: float, count: int) -> NDArray[np.int64]:
    """Return which of `count` intervals holds each x, -1 outside; the last one is closed."""
    cell = np.minimum(np.floor((x - low) / (high - low) * count), count - 1).astype(np.int64)
    return np.where((x < low) | (x > high), OUTSIDE, cell)
