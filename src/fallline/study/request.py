"""What a user asks for: parts of a study with other seeds or fewer arms, unfolded into cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fallline.study.checks import explain
from fallline.study.errors import StudyError
from fallline.study.results import Results
from fallline.study.rows import Placed
from fallline.study.spec import Part, Study


def place(study: Study, parts: Iterable[Part]) -> list[Placed]:
    """Unfold parts into cells; a cell stands once in each part that holds it."""
    placed = {}
    for part in parts:
        for cell in part.cells(study.name, study.version):
            placed[part.name, cell.key] = Placed(part.name, tuple(part.axes), cell)
    return list(placed.values())


def select(
    parts: Iterable[Part], *, seeds: int | None = None, arms: Sequence[str] | None = None
) -> list[Part]:
    """Return the parts with other seeds or fewer arms.

    Raises
    ------
    ValueError
        If an arm is in no part, or `seeds` is below 1.
    """
    parts = list(parts)
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be >= 1, got {seeds!r}")
    if arms is not None:
        known = dict.fromkeys(arm.name for part in parts for arm in part.arms)
        unknown = [name for name in arms if name not in known]
        if unknown or not arms:
            raise ValueError(
                f"arms: {', '.join(unknown) or 'none given'}; this study has {', '.join(known)}"
            )
    return [chosen for part in parts for chosen in _narrowed(part, seeds, arms)]


def planned(
    results: Results, *, seeds: int | None = None, arms: Sequence[str] | None = None
) -> list[Part]:
    """Return the parts that the study's plan adds to what is complete, if any cell is new."""
    study = results.study
    if study.plan is None or not results.complete:
        return []
    try:
        more = list(study.plan(results) or ())
    except (Exception, SystemExit) as error:
        raise StudyError(f"{study.name}: its plan failed: {explain(error)}") from error
    more = [chosen for part in more for chosen in _narrowed(part, seeds, arms)]
    keys = {placed.cell.key for placed in results.placed}
    return more if any(placed.cell.key not in keys for placed in place(study, more)) else []


def _narrowed(part: Part, seeds: int | None, arms: Sequence[str] | None) -> list[Part]:
    keep = [arm for arm in part.arms if arms is None or arm.name in arms]
    wanted = part.seeds
    if seeds is not None:
        more = range(max(part.seeds) + 1, max(part.seeds) + 1 + seeds)
        wanted = (*part.seeds, *more)[:seeds]
    if not keep:
        return []
    return [Part(part.name, keep, seeds=wanted, fixed=part.fixed, **part.axes)]
