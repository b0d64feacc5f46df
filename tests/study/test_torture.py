"""Nothing is lost, nothing is doubled and nothing is left running, whenever the driver dies."""

import sys
import time
import uuid

import pytest
from tests.study.torture import drive, finish, gone_within, kill, marked, table, torture

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_twenty_rounds(tmp_path):
    torture(20, seed=1, folder=tmp_path)


def test_a_worker_that_holds_the_gil_ends_by_its_cpu_limit(tmp_path):
    mark = uuid.uuid4().hex
    driver = drive("holds_the_gil.py", tmp_path / "g.db", mark)
    deadline = time.monotonic() + 20
    while len(marked(mark)) < 5 and time.monotonic() < deadline:  # driver, server, tracker, two
        time.sleep(0.02)
    kill(driver)
    # CPU limit: 1.5 s rounded up, and one for the road; two cores may be shared by many.
    assert gone_within(mark, 20.0) is not None


def test_the_next_start_needs_no_unlock(tmp_path):
    mark = uuid.uuid4().hex
    first = drive("quick.py", tmp_path / "q.db", mark)
    while not (tmp_path / "q.db").exists():
        time.sleep(0.01)
    second = drive("quick.py", tmp_path / "q.db", uuid.uuid4().hex)
    _, complaint = second.communicate()
    assert second.returncode != 0
    assert f"q.db is in use by process {first.pid} on " in complaint
    kill(first)
    finish(drive("quick.py", tmp_path / "q.db", mark))
    assert len(table(tmp_path / "q.db")) == 60
