"""Small subgraphs that contain the route really taken, with a promised probability.

The estimators are loaded when they are first used: they need scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fallline.conformal.baselines import (
    forward_greedy,
    k_shortest,
    ratio_greedy,
    reverse_greedy,
    top_routes,
)
from fallline.conformal.calibration import conformal_quantile, control_risk
from fallline.conformal.hypergraph import RouteHypergraph
from fallline.conformal.linear_program import lp_relaxation, smallest_subgraph
from fallline.conformal.nested import NestedSubgraphs, nested_subgraphs
from fallline.conformal.order import ElementOrder
from fallline.conformal.paths import path_elements
from fallline.conformal.traces import routes_from_points
from fallline.conformal.walks import sample_near_walks

if TYPE_CHECKING:
    from fallline.conformal.fixed_context import ConformalSubgraph
    from fallline.conformal.variable_context import ContextualConformalSubgraph

__all__ = [
    "ConformalSubgraph",
    "ContextualConformalSubgraph",
    "ElementOrder",
    "NestedSubgraphs",
    "RouteHypergraph",
    "conformal_quantile",
    "control_risk",
    "forward_greedy",
    "k_shortest",
    "lp_relaxation",
    "nested_subgraphs",
    "path_elements",
    "ratio_greedy",
    "reverse_greedy",
    "routes_from_points",
    "sample_near_walks",
    "smallest_subgraph",
    "top_routes",
]


def __getattr__(name: str) -> Any:
    if name == "ConformalSubgraph":
        from fallline.conformal.fixed_context import ConformalSubgraph

        return ConformalSubgraph
    if name == "ContextualConformalSubgraph":
        from fallline.conformal.variable_context import ContextualConformalSubgraph

        return ContextualConformalSubgraph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
