"""A cell that goes wrong ends as the right outcome, keeps its evidence and stops nobody else."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fallline.study import Outcome
from fallline.study.driver import load
from fallline.study.origin import load_file, studies_in

STUDIES = Path(__file__).parent / "studies"


def study_of(name):
    (study,) = studies_in(load_file(STUDIES / f"{name}.py")).values()
    return study


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "misbehaving.db"
    command = [sys.executable, "-m", "fallline", "run", str(STUDIES / "misbehaving.py")]
    done = subprocess.run(
        [*command, "--jobs", "2", "--store", str(store)], capture_output=True, text=True
    )
    results = load(study_of("misbehaving"), "laptop", store)
    records = {p.cell.arm: (p.cell.key, results.records[p.cell.key]) for p in results.placed}
    return done, results, records


@pytest.mark.parametrize(
    ("arm", "outcome", "evidence"),
    [
        ("raises", Outcome.FAILED, "ValueError: planted"),
        ("nan", Outcome.DIVERGED, ""),
        ("loops", Outcome.TIMEOUT, "longer than its limit of 4 s"),
        ("eats", Outcome.KILLED, "over its limit of 0.25 GiB"),
        ("exits", Outcome.FAILED, "exited with status 7"),
        ("segfaults", Outcome.KILLED, "SIGSEGV"),
        ("kills itself", Outcome.KILLED, "SIGKILL"),
        ("prints", Outcome.DONE, ""),
        ("returns an object", Outcome.FAILED, "metrics must be numbers"),
        ("returns no dict", Outcome.FAILED, "must return a dict of numbers, got float"),
        ("attaches an object", Outcome.FAILED, "not JSON serializable"),
        ("calls sys.exit", Outcome.FAILED, "SystemExit"),
        ("good", Outcome.DONE, ""),
    ],
)
def test_each_ends_as_what_it_is(misbehaving, arm, outcome, evidence):
    _, _, records = misbehaving
    record = records[arm][1]
    assert record.outcome == outcome
    assert evidence in record.error
    if not evidence:
        assert record.error == ""


def test_evidence_is_kept(misbehaving):
    _, results, records = misbehaving
    assert "about to fail" in records["raises"][1].output
    assert "leaving" not in records["good"][1].output
    assert "Segmentation fault" in records["segfaults"][1].output
    assert dict(records["nan"][1].metrics) == {"y": None, "z": 1.0}
    assert results.curves_of(records["nan"][0]) == [{"step": 0, "loss": None}]
    points = results.curves_of(records["loops"][0])
    assert [point["loss"] for point in points] == [2.0, 1.0]
    printed = records["prints"][1].output
    assert printed.endswith("the end")
    assert len(printed) < 20_000
    assert "bytes before" in printed


def test_exit_code_and_one_line_each(misbehaving):
    done, _, _ = misbehaving
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "failed: raises" in done.stderr
    assert "ValueError: planted" in done.stderr
    # Incomplete, and it says so; the study's file has no bars that could hide it.
    assert "report:" in done.stdout


def test_what_a_cell_started_ends_with_it(misbehaving):
    _, _, records = misbehaving
    pid = int(records["leaves a child"][1].metrics["y"])
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    else:
        assert not psutil.pid_exists(pid)


def test_equal_metrics_for_any_jobs_and_order(tmp_path):
    study = study_of("quick")
    one = study.execute("laptop", store=tmp_path / "one.db", jobs=1)
    # Reversed: the second half first, then the rest.
    study.execute("laptop", store=tmp_path / "two.db", jobs=2, arms=["bb"], seeds=3)
    two = study.execute("laptop", store=tmp_path / "two.db", jobs=2)
    assert {k: dict(r.metrics) for k, r in one.records.items()} == {
        k: dict(r.metrics) for k, r in two.records.items()
    }
    assert {r.metrics["threads"] for r in one.records.values()} == {1}
    assert len(one.records) == 60


def test_native_libraries_are_pinned_also_when_loaded_before(tmp_path):
    source = tmp_path / "native.py"
    source.write_text(
        "import numpy, torch\n"
        "from threadpoolctl import threadpool_info\n"
        "from fallline.study import Limits, Part, Study\n"
        "def run(cell):\n"
        "    numpy.ones((9, 9)) @ numpy.ones((9, 9))\n"
        "    pools = [pool['num_threads'] for pool in threadpool_info()]\n"
        "    return {'y': max(pools), 'torch': torch.get_num_threads()}\n"
        "def make(threads):\n"
        "    return Study('native', run=run, metrics={'y': 'min'}, preload=['torch'],\n"
        "        scales={'laptop': [Part('p', ['a'], seeds=1)]}, version=threads,\n"
        "        limits=Limits(threads=threads))\n"
        "study = make(1)\n"
    )
    record = _only(studies_in(load_file(source))["native"].execute(store=tmp_path / "a.db"))
    assert dict(record.metrics) == {"y": 1, "torch": 1}
    source.write_text(source.read_text().replace("study = make(1)", "study = make(2)"))
    # The process server, with torch loaded, still has one thread: the worker must say two.
    record = _only(studies_in(load_file(source))["native"].execute(store=tmp_path / "b.db"))
    assert dict(record.metrics) == {"y": 2, "torch": 2}


def test_closures_run(tmp_path):
    results = study_of("lambdas").execute(store=tmp_path / "l.db")
    assert [r.metrics["y"] for r in results.records.values()] == unordered(0.0, 3.0, 6.0)


def test_a_study_run_as_a_script_without_a_guard_says_so(tmp_path):
    source = tmp_path / "unguarded.py"
    source.write_text((STUDIES / "lambdas.py").read_text() + "\nstudy.execute()\n")
    done = subprocess.run(
        [sys.executable, str(source)], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert "__name__" in done.stderr
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr


def test_a_study_in_no_file_says_so(tmp_path):
    code = (
        "from fallline.study import *\n"
        "Study('s', run=lambda c: {'y': 1}, metrics={'y': 'min'},"
        " scales={'laptop': [Part('p', ['a'], seeds=1)]}).execute()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert "is defined in no file" in done.stderr


def test_artifacts_survive(tmp_path):
    study = study_of("quick")
    results = study.execute("smoke", store=tmp_path / "q.db")
    for placed in results.placed:
        kept = results.artifacts_of(placed.cell.key)
        assert kept == {"notes": {"seed": placed.cell.seed, "x": 0.5}}
        assert len(results.curves_of(placed.cell.key)) == 3


def test_provenance_is_stored(tmp_path):
    results = study_of("quick").execute("smoke", store=tmp_path / "q.db")
    (environment,) = {r.environment for r in results.records.values()}
    data = results.environments[environment]
    assert data["threads"] == 1
    assert "numpy" in data["packages"]
    (source,) = {r.source for r in results.records.values()}
    assert len(source) == 64
    json.dumps(data)


def _only(results):
    (record,) = results.records.values()
    assert record.outcome is Outcome.DONE, record.error
    return record


def unordered(*values):
    class Any:
        def __eq__(self, other):
            return sorted(other) == sorted(values)

        __hash__ = None

    return Any()
