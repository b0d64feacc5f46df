"""Plain minibatch SGD of the product node on a stream, at a cost of the active bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fallline._errors import FalllineWarning
from fallline.parity import kernel
from fallline.parity.checks import check_count, check_density, check_rate
from fallline.parity.stability import stability_limit
from fallline.parity.stream import ParityStream, check_room

if TYPE_CHECKING:
    from fallline.parity.layer import ParityProduct

Schedule: TypeAlias = float | Callable[[int], float]
EXACT_EVERY = 1000


@dataclass(frozen=True, eq=False)
class StreamResult:
    """What `train_stream` found.

    `steps` and `samples` were taken; `distance` is the mean of |w - w*| at the end and
    `converged` whether it is below the tolerance; `support_errors` counts the weights on the wrong
    side of 1/2; `first_steps` (P,) holds each output's first step with a mean distance below the
    tolerance, or -1.
    """

    steps: int
    samples: int
    converged: bool
    distance: float
    support_errors: int
    first_steps: NDArray[np.int64]


def train_stream(
    weights: ParityProduct | NDArray[np.float64],
    stream: ParityStream,
    lr: Schedule,
    batch_size: int,
    max_steps: int,
    tol: float = 0.01,
    callback: Callable[[int, float], object] | None = None,
    *,
    every: int = EXACT_EVERY,
    density: Schedule | None = None,
    each_output: bool = False,
) -> StreamResult:
    """Train on fresh samples of `stream`, in place, until the mean of |w - w*| is below `tol`.

    A step costs O(active bits times outputs) time: it equals dense minibatch SGD on the loss
    `parity_loss`, since an inactive bit has no gradient.

    Parameters
    ----------
    weights
        A `ParityProduct` on the CPU, or a float64 array (N,) or (N, P); changed in place.
    stream
        Where samples come from; it is advanced.
    lr
        Step size, typically min(M, N) / 10; or a function of the step, from 0 on.
    batch_size
        Samples per step M.
    max_steps
        The most steps to take.
    tol
        Distance that counts as converged.
    callback
        Called as `callback(step, distance)` every `every` steps; training stops if it returns
        True.
    every
        Steps between calls.
    density
        Density of the samples instead of the stream's, as a number or a function of the step.
    each_output
        Go on until every output's own distance has been below `tol`, and not only their mean.

    Raises
    ------
    ValueError
        If an argument is out of range or shapes do not match.

    Warns
    -----
    FalllineWarning
        If `lr` is above the stability limit, or the weights are no longer finite.

    References
    ----------
    arXiv:2605.28612: the node, the loss and the optimizer; the sparse engine is ours.

    Examples
    --------
    >>> import numpy as np
    >>> stream = ParityStream(10_000, support=[3, 14, 159], seed=0)
    >>> weights = np.random.default_rng(1).normal(0.5, 0.25, 10_000)
    >>> result = train_stream(weights, stream, lr=1000, batch_size=10_000, max_steps=100)
    >>> result.converged, result.support_errors, np.flatnonzero(weights > 0.5).tolist()
    (True, 0, [3, 14, 159])
    """
    w, write_back = _as_matrix(weights, stream)
    M, last = check_count(batch_size, "batch_size"), check_count(max_steps, "max_steps")
    every = check_count(every, "every")
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    density = stream.p_e if density is None else density
    target = stream._bits
    N, P = w.shape
    hits = np.full(P, -1, np.int64)
    distance = _distances(w, target)
    converged = not each_output and distance.sum() < tol * N * P
    step, warned, stopped = 0, False, converged
    while step < last and not stopped:
        # The running sums drift by rounding: they are taken anew from time to time.
        stop = min(last, step + EXACT_EVERY, (step // every + 1) * every)
        alpha = _along(lr, step, stop, check_rate)
        p_e = _along(density, step, stop, check_density)
        check_room(M, N, p_e.max())
        warned = warned or _warn_if_unstable(N, alpha, p_e)
        taken = kernel.train(
            stream.rng, w, target, p_e, alpha, M, stream.noise, tol, each_output, step,
            distance, hits,
        )  # fmt: skip
        step += taken
        with np.errstate(invalid="ignore", over="ignore"):
            distance = _distances(w, target)
        converged = hits.min() >= 0 if each_output else distance.sum() < tol * N * P
        stopped = bool(converged)
        if not np.isfinite(distance).all():
            limit = stability_limit(N, float(p_e[taken - 1]))
            warnings.warn(
                f"the weights are no longer finite after {step} steps at lr = "
                f"{alpha[taken - 1]:.6g}; the stability limit is {limit:.6g}, and M >= 10 lr "
                f"keeps the noise of sampling small (M = {M})",
                FalllineWarning,
                stacklevel=2,
            )
            stopped = True
        if callback is not None and (step % every == 0 or stopped or step == last):
            stopped = bool(callback(step, float(distance.mean() / N))) or stopped
    write_back()
    return StreamResult(
        steps=step,
        samples=step * M,
        converged=bool(converged),
        distance=float(distance.mean() / N),
        support_errors=int(((w > 0.5) != target).sum()),
        first_steps=hits,
    )


def _as_matrix(
    weights: ParityProduct | NDArray[np.float64], stream: ParityStream
) -> tuple[NDArray[np.float64], Callable[[], None]]:
    """Return contiguous float64 weights (N, P), and what brings a copy back to the caller."""
    given: Any = weights
    if not isinstance(weights, np.ndarray):
        if not hasattr(weights, "weight"):
            raise TypeError(
                f"weights must be a ParityProduct or a float64 array, got {type(weights).__name__}"
            )
        parameter = weights.weight.detach()
        if parameter.device.type != "cpu":
            raise ValueError(f"the model must be on the CPU, got {parameter.device}: model.cpu()")
        given = parameter.numpy()  # shares its memory
    elif weights.dtype != np.float64:
        raise TypeError(f"weights must be float64, got {weights.dtype}")
    fine = given.shape == stream.target.shape or given.shape == (
        stream.n_features,
        stream.n_outputs,
    )
    if not fine:
        raise ValueError(
            f"weights have shape {given.shape}, the stream's target {stream.target.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError("weights must be finite")
    w = np.ascontiguousarray(given, np.float64).reshape(stream.n_features, stream.n_outputs)
    if np.shares_memory(w, given):
        return w, lambda: None

    def write_back() -> None:
        given[...] = w.reshape(given.shape)

    return w, write_back


def _distances(w: NDArray[np.float64], target: NDArray[np.uint8]) -> NDArray[np.float64]:
    distances: NDArray[np.float64] = np.abs(w - target).sum(axis=0)
    return distances


def _along(
    value: Schedule, step: int, stop: int, check: Callable[[float], float]
) -> NDArray[np.float64]:
    if callable(value):
        return np.array([check(value(k)) for k in range(step, stop)])
    return np.full(stop - step, check(value))


def _warn_if_unstable(N: int, alpha: NDArray[np.float64], p_e: NDArray[np.float64]) -> bool:
    over = alpha * p_e * (1.0 + (N - 1) * p_e)
    k = int(over.argmax())
    if over[k] <= 1.0:
        return False
    warnings.warn(
        f"lr = {alpha[k]:.6g} is above the stability limit {stability_limit(N, p_e[k]):.6g} of "
        f"N = {N} at density {p_e[k]:.3g}: the weights will not settle",
        FalllineWarning,
        stacklevel=3,
    )
    return True
