"""`fallline compare`: a user's task in, a winner with its interval out, and no lost nights."""

import subprocess
import sys
from pathlib import Path

import pytest

import fallline
from fallline import comparison
from fallline.cli import run_command
from fallline.study import StudyError
from fallline.study.driver import load

TASK = """
import torch
from torch import nn
from fallline.tasks import TrainingTask

def task(seed):
    torch.manual_seed(seed)
    x = torch.randn(64, 4)
    y = x @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]])
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return TrainingTask.from_torch(
        model, [(x, y)], nn.functional.mse_loss, validation=[(x, y)], steps=20
    )
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(TASK)
    return path


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    (folder / "mine.py").write_text(TASK)
    results = fallline.compare(
        folder / "mine.py",
        arms=["adamw", "sgd", "muonmax-momo"],
        lr=[1e-5, 1e-2, 1e6],
        seeds=3,
        jobs=2,
        store=folder / "race.db",
    )
    return folder, results


def test_every_arm_gets_the_same_effort(race):
    _, results = race
    assert len(results.placed) == 27
    assert results.complete
    counts = results.frame.groupby(["arm", "lr"]).size()
    assert set(counts) == {3}


def test_the_winner_is_named_with_an_interval_and_did_not_choose_itself(race):
    _, results = race
    sentence = comparison.winner(results)
    assert " leads with val_loss " in sentence  # three seeds of this task do not settle it
    assert "95 % interval" in sentence
    tuned = results.tuned("val_loss")
    best = comparison.best_arm(tuned)
    assert sentence.startswith(best)
    assert tuned.median[best] == min(tuned.median.values())


def test_a_diverged_run_counts_as_an_untrained_model(race):
    _, results = race
    frame = results.frame
    lost = frame[(frame["arm"] == "sgd") & (frame["lr"] == 1e6)]
    assert set(lost["outcome"]) == {"diverged"}
    untrained = results.study.diverged["val_loss"]
    assert results.worst("val_loss", over="lr")["sgd"] == pytest.approx(untrained)


def test_costs_are_measured(race):
    _, results = race
    assert "ms" in comparison.cost_note(results)
    state = results.frame.groupby("arm")["state_mib"].median()
    # AdamW keeps two averages of everything, momentum SGD one.
    assert state["adamw"] == pytest.approx(2 * state["sgd"], rel=0.1)


def test_same_seed_same_result(race):
    folder, results = race
    again = fallline.compare(
        folder / "mine.py", arms=["muonmax-momo"], lr=[1e-2], seeds=1, store=folder / "again.db"
    )
    (record,) = again.records.values()
    (key,) = again.records
    assert record.metrics["val_loss"] == results.records[key].metrics["val_loss"]


def test_an_edited_task_reuses_nothing(file):
    options = {"arms": ["sgd"], "lr": [1e-2], "seeds": 1}
    first = fallline.compare(file, **options)
    file.write_text(TASK + "\n# another problem\n")
    second = fallline.compare(file, **options)
    assert not first.records.keys() & {p.cell.key for p in second.placed}


def test_an_unfinished_race_reports_what_is_paired(file):
    options = {"arms": ["sgd", "adamw"], "lr": [1e-3, 1e-2]}
    fallline.compare(file, seeds=3, **options)
    results = fallline.compare(file, seeds=50, minutes=1e-9, **options)  # no time for more
    assert not results.complete
    assert results.whole_seeds == [0, 1, 2]
    assert "leads" in comparison.winner(results)


def test_the_command_and_its_report(file, capsys):
    arguments = ["compare", str(file), "--arms", "sgd,adamw", "--lr", "1e-3,1e-2", "--seeds", "3"]
    assert run_command(arguments) == 0
    out = capsys.readouterr().out
    assert "leads" in out
    page = Path("fallline-results/compare-mine.html")
    assert "leads" in page.read_text()
    page.unlink()
    assert run_command(["report", str(file)]) == 0
    assert "leads" in page.read_text()
    assert run_command([*arguments, "--dry-run"]) == 0
    assert "12 cells, 12 stored, 0 to run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("def task(seed):", "def task(seed:"), "mine.py, line"),
        (("def task(", "def tasks("), "defines no function `task`"),
        (("    return Training", "    return 5\n    Training"), "task(0) returned int"),
        (("nn.functional.mse_loss,", "lambda a, b: (a - b).mean() * float('nan'),"), "loss is nan"),
        (
            ("nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))", "nn.Tanh()"),
            "no trainable",
        ),
        (("nn.functional.mse_loss,", "lambda a, b: a - b,"), "scalar tensor"),
        (("model, [(x, y)]", "model, []"), "steps must be an integer >= 1, got 0|is empty"),
        (("x @ torch.tensor", "x @ undefined"), "NameError"),
        (("nn.Linear(4, 8)", "nn.Linear(5, 8)"), "mat1 and mat2"),
    ],
)
def test_a_broken_task_is_one_line_before_anything_runs(file, change, message, capsys):
    source = TASK.replace(*change)
    assert source != TASK
    file.write_text(source)
    assert run_command(["compare", str(file)]) == 3
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert any(part in lines[0] for part in message.split("|"))
    assert not Path("fallline-results").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "is not a file"),
        (["mine.py", "--arms", "adamw,adamx"], "arms: adamx; choose from"),
        (["mine.py", "--lr", "fast"], "neither LOW:HIGH:COUNT"),
        (["mine.py", "--lr", "1e-1:1e-3:5"], "neither LOW:HIGH:COUNT"),
        (["mine.py", "--lr=-0.1,0.1"], "lr must be finite numbers > 0"),
    ],
)
def test_bad_arguments_are_one_line(file, arguments, message, capsys):
    assert run_command(["compare", *arguments]) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_a_function_works_if_it_lives_in_a_file(file):
    from fallline.study.origin import load_file

    results = fallline.compare(load_file(file).task, arms=["sgd"], lr=[1e-2], seeds=1)
    assert results.complete
    with pytest.raises(StudyError, match="%%writefile"):
        fallline.compare(lambda seed: None)


def test_a_script_may_call_compare_on_its_own_task(file, tmp_path):
    file.write_text(
        TASK + "\nif __name__ == '__main__':\n    import fallline\n"
        "    r = fallline.compare(task, arms=['sgd'], lr=[0.01], seeds=1)\n"
        "    print('COMPLETE', r.complete)\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=tmp_path)
    assert "COMPLETE True" in done.stdout, done.stderr


def test_results_can_be_loaded_again(file):
    fallline.compare(file, arms=["sgd"], lr=[1e-3, 1e-2], seeds=2)
    study = comparison.study_of_store(file)
    assert load(study, "all").complete
    file.write_text(TASK + "\n")
    with pytest.raises(StudyError, match="was edited since"):
        comparison.study_of_store(file)


LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset
from fallline.tasks import TrainingTask

class Rows(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.full((2,), float(i)), torch.ones(1)

def task(seed):
    model = torch.nn.Linear(2, 1)
    loader = DataLoader(Rows(), batch_size=4, num_workers=1)
    loss = torch.nn.functional.mse_loss
    return TrainingTask.from_torch(model, loader, loss, validation=loader, steps=2)
"""


def test_a_loader_may_have_workers(tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    results = fallline.compare(
        tmp_path / "loader.py", arms=["sgd"], lr=[1e-3], seeds=1, store=tmp_path / "s.db"
    )
    assert results.complete, [row.record.error for row in results.rows]


def test_an_edited_import_is_another_problem(tmp_path):
    (tmp_path / "config.py").write_text("WIDTH = 4")
    (tmp_path / "mine.py").write_text("from config import WIDTH\n" + TASK)
    before = comparison._fixed(tmp_path / "mine.py")
    (tmp_path / "config.py").write_text("WIDTH = 64")
    assert comparison._fixed(tmp_path / "mine.py") != before
