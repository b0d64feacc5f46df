"""Itineraries of activities, most of them from a small core, and a history that traps peeling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Activity = tuple[int, int]
TYPES, ACTIVITIES = 5, 10


@dataclass(frozen=True)
class Itineraries:
    """One activity of each of 5 types; with probability 0.8 all five are from the core.

    An activity is (type, number). The core is the first `core` share of each type's ten; each type
    draws from it with probability 0.8^(1/5), else from the rest, uniformly.
    """

    core: float

    @property
    def activities(self) -> list[Activity]:
        """All activities."""
        return [(t, i) for t in range(TYPES) for i in range(ACTIVITIES)]

    @property
    def core_activities(self) -> set[Activity]:
        """The core."""
        return {(t, i) for t in range(TYPES) for i in range(self._size)}

    def draw(self, count: int, rng: np.random.Generator) -> list[list[Activity]]:
        """Draw itineraries.

        Examples
        --------
        >>> data = Itineraries(core=0.2)
        >>> routes = data.draw(1000, np.random.default_rng(0))
        >>> sum(data.core_activities.issuperset(route) for route in routes)
        800
        """
        inside = rng.random((count, TYPES)) < 0.8 ** (1 / TYPES)
        number = np.where(
            inside,
            rng.integers(self._size, size=(count, TYPES)),
            rng.integers(self._size, ACTIVITIES, size=(count, TYPES)),
        )
        return [list(enumerate(row)) for row in number.tolist()]

    @property
    def _size(self) -> int:
        return round(self.core * ACTIVITIES)


def peeling_trap(a: int = 40, singles: int = 8) -> tuple[list[list[int]], list[int]]:
    """Return routes and weights on which peeling keeps almost everything.

    One route of `a` elements has weight 2; `singles` routes of one element have weight 1. All the
    singles together weigh as much as 80 % of everything, and cost `singles`; peeling deletes them
    first.

    Examples
    --------
    >>> routes, weights = peeling_trap(a=3, singles=2)
    >>> routes, weights
    ([[0, 1, 2], [3], [4]], [2, 1, 1])
    """
    routes = [list(range(a)), *([a + i] for i in range(singles))]
    return routes, [2] + [1] * singles
