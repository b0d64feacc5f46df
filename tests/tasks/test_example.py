import importlib.util
from pathlib import Path

import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_task.py"


def load_task():
    spec = importlib.util.spec_from_file_location("digits_task", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.task


def test_the_example_trains_and_its_seed_decides():
    def score(seed):
        torch.manual_seed(7)
        task = load_task()(seed)
        list(task.run(torch.optim.AdamW(task.model.parameters(), lr=3e-3)))
        return task.score()["val_loss"]

    assert score(0) == score(0) < 0.3
    assert score(0) != score(1)
