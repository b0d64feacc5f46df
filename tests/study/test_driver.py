"""Resume, retry, fresh, plans, deadlines, edited files and files of one name."""

import io
import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fallline.study import Arm, Outcome, Part, StudyError
from fallline.study.driver import load
from fallline.study.lock import locked
from fallline.study.origin import load_file
from fallline.study.progress import BarProgress, LineProgress

STUDIES = Path(__file__).parent / "studies"

SOURCE = """
from pathlib import Path
from fallline.study import *

CALLS = Path({calls!r})

def run(cell):
    with CALLS.open("a") as file:
        file.write(f"{{cell.arm}}{{cell.seed}} ")
    if cell.arm == "bad" and not CALLS.with_suffix(".fixed").exists():
        raise RuntimeError("not yet")
    return {{"y": {value}}}

study = Study("mine", run=run, metrics={{"y": "min"}},
    scales={{"laptop": [Part("p", ["good", "bad"], seeds=2)]}})
"""


@pytest.fixture
def write(tmp_path):
    def write(name="mine.py", value="1.0 * cell.seed"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(SOURCE.format(calls=str(tmp_path / "calls"), value=value))
        return load_file(path).study

    return write


def calls(tmp_path):
    text = (tmp_path / "calls").read_text().split()
    (tmp_path / "calls").unlink()
    return sorted(text)


def outcomes(results):
    return {
        f"{p.cell.arm}{p.cell.seed}": results.records[p.cell.key].outcome for p in results.placed
    }


def test_failed_cells_run_again_only_when_asked(write, tmp_path):
    study, store = write(), tmp_path / "m.db"
    first = study.execute(store=store)
    assert outcomes(first) == {
        "good0": "done", "good1": "done", "bad0": "failed", "bad1": "failed",
    }  # fmt: skip
    assert not first.complete
    assert calls(tmp_path) == ["bad0", "bad1", "good0", "good1"]
    study.execute(store=store)
    assert not (tmp_path / "calls").exists()
    (tmp_path / "calls.fixed").touch()
    assert study.execute(store=store, retry=True).complete
    assert calls(tmp_path) == ["bad0", "bad1"]
    study.execute(store=store, fresh=True, arms=["good"])
    assert calls(tmp_path) == ["good0", "good1"]


def test_more_seeds_arms_and_parts_reuse_what_is_done(write, tmp_path):
    study, store = write(), tmp_path / "m.db"
    study.execute(store=store, arms=["good"], seeds=1)
    assert calls(tmp_path) == ["good0"]
    study.execute(store=store, arms=["good"], seeds=3)
    assert calls(tmp_path) == ["good1", "good2"]
    study.execute(store=store)
    assert calls(tmp_path) == ["bad0", "bad1"]


def test_an_arm_version_redoes_that_arm_only(write, tmp_path):
    study, store = write(), tmp_path / "m.db"
    study.execute(store=store)
    calls(tmp_path)
    newer = Part("p", ["good", Arm("bad", version=2)], seeds=2)
    replace(study, scales={"laptop": [newer]}).execute(store=store)
    assert calls(tmp_path) == ["bad0", "bad1"]


def test_an_edited_file_is_a_mix_that_is_reported(write, tmp_path):
    store = tmp_path / "m.db"
    write().execute(store=store, arms=["good"], seeds=1)
    edited = write(value="10.0 * cell.seed")
    results = edited.execute(store=store, arms=["good"])
    sources = {record.source for record in results.records.values()}
    assert len(sources) == 2
    page = tmp_path / "r.html"
    results.save(page)
    assert "source" in page.read_text().lower()
    again = edited.execute(store=store, arms=["good"], fresh=True)
    assert len({record.source for record in again.records.values()}) == 1


def test_two_files_of_one_name_run_their_own_code(write, tmp_path):
    one, two = write("a/mine.py"), write("b/mine.py", value="7.0")
    first = one.execute(store=tmp_path / "1.db", arms=["good"])
    second = two.execute(store=tmp_path / "2.db", arms=["good"])
    assert [r.metrics["y"] for r in first.records.values()] != [7.0, 7.0]
    assert [r.metrics["y"] for r in second.records.values()] == [7.0, 7.0]


def test_a_study_elsewhere_may_import_its_neighbour(tmp_path):
    folder = tmp_path / "far" / "away"
    folder.mkdir(parents=True)
    (folder / "neighbour_of_mine.py").write_text("VALUE = 5.0\n")
    (folder / "s.py").write_text(
        "from neighbour_of_mine import VALUE\nfrom fallline.study import *\n"
        "study = Study('s', run=lambda c: {'y': VALUE}, metrics={'y': 'min'},"
        " scales={'laptop': [Part('p', ['a'], seeds=1)]})\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "fallline", "run", "far/away/s.py", "--store", "s.db"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (record,) = load(load_file(folder / "s.py").study, "laptop", tmp_path / "s.db").records.values()
    assert record.metrics == {"y": 5.0}


def test_a_file_that_breaks_between_start_and_resume_is_one_line(write, tmp_path):
    write().execute(store=tmp_path / "m.db", arms=["good"], seeds=1)
    path = tmp_path / "mine.py"
    path.write_text(path.read_text() + "\nthis is no Python\n")
    done = subprocess.run(
        [sys.executable, "-m", "fallline", "run", str(path), "--store", str(tmp_path / "m.db")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    assert "mine.py, line" in done.stderr


def test_a_plan_adds_cells_until_it_is_satisfied(tmp_path):
    path = tmp_path / "planned.py"
    path.write_text(
        textwrap.dedent("""
        from fallline.study import *

        def plan(results):
            best = max(p.cell.config["x"] for p in results.placed)
            return [Part("more", ["a"], seeds=1, x=[best + 1])] if best < 3 else []

        study = Study("planned", run=lambda c: {"y": c.config["x"]}, metrics={"y": "min"},
            scales={"laptop": [Part("p", ["a"], seeds=1, x=[0])]}, plan=plan)
        """)
    )
    study = load_file(path).study
    results = study.execute(store=tmp_path / "p.db")
    assert sorted(p.cell.config["x"] for p in results.placed) == [0, 1, 2, 3]
    stored = load(study, "laptop", tmp_path / "p.db")
    assert stored.records.keys() == results.records.keys()
    assert [p.part for p in stored.placed].count("more") == 3


def test_minutes_stop_handing_out_in_time(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(
        "import time\nfrom fallline.study import *\n"
        "def run(cell):\n    time.sleep(0.4)\n    return {'y': 1.0}\n"
        "study = Study('slow', run=run, metrics={'y': 'min'},"
        " scales={'laptop': [Part('p', ['a'], seeds=50)]})\n"
    )
    results = load_file(path).study.execute(store=tmp_path / "s.db", minutes=4 / 60)
    done = sum(p.cell.key in results.records for p in results.placed)
    assert 1 <= done < 20
    assert not results.complete


def test_ctrl_c_keeps_what_is_done_and_leaves_nobody(tmp_path):
    store = tmp_path / "q.db"
    command = [sys.executable, "-m", "fallline", "run", str(STUDIES / "misbehaving.py")]
    with subprocess.Popen(
        [*command, "--arms", "good,loops", "--store", str(store)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        logs = Path(f"{store}.logs")
        while not list(logs.glob("*.log")):
            time.sleep(0.01)
        time.sleep(0.5)
        driver.send_signal(2)
        _, err = driver.communicate(timeout=20)
    assert driver.returncode == 2, err
    assert "Go on with: fallline run" in err
    assert not logs.exists()
    results = load(load_file(STUDIES / "misbehaving.py").study, "laptop", store)
    assert all(record.outcome is not Outcome.FAILED for record in results.records.values())


def test_two_drivers_of_one_process_tree_do_not_mix(write, tmp_path):
    study = write()
    refusal = pytest.raises(StudyError, match=f"in use by process {os.getpid()} on")
    with locked(tmp_path / "m.db"), refusal:
        study.execute(store=tmp_path / "m.db")
    shutil.rmtree(tmp_path / "m.db.logs", ignore_errors=True)
    study.execute(store=tmp_path / "m.db")


def test_progress_lines_say_what_was_reused_and_what_failed(write, tmp_path):
    study, stream = write(), io.StringIO()
    study.execute(store=tmp_path / "m.db", arms=["good"], seeds=1)
    study.execute(store=tmp_path / "m.db", progress=LineProgress(stream))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "mine: 4 cells, 1 reused from the store, 3 to run, 1 at a time"
    assert lines[-1] == "4/4 cells, 0 running, 2 failed"
    assert "failed: bad {} seed 0: RuntimeError: not yet" in lines


def test_the_bar_fills_up(write, tmp_path):
    progress = BarProgress()
    study = write()
    study.execute(store=tmp_path / "m.db", arms=["good"], seeds=1)
    study.execute(store=tmp_path / "m.db", progress=progress)
    (task,) = progress.bar.tasks
    assert task.finished
    assert task.fields["text"] == "4/4 cells, 0 running, 2 failed"


def test_execute_refuses_bad_arguments(write, tmp_path):
    study = write()
    with pytest.raises(ValueError, match="jobs must be >= 1, got 0"):
        study.execute(store=tmp_path / "m.db", jobs=0)
    with pytest.raises(ValueError, match="has no scale 'huge'"):
        study.execute("huge", store=tmp_path / "m.db")
    assert not (tmp_path / "m.db").exists()


def test_two_names_of_one_store_are_one_store(tmp_path):
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    with (
        locked(tmp_path / "a.db"),
        pytest.raises(StudyError, match="is in use by"),
        locked(tmp_path / "b.db"),
    ):
        pass


NAMES = """
from fallline.study import *

def run(cell):
    cell.report(1, loss=0.5, lr=0.125)
    return {"y": 1.0}

study = Study("names", run=run, metrics={"y": "min"}, scales={"laptop": [
    Part("p", ["a"], seeds=1, lr=[0.1], fixed={"betas": [0.9, 0.99]}),
    Part("q", ["a"], seeds=1, lr=[0.1], fixed={"betas": [0.9, 0.95]}),
]})
"""


def test_a_reported_value_leaves_the_axis_alone_and_a_list_can_be_chosen(tmp_path):
    (tmp_path / "names.py").write_text(NAMES)
    results = load_file(tmp_path / "names.py").study.execute("laptop", store=tmp_path / "s.db")
    assert set(results.curves()["lr"]) == {0.1}
    assert len(results.where(betas=[0.9, 0.99]).rows) == 1
    assert len(results.where(betas=[[0.9, 0.99], [0.9, 0.95]]).rows) == 2


@pytest.mark.parametrize("axis", ["outcome", "seconds", "peak_mib", "step"])
def test_an_axis_may_not_hide_a_column(axis):
    with pytest.raises(ValueError, match=f"no axis may be called '{axis}'"):
        Part("p", ["a"], seeds=1, **{axis: [1, 2]})
