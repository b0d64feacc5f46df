"""Split conformal thresholds, and risk control over a nested family."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fallline._errors import FalllineWarning
from fallline.conformal.hypergraph import Floats, add_up
from fallline.conformal.order import ElementOrder

# Conditions such as 0.9 * 10 <= 9 and sums of shares such as 1/3 must not turn on rounding.
TOLERANCE = 1e-12

Loss = Callable[[Collection[Hashable], set[Hashable]], float]


def conformal_quantile(scores: ArrayLike, coverage: float, *, finite_sample: bool = True) -> float:
    """Return the ceil(coverage (n + 1))-th smallest of n scores; inf if there are fewer.

    A new score that is exchangeable with them is at most that with probability >= `coverage`.

    Parameters
    ----------
    scores
        Scores (n,), n >= 1; inf is allowed.
    coverage
        Wanted probability, in (0, 1].
    finite_sample
        False takes the ceil(coverage n)-th, the literal rule of arXiv:2602.07530: empirical
        coverage, which can fall short on new data by up to 1 / (n + 1).

    Examples
    --------
    >>> conformal_quantile([1, 2, 3, 4, 5, 6, 7], 0.75)
    6.0
    >>> conformal_quantile([1, 2, 3], 0.9)
    inf
    """
    values = np.sort(np.asarray(scores, dtype=np.float64))
    if values.ndim != 1 or not len(values):
        raise ValueError(f"scores has shape {values.shape}; at least one score is needed")
    if np.isnan(values).any():
        raise ValueError("scores has a NaN; a route that cannot be covered has the score inf")
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage={coverage!r}; it must be in (0, 1]")
    n = len(values)
    k = math.ceil(coverage * (n + finite_sample) * (1 - TOLERANCE))
    return float(values[k - 1]) if k <= n else math.inf


def control_risk(
    chain: ElementOrder,
    routes: Sequence[Collection[Hashable]],
    loss: Literal["missed_share"] | Loss = "missed_share",
    alpha: float = 0.1,
    method: Literal["crc", "rcps"] = "crc",
    delta: float = 0.1,
) -> int:
    """Return the smallest rank r whose prefix keeps the expected loss at most `alpha`.

    Parameters
    ----------
    chain
        The nested family, from `nested_subgraphs` or a baseline.
    routes
        Calibration routes (n), which the chain must not have seen.
    loss
        `"missed_share"`, |route - K| / |route|; or a function of a route and a subgraph with
        values in [0, 1] that does not increase when the subgraph grows.
    alpha
        Wanted bound of the risk, in (0, 1).
    method
        `"crc"`, conformal risk control: (n R + 1) / (n + 1) <= alpha, where R is the mean loss on
        the routes; the expected loss on a new route is then at most alpha. `"rcps"`, by
        Hoeffding's bound: R + sqrt(log(1 / delta) / (2 n)) <= alpha; the risk is then at most
        alpha with probability 1 - delta over the routes.
    delta
        As above, in (0, 1).

    Returns
    -------
    int
        A rank for `chain.prefix`. If none is enough it is n, with a `FalllineWarning`.

    Examples
    --------
    >>> from fallline.conformal import RouteHypergraph, nested_subgraphs
    >>> H = RouteHypergraph.from_routes([["a"], ["b"], ["c"]], weights=[3, 2, 1])
    >>> control_risk(nested_subgraphs(H), [["a"]] * 8 + [["b"]] * 12, alpha=0.5)
    2
    """
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name}={value!r}; it must be in (0, 1)")
    n = len(routes)
    if n < 1:
        raise ValueError("routes is empty; at least one calibration route is needed")
    if method == "crc":
        most = alpha * (n + 1) - 1
    elif method == "rcps":
        most = n * (alpha - math.sqrt(math.log(1 / delta) / (2 * n)))
    else:
        raise ValueError(f"method={method!r}; choose 'crc' or 'rcps'")
    most += TOLERANCE * n

    last = chain.hypergraph.n
    if loss == "missed_share":
        r = int(np.argmax(np.append(_missed(chain, routes) <= most, True)))
    elif callable(loss):
        r = _bisect(lambda r: math.fsum(loss(x, chain.prefix(r)) for x in routes) <= most, last)
    else:
        raise ValueError(f"loss={loss!r}; give 'missed_share' or a function")
    if r > last:
        warnings.warn(
            f"no subgraph keeps the risk at {alpha}: {n} calibration routes are too few, or they "
            "use elements that the chain does not know; the whole universe is returned",
            FalllineWarning,
            stacklevel=2,
        )
    return min(r, last)


def _missed(chain: ElementOrder, routes: Sequence[Collection[Hashable]]) -> Floats:
    """Return the sum over routes of the missed share, for the prefix of each rank 0..n."""
    n = chain.hypergraph.n
    rank: dict[Any, int] = chain.rank
    distinct = [set(route) for route in routes]
    sizes = np.array([len(route) for route in distinct])
    entered = np.array([rank.get(x, n + 1) for route in distinct for x in route], dtype=np.int64)
    shares = np.repeat(1 / np.maximum(sizes, 1), sizes)
    # An element that enters at rank k is missed by the prefixes below k.
    added = add_up(entered, shares, n + 2)
    return np.cumsum(added[::-1])[::-1][1:]


def _bisect(enough: Callable[[int], bool], last: int) -> int:
    """Return the least r in 0..last that is enough, by halving, or last + 1."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
