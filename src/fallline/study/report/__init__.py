"""The report of a study: a page for people, files for machines, and what is published."""

from __future__ import annotations

from fallline.study.report.machine import answer, save, write_csv, write_json, write_png
from fallline.study.report.page import fragment, write_html
from fallline.study.report.publish import publish

__all__ = [
    "answer",
    "fragment",
    "publish",
    "save",
    "write_csv",
    "write_html",
    "write_json",
    "write_png",
]
