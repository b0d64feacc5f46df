"""What every optimizer of the package promises; a new one joins by one line of `REGISTRY`."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.nn import Parameter

from fallline import FalllineWarning
from fallline.convex import LSmooth
from fallline.optim import (
    GeneralizedSmoothAGD,
    Momo,
    MomoAdam,
    MuonAdam,
    MuonAdamMomo,
    MuonMax,
    MuonMaxMomo,
    PolarGrad,
    Scion,
    SignGD,
)


@dataclass(frozen=True)
class Entry:
    """An optimizer and its traits.

    `needs_loss`: a step without a loss is an error. `closure`: whether a step can take one, or
    can take nothing else. `per_group_options`: what a group may set, with a value that is not the
    default. `stochastic`: draws random numbers, from the global generator or a seed. `compiles`:
    `torch.compile` of `step` works. `foreach`: has that option.
    """

    name: str
    make: Callable[..., torch.optim.Optimizer]
    options: Mapping[str, Any] = field(default_factory=dict)
    needs_loss: bool = False
    closure: Literal["optional", "required"] = "optional"
    per_group_options: Mapping[str, Any] = field(default_factory=dict)
    stochastic: bool = False
    compiles: bool = True
    foreach: bool = True

    def build(self, params, **more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FalllineWarning)  # plain parameters: routed by shape
            return self.make(params, **{**self.options, **more})


MUON_GROUP = {"weight_decay": 0.5, "lr_scale": 2.0}
REGISTRY = [
    Entry(
        "generalized-smooth-agd", GeneralizedSmoothAGD, {"smoothness": LSmooth(20.0)}, foreach=False
    ),
    Entry("momo", Momo, {"lr": 0.1}, needs_loss=True, per_group_options=MUON_GROUP),
    Entry("momo-adam", MomoAdam, {"lr": 0.01}, needs_loss=True, per_group_options=MUON_GROUP),
    Entry("muon-adam", MuonAdam, {"lr": 0.01}, per_group_options=MUON_GROUP),
    Entry(
        "muon-adam-momo", MuonAdamMomo, {"lr": 0.01}, needs_loss=True, per_group_options=MUON_GROUP
    ),
    Entry("muonmax", MuonMax, {"lr": 0.01}, per_group_options=MUON_GROUP),
    Entry(
        "muonmax-momo", MuonMaxMomo, {"lr": 0.01}, needs_loss=True, per_group_options=MUON_GROUP
    ),
    Entry(
        "muonmax-momo-stale", MuonMaxMomo, {"lr": 0.01, "nuclear": "stale", "f_star": "auto"},
        needs_loss=True, per_group_options=MUON_GROUP,
    ),
    Entry("polargrad", PolarGrad, {"lr": 0.01}, per_group_options=MUON_GROUP),
    Entry("scion", Scion, {"lr": 0.01}, per_group_options=MUON_GROUP),
    Entry("sign-gd", SignGD, {"lr": 0.01}, per_group_options=MUON_GROUP),
]  # fmt: skip

every = pytest.mark.parametrize("entry", REGISTRY, ids=lambda e: e.name)


def some(keep):
    entries = [entry for entry in REGISTRY if keep(entry)]
    return pytest.mark.parametrize("entry", entries, ids=lambda e: e.name)


def make_model(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
    return model.to(dtype)


def make_data(dtype=torch.float32):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(32, 6, dtype=torch.float64, generator=g)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2]], dim=1)
    return x.to(dtype), y.to(dtype)


def train(entry, opt, model, steps, *, how="natural", start=0, scheduler=None):
    """Take `steps` steps from step `start`; batches and random numbers depend on the step."""
    x, y = make_data(next(model.parameters()).dtype)
    losses = []
    for t in range(start, start + steps):
        torch.manual_seed(1000 + t)
        rows = slice(8 * (t % 4), 8 * (t % 4) + 8)

        def closure(rows=rows):
            opt.zero_grad()
            loss = (model(x[rows]) - y[rows]).square().mean()
            if loss.requires_grad:
                loss.backward()
            return loss

        if how == "closure" or entry.closure == "required":
            loss = opt.step(closure)
        else:
            loss = closure()
            if how == "set_loss":
                opt.set_loss(loss)
                opt.step()
            elif entry.needs_loss:
                opt.step(loss=loss)
            else:
                opt.step()
        losses.append(float(loss.detach()))
        if scheduler is not None:
            scheduler.step()
    return losses


def values(model):
    return [p.detach().clone() for p in model.parameters()]


def assert_same(a, b):
    for left, right in zip(a, b, strict=True):
        assert torch.equal(left, right)


def assert_differ(a, b):
    assert any(not torch.equal(left, right) for left, right in zip(a, b, strict=True))


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_an_optimizer_that_lowers_the_loss(entry, dtype):
    model = make_model(dtype)
    opt = entry.build(model.named_parameters())
    assert isinstance(opt, torch.optim.Optimizer)
    assert type(opt).__name__ in repr(opt)
    losses = train(entry, opt, model, 40)
    assert sum(losses[-4:]) < sum(losses[:4])


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_checkpoint_resumes_bitwise(entry, dtype):
    model = make_model(dtype)
    opt = entry.build(model.named_parameters())
    train(entry, opt, model, 3)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = make_model(dtype)
    resumed = entry.build(again.named_parameters())
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["opt"])
    assert_same_state(opt.state_dict()["state"], resumed.state_dict()["state"])
    train(entry, opt, model, 4, start=3)
    train(entry, resumed, again, 4, start=3)
    assert_same(values(model), values(again))


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].keys() == b[key].keys()
        for name, value in a[key].items():
            if isinstance(value, torch.Tensor):
                assert value.dtype == b[key][name].dtype, name
                assert torch.equal(value, b[key][name]), name
            else:
                assert value == b[key][name]


@some(lambda e: e.closure != "required")
@pytest.mark.parametrize("how", ["closure", "set_loss"])
def test_every_way_to_give_the_loss_is_the_same_step(entry, how):
    if how == "set_loss" and not hasattr(entry.make, "set_loss"):
        pytest.skip("this optimizer needs no loss")
    one, other = make_model(), make_model()
    first = train(entry, entry.build(one.named_parameters()), one, 5)
    second = train(entry, entry.build(other.named_parameters()), other, 5, how=how)
    assert first == second
    assert_same(values(one), values(other))


@some(lambda e: e.needs_loss and e.closure != "required")
def test_a_missing_loss_is_a_value_error(entry):
    opt = entry.build([Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="needs the loss"):
        opt.step()


@every
def test_plain_parameters_and_a_single_group_work(entry):
    for params in (lambda m: m.parameters(), lambda m: [{"params": list(m.parameters())}]):
        model = make_model()
        before = values(model)
        train(entry, entry.build(params(model)), model, 1)
        assert_differ(before, values(model))


@every
def test_options_of_a_group_act_on_that_group_only(entry):
    def run(**group_options):
        model = make_model()
        named = list(model.named_parameters())
        groups = [{"params": named[:2], **group_options}, {"params": named[2:]}]
        opt = entry.build(groups)
        train(entry, opt, model, 1)
        return values(model)

    plain = run()
    for name, value in entry.per_group_options.items():
        assert_differ(plain[:2], run(**{name: value})[:2])
    if "weight_decay" in entry.per_group_options:  # the decay of one group is no other's business
        assert_same(plain[2:], run(weight_decay=entry.per_group_options["weight_decay"])[2:])


@some(lambda e: e.closure != "required")
def test_parameters_without_a_gradient_stay(entry):
    model = make_model()
    opt = entry.build(model.named_parameters())
    x, y = make_data()
    before = values(model)
    for t in range(4):
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        if t < 2:
            model[0].weight.grad = None
        opt.step(**({"loss": loss} if entry.needs_loss else {}))
        assert torch.equal(model[0].weight, before[0]) == (t < 2)
    assert all(p.isfinite().all() for p in model.parameters())


@some(lambda e: e.closure != "required")
def test_a_step_without_any_gradient_does_nothing(entry):
    model = make_model()
    opt = entry.build(model.named_parameters())
    before = values(model)
    opt.step(**({"loss": 1.0} if entry.needs_loss else {}))
    assert_same(before, values(model))


@every
def test_frozen_parameters_stay(entry):
    model = make_model()
    model[2].weight.requires_grad_(False)
    opt = entry.build(model.named_parameters())
    before = values(model)
    train(entry, opt, model, 3)
    after = values(model)
    assert torch.equal(before[2], after[2])
    assert_differ(before, after)


@every
def test_learning_rate_schedulers_scale_the_step(entry):
    model = make_model()
    opt = entry.build(model.named_parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1.0 if t < 2 else 0.0)
    train(entry, opt, model, 2, scheduler=scheduler)
    before = values(model)
    train(entry, opt, model, 2, start=2, scheduler=scheduler)
    assert_same(before, values(model))
    opt = entry.build(model.named_parameters())
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    train(entry, opt, model, 4, scheduler=cosine)
    assert all(group["lr"] == pytest.approx(0, abs=1e-9) for group in opt.param_groups)


@some(lambda e: e.foreach)
def test_foreach_equals_the_loop(entry):
    one, other = make_model(), make_model()
    train(entry, entry.build(one.named_parameters(), foreach=True), one, 5)
    train(entry, entry.build(other.named_parameters(), foreach=False), other, 5)
    for a, b in zip(values(one), values(other)):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@every
def test_single_precision_follows_double(entry):
    single, double = make_model(), make_model(torch.float64)
    train(entry, entry.build(single.named_parameters()), single, 5)
    train(entry, entry.build(double.named_parameters()), double, 5)
    for a, b in zip(values(single), values(double)):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4)


@every
def test_complex_parameters_are_a_type_error(entry):
    p = Parameter(torch.zeros(2, 2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="complex"):
        entry.build([p])


@some(lambda e: e.closure != "required")
def test_sparse_gradients_are_a_type_error(entry):
    table = nn.Embedding(4, 3, sparse=True)
    opt = entry.build(table.named_parameters())
    before = values(table)
    loss = table(torch.tensor([1])).sum()
    loss.backward()
    with pytest.raises(TypeError, match="sparse"):
        opt.step(**({"loss": loss} if entry.needs_loss else {}))
    assert_same(before, values(table))


@every
@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"]
)
def test_copies_continue_alike(entry, clone):
    model = make_model()
    opt = entry.build(model.named_parameters())
    train(entry, opt, model, 3)
    again, copied = clone((model, opt))
    train(entry, opt, model, 3, start=3)
    train(entry, copied, again, 3, start=3)
    assert_same(values(model), values(again))


@every
def test_a_group_can_be_added_during_the_run(entry):
    model = make_model()
    named = list(model.named_parameters())
    opt = entry.build(named[:2])
    train(entry, opt, model, 2)
    before = values(model)
    opt.add_param_group({"params": named[2:]})
    train(entry, opt, model, 3, start=2)
    for old, new in zip(before, values(model)):
        assert new.isfinite().all()
        assert not torch.equal(old, new)
    duplicate = {"params": named[:1]}
    with pytest.raises(ValueError, match="more than one parameter group"):
        opt.add_param_group(duplicate)


@some(lambda e: e.closure != "required")
def test_zero_size_and_scalar_parameters(entry):
    params = [Parameter(torch.zeros(s)) for s in [(0,), (0, 3), (3, 0), (), (1, 1), (2, 3)]]
    opt = entry.build(params)
    for _ in range(3):
        for p in params:
            p.grad = torch.ones_like(p)
        opt.step(**({"loss": 1.0} if entry.needs_loss else {}))
    assert all(p.isfinite().all() for p in params)
    assert params[3] != 0


@some(lambda e: e.closure != "required")
def test_the_memory_layout_has_no_effect(entry):
    def run(layout):
        torch.manual_seed(2)
        kernel, W = torch.randn(4, 3, 2, 2), torch.randn(5, 7)
        if layout == "strided":
            kernel, W = kernel.to(memory_format=torch.channels_last), W.T.contiguous().T
            assert not W.is_contiguous()
        params = [("kernel", Parameter(kernel)), ("W", Parameter(W))]
        opt = entry.build(params)
        for _ in range(3):
            loss = sum((p - 1).square().mean() for _, p in params)
            opt.zero_grad()
            loss.backward()
            opt.step(**({"loss": loss} if entry.needs_loss else {}))
        return [p.detach() for _, p in params]

    for a, b in zip(run("contiguous"), run("strided")):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@some(lambda e: e.closure != "required")
def test_a_gradient_scaler_changes_nothing(entry):
    one, other = make_model(), make_model()
    train(entry, entry.build(one.named_parameters()), one, 5)
    opt = entry.build(other.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    x, y = make_data()
    for t in range(5):
        torch.manual_seed(1000 + t)
        rows = slice(8 * (t % 4), 8 * (t % 4) + 8)
        opt.zero_grad()
        loss = (other(x[rows]) - y[rows]).square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt, **({"loss": loss} if entry.needs_loss else {}))
        scaler.update()
    for a, b in zip(values(one), values(other)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@some(lambda e: e.compiles and e.closure != "required")
def test_a_compiled_step_is_the_step(entry):
    """As in torch's own recipe: a compiled function that calls `step`, under a scheduler."""
    torch._dynamo.reset()
    x, y = make_data()

    def run(compiled):
        model = make_model()
        opt = entry.build(model.named_parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def step(loss):
            opt.step(**({"loss": loss} if entry.needs_loss else {}))

        if compiled:
            step = torch.compile(step, backend="eager")
        for t in range(6):
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            # The first step creates the state and the second the graph for it: then it is final.
            with torch._dynamo.config.patch(error_on_recompile=t >= 2):
                step(loss.detach())
            scheduler.step()
        return values(model)

    for a, b in zip(run(compiled=False), run(compiled=True)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@every
def test_step_hooks_are_called(entry):
    model, called = make_model(), []
    opt = entry.build(model.named_parameters())
    opt.register_step_pre_hook(lambda *_: called.append("before"))
    opt.register_step_post_hook(lambda *_: called.append("after"))
    train(entry, opt, model, 1)
    assert called == ["before", "after"]


@every
def test_the_same_seed_gives_the_same_run(entry):
    one, other = make_model(), make_model()
    for model in (one, other):
        train(entry, entry.build(model.named_parameters()), model, 4)
    assert_same(values(one), values(other))
