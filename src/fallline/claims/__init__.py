"""The catalog: one module per claim, each holding a `study` of the module's name."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fallline.study.spec import Study

__all__ = ["load", "names", "published"]


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


def published(name: str) -> dict[str, Any] | None:
    """Return the verdict that ships with this version, or None.

    Its keys are those of the JSON report, such as `verdict`, `scale`, `checks` and `notes`.
    """
    file = files(__name__) / "verdicts" / f"{name}.json"
    if not file.is_file():
        return None
    verdict: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return verdict
