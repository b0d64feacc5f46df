"""Recover parities (XOR) of hidden subsets from sparse bits, at a cost of the active ones.

Names are loaded when they are first used, so that the theory needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fallline.parity.classifier import ParityClassifier, ParityConvergenceWarning
    from fallline.parity.counting import Counts, count_parity
    from fallline.parity.elimination import GF2Solution, solve_gf2
    from fallline.parity.gradient import population_gradient, population_loss
    from fallline.parity.layer import ParityProduct, parity_loss
    from fallline.parity.networks import NaiveProduct, parity_mlp
    from fallline.parity.recursion import MeanField, label_noise_mean, mean_field
    from fallline.parity.stability import (
        PaperBounds,
        Suggestion,
        paper_bounds,
        stability_limit,
        suggest,
    )
    from fallline.parity.stream import ParityStream
    from fallline.parity.training import StreamResult, train_stream

_HOME = {
    "Counts": "counting",
    "GF2Solution": "elimination",
    "MeanField": "recursion",
    "NaiveProduct": "networks",
    "PaperBounds": "stability",
    "ParityClassifier": "classifier",
    "ParityConvergenceWarning": "classifier",
    "ParityProduct": "layer",
    "ParityStream": "stream",
    "StreamResult": "training",
    "Suggestion": "stability",
    "count_parity": "counting",
    "label_noise_mean": "recursion",
    "mean_field": "recursion",
    "paper_bounds": "stability",
    "parity_loss": "layer",
    "parity_mlp": "networks",
    "population_gradient": "gradient",
    "population_loss": "gradient",
    "solve_gf2": "elimination",
    "stability_limit": "stability",
    "suggest": "stability",
    "train_stream": "training",
}

__all__ = [
    "Counts",
    "GF2Solution",
    "MeanField",
    "NaiveProduct",
    "PaperBounds",
    "ParityClassifier",
    "ParityConvergenceWarning",
    "ParityProduct",
    "ParityStream",
    "StreamResult",
    "Suggestion",
    "count_parity",
    "label_noise_mean",
    "mean_field",
    "paper_bounds",
    "parity_loss",
    "parity_mlp",
    "population_gradient",
    "population_loss",
    "solve_gf2",
    "stability_limit",
    "suggest",
    "train_stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
