"""Next-token prediction with a tiny GPT on sequences of equal length."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fallline.tasks.gpt import GPT
from fallline.tasks.training import TrainingTask


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy in nats of each token given those before it; tokens (batch, time + 1)."""
    logits = model(tokens[:, :-1])
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def language_task(
    train: NDArray[np.integer],
    validation: NDArray[np.integer],
    *,
    seed: int,
    steps: int,
    batch: int,
    vocabulary: int,
    layers: int,
    width: int,
    heads: int,
) -> TrainingTask:
    """Build the task of a GPT on sequences (count, time + 1), taken in the order given."""
    # Seeding a fork of the global generator: the init depends on `seed` alone, and the caller's
    # random state is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(vocabulary, train.shape[1] - 1, layers, width, heads)
    return TrainingTask(
        model,
        next_token_loss,
        torch.split(torch.as_tensor(train, dtype=torch.long), batch),
        partial(_val_loss, chunks=torch.split(torch.as_tensor(validation, dtype=torch.long), 64)),
        steps,
    )


def _val_loss(model: nn.Module, chunks: tuple[Tensor, ...]) -> dict[str, float]:
    total = sum((next_token_loss(model, chunk).item() * len(chunk) for chunk in chunks), 0.0)
    return {"val_loss": total / sum(map(len, chunks))}
