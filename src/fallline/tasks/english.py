"""Real English that every CPython carries: the language reference behind `help()`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fallline.tasks.training import TrainingTask

CONTEXT = 64
VALIDATION_WINDOWS = 128


@dataclass(frozen=True)
class EnglishText:
    """Bytes to train on and bytes kept for validation, from different topics."""

    train: bytes
    validation: bytes

    @property
    def sha256(self) -> str:
        """Names this text: the reference changes from one version of Python to the next."""
        return hashlib.sha256(self.train + b"\0" + self.validation).hexdigest()


@lru_cache
def english_text() -> EnglishText:
    """Return the text of `pydoc_data.topics`, split by topic.

    About every sixth topic is kept for validation. The hash of a topic's name decides, so that the
    split depends on nothing else and a topic keeps its side when other topics come and go.
    """
    from pydoc_data.topics import topics

    parts: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(topics):
        kept = hashlib.sha256(name.encode()).digest()[0] % 6 == 0
        parts[kept].append(topics[name])
    return EnglishText("\n".join(parts[False]).encode(), "\n".join(parts[True]).encode())


def english_bytes(
    seed: int, *, steps: int = 200, layers: int = 2, width: int = 64, heads: int = 4
) -> TrainingTask:
    """Return a GPT on the bytes of `english_text`; batches of 16 windows of 64 bytes.

    Parameters
    ----------
    seed
        Draws the order of the windows and the initial weights; the text and its split are fixed.
    steps
        Optimizer steps of a run.
    layers, width, heads
        Size of the model.
    """
    from fallline.tasks.language import language_task

    text = english_text()
    train = _windows(text.train)
    validation = _windows(text.validation)
    spread = np.linspace(0, len(validation) - 1, min(VALIDATION_WINDOWS, len(validation)))
    return language_task(
        np.random.default_rng(seed).permutation(train),
        validation[spread.astype(int)],
        seed=seed,
        steps=steps,
        batch=16,
        vocabulary=256,
        layers=layers,
        width=width,
        heads=heads,
    )


def _windows(text: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Non-overlapping windows (count, 65); an incomplete one at the end is dropped."""
    data = np.frombuffer(text, dtype=np.uint8)
    count = len(data) // (CONTEXT + 1)
    return data[: count * (CONTEXT + 1)].reshape(count, CONTEXT + 1)
