import copy
import io
import math

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from fallline.convex import (
    AssumptionWarning,
    L0L1Smooth,
    LSmooth,
    ShiftedSquareSmooth,
    minimize_agd,
)
from fallline.optim import GeneralizedSmoothAGD
from fallline.tasks import exponential_valley, spectrum_cosh

UNIT = L0L1Smooth(1.0, 1.0)
VALLEY = L0L1Smooth(2.0 * math.sqrt(math.e), 1.0)


def parameters(problem, *sizes):
    """The start, split over parameters."""
    return [Parameter(part.clone()) for part in torch.tensor(problem.x0).split(sizes)]


def feed(params, problem):
    """Put the problem's gradient into the parameters' grads; return the point and the gap."""
    x = torch.cat([p.detach().flatten() for p in params]).numpy()
    gap, gradient = problem.fun(x)
    for p, part in zip(params, torch.tensor(gradient).split([p.numel() for p in params])):
        p.grad = part.reshape(p.shape)
    return x, gap


def trail(optimizer, params, problem, steps):
    points = []
    for _ in range(steps):
        points.append(feed(params, problem)[0])
        optimizer.step()
    return np.array(points)


def calls_until(gap, optimizer, params, problem):
    calls = 1
    while feed(params, problem)[1] > gap and calls < 1000:
        optimizer.step()
        calls += 1
    return calls


def evaluated(problem, steps, **options):
    """The points at which `minimize_agd` asks for a gradient."""
    points = []

    def fun(x):
        points.append(x)
        return problem.fun(x)

    result = minimize_agd(fun, problem.x0, max_ngev=steps, gtol=0.0, **options)
    return np.array(points), result


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
@pytest.mark.parametrize("L1R", [8.0, 16.0])
def test_it_asks_for_the_same_gradients_as_minimize_agd(mode, L1R):
    # At 16 the schedule starts with gradient descent.
    problem, law = spectrum_cosh(L1R), L0L1Smooth(1.0, L1R)
    options = {"smoothness": law, "radius": 1.0, "gap0": problem.gap, "mode": mode}
    params = parameters(problem, 150, 250)
    optimizer = GeneralizedSmoothAGD(params, **options)
    points, result = evaluated(problem, 700, **options)
    np.testing.assert_allclose(trail(optimizer, params, problem, 700), points, atol=1e-12)
    assert optimizer.gap_bound == pytest.approx(result.gap_bound, rel=1e-9)
    assert optimizer.n_rejected == result.n_rejected


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
def test_how_a_parameter_lies_in_memory_changes_nothing(mode):
    # One that is not contiguous keeps torch's fused pass from all.
    problem = spectrum_cosh(8.0)
    options = {"smoothness": L0L1Smooth(1.0, 8.0), "radius": 1.0, "mode": mode}
    trails = []
    for flip in (False, True):
        params = parameters(problem, 1, 7, 192, 200)
        if flip:
            params[-1] = Parameter(params[-1].detach().reshape(20, 10).T.contiguous().T)
        trails.append(trail(GeneralizedSmoothAGD(params, **options), params, problem, 80))
    np.testing.assert_allclose(*trails, rtol=1e-12, atol=1e-15)


def test_study_a_takes_687_gradients():
    problem = spectrum_cosh(8.0)
    params = parameters(problem, 1, 399)
    optimizer = GeneralizedSmoothAGD(
        params, L0L1Smooth(1.0, 8.0), radius=1.0, gap0=problem.gap, mode="adaptive"
    )
    assert calls_until(1e-7, optimizer, params, problem) == 687


def test_rejections_go_back_and_agree_with_minimize_agd():
    problem = exponential_valley()
    options = {"smoothness": VALLEY, "radius": problem.radius, "gap0": problem.gap}
    params = parameters(problem, 1, 1)
    optimizer = GeneralizedSmoothAGD(params, **options)
    points, result = evaluated(problem, 300, **options)
    assert result.n_rejected > 0
    np.testing.assert_allclose(
        trail(optimizer, params, problem, 300), points, rtol=1e-9, atol=1e-11
    )
    assert optimizer.n_rejected == result.n_rejected


def test_gradients_that_are_not_finite_are_rejected():
    # x - log x leaves its domain under a law far too small.
    def leave(optimizer, x, steps):
        for _ in range(steps):
            x.grad = torch.where(x > 0, 1.0 - 1.0 / x, math.nan).detach()
            optimizer.step()

    x = Parameter(torch.tensor([0.05, 4.0], dtype=torch.float64))
    optimizer = GeneralizedSmoothAGD([x], LSmooth(1.0))
    leave(optimizer, x, 200)
    assert optimizer.n_rejected > 0
    assert (x > 0).all()
    x = Parameter(torch.tensor([0.05, 4.0], dtype=torch.float64))
    optimizer = GeneralizedSmoothAGD([x], LSmooth(0.01), radius=100.0, mode="schedule")
    with pytest.raises(FloatingPointError, match="radius or smoothness is wrong"):
        leave(optimizer, x, 5)


def test_a_first_gradient_that_is_not_finite_raises_and_moves_nothing():
    x = Parameter(torch.zeros(2))
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    x.grad = torch.tensor([1.0, math.inf])
    with pytest.raises(FloatingPointError, match="first gradient must be finite"):
        optimizer.step()
    assert not x.any()


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
def test_a_loaded_state_resumes_bit_for_bit(mode):
    problem = spectrum_cosh(8.0)
    options = {
        "smoothness": L0L1Smooth(1.0, 8.0), "radius": 1.0, "gap0": problem.gap, "mode": mode,
    }  # fmt: skip
    params = parameters(problem, 150, 250)
    optimizer = GeneralizedSmoothAGD(params, **options)
    trail(optimizer, params, problem, 37)
    check_resumption(optimizer, params, problem, options)


def test_a_state_saved_right_after_a_rejection_resumes_bit_for_bit():
    problem = exponential_valley()
    options = {"smoothness": VALLEY, "radius": problem.radius, "gap0": problem.gap}
    params = parameters(problem, 1, 1)
    optimizer = GeneralizedSmoothAGD(params, **options)
    while optimizer.n_rejected < 2:
        trail(optimizer, params, problem, 1)
    check_resumption(optimizer, params, problem, options)


def test_a_state_saved_in_the_first_stage_resumes_bit_for_bit():
    problem = spectrum_cosh(16.0)
    options = {"smoothness": L0L1Smooth(1.0, 16.0), "radius": 1.0, "mode": "schedule"}
    params = parameters(problem, 150, 250)
    optimizer = GeneralizedSmoothAGD(params, **options)
    trail(optimizer, params, problem, 5)
    assert optimizer.gap_bound > 0.0
    check_resumption(optimizer, params, problem, options)


def check_resumption(optimizer, params, problem, options):
    stream = io.BytesIO()
    torch.save(optimizer.state_dict(), stream)
    stream.seek(0)
    loaded = [Parameter(p.detach().clone()) for p in params]
    resumed = GeneralizedSmoothAGD(loaded, **options)
    resumed.load_state_dict(torch.load(stream, weights_only=True))
    cloned = copy.deepcopy(optimizer)
    (copies,) = [group["params"] for group in cloned.param_groups]
    expected = trail(optimizer, params, problem, 100)
    np.testing.assert_array_equal(trail(resumed, loaded, problem, 100), expected)
    np.testing.assert_array_equal(trail(cloned, copies, problem, 100), expected)
    assert resumed.gap_bound == cloned.gap_bound == optimizer.gap_bound


def test_groups_closures_and_missing_gradients():
    def loss(parts):
        return sum(p.cosh().sum() for p in parts)

    start = [torch.tensor([2.0, -1.0]), torch.tensor([[0.5]]), torch.tensor([3.0])]

    def run(grouped, closure):
        parts = [Parameter(t.clone()) for t in start]
        groups = [{"params": parts[:1]}, {"params": parts[1:]}] if grouped else parts
        optimizer = GeneralizedSmoothAGD(groups, UNIT)
        for k in range(20):

            def evaluate(k=k):
                optimizer.zero_grad()
                value = loss(parts[: 2 if k % 3 else 3])  # the last one's grad is None at times
                value.backward()
                return value

            if closure:
                assert optimizer.step(evaluate).item() > 0.0
            else:
                evaluate()
                assert optimizer.step() is None
        return torch.cat([p.detach().flatten() for p in parts])

    expected = run(grouped=False, closure=False)
    assert torch.equal(run(grouped=True, closure=False), expected)
    assert torch.equal(run(grouped=False, closure=True), expected)


def test_a_missing_gradient_is_a_zero_gradient():
    def run(fill):
        parts = [Parameter(torch.tensor([2.0])), Parameter(torch.tensor([1.0]))]
        optimizer = GeneralizedSmoothAGD(parts, UNIT)
        for k in range(12):
            optimizer.zero_grad()
            (parts[0].cosh() + (parts[1].cosh() if k < 3 else 0.0)).backward()
            if fill and parts[1].grad is None:
                parts[1].grad = torch.zeros(1)
            optimizer.step()
        return torch.cat(parts).detach()

    assert torch.equal(run(fill=True), run(fill=False))


def test_no_gradient_at_all_moves_nothing():
    x = Parameter(torch.tensor([1.0]))
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    optimizer.step()
    x.grad = torch.zeros(1)
    optimizer.step()
    assert x.item() == 1.0
    assert optimizer.gap_bound is None
    assert optimizer.n_rejected == 0


def test_a_wrong_radius_warns_once_and_still_arrives():
    problem = exponential_valley()
    options = {
        "smoothness": VALLEY,
        "radius": problem.radius / 10,
        "gap0": problem.gap,
        "mode": "schedule",
    }
    params = parameters(problem, 1, 1)
    optimizer = GeneralizedSmoothAGD(params, **options)
    with pytest.warns(AssumptionWarning, match="falling back") as caught:
        calls = calls_until(1e-6, optimizer, params, problem)
    assert calls <= 400
    assert [warning.filename for warning in caught] == [__file__]
    assert optimizer.gap_bound is None
    params = parameters(problem, 1, 1)
    optimizer = GeneralizedSmoothAGD(params, **options, strict=True)
    with pytest.raises(ValueError, match="radius, gap0 or smoothness is wrong"):
        trail(optimizer, params, problem, 10)


def test_the_certificate_lies_above_the_gap():
    problem, law = spectrum_cosh(4.0, d=20), L0L1Smooth(1.0, 4.0)
    for mode in ("schedule", "adaptive"):
        params = parameters(problem, 20)
        optimizer = GeneralizedSmoothAGD(params, law, radius=1.0, mode=mode)
        for _ in range(200):
            gap = feed(params, problem)[1]
            rejected = optimizer.n_rejected
            optimizer.step()
            if optimizer.n_rejected == rejected:
                assert gap <= optimizer.gap_bound * (1 + 1e-12)


def test_float32_and_mixed_precisions_converge():
    for dtypes in [(torch.float32, torch.float32), (torch.float32, torch.float64)]:
        parts = [Parameter(torch.tensor([3.0, -2.0], dtype=dtype)) for dtype in dtypes]
        optimizer = GeneralizedSmoothAGD(parts, UNIT, radius=6.0)
        for _ in range(200):
            optimizer.zero_grad()
            sum(p.cosh().sum().double() for p in parts).backward()
            optimizer.step()
        assert all(p.abs().max() < 1e-2 for p in parts)


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
@pytest.mark.parametrize("n", [15, 16, 64, 1000])
def test_bfloat16_converges(mode, n):
    x = Parameter(torch.ones(n, dtype=torch.bfloat16))
    curvature = torch.linspace(0.1, 1.0, n, dtype=torch.bfloat16)
    optimizer = GeneralizedSmoothAGD([x], LSmooth(1.0), radius=1.1 * math.sqrt(n), mode=mode)
    for _ in range(50):
        x.grad = (curvature * x).detach()
        optimizer.step()
    assert x.abs().max() < 0.05


def test_the_norm_of_single_precision_neither_overflows_nor_vanishes():
    x = Parameter(torch.full((4,), 48.0))
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    x.grad = x.detach().sinh()  # 3.5e20, whose square is no float32
    optimizer.step()
    assert 46.9 < x[0] < 48.0
    x = Parameter(torch.ones(4))
    optimizer = GeneralizedSmoothAGD([x], LSmooth(1e-24))
    for _ in range(60):
        x.grad = 1e-24 * x.detach()
        optimizer.step()
    assert x.abs().max() < 1e-2


def test_a_step_that_overflowed_is_told():
    x = Parameter(torch.tensor([0.05, 4.0, 0.3]))
    optimizer = GeneralizedSmoothAGD([x], LSmooth(1e-38))

    def leave():
        for _ in range(400):
            x.grad = torch.where(x > 0, 1.0 - 1.0 / x, math.nan).detach()
            optimizer.step()

    with pytest.raises(FloatingPointError, match="cannot be taken back: smoothness is wrong"):
        leave()


@pytest.mark.parametrize(
    "options",
    [
        {"radius": np.float64(3.7)},
        {"radius": np.float32(3.7), "gap0": np.float64(9.0)},
        {"radius": torch.tensor(3.7, dtype=torch.float64)},
    ],
)
def test_checkpoints_hold_plain_floats(options):
    def run(x, optimizer, steps):
        for _ in range(steps):
            x.grad = x.detach().sinh()
            optimizer.step()

    x, y = (Parameter(torch.tensor([3.0, -2.0])) for _ in range(2))
    optimizer = GeneralizedSmoothAGD([x], UNIT, mode="schedule", **options)
    run(x, optimizer, 5)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    resumed = GeneralizedSmoothAGD([y], UNIT, mode="schedule", **options)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        y.copy_(x)
    run(x, optimizer, 30)
    run(y, resumed, 30)
    assert torch.equal(x, y)


def test_it_survives_compilation_of_the_step():
    torch._dynamo.reset()
    results = []
    for compiled in (False, True):
        x = Parameter(torch.tensor([3.0, -2.0]))
        optimizer = GeneralizedSmoothAGD([x], UNIT)
        step = torch.compile(optimizer.step, backend="eager") if compiled else optimizer.step
        for _ in range(10):
            optimizer.zero_grad()
            x.cosh().sum().backward()
            step()
        results.append(x.detach().clone())
    assert torch.equal(*results)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"smoothness": lambda s: 1.0 + s}, TypeError, "CallableSmooth makes one"),
        ({"radius": -1.0}, ValueError, "radius must be > 0 and finite, got -1.0"),
        ({"gap0": -1.0}, ValueError, "gap0 must be >= 0 and finite, got -1.0"),
        ({"mode": "two_stage"}, ValueError, "minimize_agd"),
        ({"mode": "linesearch"}, ValueError, "minimize_agd"),
        ({"mode": "schedule"}, ValueError, "needs radius; mode='adaptive' does without"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        GeneralizedSmoothAGD([Parameter(torch.zeros(1))], **{"smoothness": UNIT, **options})


def test_bad_parameters_and_groups_are_named():
    x = Parameter(torch.ones(2))
    with pytest.raises(TypeError, match="real and dense"):
        GeneralizedSmoothAGD([Parameter(torch.ones(2, dtype=torch.complex64))], UNIT)
    for dtype in (torch.float16, torch.float8_e4m3fn):
        with pytest.raises(TypeError, match=f"float32 or bfloat16, got {dtype}"):
            GeneralizedSmoothAGD([Parameter(torch.ones(2).to(dtype))], UNIT)
    with pytest.raises(ValueError, match="unknown key 'lr' in a parameter group"):
        GeneralizedSmoothAGD([{"params": [x], "lr": 0.1}], UNIT)
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    optimizer.add_param_group({"params": [Parameter(torch.ones(1))]})
    x.grad = torch.ones(2)
    optimizer.step()
    known = GeneralizedSmoothAGD([x], UNIT, radius=3.0)
    known.step()
    with pytest.raises(ValueError, match="cannot be added to a run with a radius"):
        known.add_param_group({"params": [Parameter(torch.ones(1))]})
    x.grad = torch.ones(2).to_sparse()
    with pytest.raises(TypeError, match="gradients must be dense, got a sparse one"):
        optimizer.step()


def test_steps_too_short_for_the_precision_stall():
    x = Parameter(torch.tensor([3.0]))
    optimizer = GeneralizedSmoothAGD([x], ShiftedSquareSmooth(1e30))
    x.grad = torch.ones(1)
    with pytest.raises(FloatingPointError, match="too short a step"):
        optimizer.step()
    assert x.item() == 3.0
    # Steps that were not taken prove nothing.
    x = Parameter(torch.tensor([3.0]))
    optimizer = GeneralizedSmoothAGD([x], UNIT, radius=4.0)
    for gradient in (1.0, 0.9):
        x.grad = torch.full((1,), gradient)
        optimizer.step()
    optimizer.smoothness = ShiftedSquareSmooth(1e60)
    optimizer._memory()["gamma"] = 0.0
    bound = optimizer.gap_bound
    for _ in range(3):
        with pytest.raises(FloatingPointError, match="too short a step"):
            optimizer.step()
        assert optimizer.gap_bound == bound


def test_a_scheduler_may_shorten_steps_to_nothing():
    x = Parameter(torch.tensor([3.0, -2.0]))
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1e-3)
    for _ in range(200):
        x.grad = x.detach().sinh()
        optimizer.step()
        scheduler.step()
    assert x.isfinite().all()


def test_a_new_group_takes_the_share_of_the_others():
    x, late = Parameter(torch.ones(2)), Parameter(torch.ones(1))
    optimizer = GeneralizedSmoothAGD([x], UNIT)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.add_param_group({"params": [late]})
    x.grad, late.grad = torch.ones(2), torch.ones(1)
    optimizer.step()
    assert late.item() < 1.0


def test_a_new_group_starts_the_method_again():
    def run(optimizer, parts, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            sum(p.cosh().sum() for p in parts).backward()
            optimizer.step()

    parts = [Parameter(torch.tensor([2.0])), Parameter(torch.tensor([1.0]))]
    optimizer = GeneralizedSmoothAGD(parts[:1], UNIT)
    run(optimizer, parts[:1], 5)
    optimizer.add_param_group({"params": parts[1:]})
    again = [Parameter(p.detach().clone()) for p in parts]
    run(optimizer, parts, 5)
    run(GeneralizedSmoothAGD(again, UNIT), again, 5)
    assert torch.equal(torch.cat(parts), torch.cat(again))


@pytest.mark.parametrize("mode", ["schedule", "adaptive"])
def test_a_scheduler_takes_a_share_of_the_step_and_keeps_the_certificate(mode):
    problem, law = spectrum_cosh(4.0, d=20), L0L1Smooth(1.0, 4.0)
    params = parameters(problem, 20)
    optimizer = GeneralizedSmoothAGD(params, law, radius=1.0, gap0=problem.gap, mode=mode)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, t / 10))
    for t in range(200):
        x, gap = feed(params, problem)
        optimizer.step()
        assert gap <= optimizer.gap_bound * (1 + 1e-12)
        if t == 0:
            np.testing.assert_array_equal(feed(params, problem)[0], x)
        warmup.step()
    assert gap < 1e-3
    optimizer.param_groups[0]["lr"] = 1.5
    with pytest.raises(ValueError, match=r"lr in \[0, 1\]"):
        optimizer.step()


def test_a_barrier_law_takes_the_warm_start_and_arrives():
    x = Parameter(torch.full((3,), 30.0, dtype=torch.float64))
    radius = float((x.detach() - 1.0).norm())
    optimizer = GeneralizedSmoothAGD(
        [x], ShiftedSquareSmooth(math.sqrt(3.0)), radius=radius, mode="schedule"
    )
    for _ in range(3000):
        optimizer.zero_grad()
        (x - 1.0 - x.log()).sum().backward()
        optimizer.step()
    assert (x - 1.0 - x.log()).sum().item() <= optimizer.gap_bound < 1.0
