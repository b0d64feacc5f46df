"""The answer for machines: JSON with every check, CSV with every cell, PNG with every picture."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.study.errors import StudyError
from fallline.study.report.origins import environments, mixtures
from fallline.study.report.tables import failures, summaries

if TYPE_CHECKING:
    from fallline.study.checks import Check
    from fallline.study.results import Results
    from fallline.study.tuning import Tuned


def answer(results: Results) -> dict[str, Any]:
    """Return what the study says, without its tables; NaN becomes None."""
    study = results.study
    records = [row.record for row in results.rows if row.record is not None]
    seconds = [record.seconds for record in records]
    results.pictures  # noqa: B018  a picture may be what asks for a tuned setting
    data = {
        "study": study.name,
        "question": study.question,
        "paper": study.paper,
        "version": study.version,
        "scale": results.scale,
        "verdict": results.verdict.value,
        "complete": results.complete,
        "date": max((record.finished_at for record in records), default=""),
        "cells": len(results.rows),
        "outcomes": results.outcomes,
        "seconds": {
            "median": statistics.median(seconds) if seconds else math.nan,
            "total": sum(seconds),
        },
        "checks": [_check(check) for check in results.checks],
        "notes": results.notes,
        "tuned": [_tuned(tuned) for tuned in results.tunings],
        "mixed": mixtures(results),
        "environments": [dict(environment) for environment in environments(results)],
    }
    return _without_nan(data)  # type: ignore[no-any-return]


def write_json(results: Results, path: str | Path) -> Path:
    """Write the answer with the summary table and the failures."""
    tables = [
        {
            "part": summary.part,
            "arm": line.arm,
            "settings": line.settings,
            "medians": line.medians,
            "answered": line.answered,
            "seeds": line.seeds,
            "outcomes": line.outcomes,
            "seconds": line.seconds,
        }
        for summary in summaries(results)
        for line in summary.lines
    ]
    failed = [vars(failure) for failure in failures(results)]
    data = answer(results) | {"table": _without_nan(tables), "failures": _without_nan(failed)}
    return write_text(path, as_json(data))


def write_csv(results: Results, path: str | Path) -> Path:
    """Write one line per part and cell."""
    return write_text(path, results.frame.to_csv(index=False))


def write_png(results: Results, folder: str | Path) -> list[Path]:
    """Write every picture as `<study>-<picture>.png` into a folder."""
    from fallline.study.plots import style

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in results.pictures:
        if picture.figure is not None:
            paths.append(folder / f"{results.study.name}-{picture.slug}.png")
            with style():
                picture.figure.savefig(paths[-1], dpi=200, facecolor="white")
    return paths


def save(results: Results, path: str | Path) -> Path:
    """Write what the suffix asks for: `.html`, `.csv` or `.json`."""
    from fallline.study.report.page import write_html

    writers = {".html": write_html, ".csv": write_csv, ".json": write_json}
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise ValueError(f"save({str(path)!r}): the name must end in {', '.join(writers)}")
    return writers[suffix](results, path)


def as_json(data: Any) -> str:
    """JSON for people and for diffs; a NaN in it would be a mistake."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file, its folder first."""
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                raise StudyError(f"{path} is a store; choose another name for what is written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def _check(check: Check) -> dict[str, Any]:
    figure = check.figure
    return {
        "name": check.name,
        "kind": check.kind,
        "outcome": check.outcome.value,
        "answer": check.answer,
        "figure": figure.value,
        "interval": None if math.isnan(figure.low) else [figure.low, figure.high],
        "seeds": figure.n or None,
        "won": figure.won,
        "relation": check.relation,
        "limit": check.limit,
        "text": check.text,
    }


def _tuned(tuned: Tuned) -> dict[str, Any]:
    return {
        "metric": tuned.metric,
        "axes": list(tuned.axes),
        "where": dict(tuned.where),
        "cells": tuned.cells,
        "settings": tuned.settings,
        "chosen": tuned.chosen,
        "median": tuned.median,
        "edges": tuned.edges,
        "reason": tuned.reason,
    }


def _without_nan(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _without_nan(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_without_nan(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
