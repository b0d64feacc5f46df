"""How far a run is: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TextIO

from fallline.study.record import Record
from fallline.study.spec import Cell, Study

LINE_SECONDS = 10.0


def duration(seconds: float) -> str:
    """Return a length of time as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """Silent; also the events that any display of a run receives."""

    def start(self, study: Study, total: int, reused: int, jobs: int) -> None:
        """Begin a run of `total` cells, of which the store has `reused`."""

    def warn(self, text: str) -> None:
        """Say what the user should know of the cells that are reused."""

    def tick(self) -> None:
        """Take note that time has passed."""

    def running(self, cell: Cell) -> None:
        """Take note of a cell that was handed out."""

    def finished(self, cell: Cell, record: Record) -> None:
        """Take note of a cell that was stored."""

    def stop(self) -> None:
        """No more cells will come."""


class LineProgress(Progress):
    """One plain line every ten seconds and one per cell that went wrong."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.outcomes: Counter[str] = Counter()
        self.in_flight = 0
        self.total = self.reused = 0
        self.begun = self.last = 0.0
        self.said = ""

    def start(self, study: Study, total: int, reused: int, jobs: int) -> None:
        """Say what is about to run."""
        self.total, self.reused = total, reused
        self.outcomes.clear()
        self.begun = self.last = time.monotonic()
        reuse = f", {reused} reused from the store" if reused else ""
        self._say(f"{study.name}: {total} cells{reuse}, {total - reused} to run, {jobs} at a time")

    def warn(self, text: str) -> None:
        """Say it."""
        self._say(text)

    def tick(self) -> None:
        """Say how far the run is when a while has passed."""
        if time.monotonic() - self.last > LINE_SECONDS:
            self.last = time.monotonic()
            self._say(self.summary())

    def running(self, cell: Cell) -> None:
        """Count a cell in."""
        self.in_flight += 1

    def finished(self, cell: Cell, record: Record) -> None:
        """Count a cell out, and say so when it failed or when a while has passed."""
        self.in_flight -= 1
        self.outcomes[record.outcome] += 1
        if not record.outcome.finished:
            reason = record.error.strip().splitlines()[-1:] or [""]
            self._say(f"{record.outcome}: {cell.arm} {cell.config} seed {cell.seed}: {reason[0]}")
        self.tick()

    def stop(self) -> None:
        """Say how it ended."""
        if self.summary() != self.said:
            self._say(self.summary())

    def summary(self) -> str:
        """Return the counts and the time left in one line."""
        done = sum(self.outcomes.values()) + self.reused
        bad = sum(n for outcome, n in self.outcomes.items() if outcome not in ("done", "diverged"))
        parts = [f"{done}/{self.total} cells", f"{self.in_flight} running"]
        if self.outcomes["diverged"]:
            parts.append(f"{self.outcomes['diverged']} diverged")
        if bad:
            parts.append(f"{bad} failed")
        left = self.left()
        if left is not None and done < self.total:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def left(self) -> float | None:
        """Return the seconds left, from the pace so far."""
        done = sum(self.outcomes.values())
        if not done:
            return None
        return (self.total - self.reused - done) * (time.monotonic() - self.begun) / done

    def _say(self, text: str) -> None:
        self.said = text
        print(text, file=self.stream, flush=True)


class BarProgress(LineProgress):
    """A bar that is redrawn in place."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Rich

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
        self.bar = Rich(*columns, console=Console(stderr=True))
        self.task = self.bar.add_task("", text="")

    def start(self, study: Study, total: int, reused: int, jobs: int) -> None:
        """Show the bar."""
        super().start(study, total, reused, jobs)
        self.bar.update(self.task, description=study.name, total=total, completed=reused)
        self.bar.start()
        self._draw()

    def running(self, cell: Cell) -> None:
        """Redraw with one more cell in flight."""
        super().running(cell)
        self._draw()

    def finished(self, cell: Cell, record: Record) -> None:
        """Redraw with one more cell done."""
        super().finished(cell, record)
        self.bar.update(self.task, advance=1)
        self._draw()

    def tick(self) -> None:
        """Redraw."""
        self._draw()

    def stop(self) -> None:
        """Leave the last state on the screen."""
        self._draw()
        self.bar.stop()

    def _draw(self) -> None:
        self.bar.update(self.task, text=self.summary())

    def _say(self, text: str) -> None:
        from rich.markup import escape

        self.bar.console.print(escape(text), highlight=False)


def default_progress() -> Progress:
    """Return a bar on a terminal, plain lines elsewhere."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()
