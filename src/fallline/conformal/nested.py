"""The exact nested family of subgraphs, and how to choose from it by training mass."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from fallline.conformal import integers
from fallline.conformal.cuts import Backend, Piece, solver
from fallline.conformal.hypergraph import Floats, Ints, RouteHypergraph, add_up
from fallline.conformal.order import SLACK, ElementOrder
from fallline.conformal.parametric import Ties, levels

Refine = Literal["peel", "order"] | None


class NestedSubgraphs(ElementOrder):
    """The chain S_0 < S_1 < ... of minimizers of c(K) - lambda w(K), refined to single elements.

    Attributes
    ----------
    breakpoints
        The lambda at which each level enters, ascending, as exact fractions.
    costs, masses
        c(S_j) and w(S_j) of each level: the vertices of the upper hull of all subgraphs' costs
        and masses, and with `ties="scc"` more points on its edges.
    """

    def __init__(
        self,
        hypergraph: RouteHypergraph,
        order: Ints,
        ranks: Ints | None,
        level_of: Ints,
        breakpoints: Sequence[Fraction],
    ) -> None:
        super().__init__(hypergraph, order, ranks)
        self.level_of = level_of
        self.breakpoints = list(breakpoints)
        H, k = hypergraph, len(breakpoints)
        entered = route_levels(H, level_of)
        # Element 0 of both is the empty set, which holds the empty route.
        self._masses = np.cumsum(add_up(entered + 1, H.weights, k + 1))
        used = level_of >= 0
        self._costs = np.cumsum(add_up(level_of[used] + 1, H.cost[used], k + 1))
        self.masses: Floats = self._masses[1:]
        self.costs: Floats = self._costs[1:]

    @cached_property
    def levels(self) -> dict[Hashable, int]:
        """Level of each element, from 0; -1 for elements that no training route uses."""
        return dict(zip(self.hypergraph.elements, self.level_of.tolist()))

    def at_level(self, j: int) -> set[Hashable]:
        """Return S_j, the elements of level at most j; nothing for j = -1."""
        elements = self.hypergraph.elements
        inside = np.flatnonzero((self.level_of >= 0) & (self.level_of <= j))
        return {elements[i] for i in inside.tolist()}

    def at_mass(self, tau: float, kappa: float = 0.0) -> set[Hashable]:
        """Return the smallest S_j that misses at most (1 + kappa) (1 - tau) of the weight.

        It costs at most (1 + 1 / kappa) times the cheapest subgraph that misses (1 - tau), and it
        is contained in `lp_round(tau, kappa)`.

        Parameters
        ----------
        tau
            Share of the weight to keep, in (0, 1].
        kappa
            Slack, >= 0, with (1 + kappa) (1 - tau) < 1.
        """
        _slack(tau, kappa)
        W = self._masses[-1]
        fits = W - self._masses <= ((1 + kappa) * (1 - tau) + SLACK) * W
        return self.at_level(int(np.argmax(fits)) - 1)

    def lp_value(self, tau: float) -> float:
        """Return the optimum of the linear relaxation: a lower bound of every subgraph's cost."""
        _slack(tau, 0.0)
        j, alpha = self._segment(tau)
        return float(self._costs[j] + alpha * (self._costs[j + 1] - self._costs[j]))

    def lp_round(self, tau: float, kappa: float) -> set[Hashable]:
        """Return the relaxation's solution rounded at kappa / (1 + kappa), the same for all ties.

        Bounds as in `at_mass`; kappa > 0.
        """
        _slack(tau, kappa)
        if not kappa > 0:
            raise ValueError(f"kappa={kappa!r}; rounding needs kappa > 0, at_mass takes 0 too")
        j, alpha = self._segment(tau)
        up = alpha >= kappa / (1 + kappa) - SLACK
        return self.at_level(j if up else j - 1)

    def _segment(self, tau: float) -> tuple[int, float]:
        """Return j and alpha with tau W = mass_j + alpha (mass_j+1 - mass_j), counted from -1."""
        goal = tau * self._masses[-1]
        j = int(np.searchsorted(self._masses, goal * (1 - SLACK))) - 1
        if j < 0:  # the empty route is enough
            return 0, 0.0
        low, high = self._masses[j], self._masses[j + 1]
        return j, min(1.0, float((goal - low) / (high - low)))


def nested_subgraphs(
    hypergraph: RouteHypergraph,
    ties: Ties = "scc",
    refine: Refine = "peel",
    backend: Backend = "auto",
    cost_resolution: int = 10**6,
) -> NestedSubgraphs:
    """Build the nested family by exact parametric minimum cuts.

    Method of "Compact Conformal Subgraphs", arXiv:2602.07530: the minimizers of c(K) - lambda w(K)
    for all lambda are nested, and each is within a constant of the cheapest subgraph of its mass.

    Parameters
    ----------
    hypergraph
        The training routes.
    ties
        Sets that are optimal at the same lambda enter one by one (`"scc"`), each as small as
        possible, or all at once (`"group"`).
    refine
        Order inside a level: by peeling on the training routes (`"peel"`), by number (`"order"`),
        or none: then the elements of a level share the rank |S_j|.
    backend
        `"ortools"` (64-bit capacities; extra `graphs`), `"scipy"` (32-bit), or `"auto"`: OR-Tools
        where it is installed.
    cost_resolution
        Levels over the largest cost, for costs that are neither integers nor short decimals.

    Raises
    ------
    OverflowError
        If the weights and costs do not fit the backend's integers.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "c"], ["d"]], weights=[4, 4, 1])
    >>> chain = nested_subgraphs(H)
    >>> chain.levels
    {'a': 0, 'b': 0, 'c': 0, 'd': 1}
    >>> [str(x) for x in chain.breakpoints], chain.costs, chain.masses
    (['3/8', '1'], array([3., 4.]), array([8., 9.]))
    >>> sorted(chain.at_mass(0.8)), chain.lp_value(4 / 9)
    (['a', 'b', 'c'], 1.5)
    """
    if ties not in ("scc", "group"):
        raise ValueError(f"ties={ties!r}; choose 'scc' or 'group'")
    if refine not in ("peel", "order", None):
        raise ValueError(f"refine={refine!r}; choose 'peel', 'order' or None")
    if operator.index(cost_resolution) < 1:
        raise ValueError(f"cost_resolution={cost_resolution!r}; it must be >= 1")
    H = hypergraph
    cut, limit = solver(backend)
    used = H.traffic > 0
    c, cost_scale = integers.integer_costs(H.cost, cost_resolution)
    w, weight_scale = integers.integer_weights(H.weights, int(c[used].sum()), limit)
    everything = Piece(w, c, H.rows, H.indices, np.arange(H.n))
    whole = everything.part(np.diff(H.indptr) > 0, used)
    level_of = np.full(H.n, -1)
    breakpoints: list[Fraction] = []
    for ids, lam in levels(whole, cut, ties):
        level_of[ids] = len(breakpoints)
        breakpoints.append(lam * weight_scale / cost_scale)
    order, ranks = _refined(everything, level_of, route_levels(H, level_of), refine)
    return NestedSubgraphs(H, order, ranks, level_of, breakpoints)


def route_levels(H: RouteHypergraph, level_of: Ints) -> Ints:
    """Return the level at which each route is complete; -1 for the empty route."""
    entered = np.full(H.m, -1)
    np.maximum.at(entered, H.rows, level_of[H.indices])
    return entered


def _refined(
    whole: Piece, level_of: Ints, entered: Ints, refine: Refine
) -> tuple[Ints, Ints | None]:
    """Return the order of all elements, unused ones last, and their ranks where they tie."""
    n = len(level_of)
    level = np.where(level_of < 0, n, level_of)
    inside = np.zeros(n, dtype=np.int64)
    if refine == "peel":
        from fallline.conformal.peeling import peel

        # A route belongs to the level that completes it, and to what that level adds of it. Levels
        # then share no route, and one peeling does them all.
        own = entered[whole.e] == level[whole.v]
        inside = -peel(whole.e[own], whole.v[own], whole.w, whole.c)
        inside[level_of < 0] = 0
    order = np.lexsort((np.arange(n), inside, level))
    if refine is not None:
        return order, None
    sizes = np.cumsum(np.bincount(level[level < n], minlength=level_of.max() + 1))
    return order, np.where(level < n, sizes[np.minimum(level, len(sizes) - 1)], n)


def _slack(tau: float, kappa: float) -> None:
    if not 0 < tau <= 1:
        raise ValueError(f"tau={tau!r}; it must be in (0, 1]")
    if not kappa >= 0:
        raise ValueError(f"kappa={kappa!r}; it must be >= 0")
    if (1 + kappa) * (1 - tau) >= 1:
        raise ValueError(
            f"kappa={kappa!r} with tau={tau!r}: the empty set would satisfy this slack; "
            "(1 + kappa) (1 - tau) must be below 1"
        )
