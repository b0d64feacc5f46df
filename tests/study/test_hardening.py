"""What a harsh user does: signals, edits during a run, threads, forks, odd names, wrong types."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fallline.study import Limits, Outcome, Part, Study, StudyError
from fallline.study.driver import load
from fallline.study.origin import load_file

HEAD = """import os, subprocess, sys, threading, time
from fallline.study import *
from fallline.study import plots
"""


def study_file(path, run, arms=("a",), **options):
    """Write a study whose cells run the given lines, and load it."""
    body = "".join(f"    {line}\n" for line in run.splitlines())
    more = "".join(f", {name}={value}" for name, value in options.items())
    path.write_text(
        f"{HEAD}def run(cell):\n{body}\n"
        f"study = Study('s', run=run, metrics={{'y': 'min'}}, limits=Limits(seconds=20),\n"
        f"    scales={{'laptop': [Part('p', {list(arms)!r}, seeds=SEEDS)]}}{more})\n".replace(
            "SEEDS", str(2)
        )
    )
    return load_file(path).study


def only(results):
    (record, *others) = results.records.values()
    assert all(other.outcome == record.outcome for other in others)
    return record


@pytest.mark.parametrize(
    ("run", "outcome", "error"),
    [
        ("return {'z': 1.0}", Outcome.FAILED, "run returned z; the study's metrics are y"),
        ("return {}", Outcome.FAILED, "run returned nothing"),
        ("sys.stdout.close()\nreturn {'y': 1}", Outcome.DONE, ""),
        ("sys.stdout = None\nreturn {'y': 1}", Outcome.DONE, ""),
        ("raise ValueError('bad \\udc80 name')", Outcome.FAILED, "bad ? name"),
        ("return {'y': 1, 'bad\\udc80': 2}", Outcome.DONE, ""),
        ("pid = os.fork()\nreturn {'y': 99 if pid == 0 else 1}", Outcome.DONE, ""),
        ("os.chdir('/')\nreturn {'y': 1}", Outcome.DONE, ""),
        ("return {'y': 2**70}", Outcome.DONE, ""),
    ],
)
def test_one_odd_cell_is_one_odd_cell(tmp_path, run, outcome, error):
    results = study_file(tmp_path / "s.py", run).execute(store=tmp_path / "s.db")
    record = only(results)
    assert record.outcome == outcome, record.error
    assert error in record.error
    if "fork" in run:
        assert record.metrics["y"] == 1
    results.save(tmp_path / "s.html")


def test_threads_may_report(tmp_path):
    run = (
        "def work(k):\n"
        "    for i in range(2000):\n"
        "        cell.report(i, k=k)\n"
        "threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "return {'y': 1}"
    )
    results = study_file(tmp_path / "s.py", run).execute(store=tmp_path / "s.db")
    for placed in results.placed:
        assert results.records[placed.cell.key].outcome is Outcome.DONE
        assert len(results.curves_of(placed.cell.key)) == 8000


def test_a_daemon_that_a_cell_started_ends_with_it(tmp_path):
    run = (
        "child = subprocess.Popen(['sleep', '77'], start_new_session=True)\nreturn {'y': child.pid}"
    )
    results = study_file(tmp_path / "s.py", run).execute(store=tmp_path / "s.db")
    for record in results.records.values():
        pid = int(record.metrics["y"])
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_run_has_one_source_also_when_the_file_is_edited_meanwhile(tmp_path):
    path = tmp_path / "s.py"
    # The first cell edits the file that defines it, and then breaks it.
    run = (
        "text = open(__file__).read()\n"
        "open(__file__, 'w').write(text.replace('VALUE = 1', 'VALUE = 2') + '\\nno python')\n"
        "return {'y': VALUE}\nVALUE = 1"
    )
    study = study_file(path, run.replace("\nVALUE = 1", ""))
    path.write_text(path.read_text().replace("def run", "VALUE = 1\ndef run"))
    study = load_file(path).study
    results = study.execute(store=tmp_path / "s.db")
    assert [record.metrics["y"] for record in results.records.values()] == [1, 1]
    assert len({record.source for record in results.records.values()}) == 1


def test_results_of_an_older_source_are_named_as_such(tmp_path, capsys):
    path = tmp_path / "s.py"
    study_file(path, "return {'y': 1}").execute(store=tmp_path / "s.db")
    edited = study_file(path, "return {'y': 100}")
    capsys.readouterr()
    results = edited.execute(store=tmp_path / "s.db")
    assert "2 of them were computed by another version of the source" in capsys.readouterr().err
    assert "another version of the source" in repr(results)


def test_planned_cells_obey_retry_fresh_and_arms(tmp_path):
    flag = tmp_path / "fixed"
    (tmp_path / "s.py").write_text(
        f"{HEAD}"
        "def run(cell):\n"
        f"    if cell.config['x'] == 1 and not os.path.exists({str(flag)!r}):\n"
        "        raise RuntimeError('not yet')\n"
        "    return {'y': time.time_ns()}\n"
        "def plan(results):\n"
        "    if len(results.placed) < 4:\n"
        "        return [Part('more', ['a', 'b'], seeds=1, x=[1])]\n"
        "study = Study('s', run=run, metrics={'y': 'min'}, plan=plan,\n"
        "    scales={'laptop': [Part('p', ['a', 'b'], seeds=1, x=[0])]})\n"
    )
    study = load_file(tmp_path / "s.py").study
    first = study.execute(store=tmp_path / "s.db")
    assert first.outcomes == {"done": 2, "failed": 2}
    assert study.execute(store=tmp_path / "one.db", arms=["a"]).outcomes == {"done": 1, "failed": 1}
    flag.touch()
    second = study.execute(store=tmp_path / "s.db", retry=True)
    assert second.outcomes == {"done": 4}
    third = study.execute(store=tmp_path / "s.db", fresh=True)
    assert not {r.metrics["y"] for r in third.records.values()} & {
        r.metrics["y"] for r in second.records.values()
    }
    assert load(study, store=tmp_path / "s.db").outcomes == {"done": 4}


def test_a_plan_that_raises_is_one_line(tmp_path):
    study = study_file(tmp_path / "s.py", "return {'y': 1}", plan="lambda results: 1 / 0")
    with pytest.raises(StudyError, match="its plan failed: ZeroDivisionError"):
        study.execute(store=tmp_path / "s.db")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_cleanly_and_says_how_to_go_on(tmp_path, number):
    path, store = tmp_path / "my study.py", tmp_path / "a store.db"
    study_file(path, "time.sleep(30)\nreturn {'y': 1}")
    arguments = ["run", str(path), "--store", str(store), "--seeds", "4", "--fresh"]
    with subprocess.Popen(
        [sys.executable, "-m", "fallline", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        logs = Path(f"{store}.logs")
        while not list(logs.glob("*.log")):
            time.sleep(0.01)
        for _ in range(3 if number == signal.SIGINT else 1):
            driver.send_signal(number)
            time.sleep(0.05)
        _, complaint = driver.communicate(timeout=20)
    assert driver.returncode == 2, complaint
    assert "Traceback" not in complaint
    assert f"fallline run '{path}' --store '{store}' --seeds 4\n" in complaint
    assert not logs.exists()


def test_the_report_never_overwrites_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study_file(tmp_path / "s.py", "return {'y': 1}")

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "fallline", *arguments], capture_output=True, text=True
        )

    for name in ("exp1.0", "exp1.5", "s.html"):
        assert command("run", "s.py", "--store", name).returncode == 0
        assert (tmp_path / f"{name}.html").exists()
    refused = command("report", "s.py", "--store", "exp1.0", "--csv", "exp1.5")
    assert refused.returncode == 3
    assert "is a store" in refused.stderr


def test_a_terminal_without_the_signs_costs_no_report(tmp_path):
    study_file(tmp_path / "s.py", "return {'y': 1}", bars="[lambda r: at_most(1.0, 2.0, '≤ Ω')]")
    done = subprocess.run(
        [sys.executable, "-m", "fallline", "run", "s.py"],
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fallline-results" / "s.html").exists()


def test_a_reader_that_leaves_is_no_failed_bar(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m fallline --help | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_figure_that_cannot_be_rendered_is_a_note_in_the_report(tmp_path):
    study = study_file(
        tmp_path / "s.py",
        "return {'y': 1}",
        figures="[lambda r: plots.forest({'$x^$': Estimate(1, 0, 2)})]",
    )
    page = tmp_path / "s.html"
    study.execute(store=tmp_path / "s.db").save(page)
    assert "ParseSyntaxException" in page.read_text() or "ValueError" in page.read_text()


def test_several_studies_in_a_file_can_be_named(tmp_path):
    study_file(tmp_path / "s.py", "return {'y': 1}")
    path = tmp_path / "s.py"
    path.write_text(
        path.read_text() + "from dataclasses import replace\nt = replace(study, name='t')\n"
    )

    def command(what):
        return subprocess.run(
            [sys.executable, "-m", "fallline", "run", what],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    refused = command("s.py")
    assert refused.returncode == 3
    assert "it defines s, t; choose one, s.py:s" in refused.stderr
    done = command("s.py:t")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fallline-results" / "t.db").exists()


def test_a_study_that_its_file_does_not_hold_is_refused_before_any_cell(tmp_path):
    (tmp_path / "s.py").write_text(
        f"{HEAD}def make():\n    return Study('s', run=len, metrics={{'y': 'min'}},"
        " scales={'laptop': [Part('p', ['a'], seeds=1)]})\n"
    )
    study = load_file(tmp_path / "s.py").make()
    with pytest.raises(StudyError, match="does not hold it at its top level"):
        study.execute(store=tmp_path / "s.db")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Part("p", ["a"], seeds=[0.5]), "seeds must be a count"),
        (lambda: Part("p", ["a"], seeds="two"), "seeds must be a count"),
        (lambda: Part("p", ["a"], seeds=[2**64]), "integers of 64 bits"),
        (lambda: Part("p", ["a"], seeds=1, seed=[1]), "no setting may be called 'seed'"),
        (lambda: Part("p", ["a"], seeds=1, fixed={"arm": 1}), "no setting may be called 'arm'"),
        (lambda: Limits(seconds=float("inf")), "finite"),
    ],
)
def test_mistakes_in_a_part_are_found_at_once(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": None}, "run must be a function"),
        ({"bars": len}, "bars must be a list of functions"),
        ({"figures": ["x"]}, "figures must be a list of functions"),
        ({"diverged": {"y": None}}, "must be a finite number"),
        ({"diverged": {"y": float("inf")}}, "must be a finite number"),
        ({"metrics": ["y"]}, "metrics must map"),
        ({"scales": {"laptop": ["p"]}}, "must be a list of Part"),
    ],
)
def test_mistakes_in_a_study_are_found_at_once(change, message):
    options = {"run": lambda cell: {"y": 1}, "metrics": {"y": "min"}, "scales": {}, **change}
    with pytest.raises((TypeError, ValueError), match=message):
        Study("s", **options)


def test_numpy_seeds_and_repeated_seeds_are_plain():
    import numpy as np

    assert Part("p", ["a"], seeds=np.arange(3)).seeds == (0, 1, 2)
    assert Part("p", ["a"], seeds=np.int64(2)).seeds == (0, 1)
    assert Part("p", ["a"], seeds=[4, 4, -1]).seeds == (4, -1)


def test_minutes_must_be_a_time(tmp_path):
    study = study_file(tmp_path / "s.py", "return {'y': 1}")
    for minutes in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="minutes must be > 0"):
            study.execute(store=tmp_path / "s.db", minutes=minutes)
