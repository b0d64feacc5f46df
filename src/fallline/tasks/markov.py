"""Sequences from a mixture of Markov chains: the chain must be inferred in context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fallline.tasks.language import language_task
from fallline.tasks.training import TrainingTask

SYMBOLS, TABLES, SUCCESSORS = 32, 3, 8
TRAIN, VALIDATION, CONTEXT = 8192, 256, 32


@dataclass(frozen=True)
class MarkovMixture:
    """Transition tables (3, 32, 32) and the sequences (count, 33) drawn from them."""

    tables: NDArray[np.float64]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]

    @property
    def entropy_rate(self) -> float:
        """Nats per symbol once the table is known: no model can do better."""
        p = self.tables[self.tables > 0]
        return float(-(p * np.log(p)).sum() / (TABLES * SYMBOLS))


def sample_markov_mixture(seed: int) -> MarkovMixture:
    """Draw the tables and their sequences.

    Each symbol of each table has 8 successors, the r-th with probability proportional to
    1/r^1.5. A sequence draws one table and a first symbol, both uniformly, and keeps its table.

    Examples
    --------
    >>> data = sample_markov_mixture(0)
    >>> data.train.shape, data.validation.shape
    ((8192, 33), (256, 33))
    >>> round(data.entropy_rate, 3)
    1.506
    """
    rng = np.random.default_rng(seed)
    weights = np.arange(1, SUCCESSORS + 1) ** -1.5
    probabilities = weights / weights.sum()
    successors = np.array(
        [[rng.permutation(SYMBOLS)[:SUCCESSORS] for _ in range(SYMBOLS)] for _ in range(TABLES)]
    )
    tables = np.zeros((TABLES, SYMBOLS, SYMBOLS))
    np.put_along_axis(tables, successors, probabilities, axis=2)

    count = TRAIN + VALIDATION
    table = rng.integers(TABLES, size=count)
    sequences = np.empty((count, CONTEXT + 1), dtype=np.int64)
    sequences[:, 0] = rng.integers(SYMBOLS, size=count)
    for t in range(CONTEXT):
        rank = rng.choice(SUCCESSORS, size=count, p=probabilities)
        sequences[:, t + 1] = successors[table, sequences[:, t], rank]
    return MarkovMixture(tables, sequences[:TRAIN], sequences[TRAIN:])


def markov_mixture(seed: int, *, steps: int = 200) -> TrainingTask:
    """Return a 2-layer GPT of width 48 on a generated Markov mixture; batches of 16 x 32 symbols.

    Parameters
    ----------
    seed
        Draws the tables, the sequences and the initial weights.
    steps
        Optimizer steps of a run.
    """
    data = sample_markov_mixture(seed)
    return language_task(
        data.train,
        data.validation,
        seed=seed,
        steps=steps,
        batch=16,
        vocabulary=SYMBOLS,
        layers=2,
        width=48,
        heads=4,
    )
