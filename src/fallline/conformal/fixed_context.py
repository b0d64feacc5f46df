"""One subgraph for all routes of one context, calibrated on routes it has not seen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from fallline._errors import FalllineWarning
from fallline.conformal import baselines
from fallline.conformal.calibration import conformal_quantile
from fallline.conformal.hypergraph import RouteHypergraph
from fallline.conformal.nested import nested_subgraphs
from fallline.conformal.order import ElementOrder
from fallline.conformal.paths import Element, subgraph

Route = Iterable[Hashable]
Method = Callable[[RouteHypergraph], ElementOrder]

METHODS: Mapping[str, Method] = {
    "parametric": nested_subgraphs,
    "forward_greedy": baselines.forward_greedy,
    "reverse_greedy": baselines.reverse_greedy,
    "top_routes": baselines.top_routes,
    "ratio_greedy": baselines.ratio_greedy,
}


class ConformalSubgraph(BaseEstimator):  # type: ignore[misc]
    """A small set of elements that contains the next route with a promised probability.

    Split conformal prediction over a nested family, from "Compact Conformal Subgraphs",
    arXiv:2602.07530: one part of the routes orders the elements, the other chooses how many are
    kept. If the routes are exchangeable, the next one lies inside with probability >= `coverage`.

    Parameters
    ----------
    coverage
        Wanted probability, in (0, 1).
    calibration_fraction
        Share of the routes that `fit` keeps for calibration, in [0, 1). With 0 all routes order
        the elements, and `calibrate` must be called with others.
    method
        `"parametric"`, or a baseline: `"forward_greedy"`, `"reverse_greedy"`, `"top_routes"`,
        `"ratio_greedy"`; or a function from a `RouteHypergraph` to an `ElementOrder`.
    cost
        Mapping of each element to its cost > 0; 1 by default.
    universe
        All elements, in the order that breaks ties; by default those of the training routes.
    finite_sample
        False calibrates by empirical coverage, as the paper's text: no guarantee.
    random_state
        Seed of the split.

    Attributes
    ----------
    order_ : ElementOrder
        The nested family; `NestedSubgraphs` for `"parametric"`.
    threshold_ : int
        Rank up to which elements are kept.
    size_ : int
        Number of elements kept.
    n_calibration_ : int
        Number of calibration routes.

    Examples
    --------
    >>> routes = [["a", "b"], ["a", "c"]] * 50 + [["d"]] * 8
    >>> model = ConformalSubgraph(coverage=0.8).fit(routes)
    >>> sorted(model.predict())
    ['a', 'b', 'c']
    >>> round(model.score(routes), 3)
    0.926
    """

    def __init__(
        self,
        coverage: float = 0.9,
        calibration_fraction: float = 0.5,
        method: Literal[
            "parametric", "forward_greedy", "reverse_greedy", "top_routes", "ratio_greedy"
        ]
        | Method = "parametric",
        cost: Mapping[Any, float] | None = None,
        universe: Sequence[Hashable] | None = None,
        finite_sample: bool = True,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.coverage = coverage
        self.calibration_fraction = calibration_fraction
        self.method = method
        self.cost = cost
        self.universe = universe
        self.finite_sample = finite_sample
        self.random_state = random_state

    def fit(
        self,
        routes: Iterable[Route],
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> ConformalSubgraph:
        """Order the elements on one part of the routes and calibrate on the other.

        Parameters
        ----------
        routes
            Routes, each an iterable of hashable elements; one entry per observed route.
        y
            Ignored.
        sample_weight
            Weight of each route (n,) when elements are ordered. Calibration counts every route
            once: a guarantee is about routes, not about weights.

        Raises
        ------
        ValueError
            If a parameter is out of range, or no route is left for one of the parts.
        """
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage={self.coverage!r}; it must be in (0, 1)")
        if not 0 <= self.calibration_fraction < 1:
            raise ValueError(
                f"calibration_fraction={self.calibration_fraction!r}; it must be in [0, 1)"
            )
        method = METHODS.get(self.method) if isinstance(self.method, str) else self.method
        if method is None:
            raise ValueError(
                f"method={self.method!r}; choose one of {', '.join(METHODS)}, or give a function"
            )
        routes = list(routes)
        n = len(routes)
        kept = math.ceil(n * self.calibration_fraction)
        if kept >= n or (kept == 0 and self.calibration_fraction > 0):
            raise ValueError(
                f"{n} routes cannot be split with calibration_fraction="
                f"{self.calibration_fraction}; give at least 2"
            )
        shuffled = check_random_state(self.random_state).permutation(n)
        train, held_out = np.sort(shuffled[kept:]), np.sort(shuffled[:kept])
        weights = None if sample_weight is None else np.asarray(sample_weight)
        if weights is not None and weights.shape != (n,):
            raise ValueError(f"sample_weight has shape {weights.shape}; expected ({n},)")
        H = RouteHypergraph.from_routes(
            [routes[i] for i in train],
            None if weights is None else weights[train],
            self.cost,
            self.universe,
        )
        self.order_ = method(H)
        self.__dict__.pop("threshold_", None)
        if kept:
            self.calibrate([routes[i] for i in held_out])
        return self

    def calibrate(self, routes: Iterable[Route]) -> ConformalSubgraph:
        """Choose how many elements to keep, on routes that `fit` did not order elements by.

        A route with an element that training does not know counts as never covered, with a
        warning.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If there is no route.
        """
        check_is_fitted(self, "order_")
        scores = self.order_.scores(routes)
        if not len(scores):
            raise ValueError("routes is empty; give at least 1 calibration route")
        unknown = int(np.isinf(scores).sum())
        if unknown:
            warnings.warn(
                f"{unknown} of {len(scores)} calibration routes have an element outside the "
                "universe and count as never covered; give universe= if you know all elements",
                FalllineWarning,
                stacklevel=2,
            )
        r = conformal_quantile(scores, self.coverage, finite_sample=self.finite_sample)
        if math.isinf(r):
            why = (
                "too many have an element outside the universe"
                if unknown
                else f"a coverage of {self.coverage} needs at least "
                f"{math.ceil(self.coverage / (1 - self.coverage) * (1 - 1e-12))}"
            )
            warnings.warn(
                f"{len(scores)} calibration routes are not enough ({why}): the whole universe is "
                "returned",
                FalllineWarning,
                stacklevel=2,
            )
            r = self.order_.hypergraph.n
        self.threshold_ = int(r)
        self.n_calibration_ = len(scores)
        self.size_ = int(np.count_nonzero(self.order_.ranks <= r))
        return self

    def predict(self) -> set[Hashable]:
        """Return the elements that contain the next route with probability >= `coverage`.

        Raises
        ------
        NotFittedError
            Before `calibrate`.
        """
        self._check_calibrated()
        return self.order_.prefix(self.threshold_)

    def subgraph(self, G: Any, element: Element = "edge") -> Any:
        """Return the chosen part of a networkx graph, whose edges or nodes the elements are."""
        return subgraph(G, self.predict(), element)

    def score(self, routes: Iterable[Route], y: object = None) -> float:
        """Return the share of these routes that lie inside the chosen elements."""
        self._check_calibrated()
        scores = self.order_.scores(routes)
        if not len(scores):
            raise ValueError("routes is empty; a share needs at least 1 route")
        return float(np.mean(scores <= self.threshold_))

    def _check_calibrated(self) -> None:
        check_is_fitted(self, "order_")
        if not hasattr(self, "threshold_"):
            raise NotFittedError(
                "this ConformalSubgraph is not calibrated; call calibrate(routes) with routes that "
                "fit has not seen, or fit with calibration_fraction > 0"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "order_")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        # Routes are iterables of hashable elements, not rows of a matrix.
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags
