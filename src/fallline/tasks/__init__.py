"""Training tasks: a model, its data and its score, for any optimizer.

Names are loaded when they are first used, so that asking for the text's hash needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fallline.tasks.convex import (
        ConvexProblem,
        diabetes_counts,
        exponential_valley,
        poisson_counts,
        poisson_regression,
        spectrum_cosh,
        square_root_barrier,
    )
    from fallline.tasks.english import EnglishText, english_bytes, english_text
    from fallline.tasks.gpt import GPT
    from fallline.tasks.grid_routes import GridRoutes
    from fallline.tasks.handwritten import digits
    from fallline.tasks.itineraries import Itineraries, peeling_trap
    from fallline.tasks.markov import MarkovMixture, markov_mixture, sample_markov_mixture
    from fallline.tasks.schedule import constant_then_linear
    from fallline.tasks.streets import Streets, city
    from fallline.tasks.training import TrainingTask

_HOME = {
    "ConvexProblem": "convex",
    "EnglishText": "english",
    "GPT": "gpt",
    "GridRoutes": "grid_routes",
    "Itineraries": "itineraries",
    "MarkovMixture": "markov",
    "Streets": "streets",
    "TrainingTask": "training",
    "city": "streets",
    "constant_then_linear": "schedule",
    "diabetes_counts": "convex",
    "digits": "handwritten",
    "english_bytes": "english",
    "english_text": "english",
    "exponential_valley": "convex",
    "markov_mixture": "markov",
    "peeling_trap": "itineraries",
    "poisson_counts": "convex",
    "poisson_regression": "convex",
    "sample_markov_mixture": "markov",
    "spectrum_cosh": "convex",
    "square_root_barrier": "convex",
}

__all__ = [
    "GPT",
    "ConvexProblem",
    "EnglishText",
    "GridRoutes",
    "Itineraries",
    "MarkovMixture",
    "Streets",
    "TrainingTask",
    "city",
    "constant_then_linear",
    "diabetes_counts",
    "digits",
    "english_bytes",
    "english_text",
    "exponential_valley",
    "markov_mixture",
    "peeling_trap",
    "poisson_counts",
    "poisson_regression",
    "sample_markov_mixture",
    "spectrum_cosh",
    "square_root_barrier",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
