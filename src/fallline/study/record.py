"""What one cell left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a cell ended; `diverged` is a legitimate result that counts against its arm."""

    DONE = "done"
    DIVERGED = "diverged"
    FAILED = "failed"
    TIMEOUT = "timeout"
    KILLED = "killed"

    @property
    def finished(self) -> bool:
        """Whether the cell answered, so that no retry is wanted."""
        return self in (Outcome.DONE, Outcome.DIVERGED)


@dataclass(frozen=True)
class Record:
    """The stored outcome of one cell.

    `metrics` holds `None` where a value was not finite; `error` is the traceback or the reason
    of the kill; `output` the end of what the cell printed.
    """

    outcome: Outcome
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    error: str = ""
    output: str = ""
    seconds: float = 0.0
    peak_mib: float = 0.0
    source: str = ""
    environment: str = ""
    finished_at: str = ""

    def finished_equal(self, other: Record) -> bool | None:
        """Whether two finished records agree; `None` where one of them is not finished."""
        if not (self.outcome.finished and other.outcome.finished):
            return None
        return (self.outcome, dict(self.metrics)) == (other.outcome, dict(other.metrics))
