"""The optimizer against the sheet's hand case, a slow reference and the theory."""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.optim.reference import Reference
from torch.nn import Parameter

from fallline.optim import (
    MuonAdam,
    MuonAdamMomo,
    MuonMax,
    MuonMaxMomo,
    NonEuclidean,
    PolarGrad,
    Scion,
    SignGD,
)

MATRIX_NORMS = ["spectral", "linf", "adam_inf", "adam_2", "l2"]
OTHER_NORMS = ["linf", "adam_inf", "adam_2", "l2"]
AGGREGATIONS = ["linf", "l2", "hybrid"]
COMBINATIONS = [
    dict(zip(("matrix_norm", "other_norm", "aggregation", "constrained"), values))
    for values in itertools.product(MATRIX_NORMS, OTHER_NORMS, AGGREGATIONS, [True, False])
]
ids = ["-".join(map(str, c.values())) for c in COMBINATIONS]


class Hand:
    """The sheet's hand case: W1 gradient diag(3, 4), W2 gradient I, bias gradient -2."""

    def __init__(self, make, lr, **options):
        self.W1, self.W2 = (Parameter(torch.zeros(2, 2, dtype=torch.float64)) for _ in range(2))
        self.b = Parameter(torch.zeros(1, dtype=torch.float64))
        options = {"polar": "svd", "eps": 0.0, "weight_decay": 0.0} | options
        self.opt = make(([self.W1, self.W2], [self.b]), lr=lr, **options)

    def step(self, **arguments):
        self.W1.grad = torch.diag(torch.tensor([3.0, 4.0], dtype=torch.float64))
        self.W2.grad = torch.eye(2, dtype=torch.float64)
        self.b.grad = torch.tensor([-2.0], dtype=torch.float64)
        self.opt.step(**arguments)
        return self

    def moved(self, first, second, bias):
        eye = torch.eye(2, dtype=torch.float64)
        torch.testing.assert_close(self.W1.detach(), first * eye)
        torch.testing.assert_close(self.W2.detach(), second * eye)
        torch.testing.assert_close(self.b.detach(), torch.tensor([bias], dtype=torch.float64))


@pytest.mark.parametrize("lr", [1.0, 1e-3])
def test_hand_case_muonmax(lr):
    hand = Hand(MuonMax, lr).step()
    hand.moved(-90 * lr, -90 * lr, lr)
    assert float(hand.opt.last.G) ** 2 == pytest.approx(812)
    assert float(hand.opt.last.S) == pytest.approx(9 * math.sqrt(10))


def test_hand_case_polargrad():
    hand = Hand(PolarGrad, 0.1).step()
    hand.moved(-7, -2, 0.1)
    assert float(hand.opt.last.G) ** 2 == pytest.approx(532)


@pytest.mark.parametrize("make", [MuonAdam, Scion])
def test_hand_case_normalised(make):
    hand = Hand(make, 0.1).step()
    hand.moved(-1, -1, 0.1)
    assert hand.opt.last.G is None  # nothing needs a dual


def test_hand_case_muonadam_dual():
    hand = Hand(MuonAdamMomo, 0.01).step(loss=5.0)
    assert float(hand.opt.last.G) == pytest.approx(92)
    hand.moved(-0.1, -0.1, 0.01)


def test_hand_case_truncated():
    hand = Hand(MuonMaxMomo, 0.01).step(loss=5.0)
    assert float(hand.opt.last.eta) == pytest.approx(0.0061576355, rel=1e-7)
    assert bool(hand.opt.last.truncated)
    hand.moved(-0.5541871921, -0.5541871921, 0.0061576355)
    untouched = Hand(MuonMaxMomo, 0.001).step(loss=5.0)
    assert float(untouched.opt.last.eta) == pytest.approx(0.001)
    assert not bool(untouched.opt.last.truncated)
    constrained = Hand(MuonAdamMomo, 1.0).step(loss=5.0)
    assert float(constrained.opt.last.eta) == pytest.approx(5 / 92)


def test_hand_case_second_step():
    hand = Hand(MuonMaxMomo, 0.01).step(loss=5.0).step(loss=4.0)
    assert float(hand.opt.last.F) == pytest.approx(0.2)
    assert float(hand.opt.last.eta) == pytest.approx(2.4630542e-4, rel=1e-6)


@pytest.mark.parametrize("make", [MuonMaxMomo, MuonAdamMomo])
def test_a_loss_below_the_bound_moves_nothing_but_decay(make):
    hand = Hand(make, 0.1, f_star=6.0, weight_decay=0.5)
    with torch.no_grad():
        hand.W1.fill_(2.0)
    hand.step(loss=5.0)
    assert float(hand.opt.last.eta) == 0
    torch.testing.assert_close(hand.W1.detach(), torch.full_like(hand.W1, 2 * (1 - 0.1 * 0.5)))
    assert hand.b.item() == 0


def test_s_and_its_square_are_not_confused():
    """The ratio of matrix to other steps is `matrix_lr_ratio` for both kinds of step."""
    for make, per_nuclear in [(MuonMax, 9), (MuonAdam, 1)]:
        for ratio in (1.0, 4.0, 25.0):
            hand = Hand(make, 0.01, matrix_lr_ratio=ratio).step()
            hand.moved(-0.01 * ratio * per_nuclear, -0.01 * ratio * per_nuclear, 0.01)


def random_layers(seed=0):
    rng = np.random.default_rng(seed)
    shapes = [("matrix", (3, 5)), ("other", (4,)), ("matrix", (4, 3, 2)), ("other", (2, 3))]
    return [(kind, rng.normal(size=shape)) for kind, shape in shapes]


def build(layers, **options):
    params = [Parameter(torch.tensor(w)) for _, w in layers]
    groups = [
        {"params": [p for p, (k, _) in zip(params, layers) if k == kind], "kind": kind}
        for kind in ("matrix", "other")
    ]
    options = {"truncate": False, "polar": "svd"} | options
    return params, NonEuclidean(groups, **options)


def give(params, gradients):
    for p, g in zip(params, gradients):
        p.grad = torch.tensor(g, dtype=p.dtype)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=ids)
def test_trajectories_equal_the_slow_reference(combination, truncate):
    rng = np.random.default_rng(1)
    layers = random_layers()
    options = combination | {"truncate": truncate, "lr": 0.03, "weight_decay": 0.2, "beta": 0.8}
    params, opt = build(layers, **options)
    reference = Reference(layers, **options)
    for t in range(5):
        gradients = [rng.normal(size=w.shape) for _, w in layers]
        loss = 3.0 / (1 + t)
        give(params, gradients)
        opt.step(loss=loss)
        reference.step(gradients, loss)
        for p, w in zip(params, reference.w):
            np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-9, atol=1e-11)
        if opt.last.G is not None:
            assert float(opt.last.G) == pytest.approx(reference.G)
            assert float(opt.last.S) == pytest.approx(reference.S)
        if truncate:
            assert float(opt.last.eta) == pytest.approx(reference.eta)
            assert float(opt.last.F) == pytest.approx(reference.F)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=ids)
def test_theory_of_one_step(combination):
    """Theory 1-4: the lmo attains the dual, the move's length, its optimality, no overshoot."""
    rng = np.random.default_rng(2)
    layers = random_layers(3)
    gradients = [rng.normal(size=w.shape) for _, w in layers]
    options = combination | {"lr": 0.05, "weight_decay": 0.0}
    reference = Reference(layers, truncate=False, **options)
    reference.step(gradients)
    params, opt = build(layers, **options, truncate=True, f_star=-1e9)
    give(params, gradients)
    opt.step(loss=1.0)
    moves = [p.detach().numpy() - w for p, (_, w) in zip(params, layers)]
    G, lr = float(opt.last.G), 0.05
    length = lr if combination["constrained"] else lr * G
    inner = sum((m * d).sum() for m, d in zip(reference.m, moves))
    assert inner == pytest.approx(-length * G)
    assert reference.product_norm(moves) == pytest.approx(length)
    if not combination["constrained"]:
        best = inner + length**2 / (2 * lr)
        assert best == pytest.approx(-lr * G * G / 2)
        for _ in range(20):
            other = [d + 0.1 * length * rng.normal(size=d.shape) for d in moves]
            value = sum((m * d).sum() for m, d in zip(reference.m, other))
            assert value + reference.product_norm(other) ** 2 / (2 * lr) >= best - 1e-12


@pytest.mark.parametrize("loss", [0.01, 3.0, 1e4])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=ids)
def test_the_model_never_goes_below_the_bound(combination, loss):
    rng = np.random.default_rng(4)
    layers = random_layers(5)
    params, opt = build(layers, **combination, lr=0.05, truncate=True, f_star=0.0)
    give(params, [rng.normal(size=w.shape) for _, w in layers])
    opt.step(loss=loss)
    last = opt.last
    reach = last.eta * last.G if combination["constrained"] else last.eta * last.G**2
    left = float(last.F - reach - last.f_star)
    assert left >= -1e-12 * abs(loss)
    assert bool(last.truncated) == (abs(left) <= 1e-9 * loss)


def quadratic(seed=0, n=12, d=6):
    rng = np.random.default_rng(seed)
    A, w_star = rng.normal(size=(n, d)), rng.normal(size=d)
    return torch.tensor(A), torch.tensor(A @ w_star), torch.tensor(w_star)


def test_without_momentum_euclidean_truncation_is_the_polyak_step():
    A, b, _ = quadratic()
    w = Parameter(torch.zeros(6, dtype=torch.float64))
    opt = NonEuclidean(
        [{"params": [w], "kind": "other"}], lr=0.5, matrix_norm="l2", other_norm="l2",
        aggregation="l2", beta=0.0, weight_decay=0.0,
    )  # fmt: skip
    for _ in range(10):
        before = w.detach().clone()
        opt.zero_grad()
        loss = (A @ w - b).square().mean()
        loss.backward()
        opt.step(loss=loss)
        polyak = min(0.5, float(loss.detach() / w.grad.square().sum()))
        torch.testing.assert_close(w.detach(), before - polyak * w.grad)


def test_truncated_euclidean_steps_never_leave_the_minimiser():
    A, b, w_star = quadratic(1)
    w = Parameter(torch.full((6,), 5.0, dtype=torch.float64))
    opt = NonEuclidean(
        [{"params": [w], "kind": "other"}], lr=100.0, matrix_norm="l2", other_norm="l2",
        aggregation="l2", beta=0.0, weight_decay=0.0,
    )  # fmt: skip
    distances = []
    for _ in range(50):
        distances.append(float((w.detach() - w_star).norm()))
        opt.zero_grad()
        loss = (A @ w - b).square().mean()
        loss.backward()
        opt.step(loss=loss)
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < distances[0]


def test_without_matrices_muonadam_is_muonmax_is_uncorrected_adam():
    rng = np.random.default_rng(6)
    start, gradients = rng.normal(size=5), rng.normal(size=(8, 5))
    lr, wd, w, m, v = 0.01, 0.1, start.copy(), gradients[0], gradients[0] ** 2
    for g in gradients:
        m, v = 0.95 * m + 0.05 * g, 0.95 * v + 0.05 * g * g
        w = (1 - lr * wd) * w - lr * m / (np.sqrt(v) + 1e-8)
    for make in (MuonAdam, MuonMax, PolarGrad):
        p = Parameter(torch.tensor(start))
        opt = make(([], [p]), lr=lr)
        for g in gradients:
            p.grad = torch.tensor(g)
            opt.step()
        np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-12)


@pytest.mark.parametrize("make", [MuonAdam, Scion, SignGD])
def test_constrained_presets_ignore_the_scale_of_the_loss(make):
    def run(alpha):
        params = [
            Parameter(torch.ones(3, 3, dtype=torch.float64)),
            Parameter(torch.ones(3).double()),
        ]
        exact = {} if make is SignGD else {"eps": 0.0, "polar": "svd"}
        opt = make((params[:1], params[1:]), lr=0.01, **exact)
        g = torch.Generator().manual_seed(7)
        for _ in range(4):
            for p in params:
                p.grad = alpha * torch.randn(p.shape, dtype=p.dtype, generator=g)
            opt.step()
        return params

    for one, scaled in zip(run(1.0), run(64.0)):
        torch.testing.assert_close(one, scaled)


def test_muonmax_matrices_scale_with_the_loss_and_the_rest_does_not():
    moved = {}
    for alpha in (1.0, 8.0):
        W, b = Parameter(torch.zeros(3, 3).double()), Parameter(torch.zeros(3).double())
        opt = MuonMax(([W], [b]), lr=0.01, eps=0.0, polar="svd", weight_decay=0.0)
        g = torch.Generator().manual_seed(8)
        for p in (W, b):
            p.grad = alpha * torch.randn(p.shape, dtype=p.dtype, generator=g)
        opt.step()
        moved[alpha] = (W.detach(), b.detach())
    torch.testing.assert_close(moved[8.0][0], 8 * moved[1.0][0])
    torch.testing.assert_close(moved[8.0][1], moved[1.0][1])


def test_constrained_spectral_steps_with_decay_bound_the_spectral_norm():
    W = Parameter(torch.eye(4, dtype=torch.float64))
    opt = MuonAdam(([W], []), lr=0.05, weight_decay=0.5, matrix_lr_ratio=1.0, polar="svd")
    bound = max(1.0, 1.0 / 0.5)
    for _ in range(200):
        W.grad = -torch.eye(4, dtype=torch.float64)  # always outwards
        opt.step()
        assert torch.linalg.matrix_norm(W.detach(), 2) <= bound + 1e-9
    assert torch.linalg.matrix_norm(W.detach(), 2) > 0.95 * bound


def test_scion_with_jordans_coefficients_is_torch_muon():
    g = torch.Generator().manual_seed(9)
    start = torch.randn(24, 24, generator=g)
    ours, theirs = Parameter(start.clone()), Parameter(start.clone())
    opt = Scion(
        ([ours], []), lr=0.02, matrix_lr_ratio=1.0, weight_decay=0.0, polar="newton_schulz",
        momentum_init="zeros",
    )  # fmt: skip
    peer = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.0, nesterov=False)
    for _ in range(10):
        gradient = torch.randn(24, 24, generator=g)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        opt.step()
        peer.step()
    assert (ours - theirs).norm() / (theirs - start).norm() < 2e-2


def test_nesterov_is_torch_muons():
    g = torch.Generator().manual_seed(10)
    start = torch.randn(24, 24, generator=g)
    ours, theirs = Parameter(start.clone()), Parameter(start.clone())
    opt = MuonAdam(
        ([ours], []), lr=0.02, matrix_lr_ratio=1.0, weight_decay=0.1, polar="newton_schulz",
        momentum_init="zeros", nesterov=True,
    )  # fmt: skip
    peer = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, nesterov=True)
    for _ in range(10):
        gradient = torch.randn(24, 24, generator=g)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        opt.step()
        peer.step()
    assert (ours - theirs).norm() / (theirs - start).norm() < 2e-2


def test_a_conv_kernel_moves_as_its_flattening():
    g = torch.Generator().manual_seed(11)
    kernel, flat = (Parameter(torch.zeros(4, 18)), Parameter(torch.zeros(4, 18)))
    kernel = Parameter(torch.zeros(4, 2, 3, 3))
    gradient = torch.randn(4, 2, 3, 3, generator=g)
    for p in (kernel, flat):
        p.grad = gradient.view(p.shape).clone()
        MuonMax(([p], []), lr=0.01).step()
    assert torch.equal(kernel.view(4, 18), flat)


def test_a_zero_gradient_on_one_matrix_moves_only_the_others():
    for make in (MuonAdam, MuonMax, PolarGrad, MuonMaxMomo):
        for nuclear in ("cached", "stale", "frobenius"):
            hand = Hand(make, 0.01, nuclear=nuclear, polar="polar_express")
            hand.W1.grad = torch.zeros_like(hand.W1)
            hand.W2.grad = torch.eye(2, dtype=torch.float64)
            hand.b.grad = torch.zeros_like(hand.b)
            hand.opt.step(loss=5.0)
            assert torch.equal(hand.W1.detach(), torch.zeros(2, 2, dtype=torch.float64))
            assert torch.equal(hand.b.detach(), torch.zeros(1, dtype=torch.float64))
            assert hand.W2.detach().diag().lt(0).all()


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_all_zero_gradients_move_nothing(aggregation, constrained):
    hand = Hand(NonEuclidean, 0.01, aggregation=aggregation, constrained=constrained)
    for p in (hand.W1, hand.W2, hand.b):
        p.grad = torch.zeros_like(p)
    hand.opt.step(loss=5.0)
    assert float(hand.opt.last.eta) == pytest.approx(0.01)  # G = 0: nothing to truncate
    hand.moved(0.0, 0.0, 0.0)


def nuclear_run(nuclear, gradients, **options):
    params = [Parameter(torch.zeros(g.shape)) for g in gradients[0]]
    opt = MuonMaxMomo((params, []), lr=0.01, nuclear=nuclear, **options)
    for t, step in enumerate(gradients):
        for p, g in zip(params, step):
            p.grad = g.clone()
        opt.step(loss=10.0 - t)
    return params, opt


def gradients_of(steps, constant_from=None):
    g = torch.Generator().manual_seed(12)
    made = [[torch.randn(s, generator=g) for s in [(4, 6), (5, 5)]] for _ in range(steps)]
    return made if constant_from is None else made[:constant_from] * (steps // constant_from)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_cached_equals_two_polars_bitwise(weight_decay):
    from fallline.optim import polar

    beta, lr, s = 0.95, torch.tensor(0.01), torch.tensor(math.sqrt(10.0))
    gradients = gradients_of(8)
    w = [torch.zeros(g.shape) for g in gradients[0]]
    m = [g.clone() for g in gradients[0]]
    gw_avg, loss_avg = torch.zeros(2), torch.tensor(10.0)  # the weights start at 0
    truncated = 0
    for t, step in enumerate(gradients):
        # The reference takes one polar factor for the dual and computes another for the move.
        gw = torch.stack([torch.dot(g.view(-1), x.view(-1)) for g, x in zip(step, w)])
        m = [x.lerp(g, 1 - beta) for x, g in zip(m, step)]
        mw = torch.stack([torch.dot(x.view(-1), y.view(-1)) for x, y in zip(m, w)])
        D = torch.stack([s * torch.dot(x.view(-1), polar(x).view(-1)) for x in m])
        S = D.sum()
        G = S.square().sqrt()
        gw_avg = gw_avg.lerp(gw, 1 - beta)
        loss_avg = loss_avg.lerp(torch.tensor(10.0 - t), 1 - beta)
        F = loss_avg + (mw - gw_avg).sum()
        eta = torch.minimum(lr, F.clamp_min(0) / G / G)
        truncated += bool(eta < lr)
        for x, y in zip(m, w):
            y.mul_(torch.tensor(1 - 0.01 * weight_decay)).addcmul_(
                polar(x), eta * G * (S / G) * s, value=-1
            )
        params, opt = nuclear_run("cached", gradients[: t + 1], weight_decay=weight_decay)
        assert torch.equal(opt.last.G, G)
        assert torch.equal(opt.last.F, F)
        for p, y in zip(params, w):
            assert torch.equal(p.detach(), y)
    assert truncated


def test_stale_equals_cached_while_gradients_stay():
    same = gradients_of(6, constant_from=1)
    (cached, _), (stale, _) = nuclear_run("cached", same), nuclear_run("stale", same)
    for a, b in zip(cached, stale):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_stale_uses_the_previous_norms():
    gradients = gradients_of(3)
    _, exact = nuclear_run("cached", gradients[:2])
    _, stale = nuclear_run("stale", gradients)
    for name, dual in exact.last.layer_duals.items():
        torch.testing.assert_close(stale.last.layer_duals[name], dual)


@pytest.mark.parametrize("make", [MuonMax, MuonMaxMomo])
def test_a_layer_that_joins_late_does_not_freshen_the_stale_norms_of_others(make):
    def run(foreach):
        g = torch.Generator().manual_seed(14)
        start = [torch.randn(4, 4, generator=g) for _ in range(3)]
        params = [Parameter(w) for w in start]
        opt = make((params, []), lr=0.01, nuclear="stale", foreach=foreach, polar="svd")
        for t in range(4):
            for i, p in enumerate(params):
                gradient = torch.randn(4, 4, generator=g)
                p.grad = gradient if t >= 2 or i != 1 else None
            opt.step(loss=10.0)
        return params

    for a, b in zip(run(True), run(False)):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 2])
def test_stale_norms_of_an_untruncated_run_serve_a_truncated_one(steps):
    """MuonAdam needs no dual, but its checkpoint must not say that the norms are 0."""
    g = torch.Generator().manual_seed(15)
    W = Parameter(torch.zeros(4, 6))
    opt = MuonAdam(([W], []), lr=0.01, nuclear="stale", polar="svd")
    for _ in range(steps):
        W.grad = torch.randn(4, 6, generator=g)
        opt.step()
    nuclear = torch.linalg.svdvals(opt.state[W]["exp_avg"]).sum()
    torch.testing.assert_close(opt.state[W]["nuclear_norm"], nuclear)
    again = MuonAdamMomo(([W], []), lr=0.01, nuclear="stale", polar="svd")
    again.load_state_dict(opt.state_dict())
    W.grad = torch.randn(4, 6, generator=g)
    again.step(loss=1.0)
    torch.testing.assert_close(again.last.G, 10 * nuclear)


@pytest.mark.parametrize("make", [MuonAdam, MuonMax])
@pytest.mark.parametrize("eps", [0.0, 1e-60])
def test_a_square_that_underflows_moves_nothing(make, eps):
    w = Parameter(torch.zeros(3))
    w.grad = torch.tensor([1e-25, 0.0, 1.0])
    opt = make(([], [w]), eps=eps, weight_decay=0.0, lr=1e-3)
    opt.step()
    torch.testing.assert_close(w.detach(), torch.tensor([0.0, 0.0, -1e-3]))


def test_frobenius_is_below_the_nuclear_norm():
    gradients = gradients_of(1)
    _, exact = nuclear_run("cached", gradients, polar="svd")
    _, cheap = nuclear_run("frobenius", gradients, polar="svd")
    for name, g in zip(exact.last.layer_duals, gradients[0]):
        low, high = cheap.last.layer_duals[name], exact.last.layer_duals[name]
        torch.testing.assert_close(low, math.sqrt(10) * g.norm())
        assert low <= high <= math.sqrt(min(g.shape)) * low * (1 + 1e-6)


@pytest.mark.parametrize(
    ("key", "factor"),
    [
        (None, 1.0),
        ("rms", math.sqrt(6 / 4)),
        ("jordan", math.sqrt(6 / 4)),
        ("match_rms_adamw", 0.2 * math.sqrt(6)),
    ],
)
def test_shape_scale_multiplies_s(key, factor):
    W = Parameter(torch.zeros(6, 2, 2))  # d_out 6, d_in 4
    opt = MuonAdam(([W], []), lr=0.1, shape_scale=key, polar="svd", weight_decay=0.0)
    W.grad = torch.randn(W.shape, generator=torch.Generator().manual_seed(13))
    opt.step()
    largest = torch.linalg.matrix_norm(W.detach().view(6, 4), 2)
    assert float(largest) == pytest.approx(0.1 * 10 * factor, rel=1e-5)


def test_jordan_scale_is_one_for_wide_matrices():
    W = Parameter(torch.zeros(2, 6))
    opt = MuonAdam(([W], []), lr=0.1, shape_scale="jordan", polar="svd", weight_decay=0.0)
    W.grad = torch.randn(W.shape, generator=torch.Generator().manual_seed(14))
    opt.step()
    assert float(torch.linalg.matrix_norm(W.detach(), 2)) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("constrained", [True, False])
def test_lr_scale_is_a_scale_of_the_norm(constrained):
    rng = np.random.default_rng(15)
    layers = random_layers(16)
    options = {
        "matrix_norm": "spectral", "other_norm": "adam_2", "aggregation": "hybrid",
        "constrained": constrained, "lr": 0.02, "weight_decay": 0.0,
    }  # fmt: skip
    reference = Reference(layers, truncate=True, scales=[3.0, 1.0, 1.0, 0.5], **options)
    params = [Parameter(torch.tensor(w)) for _, w in layers]
    groups = [
        {"params": [p], "kind": kind, "lr_scale": scale}
        for p, (kind, _), scale in zip(params, layers, [3.0, 1.0, 1.0, 0.5])
    ]
    opt = NonEuclidean(groups, polar="svd", **options)
    for _ in range(3):
        gradients = [rng.normal(size=w.shape) for _, w in layers]
        give(params, gradients)
        opt.step(loss=2.0)
        reference.step(gradients, 2.0)
    assert float(opt.last.G) == pytest.approx(reference.G)
    for p, w in zip(params, reference.w):
        np.testing.assert_allclose(p.detach().numpy(), w, rtol=1e-9)


def test_a_group_may_have_its_own_norm_and_decay():
    W, b = Parameter(torch.ones(2, 2)), Parameter(torch.ones(3))
    groups = [
        {"params": [W], "kind": "matrix", "norm": "linf", "weight_decay": 0.0},
        {"params": [b], "kind": "other", "weight_decay": 1.0},
    ]
    opt = MuonAdam(groups, lr=0.1)
    W.grad, b.grad = torch.ones(2, 2), torch.zeros(3)
    opt.step()
    torch.testing.assert_close(W.detach(), torch.full((2, 2), 0.9))
    torch.testing.assert_close(b.detach(), torch.full((3,), 0.9))


def test_first_momentum_is_the_gradient_and_zeros_is_not():
    for init, expected in (("first", 1.0), ("zeros", 0.05)):
        w = Parameter(torch.zeros(1))
        opt = SignGD([w], momentum_init=init)
        w.grad = torch.ones(1)
        opt.step()
        torch.testing.assert_close(opt.state[w]["exp_avg"], torch.tensor([expected]))


def test_last_reports_the_step():
    hand = Hand(MuonMaxMomo, 0.01)
    assert hand.opt.last is None
    hand.step(loss=5.0)
    assert list(hand.opt.last.layer_duals) == [
        "group 0 parameter 0",
        "group 0 parameter 1",
        "group 1 parameter 0",
    ]
    duals = [float(d) for d in hand.opt.last.layer_duals.values()]
    assert duals == pytest.approx([7 * math.sqrt(10), 2 * math.sqrt(10), math.sqrt(2)])
    assert float(hand.opt.last.f_star) == 0.0
    assert hand.opt.last._fields == ("eta", "truncated", "F", "G", "S", "f_star", "layer_duals")


def test_named_parameters_name_the_duals():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    opt = MuonMaxMomo(model)
    model(torch.ones(2, 3)).sum().backward()
    opt.step(loss=1.0)
    assert set(opt.last.layer_duals) == {"0.weight", "0.bias", "1.weight", "1.bias"}
