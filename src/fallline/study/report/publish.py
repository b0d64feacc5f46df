"""What is committed and shipped: the verdict and the pictures of a complete, clean run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.study.errors import StudyError
from fallline.study.report.machine import answer, as_json, write_text
from fallline.study.report.origins import sources
from fallline.study.report.svg import svg_file
from fallline.study.request import place

if TYPE_CHECKING:
    from fallline.study.results import Results

VERDICTS = Path("src/fallline/claims/verdicts")
FIGURES = Path("docs/figures")


def publish(
    results: Results, root: str | Path, *, git: Mapping[str, Any] | None = None
) -> list[Path]:
    """Write the verdict and the pictures below the root of the checkout, and return their paths.

    The files depend on the stored cells alone: publishing an unchanged result changes nothing.

    Parameters
    ----------
    git
        `commit` and `dirty` of the checkout; by default that of `root`.

    Raises
    ------
    StudyError
        If cells are missing, come from several versions of the source or from another than the
        present one, or if the checkout has changes that are not committed.
    """
    from fallline.study.provenance import git_state

    root = Path(root)
    name = results.study.name
    _refuse(results, git_state(root) if git is None else git)
    text = as_json(answer(results))
    drawn = [picture for picture in results.pictures if picture.figure is not None]
    for picture in results.pictures:
        if picture.figure is None:
            raise StudyError(f"{name}: figure {picture.name!r} cannot be drawn: {picture.error}")
    paths = [write_text(root / VERDICTS / f"{name}.json", text)]
    paths += [
        write_text(root / FIGURES / f"{name}-{picture.slug}.svg", svg_file(results.study, picture))
        for picture in drawn
    ]
    return paths


def _refuse(results: Results, git: Mapping[str, Any]) -> None:
    study = results.study
    if not results.complete:
        answered = sum(row.answered for row in results.rows)
        raise StudyError(
            f"{study.name}: {answered} of {len(results.rows)} cells have answered; "
            "finish it (--retry runs failed cells again) before publishing"
        )
    whole = {placed.cell.key for placed in place(study, study.parts(results.scale))}
    if not whole <= {placed.cell.key for placed in results.placed}:
        raise StudyError(
            f"{study.name}: this run left out arms or seeds of the scale {results.scale}; "
            "run it whole before publishing"
        )
    used = sources(results)
    if len(used) > 1:
        raise StudyError(
            f"{study.name}: the cells come from {len(used)} versions of the source; "
            "run it with --fresh before publishing"
        )
    if not git.get("commit"):
        raise StudyError(f"{study.name}: publishing needs a git checkout, to name its commit")
    if git.get("dirty"):
        raise StudyError(
            f"{study.name}: the checkout has changes that are not committed; commit them, "
            "or stash them, before publishing"
        )
    if used != [study.origin.source_hash(study.sources)]:
        raise StudyError(
            f"{study.name}: the source has changed since the cells were run; "
            "run it with --fresh before publishing"
        )
