"""Non-Euclidean gradient descent with product norms and Momo truncation (arXiv:2510.09827)."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from fallline.optim._aggregation import Aggregation
from fallline.optim._checks import choice, number
from fallline.optim._finite import find_nonfinite
from fallline.optim._layers import (
    Layers,
    collect_gradients,
    corrected_weight,
    gradients_dot_parameters,
    layers_of,
    model_of_absent,
    named_parameters,
    norm_of,
    scalar,
)
from fallline.optim._loss import Closure, LossLike, checked_loss, mean_over_ranks, one_loss
from fallline.optim._norms import NORMS, NormKey
from fallline.optim._polar import PolarDtype, PolarMethod
from fallline.optim._routing import ParamsLike, split_group, to_groups
from fallline.optim._rule import (
    LowerBound,
    MomentumInit,
    Nuclear,
    OnNonfinite,
    Rule,
    ShapeScale,
)
from fallline.optim._steepest import Step, Truncation, steepest_step

_GROUP_KEYS = ("params", "param_names", "kind", "norm", "lr_scale", "weight_decay", "lr")
# Of the optimizer as a whole, kept in the state of one parameter.
_TOTALS = ("loss_avg", "lower_bound", "truncated_steps", "skipped_steps")
# One value each; `Optimizer.load_state_dict` would round them to the parameter's dtype.
_SCALARS = ("grad_dot_w", "nuclear_norm", "loss_avg", "lower_bound")


class NonEuclidean(Optimizer):
    """Steepest descent of any layer norms, aggregation and kind of step, truncated or not.

    Every layer ``l`` keeps the average ``m_l`` of its gradients and moves by

    * ``-eta_t * a_l * lmo(m_l)`` if `constrained`,
    * ``-eta_t * G * a_l * lmo(m_l)`` otherwise (regularised),

    where ``lmo``, the global dual norm ``G`` and ``a_l`` follow from the norms and the
    aggregation. ``eta_t`` is `lr`, or with `truncate` at most the step at which the average of
    past linearisations of the loss meets its lower bound `f_star`. Weight decay is decoupled and
    uses the untruncated rate: ``w <- (1 - lr * weight_decay) w``. Averages start at the first
    gradient and need no bias correction.

    The presets (`MuonMaxMomo`, `MuonAdam`, ...) name the useful combinations.

    Parameters
    ----------
    params : module, iterable of named parameters, of parameters or of groups, or a pair
        A module or ``named_parameters()`` is routed by `split_params`' rules, a pair is
        ``(matrix_params, other_params)``, a group may say ``kind="matrix"`` or ``kind="other"``.
        Groups differ in ``kind``, ``norm``, ``lr_scale`` (multiplies the scale ``s`` of its
        norms; a regularised step grows with its square) and ``weight_decay``; all share one lr.
    lr : float or Tensor, default 1e-3
        Learning rate; under truncation the cap of the step size. A 0-dim tensor is allowed.
    matrix_norm, other_norm : {"spectral", "linf", "adam_inf", "adam_2", "l2"}
        Norm of matrix layers (default ``"spectral"``) and of all others (``"adam_2"``).
    aggregation : {"linf", "l2", "hybrid"}, default "hybrid"
        Product norm; ``"hybrid"`` takes the maximum over matrices and sums squares of the rest.
    constrained : bool, default False
        Normalised ("LMO") step instead of the regularised one.
    truncate : bool, default True
        Momo truncation; then every step needs the loss.
    f_star : float, callable (step) -> float, or "auto", default 0.0
        Lower bound of the loss. ``"auto"`` (experimental) estimates one, not below `lb0`; in our
        measurements it hurts. Use 0 for losses that are not negative, or an honest estimate.
    lb0 : float, default 0.0
        First value and floor of the estimate of ``f_star="auto"``.
    beta, beta2 : float in [0, 1), default 0.95
        Averages of gradients and of their squares (Adam norms only).
    eps : float, default 1e-8
        Added to ``sqrt(v)`` in the Adam norms.
    weight_decay : float, default 0.1
        Decoupled weight decay; a group may have its own.
    matrix_lr_ratio : float, default 10.0
        Step of spectral layers over step of the others: ``s = ratio`` if constrained, else
        ``s^2 = ratio``.
    polar, polar_steps, polar_dtype
        Method, iterations and dtype of `fallline.optim.polar`.
    nuclear : {"cached", "stale", "frobenius"}, default "cached"
        Nuclear norms from this step's polar factors (exact; one more buffer of matrix size during
        the step), from the previous step's, or the Frobenius norm in their place (low by up to
        ``sqrt(rank)``).
    shape_scale : {None, "rms", "jordan", "match_rms_adamw"}, default None
        Factor on ``s`` of a spectral layer of shape ``(d_out, d_in)``: 1, ``sqrt(d_out/d_in)``,
        ``sqrt(max(1, d_out/d_in))``, ``0.2*sqrt(max(d_out, d_in))``.
    nesterov : bool, default False
        Look-ahead momentum for matrix layers; not with `truncate`.
    momentum_init : {"first", "zeros", "corrected"}, default "first"
        What the averages start from; ``"corrected"`` is from 0 with Adam's bias correction, of
        the gradients, their squares and the model alike.
    on_nonfinite : {"raise", "skip"}, default "raise"
        A non-finite gradient, norm of one, loss or ``<g, w>`` raises before anything moves, or
        skips the step and counts it in `skipped_steps`.
    foreach : bool, default True
        Treat the layers of a group together (fewer kernel launches) or one after another.
    process_group : torch.distributed.ProcessGroup, optional
        The loss is averaged over its ranks. Under DDP and FSDP every rank must use one loss.

    Attributes
    ----------
    last : Step or None
        ``eta, truncated, F, G, S, f_star, layer_duals`` of the last step, left on the device.
    skipped_steps : int
        Steps skipped by ``on_nonfinite="skip"``.

    Raises
    ------
    ValueError
        If an option is out of range, a group has an unknown key or its own lr, a parameter of
        fewer than two dimensions is called a matrix, or `step` gets no loss but needs one.
    TypeError
        If a parameter or gradient is complex or sparse.
    FloatingPointError
        If a gradient, its norm or the loss is not finite, or under truncation the product of a
        gradient with its parameter; nothing has moved.

    References
    ----------
    Crawshaw, Modi, Liu, Gower, "An Exploration of Non-Euclidean Gradient Descent: Muon and its
    Many Variants", arXiv:2510.09827. Where a group's gradients come and go, see the page
    "MuonMax-Momo" of the documentation for what differs from the paper.

    Examples
    --------
    >>> import torch
    >>> from fallline.optim import NonEuclidean
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> opt = NonEuclidean([{"params": [w], "kind": "other"}], lr=1.0, other_norm="l2",
    ...                    aggregation="l2", weight_decay=0.0)
    >>> loss = w.square().sum() / 2
    >>> loss.backward()
    >>> _ = opt.step(loss=loss)  # Polyak's step: (f - 0) / ||g||^2 = 12.5 / 25
    >>> float(opt.last.eta), w.tolist()
    (0.5, [1.5, 2.0])
    """

    last: Step | None
    _PERSISTENT = ("_rule", "_process_group", "_pending_loss", "last")

    def __init__(
        self,
        params: ParamsLike,
        lr: float | Tensor = 1e-3,
        *,
        matrix_norm: NormKey = "spectral",
        other_norm: NormKey = "adam_2",
        aggregation: Aggregation = "hybrid",
        constrained: bool = False,
        truncate: bool = True,
        f_star: LowerBound = 0.0,
        lb0: float = 0.0,
        beta: float = 0.95,
        beta2: float = 0.95,
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        matrix_lr_ratio: float = 10.0,
        polar: PolarMethod = "polar_express",
        polar_steps: int = 5,
        polar_dtype: PolarDtype = "auto",
        nuclear: Nuclear = "cached",
        shape_scale: ShapeScale = None,
        nesterov: bool = False,
        momentum_init: MomentumInit = "first",
        on_nonfinite: OnNonfinite = "raise",
        foreach: bool = True,
        process_group: Any = None,
    ) -> None:
        self._rule = Rule(
            matrix_norm=matrix_norm,
            other_norm=other_norm,
            aggregation=aggregation,
            constrained=constrained,
            truncate=truncate,
            f_star=f_star,
            lb0=lb0,
            beta=beta,
            beta2=beta2,
            eps=eps,
            matrix_lr_ratio=matrix_lr_ratio,
            polar=polar,
            polar_steps=polar_steps,
            polar_dtype=polar_dtype,
            nuclear=nuclear,
            shape_scale=shape_scale,
            nesterov=nesterov,
            momentum_init=momentum_init,
            on_nonfinite=on_nonfinite,
            foreach=foreach,
        )
        self._process_group = process_group
        self._pending_loss: LossLike | None = None
        self.last = None
        _check_lr(lr)
        defaults = {"lr": lr, "weight_decay": weight_decay, "lr_scale": 1.0, "norm": None}
        super().__init__(to_groups(params), defaults)
        if not any(group["params"] for group in self.param_groups):
            raise ValueError("optimizer got an empty parameter list")

    @property
    def skipped_steps(self) -> int:
        """Steps skipped because a gradient or the loss was not finite."""
        owner = self._owner_of_totals()
        return 0 if owner is None else int(self.state[owner].get("skipped_steps", 0))

    def set_loss(self, loss: LossLike) -> None:
        """Give the loss of the next plain `step()`, for loops that call `step` themselves.

        Parameters
        ----------
        loss : scalar Tensor or float
            Mean loss of the batch; under gradient accumulation the mean over its micro-batches.
            A later call before the step replaces it.
        """
        self._pending_loss = checked_loss(loss)

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Closure | None = None, *, loss: LossLike | None = None
    ) -> LossLike | None:
        """Update the parameters once.

        Parameters
        ----------
        closure : callable, optional
            Clears the gradients, computes the loss, calls ``backward`` and returns the loss.
        loss : scalar Tensor or float, optional
            The loss whose gradients are in place, unscaled.

        Returns
        -------
        The loss as it was given, or None.
        """
        pending, self._pending_loss = self._pending_loss, None
        given = one_loss(type(self).__name__, closure, loss, pending)
        prepared = self._prepare(given)
        if prepared is not None:
            groups, lr, truncation = prepared
            self.last = steepest_step(groups, self._rule, lr, truncation)
        return given

    # As on torch's own optimizers: `torch.compiler.disable` would import the compiler at once.
    @torch._disable_dynamo  # type: ignore[attr-defined]
    def _prepare(
        self, loss: LossLike | None
    ) -> tuple[list[Layers], Tensor, Truncation | None] | None:
        """Check everything before anything moves; None if there is nothing to do."""
        rule = self._rule
        if rule.truncate and loss is None:
            raise ValueError(
                f"{type(self).__name__} needs the loss: step(closure) or step(loss=...), "
                "or set_loss(loss) before step()"
            )
        lr = self._common_lr()
        parts = collect_gradients(self.param_groups, self.state, foreach=rule.foreach)
        if not parts:
            return None
        params = (p for group in self.param_groups for p in group["params"])
        double = any(p.dtype == torch.float64 for p in params)
        like = torch.empty(
            (), dtype=torch.float64 if double else torch.float32, device=parts[0].params[0].device
        )
        value, gw = None, None
        if rule.truncate and loss is not None:
            value = mean_over_ranks(scalar(checked_loss(loss), like), self._process_group)
            gw = gradients_dot_parameters(parts, like)
        trouble = find_nonfinite(parts, gw, value, like)
        if trouble and rule.on_nonfinite == "skip":
            self._memory()["skipped_steps"] = self.skipped_steps + 1
            return None
        if trouble:
            raise FloatingPointError(f"{trouble}; nothing was moved")
        bound: float | Tensor = 0.0
        if rule.truncate:
            bound = rule.lower_bound(self._memory().get("truncated_steps", 0))
        lr_like = scalar(lr, like)
        groups = [layers_of(part, rule, self.state, lr, lr_like) for part in parts]
        truncation = None
        if value is not None and gw is not None:
            truncation = self._truncation(value, gw, scalar(bound, like))
        return groups, lr_like, truncation

    def _truncation(self, loss: Tensor, gw: Tensor, bound: Tensor) -> Truncation:
        memory = self._memory()
        for name in ("loss_avg", "lower_bound"):
            if name in memory:  # its dtype and device are those of the layers of its first step
                memory[name] = memory[name].to(loss)
        memory.setdefault("loss_avg", loss.clone())
        memory["truncated_steps"] = memory.get("truncated_steps", 0) + 1
        weight: float | Tensor = 1 - self._rule.beta
        if self._rule.momentum_init == "corrected":
            weight = scalar(corrected_weight(self._rule.beta, memory["truncated_steps"]), loss)
        adapts = self._rule.f_star == "auto"
        if adapts:
            bound = memory.setdefault("lower_bound", bound)
        absent = model_of_absent(self.param_groups, self.state, loss)
        return Truncation(loss, gw, absent, memory["loss_avg"], bound, adapts, weight)

    def _memory(self) -> dict[str, Any]:
        """State of the optimizer as a whole: its totals, and one parameter's own state.

        They are kept with a parameter that has a gradient: a distributed checkpoint drops the
        state of frozen parameters, and fills in what it takes a parameter's state to lack.
        """
        owner = self._owner_of_totals()
        if owner is None or not owner.requires_grad:
            params = [p for group in self.param_groups for p in group["params"]]
            home = next((p for p in params if p.grad is not None), params[0])
            if owner is not None and owner is not home:
                old = self.state[owner]
                self.state[home].update({name: old.pop(name) for name in _TOTALS if name in old})
            owner = home
        memory: dict[str, Any] = self.state[owner]
        return memory

    def _owner_of_totals(self) -> Tensor | None:
        for group in self.param_groups:
            for p in group["params"]:
                own = self.state.get(p)
                if own and ("truncated_steps" in own or "skipped_steps" in own):
                    owner: Tensor = p
                    return owner
        return None

    def _common_lr(self) -> float | Tensor:
        rates: list[float | Tensor] = [group["lr"] for group in self.param_groups]
        first, others = rates[0], rates[1:]
        _check_lr(first)
        for i, lr in enumerate(others, start=1):
            if lr is not first and _is_known(lr) and _is_known(first) and lr != first:
                raise ValueError(
                    f"all groups share one lr, got {first!r} in group 0 and {lr!r} in group {i}; "
                    "use lr_scale to move a group faster or slower"
                )
        return first

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; without a kind it is routed, and may become two groups.

        Parameters
        ----------
        param_group : dict
            ``params``, and any of ``kind``, ``norm``, ``lr_scale``, ``weight_decay``.
        """
        before = len(self.param_groups)
        try:
            self._add_routed(param_group)
        except (TypeError, ValueError):
            del self.param_groups[before:]
            raise

    def _add_routed(self, param_group: dict[str, Any]) -> None:
        unknown = sorted(set(param_group) - set(_GROUP_KEYS))
        if unknown:
            raise ValueError(
                f"unknown key {unknown[0]!r} in a parameter group; valid keys are "
                f"{', '.join(_GROUP_KEYS)}"
            )
        if "kind" not in param_group:
            owner = type(self).__name__
            if self._rule.kinds_differ:
                for part in split_group(param_group, owner):
                    self._add_routed(part)
                return
            param_group["kind"] = "other"
        choice("kind", param_group["kind"], ("matrix", "other"))
        if self.param_groups:
            param_group.setdefault("lr", self.param_groups[0]["lr"])
        super().add_param_group(param_group)
        self._check_group(self.param_groups[-1])

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["norm"] is not None:
            choice("norm", group["norm"], NORMS)
        for name, valid, ok in (
            ("weight_decay", "[0, inf)", lambda x: 0 <= x < math.inf),
            ("lr_scale", "(0, inf)", lambda x: 0 < x < math.inf),
        ):
            number(name, group[name], valid=valid, ok=ok)
        self._common_lr()
        needs_matrix = group["kind"] == "matrix" or norm_of(group, self._rule) == "spectral"
        for _, name, p in named_parameters([group]):
            if not p.is_floating_point():
                raise TypeError(f"{name} must be a real floating-point tensor, got {p.dtype}")
            if p.dtype == torch.float16 and NORMS[norm_of(group, self._rule)].adaptive:
                raise TypeError(
                    f"{name} is float16, which cannot hold the squares of gradients that the norm "
                    f"{norm_of(group, self._rule)!r} averages; keep it in float32 under autocast, "
                    "or use bfloat16"
                )
            if needs_matrix and p.ndim < 2:
                raise ValueError(
                    f"{name} of shape {tuple(p.shape)} cannot have kind='matrix' or a spectral "
                    "norm: that takes at least 2 dimensions"
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned; the next step is the one the saved run would take."""
        super().load_state_dict(state_dict)
        saved, groups = state_dict["state"], state_dict["param_groups"]
        keys = [key for group in groups for key in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for key, p in zip(keys, params):
            for name in _SCALARS:
                if name in saved.get(key, ()):
                    self.state[p][name] = saved[key][name].to(p.device, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in self._PERSISTENT}
        return super().__getstate__() | own

    def __deepcopy__(self, memo: dict[int, Any]) -> NonEuclidean:
        memo[id(self._process_group)] = self._process_group  # a handle, which cannot be copied
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin


def _check_lr(lr: float | Tensor) -> None:
    known = _is_known(lr)
    number("lr", lr, valid="[0, inf)", ok=lambda x: 0 <= x < math.inf if known else True)


def _is_known(lr: float | Tensor) -> bool:
    """Whether its value is here; a tensor's on a device would have to be waited for."""
    return not isinstance(lr, Tensor) or lr.device.type == "cpu"
