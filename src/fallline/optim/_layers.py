"""From parameter groups to the layers of one step: what has a gradient, with its averages."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fallline.optim._inner import dot, inner
from fallline.optim._norms import NORMS
from fallline.optim._rule import Rule, ShapeScale
from fallline.optim._sharding import is_sharded, local, sum_over_shards

ParamGroup = dict[str, Any]


class Weights(NamedTuple):
    """What the new gradient of each layer weighs in the averages `m` and `v`."""

    m: Tensor
    v: Tensor


class Layers(NamedTuple):
    """Layers of one norm with a gradient; of a sharded parameter, this rank's shard."""

    names: tuple[str, ...]
    is_matrix: bool
    norm: str
    s: Tensor  # scale of each layer's norm
    decay: Tensor | None  # 1 - lr * weight_decay
    w: list[Tensor]
    g: list[Tensor]
    m: list[Tensor]
    v: list[Tensor]  # empty unless the norm is adaptive
    gw: list[Tensor]  # average of <g, w>; empty unless truncated
    nuclear: list[Tensor]  # of the previous step, or room for it; empty unless nuclear="stale"
    fresh: bool  # no stale nuclear norms yet
    weights: Weights | None  # of this step's gradients, where they are not 1 - beta and 1 - beta2
    sharded: list[Tensor]  # the DTensor behind each w; empty for plain parameters


class Gradients(NamedTuple):
    """Parameters of one group, device and dtype that have a gradient."""

    group: ParamGroup
    names: list[str]
    params: list[Tensor]
    grads: list[Tensor]


def named_parameters(groups: Sequence[ParamGroup]) -> Iterator[tuple[ParamGroup, str, Tensor]]:
    """Each parameter with its group and the name that errors and `Step.layer_duals` use."""
    for i, group in enumerate(groups):
        names = group.get("param_names")
        for j, p in enumerate(group["params"]):
            yield group, names[j] if names else f"group {i} parameter {j}", p


def collect_gradients(
    groups: Sequence[ParamGroup], state: MutableMapping[Tensor, Any], *, foreach: bool
) -> list[Gradients]:
    """Gather what has a gradient; with `foreach` all of a kind together, else each alone.

    A layer without a stale nuclear norm, because it joins late, is of another kind than those
    that have one: it needs its polar factor before the step's length is known.
    """
    parts: dict[tuple[Any, ...], Gradients] = {}
    for group, name, p in named_parameters(groups):
        g = p.grad
        if g is None:
            continue
        if g.layout != torch.strided:
            raise TypeError(f"{name} has a sparse gradient ({g.layout}); only dense ones work")
        stale = "nuclear_norm" in state.get(p, ())
        key = (id(group), p.device, p.dtype, is_sharded(p), stale, None if foreach else name)
        part = parts.setdefault(key, Gradients(group, [], [], []))
        part.names.append(name)
        part.params.append(p)
        part.grads.append(g)
    return list(parts.values())


def gradients_dot_parameters(parts: Sequence[Gradients], like: Tensor) -> Tensor:
    """``<g_l, w_l>`` of each layer, of its own part where it is sharded."""
    return torch.cat(
        [
            inner(
                [local(grad, p) for grad, p in zip(part.grads, part.params)],
                [local(p) for p in part.params],
                like,
            )
            for part in parts
        ]
    )


def model_of_absent(
    groups: Sequence[ParamGroup], state: MutableMapping[Tensor, Any], like: Tensor
) -> Tensor | None:
    """``<m_l, w_l> - avg <g_l, w_l>`` summed over the layers that have no gradient at this step.

    They keep their averages, so the averaged model still has their term. None if there are none.
    """
    absent = [
        p
        for _, _, p in named_parameters(groups)
        if p.grad is None and "grad_dot_w" in state.get(p, ())
    ]
    if not absent:
        return None
    m, w = [local(state[p]["exp_avg"]) for p in absent], [local(p) for p in absent]
    owners = [p if is_sharded(p) else None for p in absent]
    mw = sum_over_shards(inner(m, w, like).unsqueeze(0), owners)[0]
    return (mw - torch.stack([state[p]["grad_dot_w"].to(like) for p in absent])).sum()


def norm_of(group: ParamGroup, rule: Rule) -> str:
    """Return the norm key of a group: its own, or the one of its kind."""
    own: str | None = group["norm"]
    return own or (rule.matrix_norm if group["kind"] == "matrix" else rule.other_norm)


def layers_of(
    part: Gradients,
    rule: Rule,
    state: MutableMapping[Tensor, Any],
    lr: float | Tensor,
    like: Tensor,
) -> Layers:
    """Start the averages of layers that have none yet, and list them for the step."""
    group, norm = part.group, norm_of(part.group, rule)
    g = [local(grad, p) for grad, p in zip(part.grads, part.params)]
    w = [local(p) for p in part.params]
    first = rule.momentum_init != "zeros"
    adaptive = NORMS[norm].adaptive
    stale = norm == "spectral" and rule.nuclear == "stale"
    fresh = False
    for p, grad in zip(part.params, part.grads):
        own = state[p]
        if "exp_avg" not in own:
            own["exp_avg"] = _start(p, grad, first)
        elif rule.momentum_init == "corrected" and "step" not in own:
            raise ValueError(
                "momentum_init='corrected' cannot go on with the averages of a state_dict saved "
                "with another momentum_init: they were not counted"
            )
        if adaptive and "exp_avg_sq" not in own:
            own["exp_avg_sq"] = _start(p, grad, first).square_()
        if rule.truncate and "grad_dot_w" not in own:
            # The average of <g, w> that goes with the momentum as it stands.
            value = dot(local(own["exp_avg"]), local(p)).to(like)
            owner = p if is_sharded(p) else None
            own["grad_dot_w"] = sum_over_shards(value.view(1, 1), [owner]).view(()).to(p.device)
        if stale and "nuclear_norm" not in own:
            own["nuclear_norm"] = torch.zeros((), dtype=like.dtype, device=p.device)
            fresh = True
        if rule.momentum_init == "corrected":
            own["step"] = own.get("step", 0) + 1
    states = [state[p] for p in part.params]
    decay = group["weight_decay"]
    return Layers(
        names=tuple(part.names),
        is_matrix=group["kind"] == "matrix",
        norm=norm,
        s=_scales(
            tuple(_scale(p, group, norm, rule) for p in part.params), like.dtype, like.device
        ),
        decay=scalar(1 - lr * decay, like).to(w[0].device) if decay else None,
        w=w,
        g=g,
        m=[local(own["exp_avg"]) for own in states],
        v=[local(own["exp_avg_sq"]) for own in states] if adaptive else [],
        gw=[own["grad_dot_w"] for own in states] if rule.truncate else [],
        nuclear=[own["nuclear_norm"] for own in states] if stale else [],
        fresh=fresh,
        weights=_corrected(rule, [own["step"] for own in states], like)
        if rule.momentum_init == "corrected"
        else None,
        sharded=part.params if is_sharded(part.params[0]) else [],
    )


def _corrected(rule: Rule, steps: list[int], like: Tensor) -> Weights:
    def weights(beta: float) -> Tensor:
        values = [corrected_weight(beta, k) for k in steps]
        if len(set(values)) == 1:
            return torch.full((len(values),), values[0], dtype=like.dtype, device=like.device)
        return torch.tensor(values, dtype=like.dtype, device=like.device)

    return Weights(weights(rule.beta), weights(rule.beta2))


def corrected_weight(beta: float, k: int) -> float:
    """Return what the k-th value weighs in the bias-corrected average of the first k.

    ``m_k / (1 - beta^k)`` with ``m_k = beta m_{k-1} + (1 - beta) g_k`` and ``m_0 = 0`` is the
    average that starts at ``g_1`` and moves towards ``g_k`` by this weight.
    """
    return (1 - beta) / (1 - beta**k)


def scalar(value: float | Tensor, like: Tensor) -> Tensor:
    """`value` as a 0-dim tensor beside `like`; a fill, so that no copy waits for the device."""
    if isinstance(value, Tensor):
        return value.detach().to(like).reshape(())
    return torch.full((), value, dtype=like.dtype, device=like.device)


def _start(p: Tensor, grad: Tensor, first: bool) -> Tensor:
    if not first:
        return torch.zeros_like(p, memory_format=torch.preserve_format)
    if is_sharded(p) and grad.placements != p.placements:  # type: ignore[attr-defined]
        grad = grad.redistribute(placements=p.placements)  # type: ignore[attr-defined]
    return grad.detach().clone(memory_format=torch.preserve_format)


def _scale(p: Tensor, group: ParamGroup, norm: str, rule: Rule) -> float:
    own = float(group["lr_scale"])
    if norm != "spectral":
        return own
    return own * rule.matrix_scale * _shape_factor(p.shape, rule.shape_scale)


def _shape_factor(shape: torch.Size, key: ShapeScale) -> float:
    d_out, d_in = shape[0], math.prod(shape[1:])
    if key is None or d_out * d_in == 0:
        return 1.0
    if key == "rms":
        return math.sqrt(d_out / d_in)
    if key == "jordan":
        return math.sqrt(max(1.0, d_out / d_in))
    return 0.2 * math.sqrt(max(d_out, d_in))


@lru_cache(maxsize=64)
def _scales(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
