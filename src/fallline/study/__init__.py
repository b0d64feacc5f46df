"""The study engine: named questions, answered by cells, with computed verdicts."""

from fallline.study.checks import Check, Verdict, at_least, at_most
from fallline.study.errors import StudyError
from fallline.study.estimates import Estimate
from fallline.study.record import Outcome
from fallline.study.results import Results
from fallline.study.spec import Arm, Cell, Limits, Part, Study

__all__ = [
    "Arm",
    "Cell",
    "Check",
    "Estimate",
    "Limits",
    "Outcome",
    "Part",
    "Results",
    "Study",
    "StudyError",
    "Verdict",
    "at_least",
    "at_most",
]
