"""Minimum cuts of the closure network, by OR-Tools in 64 bits or SciPy in 32.

A piece of the problem is a hypergraph of its own, with integer weights and costs. Its network is

    s -> e  p w_e,     e -> v  p w_e  for v in e,     v -> t  q c_v.

The middle arcs stand for infinite ones: the value of a minimum cut is the same, and the minimal
source side is still closed (an e that s reaches has flow left to all its v). The maximal side need
not be, so only the minimal one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fallline._errors import import_extra
from fallline.conformal.hypergraph import Ints

Backend = Literal["auto", "ortools", "scipy"]
Mask = NDArray[np.bool_]
BITS = {"ortools": 62, "scipy": 31}


@dataclass(frozen=True)
class Piece:
    """Routes restricted to some vertices: arc i joins route `e[i]` with vertex `v[i]`."""

    w: Ints
    c: Ints
    e: Ints
    v: Ints
    ids: Ints  # the vertices' numbers in the whole problem

    def part(self, routes: Mask, vertices: Mask) -> Piece:
        """Return the piece of these routes on these vertices; each route must keep one."""
        arcs = routes[self.e] & vertices[self.v]
        new_e, new_v = np.cumsum(routes) - 1, np.cumsum(vertices) - 1
        return Piece(
            self.w[routes],
            self.c[vertices],
            new_e[self.e[arcs]],
            new_v[self.v[arcs]],
            self.ids[vertices],
        )


class Cut(NamedTuple):
    """Value of a minimum cut, its minimal source side, and the flow on the middle arcs."""

    value: int
    routes: Mask
    vertices: Mask
    flow: Callable[[], Ints]


Solver = Callable[[Piece, int, int], Cut]


def solver(backend: Backend) -> tuple[Solver, int]:
    """Return the function that cuts, and the largest sum of capacities that it takes.

    Raises
    ------
    ModuleNotFoundError
        If OR-Tools is asked for and missing.
    """
    if backend not in ("auto", "ortools", "scipy"):
        raise ValueError(f"backend={backend!r}; choose 'auto', 'ortools' or 'scipy'")
    if backend == "auto":
        backend = "ortools" if _has_ortools() else "scipy"
    cut: Solver = _cut_scipy
    if backend == "ortools":
        cut = partial(_cut_ortools, import_extra("ortools.graph.python.max_flow", extra="graphs"))
    return _guarded(cut, backend), 2 ** BITS[backend] - 1


def _has_ortools() -> bool:
    try:
        import_module("ortools.graph.python.max_flow")
    except ImportError:
        return False
    return True


def _guarded(cut: Solver, name: Literal["ortools", "scipy"]) -> Solver:
    """Refuse what would wrap: SciPy casts capacities to 32 bits without a word."""

    def checked(piece: Piece, p: int, q: int) -> Cut:
        total = p * int(piece.w.sum())  # which is also q times all costs
        if total >= 2 ** BITS[name]:
            way = (
                "install OR-Tools (pip install 'fallline[graphs]') or use backend='ortools'"
                if name == "scipy"
                else "give smaller integers or a lower cost_resolution, or fractional weights, "
                "which are scaled to fit"
            )
            raise OverflowError(
                f"backend {name!r} takes capacities that sum below 2^{BITS[name]}, and these sum "
                f"to {total}; {way}"
            )
        return cut(piece, p, q)

    return checked


def _arcs(piece: Piece, p: int, q: int) -> tuple[Ints, Ints, Ints]:
    """Tails, heads and capacities; node 0 is s, node 1 is t, then the routes and the vertices.

    The middle arcs come first.
    """
    m, n = len(piece.w), len(piece.c)
    route, vertex = np.arange(2, 2 + m), np.arange(2 + m, 2 + m + n)
    supply = p * piece.w
    tails = np.concatenate([piece.e + 2, np.zeros(m, dtype=np.int64), vertex])
    heads = np.concatenate([piece.v + 2 + m, route, np.ones(n, dtype=np.int64)])
    return tails, heads, np.concatenate([supply[piece.e], supply, q * piece.c])


def _cut_ortools(module: Any, piece: Piece, p: int, q: int) -> Cut:
    tails, heads, capacities = _arcs(piece, p, q)
    flow = module.SimpleMaxFlow()
    flow.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), capacities)
    status = flow.solve(0, 1)
    if status != flow.OPTIMAL:
        raise FloatingPointError(f"OR-Tools' max-flow ended with {status}")
    reached = np.zeros(2 + len(piece.w) + len(piece.c), dtype=bool)
    reached[flow.get_source_side_min_cut()] = True
    return _cut(
        int(flow.optimal_flow()),
        reached,
        piece,
        lambda: np.asarray(flow.flows(np.arange(len(piece.e), dtype=np.int32))),
    )


def _cut_scipy(piece: Piece, p: int, q: int) -> Cut:
    from scipy import sparse
    from scipy.sparse import csgraph

    tails, heads, capacities = _arcs(piece, p, q)
    size = 2 + len(piece.w) + len(piece.c)
    network = sparse.csr_array((capacities.astype(np.int32), (tails, heads)), shape=(size, size))
    solved = csgraph.maximum_flow(network, 0, 1, method="dinic")
    # Its flow is antisymmetric, so that capacity - flow is the residual of both directions.
    residual = (network - solved.flow).tocsr()
    residual.eliminate_zeros()
    reached = np.zeros(size, dtype=bool)
    reached[csgraph.breadth_first_order(residual, 0, return_predecessors=False)] = True

    def flow() -> Ints:
        middle = sparse.csr_array(solved.flow)[piece.e + 2, piece.v + 2 + len(piece.w)]
        return np.asarray(middle).ravel().astype(np.int64)

    return _cut(int(solved.flow_value), reached, piece, flow)


def _cut(value: int, reached: Mask, piece: Piece, flow: Callable[[], Ints]) -> Cut:
    m = len(piece.w)
    return Cut(value, reached[2 : 2 + m], reached[2 + m :], flow)
