"""All rows of a study at one scale, and the figures that its checks are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fallline.study.record import Record
from fallline.study.spec import Cell, Study


@dataclass(frozen=True)
class Placed:
    """A cell in its part, with the names of the part's axes."""

    part: str
    axes: tuple[str, ...]
    cell: Cell


class Results:
    """The union of a scale's parts: one row per part and cell; a cell not yet run is `missing`."""

    def __init__(
        self,
        study: Study,
        scale: str,
        placed: Sequence[Placed],
        records: Mapping[str, Record],
        *,
        curves: Callable[[str], list[dict[str, float | None]]] = lambda key: [],
        artifacts: Callable[[str], dict[str, Any]] = lambda key: {},
        environments: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.study = study
        self.scale = scale
        self.placed = placed
        self.records = records
        self.curves_of = curves
        self.artifacts_of = artifacts
        self.environments = environments or {}
