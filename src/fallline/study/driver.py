"""Run what the store lacks, cell by cell, and hand back the results."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import shutil
import signal
import statistics
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from fallline.study.errors import StudyError
from fallline.study.executor import Finished, LocalExecutor
from fallline.study.lock import locked
from fallline.study.progress import Progress, default_progress, duration
from fallline.study.provenance import environment, environment_hash
from fallline.study.record import Outcome, Record
from fallline.study.request import place, planned, select
from fallline.study.results import Results
from fallline.study.rows import Placed
from fallline.study.spec import Cell, Study
from fallline.study.store import Store
from fallline.study.worker import IN_WORKER

STORES = Path("fallline-results")
TICK_SECONDS = 1.0


def default_store(name: str) -> Path:
    """Return the path of a study's store below the working directory."""
    return STORES / f"{name}.db"


def execute(
    study: Study,
    scale: str,
    *,
    store: str | Path | None = None,
    jobs: int = 1,
    seeds: int | None = None,
    arms: Sequence[str] | None = None,
    retry: bool = False,
    fresh: bool = False,
    minutes: float | None = None,
    progress: Progress | None = None,
) -> Results:
    """Do what `Study.execute` says."""
    _refuse(study, jobs, minutes)
    path = Path(store) if store is not None else default_store(study.name)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    parts = select(study.parts(scale), seeds=seeds, arms=arms)
    with locked(path), Store.write(path) as opened:
        run = Run(study, opened, jobs, deadline, progress or default_progress())
        more = parts
        while more:
            opened.put_request(study.name, scale, parts)
            run.go(place(study, parts), retry=retry, fresh=fresh)
            more = []
            if study.plan is not None:
                more = planned(load(study, scale, path), seeds=seeds, arms=arms)
                parts = [*parts, *more]
    return load(study, scale, path)


def load(study: Study, scale: str | None = None, store: str | Path | None = None) -> Results:
    """Return what the store holds, finished or not, of what was last asked for.

    Another scale than that is returned as the study defines it.
    """
    opened = Store.read(store if store is not None else default_store(study.name))
    asked = opened.request(study.name)
    if asked is not None and scale in (None, asked[0]):
        scale, parts = asked
    else:
        scale = scale or next(iter(study.scales), "")
        parts = list(study.parts(scale))
    results = Results(
        study,
        scale,
        place(study, parts),
        opened.records(study.name),
        curves=opened.curve,
        artifacts=opened.artifacts,
        environments=opened.environments(),
    )
    weakref.finalize(results, opened.close)  # it reads curves as long as it lives
    return results


def estimate(left: int, seconds: Sequence[float], jobs: int = 1, limit: float | None = None) -> str:
    """Say how long `left` cells take, from the seconds of others."""
    if seconds:
        return f"about {duration(left * statistics.fmean(seconds) / jobs)}"
    if limit is None:
        return "unknown"
    return f"unknown; at most {duration(left * limit / jobs)} by the limit of a cell"


class Run:
    """One driver's work on one open store."""

    def __init__(
        self, study: Study, store: Store, jobs: int, deadline: float, progress: Progress
    ) -> None:
        self.study = study
        self.store = store
        self.jobs = jobs
        self.deadline = deadline
        self.progress = progress
        self.source = study.origin.source_hash(study.sources)
        folder = Path(study.origin.path or __file__).parent
        self.environment = environment(study.limits, folder)
        self.known = set(store.environments())
        self.handled: set[str] = set()
        self.logs = store.path.with_name(store.path.name + ".logs")
        # Only the holder of the lock gets here: what lies there is of a driver that was killed.
        shutil.rmtree(self.logs, ignore_errors=True)

    def go(self, placed: Sequence[Placed], *, retry: bool, fresh: bool) -> None:
        """Run the cells that the store lacks, each once; a later call may name them again."""
        cells = {one.cell.key: one.cell for one in placed}
        new = cells.keys() - self.handled
        self.handled |= new
        if fresh:
            self.store.forget(new)
        reused = {k: r for k, r in self.store.records(self.study.name).items() if k in cells}
        if retry:
            reused = {k: r for k, r in reused.items() if k not in new or r.outcome.finished}
        todo = [cell for key, cell in cells.items() if key not in reused]
        self.progress.start(self.study, len(cells), len(reused), self.jobs)
        self._warn(reused)
        try:
            if todo:
                self._run(todo)
        finally:
            self.progress.stop()

    def _warn(self, reused: dict[str, Record]) -> None:
        finished = [record for record in reused.values() if record.outcome.finished]
        if len(finished) < len(reused):
            failed = len(reused) - len(finished)
            self.progress.warn(f"{failed} of them gave no result; --retry runs them again")
        stale = sum(record.source != self.source for record in finished)
        if stale:
            self.progress.warn(
                f"{stale} of them were computed by another version of the source; "
                "--fresh computes them anew"
            )

    def _run(self, todo: list[Cell]) -> None:
        self.logs.mkdir(parents=True)
        executor = LocalExecutor(self.study, self.jobs, self.logs)
        arrivals: queue.SimpleQueue[tuple[Cell, Future[Finished]]] = queue.SimpleQueue()
        waiting, running, seconds = iter(todo), 0, [0.0]
        try:
            while True:
                while running < self.jobs and not self._too_late(seconds):
                    cell = next(waiting, None)
                    if cell is None:
                        break
                    self.progress.running(cell)
                    future = executor.submit(cell)
                    future.add_done_callback(lambda done, cell=cell: arrivals.put((cell, done)))  # type: ignore[misc]
                    running += 1
                if not running:
                    return
                try:
                    cell, future = arrivals.get(timeout=TICK_SECONDS)
                except queue.Empty:
                    self.progress.tick()
                    continue
                running -= 1
                record = self._keep(cell, future.result())
                seconds.append(record.seconds)
                self.progress.finished(cell, record)
        finally:
            with _deaf_to_interrupts():
                executor.close()
                shutil.rmtree(self.logs, ignore_errors=True)

    def _too_late(self, seconds: list[float]) -> bool:
        return time.monotonic() + statistics.fmean(seconds[-20:]) > self.deadline

    def _keep(self, cell: Cell, finished: Finished) -> Record:
        environment: dict[str, Any] = {**self.environment, "native": finished.native}
        record = finished.record
        if record.outcome.finished:
            key = environment_hash(environment)
            if key not in self.known:
                self.store.put_environment(key, environment)
                self.known.add(key)
            record = replace(record, source=self.source, environment=key)
        try:
            self.store.put(cell, record, finished.curve, finished.artifacts)
        except (ValueError, OverflowError) as error:  # of one cell's names or numbers
            reason = f"its result cannot be stored: {type(error).__name__}: {error}"
            record = replace(record, outcome=Outcome.FAILED, metrics={}, error=reason, output="")
            self.store.put(cell, record)
        return record


def _refuse(study: Study, jobs: int, minutes: float | None) -> None:
    if IN_WORKER in os.environ:
        raise StudyError(
            "execute was called while a cell's process imported the study's file; "
            'put the call under `if __name__ == "__main__":`'
        )
    if jobs < 1:
        raise ValueError(f"jobs must be >= 1, got {jobs!r}")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"minutes must be > 0 and finite, got {minutes!r}")
    origin = study.origin
    if not (origin.module or origin.path):
        raise StudyError(
            f"study {study.name!r} is defined in no file, so a fresh process cannot import it; "
            "write it to a .py file and import it from there"
        )
    if not origin.holds(study.name):
        raise StudyError(
            f"study {study.name!r} was made by {origin.path or origin.module}, which does not hold "
            "it at its top level, so a fresh process cannot find it; assign it there to a name"
        )


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let a second Ctrl-C not cut the clean-up short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
