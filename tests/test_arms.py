import copy
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from fallline import arms
from fallline.tasks import digits, english_bytes, markov_mixture

TASKS = {"digits": digits, "english_bytes": english_bytes, "markov_mixture": markov_mixture}


@pytest.mark.parametrize("arm", arms.names())
@pytest.mark.parametrize("task", TASKS)
def test_every_arm_takes_steps_on_every_task(arm, task):
    problem = TASKS[task](0, steps=3)
    before = [p.detach().clone() for p in problem.model.parameters()]
    optimizer = arms.build(arm, problem.model, lr=1e-3)
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert [step for step, _ in problem.run(optimizer)] == [1, 2, 3]
    assert not problem.diverged
    moved = [not torch.equal(a, b) for a, b in zip(before, problem.model.parameters())]
    assert all(moved)


def test_the_arms_of_the_claims_are_there():
    wanted = {"adamw", "sgd", "torch-muon", "muon-adam", "scion", "polargrad", "muonmax"}
    assert wanted | {"muon-adam-momo", "muonmax-momo"} <= set(arms.names())


def test_an_unknown_arm_lists_what_exists():
    with pytest.raises(ValueError, match=r"no arm 'adam'; choose one of adamw, .*muonmax-momo"):
        arms.build("adam", nn.Linear(2, 2), lr=0.1)


def test_options_replace_an_arms_own_settings():
    model = nn.Linear(2, 2)
    assert arms.build("adamw", model, 0.1, weight_decay=0.0).param_groups[0]["weight_decay"] == 0
    assert arms.build("adamw", model, 0.1).param_groups[0]["betas"] == (0.95, 0.95)


def test_listing_needs_no_torch():
    code = "import sys; from fallline import arms; arms.names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_torch_muon_splits_the_model_and_one_scheduler_drives_both_halves():
    model = markov_mixture(0).model
    optimizer = arms.build("torch-muon", model, lr=0.1)
    muon, adamw = optimizer.halves
    assert isinstance(muon, torch.optim.Muon)
    assert isinstance(adamw, torch.optim.AdamW)
    counts = [sum(len(group["params"]) for group in half.param_groups) for half in (muon, adamw)]
    assert counts == [8, len(list(model.parameters())) - 8]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    optimizer.step()
    scheduler.step()
    assert [half.param_groups[0]["lr"] for half in (muon, adamw)] == [0.05, 0.05]


def test_torch_muon_resumes_bitwise():
    def run(task, optimizer, start, stop):
        for batch in list(task.batches)[start:stop]:
            optimizer.zero_grad()
            task.loss(task.model, batch).backward()
            optimizer.step()

    whole = markov_mixture(0)
    run(whole, arms.build("torch-muon", whole.model, lr=0.01), 0, 4)

    first = markov_mixture(0)
    optimizer = arms.build("torch-muon", first.model, lr=0.01)
    run(first, optimizer, 0, 2)
    resumed = markov_mixture(1)
    resumed.model.load_state_dict(first.model.state_dict())
    later = arms.build("torch-muon", resumed.model, lr=0.5)
    later.load_state_dict(optimizer.state_dict())
    assert later.param_groups[0]["lr"] == 0.01
    assert len(later.state) == len(list(resumed.model.parameters()))
    assert later.param_groups[0] is later.halves[0].param_groups[0]
    resumed.batches = first.batches
    run(resumed, later, 2, 4)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_torch_muon_continue_alike(clone):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = arms.build("torch-muon", model, lr=0.1)

    def train(model, optimizer):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()

    train(model, optimizer)
    twin, copied = clone((model, optimizer))
    copied.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] = 0.05
    train(model, optimizer)
    train(twin, copied)
    for a, b in zip(model.parameters(), twin.parameters()):
        assert torch.equal(a, b)


def test_torch_muon_takes_no_further_group():
    optimizer = arms.build("torch-muon", nn.Linear(2, 2), lr=0.1)
    with pytest.raises(ValueError, match="follow from its model"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})


@pytest.mark.parametrize("model", [nn.Conv2d(1, 2, 3), nn.LayerNorm(4)])
def test_torch_muon_leaves_everything_to_adamw_where_there_is_no_hidden_matrix(model):
    (half,) = arms.build("torch-muon", model, lr=0.1).halves
    assert isinstance(half, torch.optim.AdamW)
