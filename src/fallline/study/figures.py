"""The study's own figures: drawn once, and never at the cost of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fallline.study.checks import explain, name_of, summary_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fallline.study.results import Results


@dataclass(frozen=True)
class Picture:
    """A figure with its name and description, or the reason why there is none."""

    name: str
    description: str
    figure: Figure | None
    error: str = ""

    @property
    def slug(self) -> str:
        """The name as a part of a file name."""
        return "".join(c if c.isalnum() else "-" for c in self.name).strip("-") or "figure"


def draw(results: Results) -> list[Picture]:
    """Call every figure function of the study under the report's style."""
    if not results.study.figures:
        return []
    from matplotlib.figure import Figure

    from fallline.study.plots import style

    pictures = []
    for function in results.study.figures:
        name, description = name_of(function), summary_of(function)
        try:
            with style():
                figure = function(results)
                if isinstance(figure, Figure):
                    figure.draw_without_rendering()  # a bad label shows only now
        except Exception as error:
            pictures.append(Picture(name, description, None, explain(error)))
            continue
        if isinstance(figure, Figure):
            pictures.append(Picture(name, description or name, figure))
        else:
            said = f"returned {figure!r}, which is no matplotlib Figure"
            pictures.append(Picture(name, description, None, said))
    return pictures
