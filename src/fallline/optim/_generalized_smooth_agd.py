"""Accelerated gradient descent under generalized smoothness (arXiv:2508.06884), for torch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from fallline.convex.laws import SmoothnessLaw
from fallline.convex.rules import (
    SLACK,
    TINY,
    AssumptionWarning,
    Certificate,
    excess,
    needs_warm_start,
    scheduled_step,
    violation,
)
from fallline.optim._nesterov import NesterovStep
from fallline.optim._sharding import local


class GeneralizedSmoothAGD(Optimizer):
    """Minimize a full-batch, deterministic, convex loss whose curvature grows with its gradient.

    The torch face of `fallline.convex.minimize_agd`: the same iterates, one gradient per `step()`,
    no learning rate to tune. The parameters hold the point at which the next gradient is wanted,
    and all groups form one vector. A stochastic gradient voids the guarantee: use it with the whole
    data set in each step, or with gradients summed over shards.

    In mode ``"adaptive"`` the gradient that arrives at `step()` judges the last step; if it shows
    that step to be too long, the parameters go back and a step of half the length is tried. No
    closure is needed, but a parameter then differs from an iterate until it has been judged.

    Every group's ``lr`` is 1: the share of the proven step that is taken. A scheduler may lower it,
    which keeps every guarantee.

    Parameters
    ----------
    params : iterable of parameters or of groups
        Real tensors; groups have no options of their own.
    smoothness : SmoothnessLaw
        ``||hess f|| <= smoothness(||grad f||)``, such as `fallline.convex.L0L1Smooth(1.0, 1.0)`.
    radius : float, optional
        Bound on the distance from the start to a minimizer, over all parameters together.
    gap0 : float, optional
        Bound on f(start) - f*; by default the first gradient's norm times `radius`.
    mode : {"auto", "adaptive", "schedule"}, default "auto"
        ``"adaptive"`` (what ``"auto"`` takes) needs no radius and keeps two vectors;
        ``"schedule"`` needs it, keeps one, and never takes a step back.
    strict : bool, default False
        Raise where the schedule finds `radius`, `gap0` or `smoothness` wrong, instead of warning
        and going on as ``"adaptive"`` from there.

    Attributes
    ----------
    gap_bound : float or None
        Certified bound on f - f* where the last accepted gradient was taken; needs `radius`.
    n_rejected : int
        Steps that were taken back.

    Raises
    ------
    ValueError
        If an argument is out of range, `mode` needs one that is missing or belongs to
        `minimize_agd`, a group has options, or one is added to a run that knows a radius.
    TypeError
        If `smoothness` is not a law, a parameter or gradient is complex or sparse, or a parameter
        is float16.
    FloatingPointError
        If the first gradient, or one of the schedule, is not finite, or steps have shrunk to zero.

    Warns
    -----
    AssumptionWarning
        If a gradient shows `radius`, `gap0` or `smoothness` to be wrong.

    References
    ----------
    A. Tyurin, arXiv:2508.06884. Recursion and modes as in `minimize_agd`.

    Examples
    --------
    >>> import torch
    >>> from fallline.convex import L0L1Smooth
    >>> from fallline.optim import GeneralizedSmoothAGD
    >>> x = torch.nn.Parameter(torch.tensor([6.0, -3.0], dtype=torch.float64))
    >>> opt = GeneralizedSmoothAGD([x], smoothness=L0L1Smooth(1.0, 1.0), radius=7.0)
    >>> for _ in range(100):
    ...     opt.zero_grad()
    ...     x.cosh().sum().backward()
    ...     opt.step()
    >>> bool(x.abs().max() < 0.1), opt.gap_bound < 0.1
    (True, True)
    """

    _PERSISTENT = ("smoothness", "radius", "gap0", "mode", "strict")

    def __init__(
        self,
        params: Any,
        smoothness: SmoothnessLaw,
        radius: float | None = None,
        gap0: float | None = None,
        mode: Literal["auto", "adaptive", "schedule"] = "auto",
        strict: bool = False,
    ) -> None:
        if not isinstance(smoothness, SmoothnessLaw):
            raise TypeError(
                f"smoothness must be a law such as L0L1Smooth(1, 1), got {smoothness!r}; "
                "fallline.convex.CallableSmooth makes one of a function"
            )
        if radius is not None and not 0.0 < radius < math.inf:
            raise ValueError(f"radius must be > 0 and finite, got {radius!r}")
        if gap0 is not None and not 0.0 <= gap0 < math.inf:
            raise ValueError(f"gap0 must be >= 0 and finite, got {gap0!r}")
        if mode not in ("auto", "adaptive", "schedule"):
            raise ValueError(
                f"mode must be 'auto', 'adaptive' or 'schedule', got {mode!r}; 'two_stage' and "
                "'linesearch' are modes of fallline.convex.minimize_agd"
            )
        if mode == "schedule" and radius is None:
            raise ValueError("mode='schedule' needs radius; mode='adaptive' does without")
        self.smoothness = smoothness
        # Plain floats, which any checkpoint can hold.
        self.radius = None if radius is None else float(radius)
        self.gap0 = None if gap0 is None else float(gap0)
        self.mode = "adaptive" if mode == "auto" else mode
        self.strict = strict
        super().__init__(params, {"lr": 1.0})

    @property
    def gap_bound(self) -> float | None:
        """Certified bound on f - f* where the last accepted gradient was taken, or None."""
        memory = self._memory()
        if "s" not in memory or memory["delta"] is None or self.radius is None:
            return None
        if memory["warming_up"]:
            return float(memory["s"] * self.radius)
        return self._certificate(memory).gap_bound(memory["Gamma"], memory["s"])

    @property
    def n_rejected(self) -> int:
        """Steps that were taken back."""
        return int(self._memory().get("n_rejected", 0))

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], Tensor | float] | None = None
    ) -> Tensor | float | None:
        """Use the gradients in place to move the parameters to where the next one is wanted.

        Parameters
        ----------
        closure : callable, optional
            Clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        The closure's loss, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._advance()
        return loss

    # Its scalars decide what is done, which no graph can hold.
    @torch._disable_dynamo  # type: ignore[attr-defined]
    def _advance(self) -> None:
        y = self._params()
        moving = [p for p in y if p.grad is not None]
        g: list[Any] = [p.grad for p in moving]
        if any(gradient.layout is not torch.strided for gradient in g):
            raise TypeError("gradients must be dense, got a sparse one")
        s = _norm(g)
        if s == 0.0:
            return  # a minimizer: momentum must not carry the parameters away
        share, law, memory = self._share(), self.smoothness, self._memory()
        if "Gamma" not in memory:
            self._begin(memory, s)
        if memory["warming_up"] and not self._is_warm(memory, s):
            length = share * float(law.gd_step(s))
            torch._foreach_add_(_local(moving), _local(g, moving), alpha=-length)
            return
        Gamma, push = memory["Gamma"], 0.0
        if memory["alpha"] is not None:
            if not self._is_right(memory, s):
                self._take_back(memory, y)
                return
            push = memory["alpha"] / Gamma
            Gamma /= 1.0 + memory["alpha"]
        if memory["adaptive"]:
            gamma = share / float(law(s))
        else:
            E = memory["delta"] * (Gamma / memory["Gamma_0"])
            gamma = share * scheduled_step(law, E)
        step = self._plan(memory, gamma, Gamma, push, memory["t"], share=share)
        memory["s"] = s
        step.take(_local(moving), _local(g, moving), self._vectors("b", moving))
        if len(moving) < len(y):
            still = [p for p in y if p.grad is None]
            step.take_without_gradient(_local(still), self._vectors("b", still))
            if memory["adaptive"]:
                torch._foreach_zero_(self._vectors("g", still))
        if memory["adaptive"]:
            torch._foreach_copy_(self._vectors("g", moving), _local(g, moving))

    def _share(self) -> float:
        shares = {float(group["lr"]) for group in self.param_groups}
        if len(shares) > 1 or not 0.0 <= min(shares) <= max(shares) <= 1.0:
            raise ValueError(
                f"all groups share one lr in [0, 1], the share of the proven step, got {shares}"
            )
        return shares.pop()

    def _begin(self, memory: dict[str, Any], s: float) -> None:
        if not math.isfinite(s):
            raise FloatingPointError(f"the first gradient must be finite, got norm {s!r}")
        adaptive = self.mode == "adaptive"
        memory.update(
            adaptive=adaptive,
            warming_up=False,
            n_rejected=0,
            delta=None,
            Gamma_0=float(self.smoothness(0.0)),
            gamma=None,
            alpha=None,
            push=0.0,
            t=None,
            t_before=None,
            # b = t (y - u) must not overflow, nor come near it.
            t_max=min(math.sqrt(torch.finfo(p.dtype).max) for p in self._params()),
        )
        if self.radius is not None:
            self._certify(memory, self.gap0 or s * self.radius)
            memory["warming_up"] = not adaptive and needs_warm_start(
                self.smoothness, memory["delta"]
            )
        memory["Gamma"] = memory["Gamma_0"]

    def _certify(self, memory: dict[str, Any], gap: float) -> None:
        assert self.radius is not None
        certificate = Certificate.from_gap(gap, self.radius)
        memory["delta"], memory["Gamma_0"] = certificate.delta, certificate.Gamma_0
        memory["Gamma"] = certificate.Gamma_0

    def _certificate(self, memory: dict[str, Any]) -> Certificate:
        assert self.radius is not None
        return Certificate(memory["delta"], memory["Gamma_0"], self.radius)

    def _is_warm(self, memory: dict[str, Any], s: float) -> bool:
        """Whether gradient descent has come close enough for the schedule to begin."""
        if not math.isfinite(s):
            raise FloatingPointError("gradient descent overflowed: smoothness is wrong")
        assert self.radius is not None
        law, memory["s"] = self.smoothness, s
        if s * self.radius > law.psi(law.norm_at(4.0 * float(law(0.0)))) / 2.0:
            return False
        self._certify(memory, s * self.radius)
        memory["warming_up"] = False
        return True

    def _is_right(self, memory: dict[str, Any], s: float) -> bool:
        """Judge the last step by the gradient it led to; only `adaptive` can go back."""
        if memory["adaptive"] and not math.isfinite(s):
            return False
        if not math.isfinite(s):
            raise FloatingPointError(
                "the gradient is not finite at a point of the schedule: radius or smoothness is "
                "wrong for this problem; mode='adaptive' needs no radius"
            )
        factor = excess(self.smoothness, memory["gamma"], memory["s"], s)
        if factor > SLACK and not memory["adaptive"]:
            self._withdraw(memory, factor)
            return True
        return factor <= SLACK

    def _withdraw(self, memory: dict[str, Any], factor: float) -> None:
        """Go on as adaptive from here: the schedule keeps no gradient to step back with."""
        if self.strict:
            raise ValueError(violation(factor))
        warnings.warn(
            f"{violation(factor)}; no gap is certified from here on, falling back to "
            "mode='adaptive'",
            AssumptionWarning,
            stacklevel=9,  # the caller of step
        )
        memory.update(adaptive=True, delta=None, alpha=0.0, t=None)
        for state in self.state.values():
            state.pop("b", None)  # u = y

    def _plan(
        self,
        memory: dict[str, Any],
        gamma: float,
        Gamma: float,
        push: float,
        t: float | None,
        *,
        share: float = 1.0,
    ) -> NesterovStep:
        """Choose alpha to the step gamma, and what to do to y and b; nothing changes if it fails.

        A scheduler's small share may shorten a step to nothing; by itself it must not.
        """
        if share == 1.0 and not (gamma >= TINY and Gamma >= TINY):
            raise FloatingPointError(f"stalled: gamma = {gamma:.3g}, Gamma = {Gamma:.3g}")
        alpha = math.sqrt(gamma * Gamma)
        step = NesterovStep.of(gamma, alpha, push, t)
        if step.t > memory["t_max"] and share < 1.0:
            gamma = alpha = 0.0
            step = NesterovStep.of(gamma, alpha, push, t)
        if step.t > memory["t_max"]:
            raise FloatingPointError(
                f"stalled: gamma = {gamma:.3g} is too short a step for the parameters' precision"
            )
        memory.update(gamma=gamma, alpha=alpha, Gamma=Gamma, push=push, t=step.t, t_before=t)
        return step

    def _take_back(self, memory: dict[str, Any], y: list[Tensor]) -> None:
        """Undo the last step and try half its length."""
        memory["n_rejected"] += 1
        y, g, b = _local(y), self._vectors("g", y), self._vectors("b", y)
        gamma, push, t = memory["gamma"], memory["push"], memory["t_before"]
        NesterovStep.of(gamma, memory["alpha"], push, t).undo(y, g, b)
        if not all(p.isfinite().all() for p in (*y, *b)):
            raise FloatingPointError(
                "a step overflowed and cannot be taken back: smoothness is wrong for this problem"
            )
        self._plan(memory, 0.5 * gamma, memory["Gamma"], push, t).take(y, g, b)

    def _vectors(self, name: Literal["b", "g"], params: list[Tensor]) -> list[Tensor]:
        """Return this rank's part of the state's vectors, zero where they are new."""
        vectors = []
        for p in params:
            state = self.state[p]
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
            vectors.append(state[name])
        return _local(vectors)

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _memory(self) -> dict[str, Any]:
        """State of the optimizer as a whole; kept with the first parameter, as in `LBFGS`."""
        memory: dict[str, Any] = self.state[self.param_groups[0]["params"][0]]
        return memory

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, which starts the method again; a group has no options of its own.

        Parameters
        ----------
        param_group : dict
            ``params`` only.
        """
        options = sorted(set(param_group) - {"params", "param_names"})
        if options:
            raise ValueError(
                f"unknown key {options[0]!r} in a parameter group: all parameters form one vector, "
                "whose step has no options per group"
            )
        if self.param_groups:
            param_group["lr"] = self.param_groups[0]["lr"]  # a scheduler may have lowered it
        started = bool(self.param_groups) and "Gamma" in self._memory()
        if started and self.radius is not None:
            raise ValueError(
                "a parameter group cannot be added to a run with a radius, which bounded the "
                "distance without it; make a new optimizer"
            )
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if not p.is_floating_point() or p.layout != torch.strided:
                del self.param_groups[-1]
                raise TypeError(f"parameters must be real and dense, got {p.dtype}, {p.layout}")
            if p.dtype not in (torch.float64, torch.float32, torch.bfloat16):
                del self.param_groups[-1]
                raise TypeError(
                    f"parameters must be float64, float32 or bfloat16, got {p.dtype}, in which "
                    "momentum overflows; float32 works under autocast"
                )
        if started:
            self.state.clear()

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in self._PERSISTENT}
        return super().__getstate__() | own


def _norm(vectors: list[Tensor]) -> float:
    """Return the norm of all as one vector; what `get_total_norm` does, in fewer calls."""
    if not vectors:
        return 0.0
    half = any(vector.dtype == torch.bfloat16 for vector in vectors)
    norm = _norm_in(vectors, torch.float64 if half else None)
    # Outside this range squares may leave that of float32.
    return norm if 1e-12 < norm < 1e18 else _norm_in(vectors, torch.float64)


def _norm_in(vectors: list[Tensor], dtype: torch.dtype | None) -> float:
    norms = list(torch._foreach_norm(vectors, 2, dtype))
    if len({norm.device for norm in norms}) > 1:
        norms = [norm.cpu() for norm in norms]
    stacked: Any = torch.stack(norms)
    if type(stacked) is not Tensor:  # each rank has norms of its parts
        stacked = stacked.full_tensor()
    return math.hypot(*stacked.tolist())


def _local(vectors: list[Any], like: list[Any] | None = None) -> list[Any]:
    """Return each vector, or of a sharded one this rank's part, laid out as `like`."""
    if {*map(type, vectors)} <= {Tensor, Parameter}:
        return vectors
    return list(map(local, vectors, vectors if like is None else like))
