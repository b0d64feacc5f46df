"""A convex learning problem whose one empirical minimizer is bad, with every risk exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.sco.codes import LinearCode, Vector
from fallline.sco.families import Family, code_for
from fallline.sco.maxima import ORACLES, Maxima

if TYPE_CHECKING:
    import cvxpy

    from fallline.sco.certificate import ERMCertificate
    from fallline.sco.descent import Average, Trajectory
    from fallline.sco.torch_module import HardLoss

Points = NDArray[np.intp]


class ExcessParts(NamedTuple):
    """What each term of the loss adds to a risk above the population minimum."""

    A: float
    C: float
    Phi: float
    ridge: float


class HardInstance:
    """An instance of stochastic convex optimization whose unique ERM has constant excess risk.

    It has the properties proved by Burla and Livni, "All ERMs Can Fail in Stochastic Convex
    Optimization: Lower Bounds in Linear Dimension" (arXiv:2602.08350): dimension linear in the
    sample size m, a unique empirical minimizer with constant excess risk (here for every sample),
    strong convexity of order m^-1.5, and learning by one pass of SGD. The construction is
    fallline's own.

    A point is x = (y, u) with y in R^N and u in R^n, on the unit ball; z is uniform on 0..N-1; a
    message s in {-1, 1}^N has the word w_s of unit norm. The loss is

        f(x; z) = A + C + Phi + (lam / 2) |x|^2
        A   = -alpha min(y_z, theta) + (alpha / N) sum_j max(y_j, -theta)
        C   = beta max_s ( <s, y> - gamma <w_s, u> )
        Phi = max( rho0, max over s with s_z = -1 of <w_s, u> )

    A makes y write down which points were seen, C decodes y and pushes u towards the word of that
    set, and Phi charges the points that the set does not hold: a training point never.

    Parameters
    ----------
    code
        Gives N (the size of the universe), n and the relative distance delta.
    m
        Sample size that the constants are made for, m < N; N // 2 by default.
    a, r
        Norms of the y block and of the u block at the empirical minimizer, a^2 + r^2 < 1.
    alpha
        Weight of the first term.
    plain
        Leave out the quadratic term (lam = 0): u then grows as long as gradient descent runs.
    normalize
        Divide the loss by its Lipschitz constant.
    oracle
        How the maxima over messages are taken. "certified" decodes them and raises
        `CertificateError` where it cannot prove that they are right; "enumerate" lists all
        messages (N <= 20); "auto" enumerates only where the certificate fails and N allows it.

    Attributes
    ----------
    d : int
        Dimension N + n.
    theta, gap, beta, gamma, p, lam, rho0 : float
        The constants of the loss; p = beta gamma is the slope that pushes u.
    scale : float
        Factor on the loss: 1, or 1 / L where it is normalized.
    L : float
        A Lipschitz constant of the loss, as scaled, on the unit ball.
    minimum : float
        Smallest population risk, attained at x = 0.

    Raises
    ------
    ValueError
        If m, a, r, alpha or oracle is out of range.

    Examples
    --------
    >>> inst = HardInstance.for_sample_size(6)
    >>> inst.d
    36
    >>> Z = inst.sample(6, random_state=0)
    >>> x = inst.erm(Z).x
    >>> inst.empirical_risk(x, Z) < inst.empirical_risk(np.zeros(36), Z)
    True
    >>> round(inst.excess_risk(x), 3)
    0.227
    """

    def __init__(
        self,
        code: LinearCode,
        m: int | None = None,
        *,
        a: float = 0.5,
        r: float = 0.8,
        alpha: float = 1.0,
        plain: bool = False,
        normalize: bool = False,
        oracle: Literal["auto", "certified", "enumerate"] = "auto",
    ) -> None:
        self.code = code
        self.N, self.n = N, n = code.N, code.n
        self.d = N + n
        if m is not None and not isinstance(m, (int, np.integer)):
            raise TypeError(f"m must be an int, got {m!r}")
        self.m = m = N // 2 if m is None else int(m)
        if not 1 <= m < N:
            raise ValueError(
                f"m must lie in 1..{N - 1}, since the universe of {N} points must be larger than "
                f"the sample, got {m}; a larger code allows a larger m"
            )
        if not (a > 0 and r > 0 and a**2 + r**2 < 1):
            raise ValueError(
                f"a and r must be > 0 with a^2 + r^2 < 1, so that the empirical minimizer lies "
                f"inside the unit ball, got a={a!r}, r={r!r}"
            )
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ValueError(f"alpha must be > 0, got {alpha!r}")
        self.a, self.r, self.alpha, self.delta = a, r, alpha, code.delta

        self.theta = a / math.sqrt(N)
        self.gap = alpha * min(1 / N, 1 / m - 1 / N)
        self.beta = self.gap / 2
        self.gamma = self.theta / (2 * r)
        self.p = self.beta * self.gamma
        self.lam = 0.0 if plain else self.p / r
        self.rho0 = r * (1 - code.delta)

        slope = math.sqrt((1 - 1 / N) ** 2 + (N - 1) / N**2)
        lipschitz = math.hypot(
            alpha * slope + self.beta * math.sqrt(N) + self.lam, 1 + self.p + self.lam
        )
        self.scale = 1 / lipschitz if normalize else 1.0
        self.L = lipschitz * self.scale
        self.minimum = self.rho0 * self.scale
        if oracle not in ORACLES:
            raise ValueError(f"oracle must be one of {', '.join(ORACLES)}, got {oracle!r}")
        self._maxima = ORACLES[oracle](code, self.gamma, self.rho0)
        self._everyone = np.full(N, 1 / N)

    @classmethod
    def for_sample_size(
        cls,
        m: int,
        *,
        family: Family | None = None,
        a: float = 0.5,
        r: float = 0.8,
        alpha: float = 1.0,
        plain: bool = False,
        normalize: bool = False,
        oracle: Literal["auto", "certified", "enumerate"] = "auto",
    ) -> HardInstance:
        """Return an instance on the smallest code of a family with N >= 2 m.

        Parameters
        ----------
        m
            Sample size.
        family
            "qr" (d = 6 m where N = 2 m; m up to 26) or "rs-golay" (d = 10 m where 6 divides m;
            m up to 12282). By default "qr" where it has N = 2 m exactly, else "rs-golay".
        a, r, alpha, plain, normalize, oracle
            As for `HardInstance`.

        Raises
        ------
        ValueError
            If the family has no code for m.

        Examples
        --------
        >>> HardInstance.for_sample_size(6).d, HardInstance.for_sample_size(60).d
        (36, 600)
        """
        code = code_for(m, family)
        return cls(code, m, a=a, r=r, alpha=alpha, plain=plain, normalize=normalize, oracle=oracle)

    @classmethod
    def for_gradient_descent(
        cls,
        code: LinearCode,
        eta: float,
        T: int,
        *,
        average: Literal["last", "mean"] = "last",
        a: float = 0.5,
        alpha: float = 1.0,
        oracle: Literal["auto", "certified", "enumerate"] = "auto",
    ) -> HardInstance:
        """Return the instance on which T steps of size eta of gradient descent do worst.

        Its r is such that the iterates carry u to about r times the word of the sample:
        r^2 = alpha a eta T / (4 N^1.5) with lam = 0 for the last iterate, and that divided by
        kappa = 2 / delta with lam = p / r for the average. The excess of the Feldman term is then
        at least `bounds.gd_lower` (last iterate). m = N // 2.

        Raises
        ------
        ValueError
            If eta T is so small that gamma > 1, or so large that a^2 + r^2 >= 1.

        Examples
        --------
        >>> from fallline.sco import qr_code
        >>> inst = HardInstance.for_gradient_descent(qr_code(23), eta=0.1, T=400)
        >>> round(inst.r, 4), inst.lam
        (0.3468, 0.0)
        """
        if average not in ("last", "mean"):
            raise ValueError(f'average must be "last" or "mean", got {average!r}')
        if not (eta > 0 and T > 0):
            raise ValueError(f"eta and T must be > 0, got eta={eta!r}, T={T!r}")
        last = average == "last"
        kappa = 1.0 if last else 2 / code.delta
        low, high = a / (2 * math.sqrt(code.N)), math.sqrt(max(1 - a**2, 0.0))
        unit = alpha * a / (4 * code.N**1.5 * kappa)
        r = math.sqrt(unit * eta * T)
        if not low <= r < high:
            raise ValueError(
                f"eta * T must lie in [{low**2 / unit:.4g}, {high**2 / unit:.4g}) for this code "
                f"(gamma <= 1 and a^2 + r^2 < 1), got {eta * T:.4g}"
            )
        return cls(code, a=a, r=r, alpha=alpha, plain=last, oracle=oracle)

    def sample(self, m: int, random_state: int | np.random.Generator) -> Points:
        """Draw m points, (m,), uniformly and independently; duplicates are normal.

        Parameters
        ----------
        m
            How many.
        random_state
            Seed or generator.
        """
        if random_state is None:
            raise TypeError("random_state must be a seed or a generator, got None")
        return np.random.default_rng(random_state).integers(self.N, size=m, dtype=np.intp)

    # Values

    def loss(self, x: ArrayLike, z: ArrayLike) -> Vector:
        """Return f(x; z) for one z or an array of them, in the shape of z."""
        y, u = self._blocks(x)
        z = self._points(z)
        top = self._maxima(y, u)
        A = -self.alpha * np.minimum(y[z], self.theta) + self._rest(y)
        ridge = self.lam / 2 * (y @ y + u @ u)
        total = A + self.beta * top.coupling + (self.rho0 + self._charges(top)[z]) + ridge
        return np.asarray(total * self.scale)

    def population_risk(self, x: ArrayLike) -> float:
        """Return F(x), the exact mean of the loss over all N points."""
        return self.minimum + self.excess_risk(x)

    def excess_risk(self, x: ArrayLike) -> float:
        """Return F(x) - min F."""
        return math.fsum(self.excess_parts(x))

    def excess_parts(self, x: ArrayLike) -> ExcessParts:
        """Return the excess risk term by term: A, C, Phi above rho0, and the quadratic term."""
        return self._parts(*self._blocks(x), self._everyone)

    def empirical_risk(self, x: ArrayLike, Z: ArrayLike) -> float:
        """Return F_S(x), the mean of the loss over the sample Z."""
        return self.minimum + math.fsum(self._parts(*self._blocks(x), self.shares(Z)))

    def subgradient(self, x: ArrayLike, z: ArrayLike) -> Vector:
        """Return a subgradient in x, (d,), of f(x; z), or of its mean over an array of points.

        Where the loss has a kink it is the choice of least norm that is simple to name: 0 for a
        term of A or Phi at its threshold, 0 for C at the origin.
        """
        x = self._point(x)
        gradient = np.empty(self.d)
        self._subgradient(x, self.shares(z), gradient)
        return gradient

    def shares(self, Z: ArrayLike) -> Vector:
        """Return the share of each of the N points in a sample, (N,).

        Raises
        ------
        ValueError
            If Z is empty or holds anything but integers in 0..N-1.
        """
        Z = self._points(Z).ravel()
        if not Z.size:
            raise ValueError("Z must hold at least one point, got none")
        return np.bincount(Z, minlength=self.N) / Z.size

    # Solutions

    def erm(self, Z: ArrayLike) -> ERMCertificate:
        """Return the empirical minimizer of a sample with its certificate, in closed form.

        It is x* = (theta s, r w_s) with s_j = +1 exactly for the points j in Z.

        Parameters
        ----------
        Z
            At most m points, (m,).

        Raises
        ------
        ValueError
            If Z has more than m points, or the instance is `plain` and its minimizer not unique.
        """
        from fallline.sco.certificate import erm

        return erm(self, Z)

    def regularized_erm(self, Z: ArrayLike, lam: float, T: int = 10_000) -> Trajectory:
        """Minimize F_S(x) + (lam / 2) |x|^2 over the unit ball.

        In closed form where it can be shown to be right, which it nearly always can (the
        trajectory is then the one point t = 0); else by T subgradient steps, whose value is
        within min(2 L^2 / (mu T), L / sqrt(T)) of the least, where L is the Lipschitz constant
        and mu the strong convexity of what is minimized.

        Parameters
        ----------
        Z
            At most m points, (m,).
        lam
            Weight of the regularizer, > 0.
        T
            Steps, where there is no closed form.
        """
        from fallline.sco.descent import regularized_erm

        return regularized_erm(self, Z, lam, T)

    def gd(
        self, Z: ArrayLike, eta: float, T: int, radius: float = 1.0, average: Average = "last"
    ) -> Trajectory:
        """Run projected full-batch gradient descent from 0.

        Parameters
        ----------
        Z
            Training points, (m,).
        eta, T
            Step size and number of steps.
        radius
            Radius of the ball that every step is projected on, at most 1.
        average
            What is evaluated after t steps: "last", the point reached; "mean", the average of the
            t points where a subgradient was taken; "suffix", the average of their second half.

        Returns
        -------
        Trajectory
            Its `x` is the answer after T steps; its risks are on a logarithmic grid of t.

        Raises
        ------
        CertificateError
            If the certified oracle cannot follow. It can on the default constants and on those of
            `for_gradient_descent` while eta alpha n_max / m <= theta / 2, with n_max the largest
            multiplicity in Z.
        """
        from fallline.sco.descent import gd

        return gd(self, Z, eta, T, radius, average)

    def sgd(self, Z: ArrayLike, eta: float | None = None, passes: int = 1) -> Trajectory:
        """Run projected SGD from 0 over Z in order, and average its iterates.

        With one pass and eta = 1 / (L sqrt(m)), the default, its expected excess is at most
        L / sqrt(m).

        Parameters
        ----------
        Z
            Training points, (m,).
        eta
            Step size.
        passes
            How often Z is gone through.
        """
        from fallline.sco.descent import sgd

        return sgd(self, Z, eta, passes)

    # Other tools

    def to_cvxpy(self, Z: ArrayLike, limit: int = 9) -> cvxpy.Problem:
        """Return the minimization of F_S over the unit ball as a CVXPY problem.

        It lists all 2^N messages, so that a generic solver is hopeless beyond N = 12 or so. Its
        one variable is named "x" and has shape (d,).

        Parameters
        ----------
        Z
            Training points, (m,).
        limit
            Largest N that is accepted.

        Raises
        ------
        ModuleNotFoundError
            If cvxpy is not installed.
        ValueError
            If N > limit.
        """
        from fallline.sco.convex_program import to_cvxpy

        return to_cvxpy(self, Z, limit)

    def to_torch(self) -> HardLoss:
        """Return a `torch.nn.Module` with the parameter x, (d,) float64, at 0.

        Calling it with a batch of points gives their losses; any `torch.optim` runs on their mean.
        N <= 16.

        Examples
        --------
        >>> model = HardInstance.for_sample_size(6).to_torch()
        >>> model([0, 3]).detach().numpy().round(4)
        array([0.5333, 0.5333])
        """
        from fallline.sco.torch_module import HardLoss

        return HardLoss(self)

    # Formulas

    def _parts(self, y: Vector, u: Vector, shares: Vector) -> ExcessParts:
        top = self._maxima(y, u)
        A = -self.alpha * float(shares @ np.minimum(y, self.theta)) + self._rest(y)
        C = self.beta * top.coupling
        Phi = float(shares @ self._charges(top))
        ridge = self.lam / 2 * float(y @ y + u @ u)
        return ExcessParts(*(self.scale * part for part in (A, C, Phi, ridge)))

    def _rest(self, y: Vector) -> float:
        total: float = np.maximum(y, -self.theta).sum()
        return self.alpha / self.N * total

    def _charges(self, top: Maxima) -> Vector:
        """Phi(u; z) - rho0 for every z."""
        if not len(top.words):
            return np.zeros(self.N)
        return np.where(top.word_of >= 0, top.heights[top.word_of] - self.rho0, 0.0)

    def _subgradient(self, x: Vector, shares: Vector, out: Vector) -> None:
        y, u = x[: self.N], x[self.N :]
        top = self._maxima(y, u)
        np.multiply(x, self.lam, out=out)
        out_y, out_u = out[: self.N], out[self.N :]
        out_y -= self.alpha * shares * (y < self.theta)
        out_y += self.alpha / self.N * (y > -self.theta)
        out_y += self.beta * top.s
        out_u -= self.p * top.w
        if len(top.words):
            charged = np.bincount(top.word_of + 1, shares, len(top.words) + 1)[1:]
            out_u += charged @ top.words
        if self.scale != 1:
            out *= self.scale

    # Arguments

    def _point(self, x: ArrayLike) -> Vector:
        x = np.asarray(x, dtype=np.float64)
        if x.shape != (self.d,):
            raise ValueError(f"x must have shape ({self.d},), got {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError("x must be finite, got NaN or infinity")
        return x

    def _blocks(self, x: ArrayLike) -> tuple[Vector, Vector]:
        x = self._point(x)
        return x[: self.N], x[self.N :]

    def _points(self, z: ArrayLike) -> Points:
        z = np.asarray(z)
        if z.size and (z.dtype.kind not in "iu" or z.min() < 0 or z.max() >= self.N):
            raise ValueError(f"z must hold integers in 0..{self.N - 1}, got {z!r}")
        return z.astype(np.intp)

    def __repr__(self) -> str:
        return f"<HardInstance m={self.m} d={self.d} on {self.code!r}>"
