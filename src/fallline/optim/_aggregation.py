"""Product norms: how the layers' norms become one norm on all parameters (arXiv:2510.09827)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Aggregation = Literal["linf", "l2", "hybrid"]


class Aggregated(NamedTuple):
    """Global dual `G`, sum `S` of the matrices' duals, coefficient ``a_l`` of each ``lmo_l``."""

    G: Tensor
    S: Tensor
    a: list[Tensor]


def aggregate(key: Aggregation, duals: Sequence[Tensor], is_matrix: Sequence[bool]) -> Aggregated:
    """Aggregate the duals ``D_l``, given as one vector per group of layers.

    ========  ==================================================  ========================
    key       product norm                                        coefficients
    ========  ==================================================  ========================
    linf      ``max_l ||z_l||``                                   1
    l2        ``sqrt(sum ||z_l||^2)``                             ``D_l/G``
    hybrid    ``sqrt((max_M ||z_l||)^2 + sum_O ||z_l||^2)``       ``S/G`` on M, ``D_l/G`` on O
    ========  ==================================================  ========================
    """
    zero = duals[0].new_zeros(())
    S = sum((D.sum() for D, matrix in zip(duals, is_matrix) if matrix), start=zero)
    if key == "linf":
        G = sum((D.sum() for D in duals), start=zero)
        return Aggregated(G, S, [torch.ones_like(D) for D in duals])
    squared = [D for D, matrix in zip(duals, is_matrix) if key == "l2" or not matrix]
    squares = [D.square().sum() for D in squared]
    G = sum(squares, start=S.square() if key == "hybrid" else zero).sqrt()
    # Where the squares leave the range of float32, above 1.8e19, the root need not.
    lengths = torch.cat([S.view(1), *squared] if key == "hybrid" else squared)
    largest = lengths.max()
    G = torch.where(G.isinf(), largest * (lengths / largest).square().sum().sqrt(), G)
    divisor = torch.where(G > 0, G, 1)
    if key == "l2":
        return Aggregated(G, S, [D / divisor for D in duals])
    a = [(S.expand_as(D) if matrix else D) / divisor for D, matrix in zip(duals, is_matrix)]
    return Aggregated(G, S, a)
