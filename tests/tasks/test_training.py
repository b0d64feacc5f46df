import math

import pytest
import torch
from torch import nn

from fallline.tasks import TrainingTask, constant_then_linear


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([3.0, -2.0]))

    def forward(self, x):
        return x @ self.w


def make(**changes):
    model = changes.pop("model", None) or Linear()
    given = {
        "model": model,
        "loss": lambda model, batch: model(batch).square().mean(),
        "batches": [torch.eye(2), 2 * torch.eye(2)],
        "evaluate": lambda model: {"val_loss": model(torch.eye(2)).square().mean().item()},
        "steps": 5,
    }
    return TrainingTask(**{**given, **changes})


def sgd(task, lr=0.1):
    return torch.optim.SGD(task.model.parameters(), lr=lr)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": lambda x: x}, TypeError, "model must be a torch.nn.Module"),
        ({"model": nn.ReLU()}, ValueError, "model ReLU has no trainable parameters"),
        ({"loss": 3.0}, TypeError, "loss must be a function"),
        ({"evaluate": None}, TypeError, "evaluate must be a function"),
        ({"batches": 7}, TypeError, "batches must be iterable"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"steps": 2.5}, ValueError, "steps must be an integer >= 1, got 2.5"),
        ({"metrics": {}}, ValueError, "metrics must map"),
        ({"metrics": {"val_loss": "low"}}, ValueError, "'min' or 'max'"),
    ],
)
def test_bad_arguments_are_named_in_one_line(changes, error, message):
    with pytest.raises(error, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "loss", [lambda model, x: model(x), lambda model, x: model(x).sum().item()]
)
def test_loss_must_be_a_scalar_tensor(loss):
    task = make(loss=loss)
    with pytest.raises(ValueError, match="loss must return a scalar tensor"):
        list(task.run(sgd(task)))


def test_batches_are_cycled_when_steps_exceed_their_number():
    seen = []

    def loss(model, batch):
        seen.append(batch[0, 0].item())
        return model(batch).square().mean()

    task = make(loss=loss)
    assert [step for step, _ in task.run(sgd(task))] == [1, 2, 3, 4, 5]
    assert seen == [1, 2, 1, 2, 1]


def test_a_spent_generator_is_refused_rather_than_cut_short():
    task = make(batches=(torch.eye(2) for _ in range(2)))
    with pytest.raises(ValueError, match="batches yielded nothing"):
        list(task.run(sgd(task)))


def test_learning_rate_is_constant_for_40_percent_then_falls_to_a_tenth():
    task = make(steps=10, batches=[torch.eye(2)])
    optimizer = sgd(task, lr=0.1)
    rates = [optimizer.param_groups[0]["lr"] for _ in task.run(optimizer)]
    assert rates == pytest.approx([0.1] * 5 + [0.085, 0.07, 0.055, 0.04, 0.025])
    assert constant_then_linear(1.0) == pytest.approx(0.1)


def test_first_step_is_clipped_sgd():
    # Gradient of mean((w1^2, w2^2)) is w = (3, -2); clipped to norm 1 it is w / sqrt(13).
    task = make(steps=1)
    optimizer = sgd(task, lr=0.1)
    assert [loss for _, loss in task.run(optimizer)] == pytest.approx([6.5])
    w = torch.tensor([3.0, -2.0])
    torch.testing.assert_close(task.model.w.data, w - 0.1 * w / 13**0.5)


def test_clip_none_leaves_the_gradient():
    task = make(steps=1)
    list(task.run(sgd(task, lr=0.1), clip=None))
    torch.testing.assert_close(task.model.w.data, 0.9 * torch.tensor([3.0, -2.0]))


def test_loss_aware_optimizers_are_told_the_loss():
    class Told(torch.optim.SGD):
        def set_loss(self, loss):
            self.losses = [*getattr(self, "losses", []), float(loss)]

    task = make(steps=3)
    optimizer = Told(task.model.parameters(), lr=0.1)
    assert [loss for _, loss in task.run(optimizer)] == optimizer.losses


def test_a_loss_that_is_not_finite_ends_the_run_as_nan_metrics():
    calls = []

    def loss(model, batch):
        calls.append(1)
        return model(batch).square().mean() * (math.inf if len(calls) == 3 else 1.0)

    task = make(loss=loss)
    losses = [loss for _, loss in task.run(sgd(task))]
    assert len(losses) == 3
    assert math.isnan(losses[-1])
    assert task.diverged
    assert math.isnan(task.score()["val_loss"])


def test_a_floating_point_error_of_the_optimizer_is_divergence():
    class Breaks(torch.optim.SGD):
        def step(self, closure=None):
            raise FloatingPointError("no descent direction")

    task = make()
    assert len(list(task.run(Breaks(task.model.parameters(), lr=0.1)))) == 1
    assert task.diverged


def test_score_evaluates_without_dropout_and_restores_the_mode():
    model = Linear()
    task = make(model=model, evaluate=lambda model: {"val_loss": float(model.training)})
    model.train()
    assert task.score() == {"val_loss": 0.0}
    assert model.training


def test_score_refuses_undeclared_metrics():
    task = make(evaluate=lambda model: {"accuracy": 1.0})
    with pytest.raises(ValueError, match="evaluate returned accuracy, but metrics declares val_"):
        task.score()


def test_from_torch_trains_for_one_pass_and_weighs_uneven_batches():
    x, y = torch.ones(3, 1), torch.tensor([[1.0], [1.0], [4.0]])
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    pairs = [(x[:2], y[:2]), (x[2:], y[2:])]
    task = TrainingTask.from_torch(model, pairs, nn.functional.mse_loss, validation=pairs)
    assert task.steps == 2
    assert task.score() == {"val_loss": pytest.approx((1 + 1 + 16) / 3)}


def test_from_torch_asks_for_steps_when_the_loader_has_no_length():
    with pytest.raises(ValueError, match="give steps="):
        TrainingTask.from_torch(nn.Linear(1, 1), iter([]), nn.functional.mse_loss, validation=[])
