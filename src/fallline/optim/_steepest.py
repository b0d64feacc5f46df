"""One step of non-Euclidean gradient descent with a product norm (arXiv:2510.09827)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fallline.optim._aggregation import aggregate
from fallline.optim._inner import inner
from fallline.optim._layers import Layers
from fallline.optim._lower_bound import after_step, reset_if_above
from fallline.optim._momo import truncated_step_size
from fallline.optim._norms import NORMS, Tensors, elementwise_direction
from fallline.optim._polar import polar_each
from fallline.optim._rule import Rule
from fallline.optim._sharding import polar_of_shards, sum_over_shards


class Truncation(NamedTuple):
    """The scalars of the truncated model; the averages are updated in place."""

    loss: Tensor
    gw: Tensor  # <g, w> of each layer's own part
    absent: Tensor | None  # the model's terms of layers without a gradient at this step
    loss_avg: Tensor
    f_star: Tensor
    adapts: bool  # f_star="auto": then `f_star` is the running estimate
    loss_weight: float | Tensor  # of the loss in its average


class Step(NamedTuple):
    """What the last step did. Values stay on the device: ``float(...)`` fetches one.

    ``F`` and ``f_star`` are None without truncation; ``G`` and ``S`` are None, and ``layer_duals``
    is empty, where the step needs no dual.
    """

    eta: Tensor
    truncated: Tensor
    F: Tensor | None
    G: Tensor | None
    S: Tensor | None
    f_star: Tensor | None
    layer_duals: dict[str, Tensor]


def steepest_step(
    groups: Sequence[Layers], rule: Rule, lr: Tensor, truncation: Truncation | None
) -> Step:
    """Move each layer by ``-eta_t (G if regularised else 1) a_l lmo_l``, after weight decay."""
    for group in groups:  # 1
        _update_averages(group, rule)
    duals_wanted = _needs_duals(groups, rule)
    m = [_slope(group, rule) for group in groups]
    like = lr if duals_wanted else None
    directions = [_direction(group, m_g, rule, like) for group, m_g in zip(groups, m)]  # 3
    z = [z_g for z_g, _ in directions]

    if not duals_wanted:
        for group, m_g, z_g in zip(groups, m, z):
            _move(group, m_g, z_g, lr * group.s, rule)
        return Step(lr, torch.zeros_like(lr, dtype=torch.bool), None, None, None, None, {})

    pairings = [torch.cat([mz_g for _, mz_g in directions if mz_g is not None])]
    if truncation is not None:  # 2, before any parameter moves
        pairings.append(truncation.gw)
        pairings.append(torch.cat([inner(group.m, group.w, lr) for group in groups]))
    sums = sum_over_shards(torch.stack(pairings), _owners(groups))
    mz = _by_group(groups, sums[0])
    _exchange_nuclear_norms(groups, mz, z, rule)

    roots = [q.sqrt() if _is_square(group, rule) else q for group, q in zip(groups, mz)]
    D = [group.s * root for group, root in zip(groups, roots)]
    G, S, a = aggregate(rule.aggregation, D, [group.is_matrix for group in groups])  # 4

    eta, F, f_star = lr, None, None
    if truncation is not None:  # 5
        _, gw, mw = sums
        F = _averaged_model(groups, rule, truncation, gw, mw)
        f_star = truncation.f_star.clone()
        if truncation.adapts:
            f_star = reset_if_above(f_star, F, rule.lb0)
        eta = truncated_step_size(lr, F, f_star, G, constrained=rule.constrained)
        if truncation.adapts:
            lb = after_step(F, eta, G, rule.lb0, constrained=rule.constrained)
            truncation.f_star.copy_(lb)

    r = eta if rule.constrained else eta * G
    for group, m_g, z_g, a_g, root in zip(groups, m, z, a, roots):  # 6, 7
        quadratic = NORMS[group.norm].quadratic
        unit = _safe_divide(group.s, root) if quadratic else group.s  # lmo = unit * z
        _move(group, m_g, z_g, r * a_g * unit, rule)
    names = [name for group in groups for name in group.names]
    layer_duals = dict(zip(names, torch.cat(D).unbind()))
    return Step(eta, eta < lr, F, G, S, f_star, layer_duals)


def _update_averages(group: Layers, rule: Rule) -> None:
    if group.weights is not None:
        _lerp_each(group.m, group.g, group.weights.m)
        if group.v:
            _lerp_each(group.v, torch._foreach_mul(group.g, group.g), group.weights.v)
        return
    torch._foreach_lerp_(group.m, group.g, 1 - rule.beta)
    if group.v:
        torch._foreach_mul_(group.v, rule.beta2)
        torch._foreach_addcmul_(group.v, group.g, group.g, value=1 - rule.beta2)


def _lerp_each(averages: list[Tensor], values: Tensors, weights: Tensor) -> None:
    like = averages[0]
    each = list(weights.to(dtype=like.dtype, device=like.device).unbind())
    torch._foreach_lerp_(averages, values, each)


def _slope(group: Layers, rule: Rule) -> Tensors:
    """``m``, or for matrices with Nesterov's look-ahead ``beta m + (1 - beta) g``."""
    if rule.nesterov and group.is_matrix:
        return torch._foreach_lerp(group.g, group.m, rule.beta)
    return group.m


def _direction(
    group: Layers, m: Tensors, rule: Rule, like: Tensor | None
) -> tuple[Tensors | None, Tensor | None]:
    """``z`` of each layer, None where it is wanted only when the layer moves, and ``<m, z>``.

    Without `like` nobody wants the pairing, and stale norms are taken when the layer moves. The
    Frobenius stand-in for a nuclear norm gives ``<m, m>``, a stale one 0 until
    `_exchange_nuclear_norms`.
    """
    if group.norm != "spectral":
        z = elementwise_direction(group.norm, m, group.v, rule.eps)
        return z, None if like is None else inner(m, z, like)
    if rule.nuclear == "cached" or (rule.nuclear == "stale" and group.fresh and like is not None):
        return _polar_factors(group, m, rule, like)
    if like is None:
        return None, None
    return None, inner(m, m, like) if rule.nuclear == "frobenius" else like.new_zeros(len(m))


def _polar_factors(
    group: Layers, m: Tensors, rule: Rule, like: Tensor | None
) -> tuple[list[Tensor], Tensor | None]:
    method, steps, dtype = rule.polar, rule.polar_steps, rule.polar_dtype
    if group.sharded:
        u = polar_of_shards(m, group.sharded, method=method, steps=steps, dtype=dtype)
        return u, None if like is None else inner(m, u, like)
    flat = [m_l.flatten(1) for m_l in m]
    u, nuclear = polar_each(flat, method=method, steps=steps, dtype=dtype, nuclear=like is not None)
    u = [u_l.view(m_l.shape) for u_l, m_l in zip(u, m)]
    return u, None if like is None else torch.stack(nuclear).to(like)


def _needs_duals(groups: Sequence[Layers], rule: Rule) -> bool:
    plain = rule.constrained and rule.aggregation == "linf" and not rule.truncate
    return not plain or any(NORMS[group.norm].quadratic for group in groups)


def _is_square(group: Layers, rule: Rule) -> bool:
    return NORMS[group.norm].quadratic or (group.norm == "spectral" and rule.nuclear == "frobenius")


def _exchange_nuclear_norms(
    groups: Sequence[Layers],
    mz: list[Tensor],
    z: Sequence[Tensors | None],
    rule: Rule,
) -> None:
    """With ``nuclear="stale"``: put in the previous norms, or keep the exact ones of now."""
    for i, group in enumerate(groups):
        if group.norm != "spectral" or rule.nuclear != "stale":
            continue
        if z[i] is None:
            mz[i] = torch.stack(group.nuclear).to(mz[i])
        else:
            torch._foreach_copy_(group.nuclear, list(mz[i].unbind()))


def _averaged_model(
    groups: Sequence[Layers], rule: Rule, truncation: Truncation, gw: Tensor, mw: Tensor
) -> Tensor:
    """``F``: the value at ``w`` of the average of past linearisations.

    Each layer averages its own ``<g, w>`` exactly as it averages ``g``. With a gradient for every
    layer at every step this is ``Fbar + mw`` with ``Fbar`` the average of ``q = loss - gw``; it
    stays right when a layer joins late or misses a step, where one global average would not.
    """
    stored = [average for group in groups for average in group.gw]
    weights: float | Tensor = 1 - rule.beta
    if groups[0].weights is not None:
        weights = torch.cat([group.weights.m for group in groups if group.weights is not None])
    gw_avg = torch.stack([average.to(gw) for average in stored]).lerp(gw, weights)
    torch._foreach_copy_(stored, list(gw_avg.unbind()))
    truncation.loss_avg.lerp_(truncation.loss, truncation.loss_weight)
    F = truncation.loss_avg + (mw - gw_avg).sum()
    return F if truncation.absent is None else F + truncation.absent


def _move(
    group: Layers,
    m: Tensors,
    z: Tensors | None,
    coefficients: Tensor,
    rule: Rule,
) -> None:
    if z is None:
        z, mz = _polar_factors(group, m, rule, coefficients if group.nuclear else None)
        if mz is not None:
            norms = sum_over_shards(mz.unsqueeze(0), _owners([group]))
            torch._foreach_copy_(group.nuclear, list(norms[0].unbind()))
    if group.decay is not None:
        torch._foreach_mul_(group.w, group.decay)
    steps = list(coefficients.to(group.w[0].device).unbind())
    torch._foreach_addcmul_(group.w, z, steps, value=-1)


def _owners(groups: Sequence[Layers]) -> list[Tensor | None]:
    return [
        owner
        for group in groups
        for owner in (group.sharded if group.sharded else [None] * len(group.w))
    ]


def _by_group(groups: Sequence[Layers], values: Tensor) -> list[Tensor]:
    return list(torch.split(values, [len(group.w) for group in groups]))


def _safe_divide(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(y > 0, x / y, 0)
