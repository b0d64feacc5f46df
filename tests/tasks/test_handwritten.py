import torch

from fallline.tasks import digits


def train(seed, steps=60):
    task = digits(seed, steps=steps)
    list(task.run(torch.optim.AdamW(task.model.parameters(), lr=3e-3)))
    return task.score()


def test_it_learns_and_the_seed_decides():
    score = train(0)
    assert score["accuracy"] > 0.85
    assert score == train(0)
    assert score != train(1)


def test_the_validation_split_is_the_same_for_every_seed():
    a, b = digits(0), digits(1)
    assert a.evaluate(a.model) == b.evaluate(a.model)


def test_metrics_say_which_way_is_better():
    assert digits(0).metrics == {"val_loss": "min", "accuracy": "max"}
