"""The product node as a scikit-learn classifier of sparse binary data."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fallline._errors import FalllineWarning
from fallline.parity import kernel
from fallline.parity.checks import check_count, check_density, check_rate
from fallline.parity.recursion import mean_field
from fallline.parity.stability import safe_rate, stability_limit


class ParityConvergenceWarning(FalllineWarning, ConvergenceWarning):  # type: ignore[misc]
    """Training ended before the weights were near 0 and 1."""


class ParityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Find which binary features a parity (XOR) is made of, from sparse and possibly noisy data.

    Parameters
    ----------
    density
        Density of ones that the automatic step size is laid out for: "inverse" is 1/N, where
        convergence is proved; or a number in (0, 1]. Whatever is planned, the step size stays
        below a quarter of the stability limit at the density of the data.
    learning_rate
        Step size; "auto" is min(M, N) / 10 at density 1/N (see `suggest`).
    batch_size
        Samples per step M; "auto" is min(N, number of samples).
    max_steps
        The most steps of one `fit`.
    tol
        Converged when the weights of the features seen are this near 0 or 1 on average. With
        flipped labels they settle further away (`label_noise_mean`): ask for less then.
    init_std
        The initial weights are Normal(1/2, init_std^2).
    random_state
        Draws the initial weights and the order of the samples.
    warm_start
        Go on from `coef_` in the next `fit`.

    Attributes
    ----------
    coef_ : ndarray of shape (N,)
        Weights; a feature never seen active keeps its initial one.
    support_ : ndarray
        Indices of the features with a weight above 1/2, among those seen active.
    coverage_ : float
        Share of features seen active at least once.
    n_iter_ : int
        Steps taken.
    converged_ : bool
        Whether the tolerance was reached.
    history_ : dict
        "step" and "distance" (mean distance of the seen weights from 0 or 1), after each pass.
    classes_ : ndarray of shape (2,)
        The label of even parity and that of odd parity.

    Raises
    ------
    ValueError
        If X holds anything but 0 and 1, y has more or less than two classes, or a setting is out
        of range.

    Warns
    -----
    ConvergenceWarning
        If training ended unconverged.
    FalllineWarning
        If the step size is above the stability limit, or the weights are no longer finite.

    References
    ----------
    arXiv:2605.28612.

    Examples
    --------
    >>> from fallline.parity import ParityClassifier, ParityStream
    >>> X, y = ParityStream(200, support=[7, 77, 177], seed=0).sample(10_000)
    >>> model = ParityClassifier(random_state=0).fit(X, y)
    >>> model.support_.tolist(), model.converged_, model.score(X, y)
    ([7, 77, 177], True, 1.0)
    """

    def __init__(
        self,
        density: float | str = "inverse",
        learning_rate: float | str = "auto",
        batch_size: int | str = "auto",
        max_steps: int = 10_000,
        tol: float = 0.01,
        init_std: float = 0.25,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.density = density
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.tol = tol
        self.init_std = init_std
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, N) of 0 and 1, dense or sparse, and y (n,) of two classes."""
        going_on = self.warm_start and hasattr(self, "coef_")
        bits, y = self._check(X, y, reset=not going_on)
        self.classes_ = _two_classes(np.unique(y))
        if not going_on:
            self._start(bits.shape[1])
        signs = self._signs(y)
        M, alpha, last = self._settings(bits, fitting=True)
        self.n_iter_, self.converged_ = 0, False
        self.history_: dict[str, list[float]] = {"step": [], "distance": []}
        self._see(bits)
        while self.n_iter_ < last and not self.converged_:
            self._pass(bits, signs, M, alpha, last - self.n_iter_)
            if not math.isfinite(self.history_["distance"][-1]):
                break
        self._conclude()
        self._warn_of_the_end(alpha, bits)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Take one pass over X and y; the first call needs the two `classes`."""
        first = not hasattr(self, "coef_")
        bits, y = self._check(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("the first call of partial_fit needs classes, got None")
            self.classes_ = _two_classes(np.unique(classes))
            self._start(bits.shape[1])
            self.n_iter_, self.converged_ = 0, False
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds the class {unknown[0]!r}, not in {self.classes_.tolist()}")
        signs = self._signs(y)
        M, alpha, _ = self._settings(bits, fitting=False)
        self._see(bits)
        self._pass(bits, signs, M, alpha, len(y))
        self._conclude()
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return -Pi of each row: near 1 for odd parity, near -1 for even parity."""
        check_is_fitted(self)
        bits = self._bits(validate_data(self, X, accept_sparse="csr", reset=False))
        Pi = np.empty((bits.shape[0], 1))
        # A memory-mapped model is read-only, and the kernels know writable arrays alone.
        w = np.require(self.coef_, requirements="W")[:, np.newaxis]
        kernel.nodes(w, bits.indptr, bits.indices, Pi)
        return -Pi[:, 0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, by the sign of Pi.

        The sign is counted, so that it survives where the product of many factors underflows.
        """
        check_is_fitted(self)
        bits = self._bits(validate_data(self, X, accept_sparse="csr", reset=False))
        odd = (bits.astype(np.int64) @ (self.coef_ > 0.5).astype(np.int64)) % 2
        predicted: NDArray[Any] = self.classes_[odd]
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # few questions are a parity
        return tags

    def _check(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Any, NDArray[Any]]:
        X, y = validate_data(self, X, y, accept_sparse="csr", reset=reset)
        check_classification_targets(y)
        return self._bits(X), np.asarray(y)

    def _bits(self, X: Any) -> Any:
        """Return X as a CSR array of ones with sorted 32-bit indices."""
        if not issparse(X):
            _refuse(X, np.nonzero((X != 0) & (X != 1)))
        bits = csr_array(X, copy=issparse(X))
        bits.sum_duplicates()
        bits.eliminate_zeros()
        wrong = np.flatnonzero(bits.data != 1)[:1]
        rows = np.searchsorted(bits.indptr, wrong, side="right") - 1
        _refuse(bits, (rows, bits.indices[wrong]))
        bits.indptr = bits.indptr.astype(np.int32, copy=False)
        bits.indices = bits.indices.astype(np.int32, copy=False)
        return bits

    def _signs(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(y == self.classes_[1], -1.0, 1.0)[:, np.newaxis]

    def _start(self, N: int) -> None:
        if not self.init_std >= 0:
            raise ValueError(f"init_std must be >= 0, got {self.init_std!r}")
        self._random = check_random_state(self.random_state)
        self.coef_ = self._random.normal(0.5, self.init_std, N)
        self._seen = np.zeros(N, bool)
        self.history_ = {"step": [], "distance": []}

    def _settings(self, bits: Any, *, fitting: bool) -> tuple[int, float, int]:
        """Batch size, step size and most steps for these data."""
        n, N = bits.shape
        last = check_count(self.max_steps, "max_steps")
        if not self.tol > 0:
            raise ValueError(f"tol must be > 0, got {self.tol!r}")
        M = min(n, N) if self.batch_size == "auto" else check_count(self.batch_size, "batch_size")
        planned = None if self.density == "inverse" else check_density(self.density, "density")
        p_e = bits.nnz / (n * N)
        if self.learning_rate == "auto":
            # A fifth of the limit where the density is as planned, and never above a quarter.
            room = stability_limit(N, p_e) / 4 if p_e > 0 else math.inf
            return M, min(safe_rate(N, M, planned), room), last
        alpha = check_rate(self.learning_rate, "learning_rate")
        if p_e > 0 and alpha > stability_limit(N, p_e):
            warnings.warn(
                f"learning_rate = {alpha:.6g} is above the stability limit "
                f"{stability_limit(N, p_e):.6g} of N = {N} at density {p_e:.3g}",
                FalllineWarning,
                stacklevel=3,
            )
        return M, alpha, last

    def _see(self, bits: Any) -> None:
        self._seen[bits.indices] = True
        self.coverage_ = float(self._seen.mean())

    def _pass(self, bits: Any, signs: NDArray[np.float64], M: int, alpha: float, most: int) -> None:
        """Take a pass over the data in a new order, or its first `most` steps."""
        order = self._random.permutation(bits.shape[0])[: most * M]
        self.coef_ = np.require(self.coef_, requirements="W")
        w = self.coef_[:, np.newaxis]
        kernel.pass_over(w, bits.indptr, bits.indices, signs, order, M, alpha / M)
        self.n_iter_ += -(-len(order) // M)
        w = self.coef_[self._seen]
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.minimum(np.abs(w), np.abs(1.0 - w))
        distance = float(near.mean()) if len(near) else 0.0
        self.history_["step"].append(self.n_iter_)
        self.history_["distance"].append(distance)
        self.converged_ = distance < self.tol

    def _conclude(self) -> None:
        self.support_ = np.flatnonzero((self.coef_ > 0.5) & self._seen)

    def _warn_of_the_end(self, alpha: float, bits: Any) -> None:
        if self.converged_:
            return
        n, N = bits.shape
        p_e = bits.nnz / (n * N)
        limit, distance = stability_limit(N, p_e), self.history_["distance"][-1]
        if not math.isfinite(distance):
            warnings.warn(
                f"the weights are no longer finite after {self.n_iter_} steps at learning_rate = "
                f"{alpha:.6g}; the stability limit is {limit:.6g}",
                FalllineWarning,
                stacklevel=3,
            )
            return
        predicted = mean_field(N, alpha, p_e, sigma0=self.init_std, steps=10 * self.max_steps).steps
        cost = f"more than {10 * self.max_steps}" if predicted is None else f"about {predicted}"
        warnings.warn(
            f"not converged after {self.n_iter_} steps: the weights are {distance:.3g} from 0 and "
            f"1 on average (tol = {self.tol:.3g}), with {self.coverage_:.0%} of the features seen. "
            f"Noise-free labels of a parity would take {cost} steps. Raise max_steps, use sparser "
            "samples, or raise tol if labels are noisy",
            ParityConvergenceWarning,
            stacklevel=3,
        )


def _two_classes(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(classes)}."
        )
    if len(classes) < 2:
        raise ValueError(f"a parity needs two classes, got the one class {classes.tolist()}")
    return classes


def _refuse(X: Any, where: tuple[NDArray[Any], ...]) -> None:
    if len(where[0]):
        row, column = int(where[0][0]), int(where[1][0])
        raise ValueError(
            f"X must hold only 0 and 1, got {X[row, column].item()!r} at row {row}, column {column}"
        )
