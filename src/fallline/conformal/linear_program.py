"""The compression problem as a linear program, and as the integer program it relaxes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fallline.conformal.hypergraph import Floats, RouteHypergraph


def lp_relaxation(hypergraph: RouteHypergraph, tau: float) -> tuple[float, Floats]:
    """Return the least relaxed cost of the share `tau` of the weight, and an optimal x (n,).

    min sum_v c_v x_v  with  z_e <= x_v for v in e,  sum_e w_e z_e >= tau W,  0 <= x, z <= 1.

    `NestedSubgraphs.lp_value` gives the same value for every tau at once, and `lp_round` a rounding
    that does not depend on which optimal x a solver returns: thresholds of this x need not be
    nested in tau.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([[0], [1], [2]], weights=[3, 2, 1])
    >>> round(lp_relaxation(H, 0.7)[0], 9)
    1.6
    """
    value, x = _solved(hypergraph, tau, integral=False)
    return value, x


def smallest_subgraph(
    hypergraph: RouteHypergraph, tau: float, *, seconds: float = 60.0
) -> set[Hashable]:
    """Return the cheapest subgraph with the share `tau` of the weight, by HiGHS' branch and bound.

    NP-hard: for small problems, to see what the nested family gives away. Optima for different tau
    are not nested.

    Parameters
    ----------
    hypergraph
        The routes.
    tau
        Share of the weight to keep, in (0, 1].
    seconds
        Time limit.

    Raises
    ------
    FloatingPointError
        If the optimum is not proved in time.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([list("ab"), list("cd"), list("efg")], weights=[3, 3, 4])
    >>> sorted(smallest_subgraph(H, 0.6)), sorted(smallest_subgraph(H, 0.7))
    (['a', 'b', 'c', 'd'], ['a', 'b', 'e', 'f', 'g'])
    """
    _, x = _solved(hypergraph, tau, integral=True, seconds=seconds)
    return {hypergraph.elements[i] for i in np.flatnonzero(x > 0.5).tolist()}


def _solved(
    H: RouteHypergraph, tau: float, *, integral: bool, seconds: float = 60.0
) -> tuple[float, Floats]:
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not 0 < tau <= 1:
        raise ValueError(f"tau={tau!r}; it must be in (0, 1]")
    # Variables x, then z; one row z_e - x_v <= 0 per arc.
    arcs = np.arange(len(H.indices))
    ones = np.ones(len(arcs))
    below: Any = sparse.csr_array(
        (np.r_[-ones, ones], (np.r_[arcs, arcs], np.r_[H.indices, H.n + H.rows])),
        shape=(len(arcs), H.n + H.m),
    )
    share = np.r_[np.zeros(H.n), H.weights / H.total][None, :]
    solved = milp(
        np.r_[H.cost, np.zeros(H.m)],
        # z is integral where x is.
        integrality=np.r_[np.full(H.n, int(integral)), np.zeros(H.m)],
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(below, -np.inf, 0), LinearConstraint(share, tau, np.inf)],
        options={"time_limit": seconds},
    )
    if not solved.success:
        raise FloatingPointError(f"HiGHS found no proved optimum: {solved.message}")
    return float(solved.fun), solved.x[: H.n]
