"""The inside of a cell's process: import the study, run the cell, send back JSON, be gone."""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import json
import math
import multiprocessing as mp
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from fallline.study.origin import Origin
from fallline.study.spec import Cell, Limits
from fallline.study.store import pack

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
IN_WORKER = "FALLLINE_IN_WORKER"
FLUSH_SECONDS = 0.2
LINGER_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """All that crosses to a cell's process."""

    origin: dict[str, str]
    text: str | None  # of the study's file when the run began
    study: str
    metrics: tuple[str, ...]
    cell: dict[str, Any]
    limits: Limits
    log: str


def work(channel: Connection, job: Job) -> None:
    """Run one cell and leave with `os._exit`, so that no teardown can lose the answer."""
    os.setsid()  # the driver ends the whole group, and a terminal's Ctrl-C does not reach it
    threading.Thread(target=_die_with_driver, daemon=True).start()
    worker, stream = os.getpid(), Stream(channel)
    try:
        _redirect(job.log)
        _limit_cpu(job.limits)
        _pin(job.limits.threads)
        os.environ[IN_WORKER] = "1"
        # The server's own would be asked to import a study's file by name; a plain script has this.
        mp.set_start_method(mp.get_all_start_methods()[0], force=True)
        loaded = Origin(**job.origin).load(job.study, job.text)
        _pin(job.limits.threads)  # again, for what the study has just imported
        answer = run(loaded.run, Cell(**job.cell, on_point=stream.add), job.metrics)
    except BaseException as error:
        answer = {"error": _traceback(error)}
    if os.getpid() != worker:
        os._exit(0)  # a fork that the cell made, and forgot to end, has nothing to answer
    with contextlib.suppress(Exception):  # a cell may have closed them
        sys.stdout.flush()
        sys.stderr.flush()
    answer["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer["native"] = _native_libraries()
    stream.close({"answer": answer})
    # The driver ends this process, and finds what the cell has started while it is still here.
    time.sleep(LINGER_SECONDS)
    os._exit(0)


def run(function: Any, cell: Cell, declared: Sequence[str]) -> dict[str, Any]:
    """Call the study's function and turn what it returned into JSON data."""
    start = time.perf_counter()
    metrics = function(cell)
    seconds = time.perf_counter() - start
    if not isinstance(metrics, Mapping):
        raise TypeError(f"run must return a dict of numbers, got {type(metrics).__name__}")
    if not set(declared) & metrics.keys():
        raise ValueError(
            f"run returned {', '.join(map(str, metrics)) or 'nothing'}; "
            f"the study's metrics are {', '.join(declared)}"
        )
    return {
        "metrics": {str(name): number(name, value) for name, value in metrics.items()},
        "artifacts": {
            name: (kind, base64.b64encode(data).decode())
            for name, (kind, data) in ((n, pack(v)) for n, v in cell.artifacts.items())
        },
        "seconds": seconds,
    }


def number(name: str, value: Any) -> float | None:
    """Return a metric as a Python number, `None` where it is not finite."""
    try:
        value = float(value) if not isinstance(value, (bool, int)) else value
    except (TypeError, ValueError):
        raise TypeError(
            f"run returned {name}={value!r} of type {type(value).__name__}; metrics must be numbers"
        ) from None
    return value if math.isfinite(value) else None


class Stream:
    """Sends a curve's points in batches, so that a cell that is killed leaves what it had."""

    def __init__(self, channel: Connection) -> None:
        self.channel = channel
        self.points: list[dict[str, float | None]] = []
        self.sent = time.monotonic()
        self.turn = threading.Lock()  # a cell may report from several threads

    def add(self, point: dict[str, float]) -> None:
        """Take one point and send the batch when it is old enough."""
        plain = {name: number(name, value) for name, value in point.items()}
        with self.turn:
            self.points.append(plain)
            if time.monotonic() - self.sent > FLUSH_SECONDS:
                self._flush()

    def close(self, answer: dict[str, Any]) -> None:
        """Send what is waiting and the last message."""
        with self.turn:
            self._flush()
            self.channel.send_bytes(json.dumps(answer).encode())
            self.channel.close()

    def _flush(self) -> None:
        if self.points:
            self.channel.send_bytes(json.dumps({"points": self.points}).encode())
        self.points, self.sent = [], time.monotonic()


def _die_with_driver() -> None:
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)


def _limit_cpu(limits: Limits) -> None:
    """Set the bound that also ends a native call which holds the interpreter lock."""
    cpu = math.ceil(limits.seconds * limits.threads) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    top = cpu + 5 if hard == resource.RLIM_INFINITY else min(cpu + 5, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (min(cpu, top), top))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _redirect(log: str) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    faulthandler.enable()


def _pin(threads: int) -> None:
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)
    # A library that the process server has loaded read its variables long ago.
    if {"numpy", "torch", "scipy"} & sys.modules.keys():
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads)


def _native_libraries() -> list[str]:
    if "numpy" not in sys.modules:
        return []
    with contextlib.suppress(Exception):  # what is worth knowing is not worth a cell
        from threadpoolctl import threadpool_info

        found = {
            f"{lib['internal_api']} {lib.get('version')} threads={lib['num_threads']}"
            for lib in threadpool_info()
        }
        return sorted(found)
    return []


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-20_000:]
