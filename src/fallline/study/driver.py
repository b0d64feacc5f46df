"""Run what the store lacks, cell by cell, and hand back the results."""

from __future__ import annotations

import os
import queue
import shutil
import statistics
import time
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from fallline.study.errors import StudyError
from fallline.study.executor import Finished, LocalExecutor
from fallline.study.lock import locked
from fallline.study.progress import Progress, default_progress, duration
from fallline.study.provenance import environment, environment_hash
from fallline.study.record import Record
from fallline.study.results import Placed, Results
from fallline.study.spec import Arm, Cell, Part, Study
from fallline.study.store import Store
from fallline.study.worker import IN_WORKER

STORES = Path("fallline-results")


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
    """Do what `Study.execute` says; `minutes` stops handing out cells in time."""
    if IN_WORKER in os.environ:
        raise StudyError(
            "execute was called while a cell's process imported the study's file; "
            'put the call under `if __name__ == "__main__":`'
        )
    if jobs < 1:
        raise ValueError(f"jobs must be >= 1, got {jobs!r}")
    if not (study.origin.module or study.origin.path):
        raise StudyError(
            f"study {study.name!r} is defined in no file, so a fresh process cannot import it; "
            "write it to a .py file and import it from there"
        )
    path = Path(store) if store is not None else default_store(study.name)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    parts = select(study.parts(scale), seeds=seeds, arms=arms)
    with locked(path), Store.write(path) as opened:
        run = Run(study, opened, jobs, deadline, progress or default_progress())
        run.go(place(study, parts), retry=retry, fresh=fresh)
        while more := planned_parts(load(study, scale, path, parts)):
            parts = [*parts, *more]
            run.go(place(study, parts), retry=False, fresh=False)
    return load(study, scale, path, parts)


def load(
    study: Study, scale: str, store: str | Path | None = None, parts: Sequence[Part] | None = None
) -> Results:
    """Return what the store holds of a scale, finished or not, and of its plan."""
    path = Path(store) if store is not None else default_store(study.name)
    opened = Store.read(path)
    records = opened.records(study.name)
    planned = parts is None
    parts = list(study.parts(scale) if parts is None else parts)
    while True:
        results = Results(
            study,
            scale,
            place(study, parts),
            records,
            curves=opened.curve,
            artifacts=opened.artifacts,
            environments=opened.environments(),
        )
        more = planned_parts(results) if planned else []
        if not more:
            weakref.finalize(results, opened.close)  # it reads curves as long as it lives
            return results
        parts = [*parts, *more]


def planned_parts(results: Results) -> list[Part]:
    """Return the parts that the study's plan adds to what is complete, if any cell is new."""
    study = results.study
    if study.plan is None or not results.complete:
        return []
    more = list(study.plan(results))
    keys = {placed.cell.key for placed in results.placed}
    return more if any(placed.cell.key not in keys for placed in place(study, more)) else []


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
    """Return the parts with other seeds or fewer arms."""
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
    chosen = []
    for part in parts:
        keep: Sequence[Arm] = [arm for arm in part.arms if arms is None or arm.name in arms]
        wanted = part.seeds
        if seeds is not None:
            more = range(max(part.seeds) + 1, max(part.seeds) + 1 + seeds)
            wanted = (*part.seeds, *more)[:seeds]
        if keep:
            chosen.append(Part(part.name, keep, seeds=wanted, fixed=part.fixed, **part.axes))
    return chosen


class Run:
    """One driver's work on one open store."""

    def __init__(
        self, study: Study, store: Store, jobs: int, deadline: float | None, progress: Progress
    ) -> None:
        self.study = study
        self.store = store
        self.jobs = jobs
        self.deadline = deadline
        self.progress = progress
        folder = Path(study.origin.path).parent if study.origin.path else Path(__file__).parent
        self.environment = environment(study.limits, folder)
        self.known = set(store.environments())
        self.logs = store.path.with_name(store.path.name + ".logs")
        # Only the holder of the lock gets here: what lies there is of a driver that was killed.
        shutil.rmtree(self.logs, ignore_errors=True)

    def go(self, placed: Sequence[Placed], *, retry: bool, fresh: bool) -> None:
        """Run the cells that the store lacks, each once."""
        cells = {one.cell.key: one.cell for one in placed}
        if fresh:
            self.store.forget(cells)
        records = self.store.records(self.study.name)
        again = [
            key for key in cells if retry and key in records and not records[key].outcome.finished
        ]
        todo = [cell for key, cell in cells.items() if key not in records or key in again]
        reused = len(cells) - len(todo)
        self.progress.start(self.study, len(cells), reused, self.jobs)
        try:
            if todo:
                self._run(todo)
        finally:
            self.progress.stop()

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
                cell, future = arrivals.get()
                running -= 1
                record = self._keep(cell, future.result())
                seconds.append(record.seconds)
                self.progress.finished(cell, record)
        finally:
            executor.close()
            shutil.rmtree(self.logs, ignore_errors=True)

    def _too_late(self, seconds: list[float]) -> bool:
        expected = statistics.fmean(seconds[-20:])
        return self.deadline is not None and time.monotonic() + expected > self.deadline

    def _keep(self, cell: Cell, finished: Finished) -> Record:
        environment: dict[str, Any] = {**self.environment, "native": finished.native}
        record = finished.record
        if record.outcome.finished:
            key = environment_hash(environment)
            if key not in self.known:
                self.store.put_environment(key, environment)
                self.known.add(key)
            record = replace(record, environment=key)
        self.store.put(cell, record, finished.curve, finished.artifacts)
        return record


def estimate(left: int, seconds: Sequence[float], jobs: int = 1, limit: float | None = None) -> str:
    """Say how long `left` cells take, from the seconds of others."""
    if seconds:
        return f"about {duration(left * statistics.fmean(seconds) / jobs)}"
    if limit is None:
        return "unknown"
    return f"unknown; at most {duration(left * limit / jobs)} by the limit of a cell"
