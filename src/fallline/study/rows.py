"""One cell with its record, and what it counts as in a figure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fallline.study.record import Outcome, Record
from fallline.study.spec import Cell, Scalar, canonical

MISSING = "missing"


@dataclass(frozen=True)
class Placed:
    """A cell in its part, with the names of the part's axes."""

    part: str
    axes: tuple[str, ...]
    cell: Cell


@dataclass(frozen=True)
class Row:
    """A placed cell and the record it left, if any."""

    placed: Placed
    record: Record | None

    @property
    def part(self) -> str:
        """The experiment this cell belongs to."""
        return self.placed.part

    @property
    def arm(self) -> str:
        """The method's name."""
        return self.placed.cell.arm

    @property
    def seed(self) -> int:
        """The cell's seed."""
        return self.placed.cell.seed

    @property
    def config(self) -> Mapping[str, Any]:
        """Axis values, fixed settings and the arm's own settings."""
        return self.placed.cell.config

    @property
    def outcome(self) -> str:
        """The record's outcome, or `missing`."""
        return self.record.outcome.value if self.record else MISSING

    @property
    def answered(self) -> bool:
        """Whether there is a result to count, a divergence included."""
        return self.record is not None and self.record.outcome.finished

    def counted(self, metric: str, diverged: Mapping[str, float]) -> float:
        """Return the value that this cell counts as: the declared one where it diverged."""
        if self.record is None or not self.record.outcome.finished:
            return math.nan
        if self.record.outcome is Outcome.DIVERGED:
            return float(diverged.get(metric, math.nan))
        value = self.record.metrics.get(metric)
        return math.nan if value is None else float(value)


def varying(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return what differs among these rows (their part, their settings) with the values taken."""
    names = dict.fromkeys(name for row in rows for name in row.config)
    taken: dict[str, list[Any]] = {"part": list(dict.fromkeys(row.part for row in rows))}
    for name in names:
        # Settings may be lists or mappings, which no dict can key; their text can.
        values = {_hashable(row.config.get(name)): row.config.get(name) for row in rows}
        taken[name] = list(values.values())
    return {name: values for name, values in taken.items() if len(values) > 1}


def _hashable(value: Any) -> Hashable:
    return canonical(value) if isinstance(value, (list, dict)) else value


def matches(value: Any, wanted: Scalar | Sequence[Scalar]) -> bool:
    """Whether a setting is the wanted one, or among them; floats may differ by rounding."""
    if value == (list(wanted) if isinstance(wanted, tuple) else wanted):
        return True  # a setting may be a list itself
    if isinstance(wanted, (list, tuple, set, frozenset, range)):
        return any(matches(value, one) for one in wanted)
    if isinstance(value, float) and isinstance(wanted, (int, float)):
        return math.isclose(value, wanted, rel_tol=1e-9)
    return bool(value == wanted)
