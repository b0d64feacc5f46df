"""Parameters sharded over ranks (FSDP2's DTensor): sums of scalars, and polar factors by owner."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.optim._polar import PolarDtype, PolarMethod, polar_each


def is_sharded(t: Tensor) -> bool:
    """Whether `t` is a DTensor, without importing torch.distributed for those who have none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(t, module.DTensor)


def local(t: Any, like: Any | None = None) -> Tensor:
    """Return this rank's part of `t`, laid out as `like`; a plain tensor is its own part."""
    if isinstance(t, Tensor) and not is_sharded(t):
        return t
    if like is not None and t.placements != like.placements:
        t = t.redistribute(placements=like.placements)
    part: Tensor = t.to_local()
    return part


def sum_over_shards(partial: Tensor, owners: Sequence[Any]) -> Tensor:
    """Sum the columns of `partial` over the ranks that hold a part of the column's parameter."""
    columns_of: defaultdict[Any, list[int]] = defaultdict(list)
    for column, owner in enumerate(owners):
        if owner is not None:
            columns_of[owner.device_mesh].append(column)
    total = partial.clone() if columns_of else partial
    for mesh, columns in columns_of.items():
        copies = [
            math.prod(mesh.size(d) for d, p in enumerate(owners[c].placements) if p.is_replicate())
            for c in columns
        ]
        block = partial[:, columns] / partial.new_tensor(copies)
        for dimension in range(mesh.ndim):
            torch.distributed.all_reduce(block, group=mesh.get_group(dimension))
        total[:, columns] = block
    return total


def all_ranks_agree(ok: Tensor, owners: Sequence[Any]) -> Tensor:
    """Whether `ok` holds on every rank that shares a parameter of `owners`."""
    agreed = ok.to(torch.uint8)
    # A set would be walked in another order on each rank, and the collectives would deadlock.
    for mesh in dict.fromkeys(owner.device_mesh for owner in owners if is_sharded(owner)):
        for dimension in range(mesh.ndim):
            group = mesh.get_group(dimension)
            torch.distributed.all_reduce(agreed, torch.distributed.ReduceOp.MIN, group=group)
    return agreed.bool()


def polar_of_shards(
    parts: Sequence[Tensor],
    owners: Sequence[Any],
    *,
    method: PolarMethod,
    steps: int,
    dtype: PolarDtype,
) -> list[Tensor]:
    """`polar` of matrices held in parts: gather, compute on one owner rank each, scatter.

    On a mesh of one dimension matrix ``i`` belongs to rank ``i % size``, so that ranks share the
    work; on a mesh of more dimensions every rank computes all of them.
    """
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

    mine: dict[int, Tensor] = {}
    for i, (part, owner) in enumerate(zip(parts, owners)):
        mesh = owner.device_mesh
        whole = DTensor.from_local(
            part, mesh, owner.placements, run_check=False, shape=owner.shape, stride=owner.stride()
        ).full_tensor()
        if mesh.ndim > 1 or i % mesh.size() == mesh.get_local_rank():
            mine[i] = whole.flatten(1)
    factors, _ = polar_each(list(mine.values()), method=method, steps=steps, dtype=dtype)
    # Every rank must receive into buffers of one dtype, whatever the owner iterated in.
    mine = {i: u.to(parts[i].dtype) for i, u in zip(mine, factors)}

    result = []
    for i, (part, owner) in enumerate(zip(parts, owners)):
        mesh, placements = owner.device_mesh, owner.placements
        if i in mine:
            whole = mine[i].view(owner.shape)
        else:
            whole = torch.empty(owner.shape, dtype=part.dtype, device=part.device)
        if mesh.ndim > 1:
            copies = DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim, run_check=False)
            shard = copies.redistribute(placements=placements)
        else:
            source = i % mesh.size()
            shard = distribute_tensor(whole, mesh, placements, src_data_rank=source)
        result.append(shard.to_local())
    return result
