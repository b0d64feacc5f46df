"""The tables of a report: arms and settings with their medians, tuned settings, failures."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fallline.study.rows import Row, varying
from fallline.study.spec import canonical

if TYPE_CHECKING:
    from fallline.study.results import Results


@dataclass(frozen=True)
class Line:
    """One arm at one setting: medians over the seeds that answered."""

    arm: str
    settings: dict[str, Any]
    medians: dict[str, float]
    answered: int
    seeds: int
    outcomes: dict[str, int]
    seconds: float


@dataclass(frozen=True)
class Summary:
    """One part: a line for each arm and setting."""

    part: str
    settings: list[str]
    metrics: list[str]
    lines: list[Line]


def summaries(results: Results) -> list[Summary]:
    """Summarize every part.

    These medians describe what there is: they pass over missing and failed cells, which `answered`
    tells, while the figures behind the checks do not.
    """
    by_part: dict[str, list[Row]] = {}
    for row in results.rows:
        by_part.setdefault(row.part, []).append(row)
    return [_summary(results, part, rows) for part, rows in by_part.items()]


def _summary(results: Results, part: str, rows: list[Row]) -> Summary:
    by_arm: dict[str, list[Row]] = {}
    for row in rows:
        by_arm.setdefault(row.arm, []).append(row)
    # What only tells two arms apart is their name's business; a swept setting has a column.
    names = dict.fromkeys(axis for row in rows for axis in row.placed.axes)
    for of_arm in by_arm.values():
        names.update(dict.fromkeys(varying(of_arm)))
    metrics = [name for name in results.metrics if _reports(rows, name)]
    lines = []
    for arm, of_arm in by_arm.items():
        at: dict[str, list[Row]] = {}
        for row in of_arm:
            at.setdefault(canonical([row.config.get(name) for name in names]), []).append(row)
        for same in at.values():
            settings = {name: same[0].config.get(name) for name in names}
            lines.append(_line(results, arm, settings, metrics, same))
    return Summary(part, list(names), metrics, lines)


def _reports(rows: Iterable[Row], metric: str) -> bool:
    records = [row.record for row in rows if row.record is not None]
    return not records or any(metric in record.metrics for record in records)


def _line(
    results: Results, arm: str, settings: dict[str, Any], metrics: list[str], rows: list[Row]
) -> Line:
    answered = [row for row in rows if row.answered]
    diverged = results.study.diverged
    return Line(
        arm,
        settings,
        {name: _median(row.counted(name, diverged) for row in answered) for name in metrics},
        len(answered),
        len(rows),
        dict(Counter(row.outcome for row in rows)),
        _median(row.record.seconds for row in answered if row.record is not None),
    )


def _median(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


@dataclass(frozen=True)
class Failure:
    """A cell that did not answer, and what it left behind."""

    part: str
    arm: str
    settings: Mapping[str, Any]
    seed: int
    outcome: str
    error: str
    output: str


def failures(results: Results) -> list[Failure]:
    """Return the cells that failed, timed out or were killed."""
    found = []
    for row in results.rows:
        if row.record is None or row.answered:
            continue
        settings = {axis: row.config.get(axis) for axis in row.placed.axes}
        record = row.record
        found.append(
            Failure(
                row.part,
                row.arm,
                settings,
                row.seed,
                row.outcome,
                record.error.strip(),
                record.output.strip(),
            )
        )
    return found
