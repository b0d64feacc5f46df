"""The command: exit codes, one-line errors, tables, reports, and what it says of a dry run."""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fallline import claims
from fallline.cli import run_command

STUDIES = Path(__file__).parent / "study" / "studies"
QUICK = str(STUDIES / "quick.py")

BARRED = """
from fallline.study import *
def run(cell):
    return {{"y": 1.0 + cell.seed}}
def small(r):
    return at_most(r.median("y")["a"], {limit})
study = Study("barred", run=run, metrics={{"y": "min"}}, bars=[small],
    scales={{"laptop": [Part("p", ["a"], seeds=3)]}})
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def barred(tmp_path):
    def write(limit):
        path = tmp_path / "barred.py"
        path.write_text(BARRED.format(limit=limit))
        return str(path)

    return write


def complaint(capsys):
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(("limit", "code"), [(2.0, 0), (1.9, 1), ("float('nan')", 2)])
def test_exit_code_is_the_verdict(barred, limit, code, capsys):
    if limit == "float('nan')":
        path = Path(barred(2.0))
        path.write_text(path.read_text().replace('r.median("y")["a"]', "float('nan')"))
        assert run_command(["run", str(path)]) == code
    else:
        assert run_command(["run", barred(limit)]) == code
    out = capsys.readouterr().out
    assert {0: "holds", 1: "fails", 2: "inconclusive"}[code] in out
    assert Path("fallline-results/barred.html").is_file()
    assert str(Path("fallline-results/barred.html").resolve()) in out


def test_a_second_run_says_what_it_reused(capsys):
    run_command(["run", QUICK, "--scale", "smoke"])
    capsys.readouterr()
    assert run_command(["run", QUICK, "--scale", "smoke"]) == 0
    assert "4 cells, 4 reused from the store, 0 to run" in capsys.readouterr().err


def test_dry_run_counts_and_estimates_and_runs_nothing(capsys):
    assert run_command(["run", QUICK, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "60 cells, 0 stored, 60 to run" in out
    assert "unknown; at most" in out
    assert not Path("fallline-results").exists()
    run_command(["run", QUICK, "--scale", "smoke"])
    capsys.readouterr()
    run_command(["run", QUICK, "--dry-run", "--jobs", "2"])
    out = capsys.readouterr().out
    assert "60 cells, 4 stored, 56 to run" in out
    assert "time: about" in out


def test_report_writes_what_is_asked_for(capsys):
    run_command(["run", QUICK, "--scale", "smoke"])
    capsys.readouterr()
    arguments = ["report", QUICK, "--scale", "smoke", "--out", "r.html", "--csv", "r.csv"]
    assert run_command([*arguments, "--json", "r.json", "--png", "pictures"]) == 0
    assert Path("r.html").read_text().startswith("<!")
    assert len(Path("r.csv").read_text().splitlines()) == 5
    assert json.loads(Path("r.json").read_text())["study"] == "quick"


def test_report_shows_what_was_last_asked_for(capsys):
    run_command(["run", QUICK, "--arms", "a", "--seeds", "12"])
    run_command(["run", QUICK, "--scale", "smoke"])
    capsys.readouterr()
    assert run_command(["report", QUICK, "--json", "r.json"]) == 0
    answer = json.loads(Path("r.json").read_text())
    assert (answer["scale"], answer["cells"], answer["complete"]) == ("smoke", 4, True)
    assert run_command(["report", QUICK, "--scale", "laptop", "--json", "r.json"]) == 0
    answer = json.loads(Path("r.json").read_text())
    assert (answer["scale"], answer["cells"], answer["complete"]) == ("laptop", 60, False)


def test_status_counts_by_outcome(capsys):
    run_command(["run", QUICK, "--scale", "smoke"])
    capsys.readouterr()
    assert run_command(["status", QUICK]) == 0
    out = capsys.readouterr().out
    assert "4 of 4" in out
    assert "4 of 60" in out
    assert run_command(["status"]) == 0
    assert "4 done" in capsys.readouterr().out


def test_store_merge_and_info(capsys):
    run_command(["run", QUICK, "--scale", "smoke", "--store", "a.db"])
    run_command(["run", QUICK, "--arms", "bb", "--seeds", "1", "--store", "b.db"])
    capsys.readouterr()
    assert run_command(["store", "merge", "all.db", "a.db", "b.db"]) == 0
    assert "6 cells added, 1 were there already, 0 of those differ" in capsys.readouterr().out
    assert run_command(["store", "info", "all.db"]) == 0
    assert "6 cells: 6 done" in capsys.readouterr().out


def test_list_names_every_study_and_method(capsys):
    assert run_command(["list"]) == 0
    out = capsys.readouterr().out
    for name in claims.names():
        assert name in out
    assert "MuonMaxMomo" in out


def test_list_methods_shows_folders_of_methods_only(capsys):
    assert run_command(["list", "methods"]) == 0
    folders = {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert {"convex", "optim"} <= folders
    assert not folders & {"arms", "claims", "study", "tasks"}


def test_doctor(capsys):
    assert run_command(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "torch" in out
    assert "extra bayesopt" in out


@pytest.mark.parametrize(
    "command", ["list", "run", "compare", "report", "status", "store", "doctor"]
)
def test_help_of_every_command(command, capsys):
    assert run_command([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: fallline")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument"),
        (["run", "no-such-study"], "there is no study 'no-such-study'; choose one of"),
        (["run", "nowhere.py"], "nowhere.py is not a file"),
        (["run", QUICK, "--scale", "huge"], "has no scale 'huge'; it has smoke, laptop"),
        (["run", QUICK, "--arms", "z"], "arms: z; this study has a, bb"),
        (["run", QUICK, "--jobs", "0"], "Invalid value for '--jobs'"),
        (["run", QUICK, "--seeds", "x"], "Invalid value for '--seeds'"),
        (["fly"], "No such command 'fly'"),
        (["list", "birds"], "'birds' is neither 'methods' nor 'studies'"),
        (["report", "muonmax-momo"], "there is no store at"),
        (["report"], "there is no store in"),
        (["status"], "there is no store"),
        (["store", "info", "nowhere.db"], "there is no store at nowhere.db"),
    ],
)
def test_every_mistake_is_one_line_and_code_three(arguments, message, capsys):
    assert run_command(arguments) == 3
    assert message in complaint(capsys)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(:\n", "mine.py, line 1"),
        ("x = 1\n", "must define one Study at its top level; it defines none"),
        ("import a_module_nobody_has\n", "No module named 'a_module_nobody_has'"),
        ("raise RuntimeError('no luck')\n", "no luck"),
    ],
)
def test_a_broken_study_file_is_one_line(source, message, capsys):
    Path("mine.py").write_text(source)
    assert run_command(["run", "mine.py"]) == 3
    assert message in complaint(capsys)


def test_debug_shows_the_traceback(capsys):
    done = subprocess.run(
        [sys.executable, "-m", "fallline", "run", "no-such-study", "--debug"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "Traceback" in done.stderr


def test_a_foreign_store_is_refused_and_survives(capsys):
    connection = sqlite3.connect("theirs.db")
    connection.execute("CREATE TABLE precious (x)")
    connection.commit()
    connection.close()
    before = Path("theirs.db").read_bytes()
    assert run_command(["run", QUICK, "--store", "theirs.db"]) == 3
    assert "another program" in complaint(capsys)
    assert Path("theirs.db").read_bytes() == before


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "fallline", "--version"], capture_output=True, text=True
    )
    assert done.stdout.startswith("fallline ")


PATIENT = """
import time
from fallline.study import *
def run(cell):
    time.sleep(0.4)
    return {"y": 1.0}
study = Study("patient", run=run, metrics={"y": "min"}, scales={"laptop": [
    Part("p", ["a"], seeds=6)]})
"""


@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_stops_a_run_unless_nohup_said_otherwise(ignored):
    Path("patient.py").write_text(PATIENT)
    code = (
        "import signal, sys; from fallline.cli import main;"
        f"signal.signal(signal.SIGHUP, signal.SIG_{'IGN' if ignored else 'DFL'});"
        "sys.argv = ['fallline', 'run', 'patient.py']; main()"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if "to run" in line:
            break
    run.send_signal(signal.SIGHUP)
    _, err = run.communicate(timeout=120)
    assert (run.returncode, "stopped" in err) == ((0, False) if ignored else (2, True))


QUITTERS = """
import sys
from fallline.study import *
def run(cell):
    return {"y": 1.0}
def note(r):
    sys.exit("bye")
study = Study("quitters", run=run, metrics={"y": "min"}, notes=[note],
    bars=[lambda r: at_most(1.0, 0.5)], scales={"laptop": [Part("p", ["a"], seeds=1)]})
"""


def test_a_note_that_exits_does_not_hide_the_verdict(capsys):
    Path("quitters.py").write_text(QUITTERS)
    assert run_command(["run", "quitters.py"]) == 1
    assert "could not be computed: SystemExit: bye" in capsys.readouterr().out


def test_a_file_that_changes_the_folder_leaves_ours(barred, capsys):
    path = Path("wanders.py")
    path.write_text("import os\nos.chdir('/')\n" + QUITTERS)
    assert run_command(["run", "wanders.py", "--store", "mine.db"]) == 1
    assert Path("mine.db").is_file()
    assert Path("mine.html").is_file()


def test_no_arms_are_not_all_arms(capsys):
    Path("task.py").write_text("def task(seed): ...")
    assert run_command(["compare", "task.py", "--arms", ""]) == 3
    assert "arms: none given" in complaint(capsys)
