"""The catalog: one module per claim, each holding a `study` of the module's name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fallline.study.spec import Study

__all__ = ["load", "names"]


def names() -> list[str]:
    """Return the names of all studies, without importing any."""
    modules = (module.name for module in iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in modules if not name.startswith("_"))


def load(name: str) -> Study:
    """Import the module of one claim and return its study.

    Raises
    ------
    ValueError
        If there is no such study.

    Examples
    --------
    >>> load("muonmax-momo").paper
    'arXiv:2510.09827'
    """
    if name not in names():
        raise ValueError(f"there is no study {name!r}; choose one of {', '.join(names())}")
    study: Study = import_module(f"{__name__}.{name.replace('-', '_')}").study
    return study
