"""Where the rows come from: sources, machines, and the command that makes them again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.study.errors import StudyError

if TYPE_CHECKING:
    from fallline.study.results import Results


def sources(results: Results) -> list[str]:
    """Return the hashes of the sources that computed these rows."""
    return sorted({row.record.source for row in _answered(results)})


def environments(results: Results) -> list[Mapping[str, Any]]:
    """Return the environments that computed these rows."""
    used = {row.record.environment for row in _answered(results)}
    return [results.environments[key] for key in sorted(used) if key in results.environments]


def mixtures(results: Results) -> list[str]:
    """Say where rows that are compared were computed under different conditions."""
    told = []
    hashes = sources(results)
    if len(hashes) > 1:
        told.append(
            f"The cells come from {len(hashes)} versions of the source "
            f"({', '.join(h[:8] or 'unknown' for h in hashes)}). "
            "Run with --fresh to compute them all from one."
        )
    elif hashes and _present(results) not in ("", hashes[0]):
        told.append(
            "The cells were computed by another version of the source than the present one. "
            "Run with --fresh to compute them anew."
        )
    flat = [flatten(environment) for environment in environments(results)]
    names = dict.fromkeys(name for environment in flat for name in environment)
    for name in names:
        values = list(dict.fromkeys(environment.get(name, "none") for environment in flat))
        if name == "native":  # a cell that needed no native library has none to differ by
            values = [value for value in values if value != "[]"]
        if len(values) > 1:
            told.append(f"The cells come from different environments: {name} is {listed(values)}.")
    return told


def _answered(results: Results) -> list[Any]:
    return [row for row in results.rows if row.record is not None and row.answered]


def _present(results: Results) -> str:
    study = results.study
    try:
        return study.origin.source_hash(study.sources)
    except (OSError, ValueError, StudyError):  # the file is gone; the results stand
        return ""


def listed(values: list[str]) -> str:
    """Join a few values for a sentence."""
    shown = values[:4]
    return " or ".join(shown) + (f" or {len(values) - 4} more" if len(values) > 4 else "")


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested data as plain lines, `packages.numpy: 2.1`."""
    flat: dict[str, str] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value)
    return flat


def command(results: Results) -> str:
    """Return the command, or the line of Python, that runs these cells again."""
    study, origin = results.study, results.study.origin
    options = _selection(results)
    if origin.builder:
        rates = ",".join(str(rate) for rate in results.axes.get("lr", ()))
        options = [
            f"--arms {shlex.quote(','.join(results.arms))}",
            *([f"--lr {rates}"] if rates else []),
            f"--seeds {len(results.seeds)}",
        ]
        return " ".join(["fallline compare", shlex.quote(_near(origin.path)), *options])
    scale = f"--scale {shlex.quote(results.scale)}"
    if origin.path:
        return " ".join(["fallline run", shlex.quote(_near(origin.path)), scale, *options])
    if origin.module.startswith("fallline.claims"):
        return " ".join(["fallline run", shlex.quote(study.name), scale, *options])
    where = f"from {origin.module} import ...; " if origin.module else ""
    return f"{where}study.execute({results.scale!r})"


def _near(path: str) -> str:
    """Return the path as one would type it here."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return Path(path).name


def _selection(results: Results) -> list[str]:
    """Return the options that chose other arms or seeds than the scale says."""
    declared = [
        (arm.name, len(part.seeds))
        for part in results.study.scales.get(results.scale, ())
        for arm in part.arms
    ]
    options = []
    arms = results.arms
    if not {name for name, _ in declared} <= {*arms}:
        options.append(f"--arms {shlex.quote(','.join(arms))}")
    seeds = len(results.seeds)
    if declared and seeds != max(n for name, n in declared):
        options.append(f"--seeds {seeds}")
    return options
