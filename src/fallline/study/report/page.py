"""One self-contained HTML page."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.study.report.machine import write_text
from fallline.study.report.origins import command, environments, flatten, mixtures
from fallline.study.report.svg import inline_svg
from fallline.study.report.tables import failures, summaries

if TYPE_CHECKING:
    from jinja2 import Environment

    from fallline.study.results import Results

SHOWN_FAILURES = 50
SHOWN_LINES = 1000


def write_html(results: Results, path: str | Path) -> Path:
    """Write the whole report as one file that needs nothing else."""
    return write_text(path, page(results))


def page(results: Results) -> str:
    """Render the whole report."""
    failed = failures(results)
    machines = environments(results)
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            **_answer(results),
            pictures=[(drawn, inline_svg(results.study, drawn)) for drawn in results.pictures],
            # After the pictures: they may be what asked for a tuned setting.
            tunings=results.tunings,
            failures=failed[:SHOWN_FAILURES],
            more_failures=max(0, len(failed) - SHOWN_FAILURES),
            mixtures=mixtures(results),
            environment=flatten(machines[0]) if machines else {},
            more_environments=max(0, len(machines) - 1),
            command=command(results),
            finished_at=max((r.finished_at for r in _records(results)), default=""),
            seconds=sum(r.seconds for r in _records(results)),
        )
    )


def fragment(results: Results) -> str:
    """Render the verdict, the checks and the first table for a notebook."""
    return _templates().get_template("fragment.html.j2").render(**_answer(results))


def _answer(results: Results) -> dict[str, Any]:
    bars = [check for check in results.checks if check.kind == "bar"]
    return {
        "study": results.study,
        "scale": results.scale,
        "verdict": results.verdict.value,
        "complete": results.complete,
        "cells": len(results.rows),
        "run": sum(row.answered for row in results.rows),
        "outcomes": results.outcomes,
        "bars": bars,
        "open": [check for check in results.checks if check.kind == "open"],
        "notes": results.notes,
        "summaries": summaries(results),
        "shown_lines": SHOWN_LINES,
    }


def _records(results: Results) -> list[Any]:
    return [row.record for row in results.rows if row.record is not None]


@cache
def _templates() -> Environment:
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("fallline.study.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["number"] = number
    templates.filters["setting"] = setting
    templates.filters["duration"] = duration
    return templates


def number(value: float | None) -> str:
    """Four digits, and a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−")


def setting(value: Any) -> str:
    """Return a setting as one would type it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(setting(one) for one in value)
    return "–" if value is None else str(value)


def duration(seconds: float) -> str:
    """Seconds in the unit that one would say."""
    if math.isnan(seconds):
        return "–"
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
