"""Which step sizes converge: the sharp local limit, the paper's sufficient bounds, defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fallline.parity.checks import check_count, check_density


def stability_limit(N: int, p_e: float) -> float:
    """Return the step size above which SGD on the expected gradient leaves the solution.

    At the solution the Hessian is 2 p (1 - p) I + 2 p^2 s s^T with s_i = 1 - 2 w*_i, whose largest
    eigenvalue is 2 p (1 + (N - 1) p); the limit is two over it. At p = 1/N it is about N / 2.

    Parameters
    ----------
    N
        Number of inputs.
    p_e
        Density of the inputs, in (0, 1].

    Raises
    ------
    ValueError
        If `N` < 1 or `p_e` is out of range.

    References
    ----------
    Derived here; arXiv:2605.28612 finds N / 2 by experiment.

    Examples
    --------
    >>> round(stability_limit(100, 0.01), 7)
    50.2512563
    """
    N, p_e = check_count(N, "N"), check_density(p_e)
    return 1.0 / (p_e * (1.0 + (N - 1) * p_e))


@dataclass(frozen=True)
class PaperBounds:
    """Step sizes that the paper proves sufficient at p_e = 1/N; made by `paper_bounds`.

    `alpha0` > `alpha1` > `alpha2`; below `alpha2` the spread of the weights vanishes and their
    mean ends in `interval_at(alpha)`, around 0 for inputs out of the support and around 1 for
    those in it. `alpha2`, `interval` and `interval_at` raise a ValueError for N < 18.
    """

    N: int

    @property
    def alpha0(self) -> float:
        """First bound."""
        return self.N * math.exp(-(72 * self.N - 9) / (32 * self.N - 72))

    @property
    def alpha1(self) -> float:
        """Half of the first bound."""
        return self.alpha0 / 2

    @property
    def alpha2(self) -> float:
        """Bound below which spread and mean are both proved to settle."""
        return self.N * (3 - 2 * math.exp(self._epsilon)) / (4 * self._reach)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the class-0 mean ends as alpha goes to 0."""
        return -0.5 * math.expm1(self._epsilon), -0.5 * math.expm1(-self._epsilon)

    def interval_at(self, alpha: float) -> tuple[float, float]:
        """Where the class-0 mean ends at step size alpha < alpha2."""
        if not 0 < alpha < self.alpha2:
            raise ValueError(f"alpha must lie in (0, alpha2 = {self.alpha2:.6g}), got {alpha!r}")
        low, high = self.interval
        delta = alpha / self.N * self._reach
        return low - delta, high + delta

    @property
    def _epsilon(self) -> float:
        if self.N < 18:
            raise ValueError(f"alpha2 and the interval are proved for N >= 18, got N = {self.N}")
        return (402 * self.N - 216) / (2 * self.N * (32 * self.N - 72))

    @property
    def _reach(self) -> float:
        eta_xi, eta_zeta = 153 / (32 * self.N - 72), 3 / (2 * self.N)
        return 1.5 * math.exp(9 / 4 + eta_xi) - math.exp(-1 - eta_zeta)


def paper_bounds(N: int) -> PaperBounds:
    """Return the paper's sufficient bounds on the step size at p_e = 1/N.

    Parameters
    ----------
    N
        Number of inputs, at least 3; `alpha2` and the interval need 18.

    Raises
    ------
    ValueError
        If `N` is too small.

    References
    ----------
    arXiv:2605.28612, propositions 17 to 19.

    Examples
    --------
    >>> bounds = paper_bounds(100)
    >>> [round(a, 6) for a in (bounds.alpha0, bounds.alpha1, bounds.alpha2)]
    [10.036788, 5.018394, 1.488074]
    """
    return PaperBounds(check_count(N, "N", least=3))


@dataclass(frozen=True)
class Suggestion:
    """Settings and what they cost: made by `suggest`. Without convergence both counts are None."""

    p_e: float
    lr: float
    batch_size: int
    steps: int | None
    samples: int | None


def suggest(N: int, batch_size: int | None = None, *, p_e: float | None = None) -> Suggestion:
    """Return a density and a step size that converge, and the predicted cost.

    The step size is min(M, N) / 10 at density 1/N: a tenth of the batch keeps the noise of
    sampling small, a tenth of N is a fifth of the stability limit. At another density p_e, N
    gives way to 2 / (p_e (1 + N p_e)), which is the same fifth. The predicted steps are those of
    the mean field; where lr = M / 10 the noise of sampling adds about a fifth to them.

    Parameters
    ----------
    N
        Number of inputs.
    batch_size
        Samples per step M; by default N.
    p_e
        Density of the inputs where it is not free to choose; by default 1/N, where convergence is
        proved. Where the step size is small, 2.25 / N needs 0.72 times the steps.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> suggest(1000)
    Suggestion(p_e=0.001, lr=100.0, batch_size=1000, steps=21, samples=21000)
    """
    from fallline.parity.recursion import mean_field

    N = check_count(N, "N")
    M = N if batch_size is None else check_count(batch_size, "batch_size")
    lr = safe_rate(N, M, None if p_e is None else check_density(p_e))
    p_e = 1.0 / N if p_e is None else float(p_e)
    steps = mean_field(N, lr, p_e).steps
    return Suggestion(p_e, lr, M, steps, None if steps is None else steps * M)


def safe_rate(N: int, M: int, p_e: float | None = None) -> float:
    """Return the step size of `suggest`."""
    room = N if p_e is None else 2.0 / (p_e * (1.0 + N * p_e))
    return min(M, room) / 10.0
