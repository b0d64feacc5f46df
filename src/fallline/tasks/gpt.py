"""A GPT small enough for a laptop's processor."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


class Attention(nn.Module):
    """Causal self-attention, (batch, time, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Pre-norm attention and MLP, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        x = x + self.attn(self.ln1(x))
        return x + self.down(gelu(self.up(self.ln2(x))))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Pre-LN decoder with learned positions and an untied head; no biases in its linear maps.

    Weights start as N(0, 0.02); the two maps per block that end on the residual stream are divided
    by sqrt(2 layers), so that its variance does not grow with depth. The initial draw uses torch's
    global generator.

    Parameters
    ----------
    vocabulary, context
        Number of symbols, and the longest sequence.
    layers, width, heads
        `heads` must divide `width`.

    Examples
    --------
    >>> model = GPT(vocabulary=32, context=16, layers=1, width=8, heads=2)
    >>> model(torch.zeros(4, 16, dtype=torch.long)).shape
    torch.Size([4, 16, 32])
    """

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"GPT: heads must divide width, got {heads} heads and width {width}")
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                residual = name.endswith(("proj.weight", "down.weight"))
                nn.init.normal_(p, 0.0, 0.02 / (math.sqrt(2 * layers) if residual else 1.0))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, time) to the logits of each next token (batch, time, vocabulary)."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.lm_head(self.ln(self.blocks(x)))  # type: ignore[no-any-return]
