"""Pictures as SVG text: small, the same every time, and in the colours of the page around them."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fallline.study.figures import Picture
    from fallline.study.spec import Study

# A file shown by itself has no page whose colour it could take.
OWN_COLOURS = (
    "<style>svg{color:#1b1f24;fill:currentColor}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e9ed}}</style>"
)


def inline_svg(study: Study, picture: Picture) -> str:
    """SVG for a page: ink is `currentColor`, and the picture's description is its label."""
    if picture.figure is None:
        return ""
    return _drawn(picture.figure, f"{study.name}-{picture.slug}", picture.description)


def svg_file(study: Study, picture: Picture) -> str:
    """SVG that stands alone, dark where its reader is."""
    text = inline_svg(study, picture)
    head, tag, rest = text.partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{tag}{OWN_COLOURS}{rest}\n'


def _drawn(figure: Figure, salt: str, label: str) -> str:
    from fallline.study.plots import style

    file = io.StringIO()
    # Ids are hashes of what they name: salted by the picture they are the same every time, and
    # differ between two pictures of one page.
    with style(salt):
        figure.savefig(
            file,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"(fill|stroke): #(?:000000|010203)\b", r"\1: currentColor", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(label)}" ', 1)


def _attribute(text: str) -> str:
    from html import escape

    return escape(text, quote=True)
