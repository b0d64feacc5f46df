"""Results from planted numbers: a study's function run over its cells, no store, no processes."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from fallline.study.origin import Origin
from fallline.study.record import Outcome, Record
from fallline.study.results import Placed, Results
from fallline.study.spec import Cell, Part, Study

Change = Callable[[Cell], "Record | str | None"]


def study(
    run: Callable[[Cell], Mapping[str, float]],
    *parts: Part,
    name: str = "planted",
    metrics: Mapping[str, Any] | None = None,
    diverged: Mapping[str, float] | None = None,
    **more: Any,
) -> Study:
    """Return a study of one scale, `laptop`."""
    return Study(
        name,
        run=run,
        metrics=metrics or {"loss": "min"},
        diverged={"loss": 10.0} if diverged is None else diverged,
        scales={"laptop": parts},
        origin=more.pop("origin", Origin(path=__file__)),
        **more,
    )


def results(
    planted: Study,
    *,
    change: Change = lambda cell: "",
    source: str = "",
    environments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Results:
    """Run every cell here; `change(cell)` may put another record, or None for a missing cell."""
    placed, records, curves = [], {}, {}
    for part in planted.parts("laptop"):
        for cell in part.cells(planted.name, planted.version):
            placed.append(Placed(part.name, tuple(part.axes), cell))
            changed = change(cell)
            if changed is None:
                continue
            if isinstance(changed, Record):
                records[cell.key] = changed
                continue
            points: list[dict[str, float | None]] = []
            cell.on_point = points.append  # type: ignore[assignment]
            records[cell.key] = _record(planted, cell, source, next(iter(environments or [""])))
            curves[cell.key] = points
    return Results(
        planted,
        "laptop",
        placed,
        records,
        curves=lambda key: curves.get(key, []),
        environments=environments,
    )


def _record(planted: Study, cell: Cell, source: str, environment: str) -> Record:
    kept: dict[str, Any] = {
        "seconds": 1.5,
        "peak_mib": 100.0,
        "source": source,
        "environment": environment,
        "finished_at": "2026-01-02T03:04:05+00:00",
    }
    try:
        metrics = planted.run(cell)
    except Exception:
        return Record(Outcome.FAILED, error=traceback.format_exc(), output="last words", **kept)
    finite = {k: v if math.isfinite(v) else None for k, v in metrics.items()}
    outcome = Outcome.DIVERGED if None in finite.values() else Outcome.DONE
    return Record(outcome, finite, **kept)
