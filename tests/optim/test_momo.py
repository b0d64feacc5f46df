"""Truncation and lower bounds: the peer package, missing gradients, the estimate."""

import momo
import pytest
import torch
from torch.nn import Parameter

from fallline.optim import Momo, MomoAdam, MuonAdamMomo, MuonMaxMomo, NonEuclidean
from fallline.optim._momo import truncated_step_size


def least_squares(seed=0):
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(20, 5, dtype=torch.float64, generator=g)
    return A, A @ torch.randn(5, dtype=torch.float64, generator=g)


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_momo_equals_the_momo_package(beta):
    A, b = least_squares()
    ours, theirs = (Parameter(torch.zeros(5, dtype=torch.float64)) for _ in range(2))
    opt = Momo([ours], lr=1.0, beta=beta, weight_decay=0.0)
    peer = momo.Momo([theirs], lr=1.0, beta=beta, weight_decay=0.0, bias_correction=False)
    trace = []
    for _ in range(20):
        losses = []
        for w in (ours, theirs):
            w.grad = None
            loss = (A @ w - b).square().mean()
            loss.backward()
            losses.append(loss.detach())
        opt.step(loss=losses[0])
        peer.step(loss=losses[1])
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
        trace.append(float(losses[0]))
    assert min(trace) < trace[0] / 10


@pytest.fixture
def double_by_default():
    """The package keeps <g, w> in torch's default precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("lr", [0.01, 1.0])
@pytest.mark.parametrize("split", [False, True])
def test_momo_adam_equals_the_momo_package(lr, split, double_by_default):
    A, b = least_squares()
    start = torch.linspace(-1, 1, 5, dtype=torch.float64)
    parts = [2, 3] if split else [5]
    ours, theirs = ([Parameter(part.clone()) for part in start.split(parts)] for _ in range(2))
    opt = MomoAdam(ours, lr=lr, beta=0.9, beta2=0.999, weight_decay=0.0)
    peer = momo.MomoAdam(theirs, lr=lr, betas=(0.9, 0.999), weight_decay=0.0)
    trace, truncated = [], []
    for _ in range(40):
        losses = []
        for w in (ours, theirs):
            for p in w:
                p.grad = None
            loss = (A @ torch.cat(list(w)) - b).square().mean()
            loss.backward()
            losses.append(loss.detach())
        opt.step(loss=losses[0])
        peer.step(loss=losses[1])
        torch.testing.assert_close(torch.cat(ours), torch.cat(theirs), rtol=1e-10, atol=1e-12)
        trace.append(float(losses[0]))
        truncated.append(bool(opt.last.truncated))
    assert min(trace) < trace[0] / 2 or lr < 1.0
    assert any(truncated) == (lr == 1.0)


@pytest.mark.parametrize("constrained", [True, False])
def test_step_size_table(constrained):
    def size(F, G, lr=0.1, f_star=1.0):
        values = (torch.tensor(x, dtype=torch.float64) for x in (lr, F, f_star, G))
        return float(truncated_step_size(*values, constrained=constrained))

    assert size(F=3.0, G=100.0) == pytest.approx(2 / 100 if constrained else 2 / 100**2)
    assert size(F=3.0, G=1.0) == 0.1  # the cap
    assert size(F=0.5, G=1.0) == 0.0  # below the bound: never upwards
    assert size(F=3.0, G=0.0) == size(F=1.0, G=0.0) == 0.1
    assert size(F=3.0, G=1e-200) == 0.1  # G^2 underflows


class Averages:
    """A layer's averages of ``g`` and ``<g, w>``, over the steps at which it has a gradient."""

    def __init__(self, beta):
        self.beta, self.m, self.gw = beta, None, None

    def add(self, g, w):
        gw = g @ w
        self.m = g if self.m is None else self.beta * self.m + (1 - self.beta) * g
        self.gw = gw if self.gw is None else self.beta * self.gw + (1 - self.beta) * gw

    def term(self, w):
        return 0.0 if self.m is None else float(self.m @ w - self.gw)


PRESENT = {
    "always": lambda t: True,
    "every-second": lambda t: t % 2 == 0,
    "every-third": lambda t: t % 3 == 0,
    "late": lambda t: t >= 3,
    "early": lambda t: t < 3,
}


@pytest.mark.parametrize("present", PRESENT.values(), ids=PRESENT)
@pytest.mark.parametrize("lr", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("make", [Momo, MuonMaxMomo, MuonAdamMomo])
def test_the_model_holds_when_a_layer_comes_and_goes(make, lr, present):
    """On a convex loss it stays below, with a layer that is there at some steps (an expert)."""
    beta = 0.9
    layers = [Parameter(torch.full((4,), 3.0, dtype=torch.float64)) for _ in range(2)]
    opt = make([{"params": layers, "kind": "other"}], lr=lr, beta=beta, weight_decay=0.0)
    averages, loss_avg = [Averages(beta), Averages(beta)], None
    for t in range(40):
        before = [p.detach().clone() for p in layers]
        loss = sum(float(w @ w) for w in before) / 2
        loss_avg = loss if loss_avg is None else beta * loss_avg + (1 - beta) * loss
        for p, w, average, here in zip(layers, before, averages, (True, present(t))):
            p.grad = w.clone() if here else None
            if here:
                average.add(w, w)
        kept = opt.state[layers[1]].get("exp_avg", torch.zeros(4)).clone()
        opt.step(loss=loss)
        F = loss_avg + sum(average.term(w) for average, w in zip(averages, before))
        assert float(opt.last.F) == pytest.approx(F, rel=1e-9, abs=1e-12)
        assert float(opt.last.F) <= loss * (1 + 1e-12)
        if not present(t) and t:
            assert torch.equal(layers[1].detach(), before[1])
            assert torch.equal(opt.state[layers[1]].get("exp_avg", torch.zeros(4)), kept)


@pytest.mark.parametrize("make", [MomoAdam, MuonMaxMomo])
def test_corrected_averages_are_adams_of_the_gradients_that_a_layer_had(make):
    beta, beta2 = 0.9, 0.99
    layers = [Parameter(torch.full((4,), 3.0, dtype=torch.float64)) for _ in range(2)]
    opt = make(
        [{"params": layers, "kind": "other"}], lr=0.1, beta=beta, beta2=beta2, weight_decay=0.0,
        momentum_init="corrected",
    )  # fmt: skip
    sums = [[torch.zeros(4, dtype=torch.float64) for _ in range(3)] for _ in layers]
    counts, loss_sum = [0, 0], 0.0
    for t in range(12):
        loss = sum(float(p.detach().square().sum()) for p in layers) / 2
        loss_sum = beta * loss_sum + (1 - beta) * loss
        for i, p in enumerate(layers):
            present = i == 0 or t in (3, 4, 7, 11)
            w = p.detach().clone()
            p.grad = w if present else None
            if present:
                counts[i] += 1
                values = (w, w * w, w * w)
                for total, value, b in zip(sums[i], values, (beta, beta2, beta)):
                    total.mul_(b).add_(value, alpha=1 - b)
        F = loss_sum / (1 - beta ** (t + 1))
        for p, (m, _, gw), k in zip(layers, sums, counts):
            if k:
                F += float(m @ p.detach() - gw.sum()) / (1 - beta**k)
        opt.step(loss=loss)
        assert float(opt.last.F) == pytest.approx(F, rel=1e-10)
        for p, (m, v, _), k in zip(layers, sums, counts):
            if k:
                torch.testing.assert_close(opt.state[p]["exp_avg"], m / (1 - beta**k))
                torch.testing.assert_close(opt.state[p]["exp_avg_sq"], v / (1 - beta2**k))


def test_a_missing_layer_costs_nothing_when_all_are_present(monkeypatch):
    from fallline.optim import _layers

    w = Parameter(torch.ones(2))
    opt = Momo([w])
    w.grad = torch.ones(2)
    opt.step(loss=1.0)  # creates the averages
    dots = []
    monkeypatch.setattr(_layers, "dot", lambda *a: dots.append(a))
    monkeypatch.setattr(_layers, "sum_over_shards", lambda *a: dots.append(a))
    opt.step(loss=1.0)
    assert not dots


def test_zero_momentum_start_keeps_the_model_through_the_loss():
    w = Parameter(torch.full((2,), 50.0, dtype=torch.float64))
    opt = Momo([w], lr=1e-9, weight_decay=0.0, momentum_init="zeros")
    for _ in range(3):
        w.grad = torch.ones(2, dtype=torch.float64)
        opt.step(loss=3.0)
        assert float(opt.last.F) == pytest.approx(3.0, abs=1e-4)


def one_parameter(**options):
    w = Parameter(torch.zeros(2, dtype=torch.float64))
    opt = NonEuclidean(
        [{"params": [w], "kind": "other"}], other_norm="l2", matrix_norm="l2", aggregation="l2",
        beta=0.0, weight_decay=0.0, **options,
    )  # fmt: skip
    return w, opt


def step_with(w, opt, loss, gradient=(3.0, 4.0)):
    w.grad = torch.tensor(gradient, dtype=torch.float64)
    opt.step(loss=loss)
    return opt.last


def test_automatic_bound_by_hand_regularised():
    w, opt = one_parameter(lr=0.01, f_star="auto", lb0=1.0)
    last = step_with(w, opt, 10.0)  # eta = min(.01, 9/25); bound <- 10 - .5 * .01 * 25
    assert float(last.f_star) == 1.0
    assert float(opt.state[w]["lower_bound"]) == pytest.approx(9.875)
    last = step_with(w, opt, 4.0)  # below the bound: bound <- 4 / 2 before the step
    assert float(last.f_star) == pytest.approx(2.0)
    assert float(last.eta) == pytest.approx(0.01)
    last = step_with(w, opt, 1.2)  # max(0.6, lb0)
    assert float(last.f_star) == pytest.approx(1.0)
    assert float(last.eta) == pytest.approx(0.2 / 25)


def test_automatic_bound_by_hand_constrained():
    w, opt = one_parameter(lr=0.01, f_star="auto", constrained=True)
    step_with(w, opt, 10.0)
    assert float(opt.state[w]["lower_bound"]) == pytest.approx(10 - 0.5 * 0.01 * 5)
    last = step_with(w, opt, 0.001, gradient=(0.3, 0.4))  # bound <- 0.0005, so eta = 0.0005 / 0.5
    assert float(last.eta) == pytest.approx(0.001)
    assert float(opt.state[w]["lower_bound"]) == pytest.approx(0.001 - 0.5 * 0.001 * 0.5)


def test_the_bound_may_follow_the_step():
    seen = []

    def bound(step):
        seen.append(step)
        return 1.0 - step

    w, opt = one_parameter(lr=1.0, f_star=bound)
    assert float(step_with(w, opt, 2.0).eta) == pytest.approx(1 / 25)
    assert float(step_with(w, opt, 2.0).eta) == pytest.approx(2 / 25)
    assert seen == [0, 1]


def test_clipped_gradients_keep_the_line_through_the_loss():
    """Clipping before the step changes q and m alike: the model's value is still the loss."""
    w = Parameter(torch.tensor([30.0, 40.0], dtype=torch.float64))
    opt = MuonMaxMomo([{"params": [w], "kind": "other"}], lr=1e-3)
    loss = w.square().sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    opt.step(loss=loss)
    assert float(opt.last.F) == pytest.approx(2500.0)


@pytest.mark.parametrize("make", [MuonMaxMomo, MuonAdamMomo])
def test_a_huge_learning_rate_is_tamed(make):
    """The mechanism of the study's claim: the cap stops mattering once truncation acts."""
    final = {}
    for lr in (1e-2, 1.0, 100.0):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
            torch.nn.Linear(16, 1),
        )  # fmt: skip
        x = torch.randn(64, 8)
        y = x[:, :1] * x[:, 1:2]
        opt = make(model, lr=lr, weight_decay=0.0)
        for _ in range(150):
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            opt.step(loss=loss)
        final[lr] = loss.item()
    assert max(final.values()) < 1.0, final
