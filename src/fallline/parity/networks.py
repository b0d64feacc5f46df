"""Networks that parity learning is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTHS = (512, 512, 64)


def parity_mlp(in_features: int, *, generator: torch.Generator | None = None) -> nn.Sequential:
    """Return the comparator of the paper: ReLU layers of 512, 512 and 64 units and one output.

    Kaiming uniform weights, biases 0; the paper trains it by SGD with step size 0.02 on the loss
    `parity_loss`.

    Parameters
    ----------
    in_features
        Number of inputs.
    generator
        Source of the initial weights.

    References
    ----------
    arXiv:2605.28612, after Abbe, Cornacchia and Lotfi (2023).

    Examples
    --------
    >>> parity_mlp(16)(torch.zeros(3, 16)).shape
    torch.Size([3, 1])
    """
    layers: list[nn.Module] = []
    width = in_features
    for following in (*WIDTHS, 1):
        linear = nn.Linear(width, following)
        nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
        width = following
    return nn.Sequential(*layers[:-1])


class NaiveProduct(nn.Module):
    """The product prod_i w_i x_i per output, that one inactive input silences.

    Parameters
    ----------
    in_features, out_features
        Numbers of inputs and outputs.
    generator
        Source of the initial weights, Normal(1/2, 1/16).

    Examples
    --------
    >>> NaiveProduct(2)(torch.tensor([[1.0, 0.0]])).tolist()
    [[0.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        nn.init.normal_(self.weight, 0.5, 0.25, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., P) of dense inputs (..., N)."""
        return (self.weight * x.to(self.weight.dtype).unsqueeze(-1)).prod(dim=-2)
