"""The product node as a torch layer: one weight per input and output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class ParityProduct(nn.Module):
    """Parities of learned subsets: y = (1 - prod_i (1 - 2 w_i b_i)) / 2.

    With weights 0 and 1 it is exactly the parity (XOR) of the bits whose weight is 1. Train it by
    plain SGD on `parity_loss` with a step size near min(M, N) / 10 (`suggest`), without momentum,
    weight decay or clamping: they break the laws that make it converge.

    Parameters
    ----------
    in_features
        Number of inputs N.
    out_features
        Number of outputs P.
    init_mean, init_std
        The initial weights are Normal(init_mean, init_std^2).
    generator
        Source of the initial weights.
    dtype, device
        Of the weight.

    Attributes
    ----------
    weight
        Parameter of shape (in_features, out_features).

    Raises
    ------
    ValueError
        If a size is below 1, or an input has another number of features.

    References
    ----------
    arXiv:2605.28612.

    Examples
    --------
    >>> layer = ParityProduct(3)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0], [1.0], [0.0]]))
    >>> layer(torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])).flatten().tolist()
    [0.0, 1.0]
    >>> layer.support().tolist()
    [0, 1]
    """

    weight: nn.Parameter

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        *,
        init_mean: float = 0.5,
        init_std: float = 0.25,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            if value < 1:
                raise ValueError(f"{name} must be >= 1, got {value!r}")
        if not init_std >= 0:
            raise ValueError(f"init_std must be >= 0, got {init_std!r}")
        self.in_features, self.out_features = in_features, out_features
        self.init_mean, self.init_std = init_mean, init_std
        self.weight = nn.Parameter(
            torch.empty(in_features, out_features, dtype=dtype, device=device)
        )
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew."""
        nn.init.normal_(self.weight, self.init_mean, self.init_std, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of shape (..., P).

        Parameters
        ----------
        x
            Dense inputs (..., N), bool or of any number type, at a cost of all N; or a
            `torch.sparse_csr` matrix (M, N), at a cost of its stored entries.
        """
        if x.shape[-1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} features, got shape {tuple(x.shape)}")
        if x.layout == torch.sparse_csr:
            if x.dim() != 2:
                raise ValueError(f"a sparse x must be a matrix (M, N), got {tuple(x.shape)}")
            starts = x.crow_indices()
            at = _padded(x.col_indices(), starts, self.in_features)
            return self._nodes(at, _padded(x.values(), starts, 0))
        if x.layout != torch.strided:
            raise ValueError(f"x must be dense or sparse_csr, got {x.layout}: x.to_sparse_csr()")
        factors = 1.0 - 2.0 * self.weight * x.to(self.weight.dtype).unsqueeze(-1)
        return 0.5 * (1.0 - product(factors))

    def forward_indices(self, indices: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Return the outputs (M, P) of samples given by their active bits, as in `EmbeddingBag`.

        Parameters
        ----------
        indices
            Active bits, distinct in each sample: one sample after the other, with `offsets`; or a
            matrix (M, q), short rows filled up with the index N (`in_features`). The matrix is the
            form to `torch.compile`: its shape does not depend on the data.
        offsets
            Where each sample starts in `indices`, (M,).
        """
        if (offsets is None) != (indices.dim() == 2) or indices.dim() not in (1, 2):
            raise ValueError(
                "give indices (M, q) alone, or indices of one dimension with offsets; got shape "
                f"{tuple(indices.shape)} with offsets {'missing' if offsets is None else 'given'}"
            )
        if offsets is not None:
            starts = torch.cat([offsets, offsets.new_tensor([indices.numel()])])
            indices = _padded(indices, starts, self.in_features)
        return self._nodes(indices)

    def harden(self) -> Tensor:
        """Return the weights as bits: boolean (N, P), by a threshold at 1/2."""
        return self.weight.detach() > 0.5

    def support(self, p: int = 0) -> Tensor:
        """Return the indices of the bits that output `p` is the parity of."""
        return self.harden()[:, p].nonzero().flatten()

    def extra_repr(self) -> str:
        """Name the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}"

    def _nodes(self, at: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the outputs of active bits (M, q), with the neutral factor 1 at index N."""
        inside = at < self.in_features
        w = nn.functional.embedding(torch.where(inside, at, 0), self.weight)
        if values is not None:
            w = w * values.to(w.dtype).unsqueeze(-1)
        return 0.5 * (1.0 - product(torch.where(inside.unsqueeze(-1), 1.0 - 2.0 * w, 1.0)))


def _padded(flat: Tensor, starts: Tensor, fill: int) -> Tensor:
    """Rows of unequal length as a matrix; row m is flat[starts[m] : starts[m + 1]]."""
    lengths = starts.diff()
    if int(starts[0]) != 0 or (len(lengths) and int(lengths.min()) < 0):
        raise ValueError("offsets must start at 0, never fall, and end within indices")
    column = torch.arange(int(lengths.max()) if len(lengths) else 0, device=flat.device)
    matrix = flat.new_full((len(lengths), len(column)), fill)
    matrix[column < lengths.unsqueeze(-1)] = flat
    return matrix


def product(factors: Tensor) -> Tensor:
    """Return the product over the second last axis; its backward never divides by a factor."""
    result: Tensor = _Product.apply(factors)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(factors: Tensor) -> Tensor:
        return factors.prod(dim=-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (factors,) = ctx.saved_tensors
        one = torch.ones_like(factors[..., :1, :])
        before = torch.cat([one, factors[..., :-1, :]], dim=-2).cumprod(dim=-2)
        after = torch.cat([one, factors[..., 1:, :].flip(-2)], dim=-2).cumprod(dim=-2).flip(-2)
        return gradient.unsqueeze(-2) * before * after


def parity_loss(y: Tensor, y_true: Tensor) -> Tensor:
    """Return the squared error, summed over the outputs and averaged over the batch.

    A mean over the outputs would divide the step size by their number.

    Parameters
    ----------
    y
        Outputs (..., P).
    y_true
        Labels 0 and 1 in the shape of `y`.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> y = torch.tensor([[0.5, 1.0], [0.0, 0.0]])
    >>> float(parity_loss(y, torch.tensor([[1, 1], [1, 0]])))
    0.625
    """
    if y.shape != y_true.shape or y.dim() == 0:
        raise ValueError(
            f"y and y_true must have one shape (..., P), got {tuple(y.shape)} and "
            f"{tuple(y_true.shape)}; a vector of labels of one output is y_true.unsqueeze(-1)"
        )
    return (y - y_true.to(y.dtype)).square().sum(dim=-1).mean()
