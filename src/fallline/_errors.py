"""The package's own warning, and the one error that every optional interface shares."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class FalllineWarning(UserWarning):
    """A result that stands, with something about it that the caller should know."""


def import_extra(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra of fallline brings it.

    Raises
    ------
    ModuleNotFoundError
        If `module` is not installed; the message holds the command that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"{module} is not installed; it comes with: pip install 'fallline[{extra}]'",
            name=error.name,
        ) from None
