"""One driver at a time on a store; a driver that dies leaves nothing to unlock."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from fallline.study.errors import StudyError


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold an advisory lock on a file beside the store, with who holds it written inside.

    The kernel drops the lock with the process, so the file may stay.
    """
    store = store.resolve()  # two names of one file are one store
    path = store.with_name(store.name + ".lock")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+")
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}; choose a --store") from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(
                f"{store} is in use by {_holder(path)}; wait for it, or stop it"
            ) from None
        file.truncate(0)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "start": started}, file)
        file.flush()
        yield


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']} (since {holder['start']})"
    except (ValueError, KeyError, TypeError):
        return "another process"  # it has the lock and has not written its name yet
