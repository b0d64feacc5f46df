"""A generated city: streets, arterials, a river with few bridges, and the trips of its drivers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Edge = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Streets:
    """A road network.

    Parameters
    ----------
    positions
        Coordinates of the junctions in km (N, 2).
    edges
        Roads as sorted pairs of junctions (M, 2).
    minutes
        Free-flow time of each road (M,).
    """

    positions: NDArray[np.float64]
    edges: NDArray[np.int64]
    minutes: NDArray[np.float64]

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Length of each road in km (M,)."""
        a, b = self.positions[self.edges].swapaxes(0, 1)
        lengths: NDArray[np.float64] = np.hypot(*(a - b).T)
        return lengths

    def nearest(self, x: float, y: float, count: int = 1) -> NDArray[np.int64]:
        """Return the junctions that are nearest to a point, nearest first."""
        distance = np.hypot(*(self.positions - (x, y)).T)
        return np.argsort(distance, kind="stable")[:count]

    def trips(
        self,
        origin: int,
        destinations: NDArray[np.int64],
        count: int,
        rng: np.random.Generator,
        *,
        drivers: int = 400,
        spread: float = 0.4,
    ) -> list[list[Edge]]:
        """Draw trips from one junction, each as the roads that it uses.

        There is a fixed crowd of drivers, and each has its own idea of every road: its minutes
        times exp(spread * normal). A trip draws a driver and a destination, both uniformly, and
        is that driver's quickest path; so trips are independent given the crowd.
        """
        from scipy import sparse
        from scipy.sparse import csgraph

        N, M = len(self.positions), len(self.edges)
        tails, heads = self.edges.T
        before = np.empty((drivers, N), dtype=np.int32)
        for driver in range(drivers):
            minutes = self.minutes * np.exp(spread * rng.standard_normal(M))
            graph = sparse.csr_array((minutes, (tails, heads)), shape=(N, N))
            _, before[driver] = csgraph.dijkstra(
                graph, directed=False, indices=origin, return_predecessors=True
            )
        who = rng.integers(drivers, size=count)
        here = rng.choice(destinations, size=count)
        trip, first, last = [np.empty(0, dtype=np.int64)], [here[:0]], [here[:0]]
        going = np.flatnonzero(here != origin)
        while len(going):  # all trips walk back one road at a time
            there = before[who[going], here[going]]
            trip.append(going)
            first.append(np.minimum(here[going], there))
            last.append(np.maximum(here[going], there))
            here[going] = there
            going = going[there != origin]
        # The last step back is the first road; the sort keeps that order within a trip.
        of_trip = np.concatenate(trip[::-1])
        order = np.argsort(of_trip, kind="stable")
        u, v = (np.concatenate(ends[::-1])[order].tolist() for ends in (first, last))
        roads, ends = list(zip(u, v)), np.cumsum(np.bincount(of_trip, minlength=count))
        return [roads[a:b] for a, b in pairwise([0, *ends.tolist()])]


def city(seed: int, *, side: int = 118, km: float = 16.0) -> Streets:
    """Generate a city of about 1.6 side^2 roads (22 000 by default) on a square.

    Junctions lie on a bent grid. Every eighth line is an arterial at 45 km/h, a ring road has 60,
    other streets have 28 and a fifth of them is missing; a river has few bridges.

    Examples
    --------
    >>> streets = city(0, side=30)
    >>> streets.edges.shape, float(round(streets.lengths.sum()))
    ((1415, 2), 786.0)
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    rng = np.random.default_rng(seed)
    index = np.arange(side * side).reshape(side, side)
    row, column = np.divmod(np.arange(side * side), side)
    # Bend the grid by a few smooth waves, and jitter every junction.
    u = np.stack([column, row], 1) / (side - 1)
    positions = u.copy()
    for _ in range(6):
        wave, phase = rng.normal(0, 5.0, 2), rng.uniform(0, 2 * np.pi)
        positions += np.sin(u @ wave + phase)[:, None] * rng.normal(0, 0.022, 2)
    positions = km * (positions + rng.normal(0, 0.16 / side, positions.shape))

    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1)
    along = np.stack([index[:-1].ravel(), index[1:].ravel()], 1)
    edges = np.concatenate([across, along])
    line = np.concatenate([row[across[:, 0]], column[along[:, 0]]])
    arterial = line % 8 == 4
    center = u[edges].mean(axis=1) - 0.5
    radius = np.abs(center).max(axis=1)
    straight = np.abs(center[np.arange(len(edges)), (np.arange(len(edges)) < len(across)) * 1])
    ring = np.abs(straight - 0.3) < 0.5 / side
    ring &= radius <= 0.3 + 0.5 / side
    # The river meanders from west to east; bridges only on every other arterial and the ring.
    bank = row / (side - 1) > 0.56 + 0.05 * np.sin(2.5 * np.pi * column / (side - 1))
    crosses = bank[edges[:, 0]] != bank[edges[:, 1]]
    bridge = (line % 16 == 4) | ring
    keep = (arterial | ring | (rng.random(len(edges)) > 0.2)) & (~crosses | bridge)
    edges, arterial, ring = edges[keep], arterial[keep], ring[keep]

    links = sparse.csr_array((np.ones(len(edges)), edges.T), shape=(side * side,) * 2)
    _, label = csgraph.connected_components(links, directed=False)
    largest = label == np.bincount(label).argmax()
    inside = largest[edges[:, 0]]
    edges, arterial, ring = edges[inside], arterial[inside], ring[inside]
    number = np.cumsum(largest) - 1
    streets = Streets(positions[largest], number[edges], np.ones(len(edges)))
    speed = np.where(ring, 60.0, np.where(arterial, 45.0, 28.0))
    return Streets(streets.positions, streets.edges, 60.0 * streets.lengths / speed)
