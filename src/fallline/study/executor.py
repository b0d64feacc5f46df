"""Run cells on this machine, each in a fresh process that a thread supervises."""

from __future__ import annotations

import base64
import contextlib
import json
import multiprocessing as mp
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from fallline.study.errors import StudyError
from fallline.study.record import Outcome, Record
from fallline.study.spec import Cell, Study
from fallline.study.store import Curve
from fallline.study.worker import THREAD_VARIABLES, Job, work

POLL_SECONDS = 0.05
FAMILY_SECONDS = 1.0
GRACE_SECONDS = 5.0
OUTPUT_BYTES = 16_384


@dataclass
class Finished:
    """A record with the curve, the artifacts and the native libraries of its process."""

    record: Record
    curve: Curve = field(default_factory=list)
    artifacts: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    native: list[str] = field(default_factory=list)


class StoppedError(Exception):
    """The driver is going down; this cell has no outcome."""


class LocalExecutor:
    """Cells as fresh processes of one process server (forkserver; spawn where there is none)."""

    def __init__(self, study: Study, jobs: int, logs: Path) -> None:
        self.study = study
        self.logs = logs
        self.text = study.origin.text()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="fallline-cell")
        method = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
        self._context: Any = mp.get_context(method)  # its type lacks Process
        if method == "forkserver":
            preload = ["fallline.study.follow", "fallline.study.worker"]
            preload += [*study.preload, *study.origin.imports()]
            self._context.set_forkserver_preload(preload)
            with _environment(study.limits.threads), _hidden_main(), _server_errors():
                # Here, and not by the first cell: the server ends with the thread that starts it.
                mp.forkserver.ensure_running()  # type: ignore[attr-defined]

    def submit(self, cell: Cell) -> Future[Finished]:
        """Start the cell as soon as a place is free."""
        return self._pool.submit(self._supervise, cell)

    def close(self) -> None:
        """End what is running and wait until it is gone."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _supervise(self, cell: Cell) -> Finished:
        if self._stop.is_set():
            raise StoppedError
        try:
            return self._run(cell)
        except (StoppedError, StudyError):
            raise
        except Exception as error:  # a cell that garbles its channel is one bad cell, no more
            text = f"its process sent no readable answer: {type(error).__name__}: {error}"
            return Finished(Record(Outcome.FAILED, {}, text, finished_at=_now()))

    def _run(self, cell: Cell) -> Finished:
        limits, log = self.study.limits, self.logs / f"{cell.key}.log"
        reader, writer = self._context.Pipe(duplex=False)
        job = Job(
            self.study.origin.to_dict(),
            self.text,
            self.study.name,
            tuple(self.study.metrics),
            cell.to_dict(),
            limits,
            str(log),
        )
        process = self._context.Process(
            target=work, args=(writer, job), name=f"cell-{cell.key[:8]}"
        )
        start = time.monotonic()
        with _hidden_main(), _server_errors():
            process.start()
        writer.close()
        curve: Curve = []
        try:
            answer, verdict = self._listen(process, reader, curve, start + limits.seconds)
        finally:
            _end(process)
            reader.close()
        output = _tail(log)
        seconds = time.monotonic() - start
        if answer is not None and "metrics" in answer:
            diverged = any(value is None for value in answer["metrics"].values())
            record = Record(
                Outcome.DIVERGED if diverged else Outcome.DONE,
                answer["metrics"],
                output=output,
                seconds=answer["seconds"],
                peak_mib=answer["peak_mib"],
                finished_at=_now(),
            )
            artifacts = {
                name: (kind, base64.b64decode(data))
                for name, (kind, data) in answer["artifacts"].items()
            }
            return Finished(record, curve, artifacts, answer["native"])
        outcome, error = verdict or (Outcome.FAILED, "")
        if answer is not None:
            outcome, error = Outcome.FAILED, answer["error"]
        elif not error:
            outcome, error = _by_exit_code(process.exitcode)
        record = Record(outcome, {}, error, output, seconds, finished_at=_now())
        return Finished(record, curve)

    def _listen(
        self, process: BaseProcess, reader: Connection, curve: Curve, deadline: float
    ) -> tuple[dict[str, Any] | None, tuple[Outcome, str] | None]:
        """Take the cell's messages until it answers, breaks a limit or is gone."""
        limits = self.study.limits
        try:
            seen = psutil.Process(process.pid)
        except psutil.NoSuchProcess:
            seen = None
        walked = time.monotonic()
        while True:
            ready = wait([reader, process.sentinel], POLL_SECONDS)
            if reader in ready or (ready and reader.poll()):
                try:
                    message = json.loads(reader.recv_bytes())
                except (EOFError, OSError):
                    process.join(GRACE_SECONDS)
                    return None, None
                if "answer" in message:
                    return message["answer"], None
                curve.extend(message["points"])
                continue
            if ready:  # gone, and what it started may still hold the channel open
                return None, None
            if self._stop.is_set():
                raise StoppedError
            if time.monotonic() > deadline:
                return None, (
                    Outcome.TIMEOUT,
                    f"took longer than its limit of {limits.seconds:g} s (Limits.seconds)",
                )
            # Its children take a walk over all processes to find: once a second, not each time.
            now = time.monotonic()
            family = now - walked > FAMILY_SECONDS
            walked = now if family else walked
            resident = _resident_gib(seen, family=family)
            if resident > limits.gib:
                return None, (
                    Outcome.KILLED,
                    f"used {resident:.2f} GiB of memory, over its limit of {limits.gib:g} GiB "
                    "(Limits.gib)",
                )


def _resident_gib(process: psutil.Process | None, *, family: bool) -> float:
    if process is None:
        return 0.0
    total = 0
    try:
        children = process.children(recursive=True) if family else ()
        for one in (process, *children):
            with contextlib.suppress(psutil.Error):
                total += one.memory_info().rss
    except psutil.Error:
        pass
    return total / 2**30


def _end(process: BaseProcess) -> None:
    """Kill the cell's group, with whatever it started, and collect its exit code."""
    if process.pid is None:
        return
    strays = []  # what a cell started in a session of its own is in no group
    with contextlib.suppress(psutil.Error):
        strays = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.exitcode is None:
        process.kill()
    process.join(GRACE_SECONDS)
    for stray in strays:
        with contextlib.suppress(psutil.Error):
            stray.kill()


def _by_exit_code(code: int | None) -> tuple[Outcome, str]:
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return Outcome.KILLED, f"killed by {name}"
    return Outcome.FAILED, f"exited with status {code} without an answer"


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - OUTPUT_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    log.unlink()
    return text if size <= OUTPUT_BYTES else f"[{size - OUTPUT_BYTES} bytes before]\n{text}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_main_lock = threading.Lock()


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keep multiprocessing from importing the user's main script in every cell.

    A cell imports the study's own file instead, so an unguarded script does not start itself.
    """
    with _main_lock:
        real = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = real


@contextlib.contextmanager
def _server_errors() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise StudyError(
            "the process server died; its last words are above. A module named in the study's "
            "preload, or one that shadows the standard library, may be to blame"
        ) from error


@contextlib.contextmanager
def _environment(threads: int) -> Iterator[None]:
    # Without the safe path a signal.py in the working directory would shadow Python's own.
    wanted = {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
