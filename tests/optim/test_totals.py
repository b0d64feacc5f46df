"""The state of the optimizer as a whole: where it lives, and what it survives."""

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.nn import Parameter

from fallline.optim import Momo, MomoAdam, MuonAdam, MuonMaxMomo, SignGD


def frozen_first():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    return model


def fit(model, opt, steps):
    x = torch.linspace(-1, 1, 32).view(8, 4)
    for _ in range(steps):
        opt.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        opt.step(loss=loss)
    return float(opt.last.eta)


@pytest.mark.parametrize("full", [True, False])
def test_torchs_checkpoint_resumes_behind_a_frozen_parameter(full):
    options = StateDictOptions(full_state_dict=full)
    model = frozen_first()
    opt = MuonMaxMomo(model.named_parameters(), lr=0.5)
    fit(model, opt, 4)
    saved = copy.deepcopy(get_optimizer_state_dict(model, opt, options=options))
    again = frozen_first()
    again.load_state_dict(model.state_dict())
    resumed = MuonMaxMomo(again.named_parameters(), lr=0.5)
    resumed.set_loss(0.0)
    set_optimizer_state_dict(again, resumed, saved, options=options)
    assert fit(model, opt, 3) == fit(again, resumed, 3)
    for a, b in zip(model.parameters(), again.parameters()):
        assert torch.equal(a, b)


def test_totals_move_on_when_their_parameter_is_frozen():
    model = frozen_first()
    opt = MuonMaxMomo(model.named_parameters(), lr=0.5)
    fit(model, opt, 3)
    twin, alike = copy.deepcopy((model, opt))
    for p in (model[2].weight, twin[2].weight):
        p.requires_grad_(False)
    assert "loss_avg" in opt.state[model[2].weight]
    assert fit(model, opt, 2) == fit(twin, alike, 2)
    assert "loss_avg" not in opt.state[model[2].weight]
    assert opt.state[model[4].weight]["truncated_steps"] == 5


@pytest.mark.parametrize("first", [torch.float32, torch.float64])
@pytest.mark.parametrize("init", ["first", "corrected"])
def test_layers_of_two_dtypes_may_come_and_go(first, init):
    second = torch.float64 if first == torch.float32 else torch.float32
    a, b = (Parameter(torch.ones(3, dtype=dtype)) for dtype in (first, second))
    opt = Momo([a, b], lr=0.1, momentum_init=init, f_star="auto")
    for present in ((a,), (a, b), (b,), (a, b)):
        opt.zero_grad()
        for p in present:
            p.grad = torch.ones_like(p)
        opt.step(loss=3.0)
        assert opt.last.F.dtype == torch.float64
    assert a.isfinite().all()
    assert b.isfinite().all()


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_a_checkpoint_of_another_precision_loads(dtypes):
    saved, target = (Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes)
    opt, resumed = Momo([saved], lr=0.1), Momo([target], lr=0.1)
    saved.grad = torch.ones_like(saved)
    opt.step(loss=3.0)
    resumed.load_state_dict(opt.state_dict())
    target.grad = torch.ones_like(target)
    resumed.step(loss=3.0)
    assert float(resumed.last.F) > 2.5


def test_skipped_steps_are_counted_without_any_other_state():
    w = Parameter(torch.ones(2))
    opt = Momo([w], on_nonfinite="skip")
    assert opt.skipped_steps == 0
    assert not opt.state
    w.grad = torch.full((2,), torch.nan)
    opt.step(loss=1.0)
    assert opt.skipped_steps == 1
    assert opt.state[w] == {"skipped_steps": 1}


def test_corrected_averages_must_have_been_counted():
    w = Parameter(torch.zeros(2))
    opt, resumed = SignGD([w]), SignGD([w], momentum_init="corrected")
    w.grad = torch.ones(2)
    opt.step()
    resumed.load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match="saved with another momentum_init"):
        resumed.step()


@pytest.mark.parametrize("lrs", [(torch.tensor(0.1), torch.tensor(0.5)), (0.1, torch.tensor(0.5))])
def test_unequal_rates_are_refused_as_tensors_too(lrs):
    groups = [{"params": [Parameter(torch.zeros(2))], "kind": "other", "lr": lr} for lr in lrs]
    with pytest.raises(ValueError, match="use lr_scale"):
        MuonAdam(groups)


@pytest.mark.parametrize("fail", [None, torch.nan])
def test_corrected_counters_advance_with_steps_only(fail):
    w = Parameter(torch.ones(2))
    opt = MomoAdam([w], lr=0.1, on_nonfinite="skip")
    for value in (1.0, fail, 2.0):
        if value is not None:
            w.grad = torch.full((2,), value)
            opt.step(loss=1.0)
    assert opt.state[w]["step"] == 2
    assert opt.state[w]["truncated_steps"] == 2


def test_a_copy_shares_the_process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        w = Parameter(torch.ones(2))
        opt = Momo([w], lr=0.1, process_group=dist.group.WORLD)
        w.grad = torch.ones(2)
        opt.step(loss=1.0)
        v, twin = copy.deepcopy((w, opt))
        w.grad = v.grad = torch.ones(2)
        opt.step(loss=1.0)
        twin.step(loss=1.0)
        assert torch.equal(w, v)
        with pytest.raises(TypeError, match="ProcessGroup"):
            pickle.dumps(opt)
    finally:
        dist.destroy_process_group()
