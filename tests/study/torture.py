"""Kill the driver at random moments, resume, and compare with a run that nobody disturbed.

`python tests/study/torture.py --rounds 200` is `make torture`; the tests run a few rounds.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from fallline.study import StudyError
from fallline.study.store import Store

STUDIES = Path(__file__).parent / "studies"
MARK = "FALLLINE_TORTURE"
DRIVE = """
import sys
from fallline.study.origin import load_file
load_file(sys.argv[1]).study.execute("laptop", store=sys.argv[2], jobs=2)
"""


def drive(study, store, mark):
    """Start a driver whose every process carries a mark in its environment."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVE, str(STUDIES / study), str(store)],
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(driver):
    """End a driver as `kill -9` does."""
    with driver:
        driver.send_signal(signal.SIGKILL)


def finish(driver):
    """Let a driver end by itself, as it should."""
    _, complaint = driver.communicate()
    assert driver.returncode == 0, complaint


def marked(mark):
    """Return the living processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    alive = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                alive.append(int(process.name))
        except OSError:  # gone meanwhile, or a zombie, which has no environment
            continue
    return alive


def gone_within(mark, seconds):
    """Wait until no marked process is left; return the seconds it took, or None."""
    start = time.monotonic()
    while marked(mark):
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.02)
    return time.monotonic() - start


def table(store):
    """Return everything stored but times, machine and memory, and check each cell is there once."""
    with Store.read(store) as opened:
        records = opened.records()
        keys = [cell.key for cell in opened.cells()]
        assert sorted(keys) == sorted(records), "a cell is stored twice"
        return {
            key: (
                record.outcome,
                dict(record.metrics),
                record.error,
                record.output,
                record.source,
                opened.curve(key),
                opened.packed_artifacts(key),
            )
            for key, record in records.items()
        }


def stored(store):
    """Count the cells; a driver may have died before it made the file, or its tables."""
    try:
        return len(table(store))
    except StudyError as error:
        if "run the study first" not in str(error):
            raise
        return 0


def torture(rounds, seed, folder, say=lambda text: None):
    """Run the rounds; raise at the first difference. Return the slowest clean-up in seconds."""
    folder = Path(folder)
    rng = random.Random(seed)
    start = time.monotonic()
    finish(drive("quick.py", folder / "undisturbed.db", "calm"))
    whole = time.monotonic() - start
    expected = table(folder / "undisturbed.db")
    slowest, cut_short = 0.0, 0
    for number in range(rounds):
        mark, store = uuid.uuid4().hex, folder / f"{number}.db"
        driver = drive("quick.py", store, mark)
        time.sleep(rng.uniform(0.0, 1.1 * whole))
        kill(driver)
        took = gone_within(mark, 2.0)
        assert took is not None, f"round {number}: still alive after 2 s: {marked(mark)}"
        slowest = max(slowest, took)
        cut_short += stored(store) < len(expected)
        finish(drive("quick.py", store, mark))
        assert table(store) == expected, f"round {number}: the table differs"
        leftovers = sorted(p.name for p in folder.glob(f"{number}.db*"))
        assert leftovers == [f"{number}.db", f"{number}.db.lock"], leftovers
        store.unlink()
        if (number + 1) % 20 == 0:
            say(f"{number + 1} rounds, {cut_short} cut short, slowest clean-up {slowest:.2f} s")
    assert cut_short >= rounds // 4, "the kills came too late to prove anything"
    return slowest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        torture(options.rounds, options.seed, place, say=lambda text: print(text, flush=True))
    print(f"{options.rounds} rounds: every resumed table equals the undisturbed one")
