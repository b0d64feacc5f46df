"""Argument checks that name the argument, the value and the valid range."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import torch
from torch import Tensor


def choice(name: str, value: object, valid: Iterable[object]) -> None:
    options = tuple(valid)
    if value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def positive_int(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def auto_or_floating(name: str, value: object) -> None:
    if value != "auto" and not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise ValueError(f"{name} must be 'auto' or a floating torch.dtype, got {value!r}")


def number(name: str, value: Any, *, valid: str, ok: Callable[[Any], bool]) -> None:
    """Refuse what is not one real number (TypeError) or for which `ok` is False (ValueError)."""
    if isinstance(value, Tensor):
        scalar_tensor(name, value)
    elif not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not ok(value):
        raise ValueError(f"{name} must be in {valid}, got {value!r}")


def scalar_tensor(name: str, value: Tensor) -> None:
    if value.is_complex():
        raise TypeError(f"{name} must be real, got {value.dtype}")
    if value.numel() != 1:
        raise ValueError(f"{name} must hold one value, got shape {tuple(value.shape)}")
