"""One subgraph per context: around a predicted route, or from a model's candidate routes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from fallline._errors import FalllineWarning
from fallline.conformal.calibration import TOLERANCE, conformal_quantile
from fallline.conformal.hypergraph import RouteHypergraph
from fallline.conformal.nested import NestedSubgraphs, nested_subgraphs

Route: TypeAlias = Iterable[Hashable]
Distance = Callable[[Any, Any], float]


class ContextualConformalSubgraph(BaseEstimator):  # type: ignore[misc]
    """A small subgraph for each context, that contains the route taken with a promised probability.

    The variable context of "Compact Conformal Subgraphs", arXiv:2602.07530. `fit` finds the radius
    d* within which the taken route lies of the predicted one with probability 1 - `delta`;
    `calibrate` finds the share tau* of the candidates' mass that has to be kept. Coverage is then
    at least `coverage` - `delta`. Shares of mass are compared across contexts, since ranks cannot.

    With `distance=None` there is no first stage: contexts are anything, candidates come from a
    model with their probabilities, and `fit` may be left out. Coverage is then at least `coverage`
    minus the probability that the taken route lies outside all candidates.

    Parameters
    ----------
    candidates
        `candidates(predicted, radius)`, or `candidates(context)` without a distance: the routes
        near the predicted one, each an iterable of elements; or a `RouteHypergraph`, which has
        weights and costs. It must be a pure function of its arguments.
    distance
        `distance(predicted, taken) >= 0`; `"missing"` counts the elements of the taken route that
        the predicted one lacks.
    coverage
        Wanted probability of the second stage, in (0, 1).
    delta
        Allowed probability that the first stage misses, in (0, 1).

    Attributes
    ----------
    radius_ : float
        d*.
    threshold_ : float
        tau*.
    n_calibration_ : int
        Number of calibration pairs.

    Examples
    --------
    >>> ways = {
    ...     "north": RouteHypergraph.from_routes([["a", "b"], ["a", "c"]], [0.8, 0.2]),
    ...     "south": [["d"], ["e"]],
    ... }
    >>> model = ContextualConformalSubgraph(ways.get, distance=None, coverage=0.7)
    >>> contexts = ["north"] * 10 + ["south"] * 10
    >>> taken = [["a", "b"]] * 9 + [["a", "c"]] + [["d"]] * 6 + [["e"]] * 4
    >>> model = model.calibrate(contexts, taken)
    >>> model.threshold_, sorted(model.predict("north")), sorted(model.predict("south"))
    (0.8, ['a', 'b'], ['d', 'e'])
    """

    def __init__(
        self,
        candidates: Callable[..., Any],
        distance: Literal["missing"] | Distance | None = "missing",
        coverage: float = 0.9,
        delta: float = 0.02,
    ) -> None:
        self.candidates = candidates
        self.distance = distance
        self.coverage = coverage
        self.delta = delta

    def fit(
        self, predicted: Sequence[Any] | None = None, taken: Sequence[Route] | None = None
    ) -> ContextualConformalSubgraph:
        """Find the radius around predicted routes that holds the taken ones.

        Parameters
        ----------
        predicted, taken
            Pairs of a predicted route (context) and the route taken (n1); needless without a
            distance.

        Raises
        ------
        ValueError
            If a parameter is out of range, or there are too few pairs for `delta`.
        """
        self._check_parameters()
        if self.distance is None:
            self.radius_ = math.inf
            return self
        pairs = _pairs(predicted, taken)
        distances = [self._distance(a, b) for a, b in pairs]
        radius = conformal_quantile(distances, 1 - self.delta)
        if math.isinf(radius):
            least = math.ceil((1 - self.delta) / self.delta * (1 - TOLERANCE))
            raise ValueError(
                f"{len(pairs)} pairs are too few for delta={self.delta}, which needs {least}; "
                "give more or raise delta"
            )
        self.radius_ = radius
        return self

    def calibrate(
        self, predicted: Sequence[Any], taken: Sequence[Route]
    ) -> ContextualConformalSubgraph:
        """Find the share of the candidates' mass to keep, on pairs that `fit` has not seen.

        Raises
        ------
        NotFittedError
            Before `fit`, if there is a distance.
        ValueError
            If there is no pair.
        """
        self._check_parameters()
        self._radius()
        scores, outside = [], 0
        for context, route in _pairs(predicted, taken):
            # A route beyond the radius scores 1 whatever the candidates: stage one missed it.
            near = self.distance is None or self._distance(context, route) <= self._radius()
            share = _share(self.chain(context), route) if near else None
            outside += near and share is None
            scores.append(1.0 if share is None else share)
        if outside:
            warnings.warn(
                f"{outside} of {len(scores)} calibration routes lie outside all candidates of "
                "their context: coverage falls short by about that share",
                FalllineWarning,
                stacklevel=2,
            )
        threshold = conformal_quantile(scores, self.coverage)
        if math.isinf(threshold):
            warnings.warn(
                f"{len(scores)} calibration pairs are too few for coverage={self.coverage}: the "
                "union of the candidates is returned",
                FalllineWarning,
                stacklevel=2,
            )
        self.threshold_ = min(threshold, 1.0)
        self.n_calibration_ = len(scores)
        return self

    def predict(self, predicted: Any) -> set[Hashable]:
        """Return the subgraph of one context.

        Raises
        ------
        NotFittedError
            Before `calibrate`.
        """
        if not hasattr(self, "threshold_"):
            raise NotFittedError("this estimator is not calibrated; call calibrate first")
        return self.chain(predicted).prefix_at_mass(self.threshold_)

    def chain(self, predicted: Any) -> NestedSubgraphs:
        """Return the nested family of one context's candidates."""
        if self.distance is None:
            found = self.candidates(predicted)
        else:
            found = self.candidates(predicted, self._radius())
        H = found if isinstance(found, RouteHypergraph) else RouteHypergraph.from_routes(found)
        return nested_subgraphs(H)

    def score(self, predicted: Sequence[Any], taken: Sequence[Route]) -> float:
        """Return the share of the taken routes that lie inside their context's subgraph."""
        covered = [self.predict(a).issuperset(b) for a, b in _pairs(predicted, taken)]
        return float(np.mean(covered))

    def _distance(self, predicted: Any, taken: Any) -> float:
        if callable(self.distance):
            return float(self.distance(predicted, taken))
        return float(len(set(taken) - set(predicted)))

    def _radius(self) -> float:
        if self.distance is None:
            return math.inf
        if not hasattr(self, "radius_"):
            raise NotFittedError("this estimator is not fitted; call fit(predicted, taken) first")
        return self.radius_

    def _check_parameters(self) -> None:
        for name in ("coverage", "delta"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}; it must be in (0, 1)")
        if not (self.distance is None or self.distance == "missing" or callable(self.distance)):
            raise ValueError(
                f"distance={self.distance!r}; give 'missing', a function, or None for no first "
                "stage"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _share(chain: NestedSubgraphs, route: Route) -> float | None:
    """Return the least share of mass at which the family holds the route; None if it never does.

    A share selects the first prefix that reaches it, so a route that is no candidate itself, and
    ends with an element that completes none, has to wait for the next one that does.
    """
    masses = chain.prefix_masses
    r = chain.score(route)
    if math.isinf(r):
        return None
    reached = np.flatnonzero(masses > masses[max(int(r) - 1, 0)])
    if r > 0 and not len(reached):
        return None
    return float(masses[reached[0] if r > 0 else 0] / masses[-1])


def _pairs(
    predicted: Sequence[Any] | None, taken: Sequence[Route] | None
) -> list[tuple[Any, Collection[Hashable]]]:
    predicted, taken = list(predicted or ()), list(taken or ())
    if not predicted or len(predicted) != len(taken):
        raise ValueError(
            f"there are {len(predicted)} predicted and {len(taken)} taken routes; give as many of "
            "both, at least 1"
        )
    return [(a, list(b)) for a, b in zip(predicted, taken)]
