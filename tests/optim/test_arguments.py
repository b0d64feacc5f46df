"""Every refusal names the argument, the value and the valid range."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from fallline.optim import (
    Momo,
    MomoAdam,
    MuonAdam,
    MuonAdamMomo,
    MuonMax,
    MuonMaxMomo,
    NonEuclidean,
    PolarGrad,
    Scion,
    SignGD,
)


def pair():
    return [Parameter(torch.zeros(2, 2))], [Parameter(torch.zeros(2))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, r"lr must be in \[0, inf\), got -1.0"),
        ({"lr": math.nan}, "lr must be in"),
        ({"lr": torch.zeros(2)}, r"lr must hold one value, got shape \(2,\)"),
        ({"beta": 1.0}, r"beta must be in \[0, 1\), got 1.0"),
        ({"beta2": -0.1}, r"beta2 must be in \[0, 1\), got -0.1"),
        ({"eps": -1e-8}, r"eps must be in \[0, inf\)"),
        ({"weight_decay": -0.1}, r"weight_decay must be in \[0, inf\), got -0.1"),
        ({"matrix_lr_ratio": 0.0}, r"matrix_lr_ratio must be in \(0, inf\), got 0.0"),
        ({"f_star": math.inf}, "f_star must be in"),
        ({"f_star": "estimate"}, "f_star must be one of 'auto', got 'estimate'"),
        ({"lb0": math.nan}, "lb0 must be in"),
        ({"matrix_norm": "nuclear"}, "matrix_norm must be one of 'spectral', 'linf'"),
        ({"other_norm": "spectrum"}, "other_norm must be one of"),
        ({"aggregation": "sum"}, "aggregation must be one of 'linf', 'l2', 'hybrid', got 'sum'"),
        ({"polar": "qr"}, "polar must be one of"),
        ({"polar_steps": 0}, "polar_steps must be at least 1, got 0"),
        ({"polar_dtype": torch.int32}, "polar_dtype must be 'auto' or a floating"),
        ({"polar_dtype": "bf16"}, "polar_dtype must be 'auto' or a floating"),
        ({"nuclear": "svd"}, "nuclear must be one of 'cached', 'stale', 'frobenius'"),
        ({"shape_scale": "spectral"}, "shape_scale must be one of None, 'rms'"),
        ({"momentum_init": "ones"}, "momentum_init must be one of"),
        ({"on_nonfinite": "ignore"}, "on_nonfinite must be one of 'raise', 'skip'"),
        ({"nesterov": True}, "nesterov=True cannot be combined with truncate=True"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        NonEuclidean(pair(), **options)


@pytest.mark.parametrize(
    ("group", "error", "message"),
    [
        ({"kind": "tensor"}, ValueError, "kind must be one of 'matrix', 'other', got 'tensor'"),
        ({"kind": "matrix"}, ValueError, r"of shape \(3,\) cannot have kind='matrix'"),
        ({"kind": "other", "norm": "spectral"}, ValueError, "takes at least 2 dimensions"),
        ({"kind": "other", "norm": "l1"}, ValueError, "norm must be one of"),
        ({"kind": "other", "lr": 0.5}, ValueError, "share one lr, got 0.001 .* use lr_scale"),
        ({"kind": "other", "lr_scale": 0}, ValueError, r"lr_scale must be in \(0, inf\)"),
        ({"kind": "other", "weight_decay": -1}, ValueError, "weight_decay must be in"),
        ({"kind": "other", "momentum": 0.9}, ValueError, "unknown key 'momentum'.*lr_scale"),
    ],
)
def test_groups(group, error, message):
    group = {"params": [Parameter(torch.zeros(3))]} | group
    with pytest.raises(error, match=message):
        MuonAdam([{"params": [Parameter(torch.zeros(2, 2))], "kind": "matrix"}, dict(group)])
    opt = MuonAdam(pair())
    with pytest.raises(error, match=message):
        opt.add_param_group(dict(group))
    assert len(opt.param_groups) == 2  # a refused group leaves no trace


def test_a_refused_group_leaves_no_trace_where_it_was_routed():
    W, b = pair()
    opt = MuonAdam(([("W", W[0])], [("b", b[0])]))
    named = [("W2", Parameter(torch.zeros(3, 3))), ("b", b[0])]
    with pytest.raises(ValueError, match="more than one parameter group"):
        opt.add_param_group({"params": named})  # the matrix is fine, the bias is there already
    assert len(opt.param_groups) == 2
    opt.add_param_group({"params": named[:1]})
    assert len(opt.param_groups) == 3


@pytest.mark.parametrize(
    "params", [[], ([], []), torch.nn.Tanh(), [{"params": []}], [{"params": [], "kind": "other"}]]
)
def test_no_parameters_are_refused(params):
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        MuonAdam(params)


@pytest.mark.parametrize("make", [MuonAdam, MuonMax])
def test_float16_is_refused_where_squares_are_averaged(make):
    w = Parameter(torch.ones(3, dtype=torch.float16))
    with pytest.raises(TypeError, match="float16, which cannot hold the squares"):
        make([w])
    with pytest.raises(TypeError, match="float16"):
        make([Parameter(torch.ones(2))]).add_param_group({"params": [w]})
    w.grad = torch.ones_like(w)
    Scion([w], lr=0.5, weight_decay=0.0).step()
    assert w.tolist() == [0.5] * 3


def test_presets_refuse_what_they_fix():
    for make, use in ((MuonMaxMomo, "MuonMax or "), (MuonAdamMomo, "MuonAdam or "), (Momo, "")):
        message = f"{make.__name__} fixes truncate; use {use}NonEuclidean"
        with pytest.raises(TypeError, match=message):
            make([Parameter(torch.zeros(2))], truncate=False)
    for make in EVERY_PRESET:
        with pytest.raises(TypeError, match=f"{make.__name__} fixes aggregation; use NonEuclidean"):
            make([Parameter(torch.zeros(2))], aggregation="l2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": "1e-3"}, "lr must be a number, got '1e-3' of type str"),
        ({"lr": None}, "lr must be a number, got None"),
        ({"lr": torch.tensor(1j)}, "lr must be real, got torch.complex64"),
        ({"weight_decay": None}, "weight_decay must be a number, got None"),
        ({"beta": "x"}, "beta must be a number, got 'x'"),
        ({"beta2": "x"}, "beta2 must be a number, got 'x'"),
        ({"eps": "x"}, "eps must be a number, got 'x'"),
        ({"lb0": None}, "lb0 must be a number, got None"),
        ({"matrix_lr_ratio": "2"}, "matrix_lr_ratio must be a number, got '2'"),
        ({"f_star": None}, "f_star must be a number, got None"),
    ],
)
def test_what_is_no_number_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        NonEuclidean(pair(), **options)


def test_lr_scale_is_a_number():
    group = {"params": [Parameter(torch.zeros(2))], "kind": "other", "lr_scale": "2"}
    with pytest.raises(TypeError, match="lr_scale must be a number, got '2'"):
        MuonAdam([group])


@pytest.mark.parametrize("lr", [-1.0, math.nan])
def test_a_learning_rate_in_a_tensor_is_checked_where_that_is_free(lr):
    with pytest.raises(ValueError, match=r"lr must be in \[0, inf\), got tensor"):
        MuonAdam(pair(), lr=torch.tensor(lr))


def test_lists_of_lists_are_told_from_a_pair():
    W, b = pair()
    message = r"got a list in an iterable of parameters; .*tuple \(matrix_params, other_params\)"
    with pytest.raises(TypeError, match=message):
        MuonAdam([W, b])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64])
def test_real_floating_parameters_only(dtype):
    p = Parameter(torch.zeros(2, 2, dtype=dtype), requires_grad=dtype.is_complex)
    with pytest.raises(TypeError, match=f"real floating-point tensor, got {dtype}"):
        MuonAdam([{"params": [p], "kind": "matrix"}])


def test_sparse_gradients_are_refused_by_name():
    table = torch.nn.Embedding(5, 3, sparse=True)
    opt = MuonAdam(table)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="weight has a sparse gradient"):
        opt.step()


@pytest.mark.parametrize("make", [MuonMaxMomo, Momo])
def test_truncation_needs_the_loss(make):
    opt = make([Parameter(torch.zeros(2))])
    message = rf"{make.__name__} needs the loss: step\(closure\) or step\(loss=\.\.\.\)"
    with pytest.raises(ValueError, match=message):
        opt.step()
    with pytest.raises(ValueError, match=message):
        opt.step(lambda: None)
    with pytest.raises(ValueError, match="PolarGrad needs the loss"):
        PolarGrad([Parameter(torch.zeros(2))], truncate=True).step()


def test_one_loss_only():
    opt = MuonMaxMomo([Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match=r"more than once: step\(closure\) and step\(loss=...\)"):
        opt.step(lambda: 1.0, loss=1.0)
    opt.set_loss(1.0)
    with pytest.raises(ValueError, match=r"step\(loss=...\) and set_loss\(loss\)"):
        opt.step(loss=1.0)


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (torch.zeros(3), ValueError, r"loss must hold one value, got shape \(3,\)"),
        ("1", TypeError, "loss must be a scalar Tensor or a float, got str"),
        (True, TypeError, "got bool"),
        (torch.tensor(1j), TypeError, "loss must be real, got torch.complex64"),
    ],
)
def test_the_loss_is_one_number(loss, error, message):
    w = Parameter(torch.zeros(2))
    opt = MuonMaxMomo([w])
    w.grad = torch.ones(2)
    with pytest.raises(error, match=message):
        opt.step(loss=loss)
    with pytest.raises(error, match=message):
        opt.set_loss(loss)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, Fraction])
def test_any_real_number_is_a_loss(kind):
    w = Parameter(torch.zeros(2))
    opt = MuonMaxMomo([w])
    w.grad = torch.ones(2)
    opt.step(loss=kind(3))
    assert float(opt.last.F) == 3
    opt.set_loss(kind(2))
    opt.step()
    assert float(opt.last.F) < 3


def test_a_second_pending_loss_replaces_the_first():
    """What a loop needs after GradScaler has skipped a step."""
    w = Parameter(torch.zeros(2))
    opt = MuonMaxMomo([w])
    w.grad = torch.ones(2)
    opt.set_loss(7.0)
    opt.set_loss(2.0)
    opt.step()
    assert float(opt.last.F) == 2


def two_layers(**options):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)).double()
    return model, MuonMaxMomo(model, **options)


def spoil(model, value):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model[1].weight.grad[0, 1] = value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("truncate", [True, False])
def test_a_nonfinite_gradient_raises_by_name_and_nothing_moves(value, truncate):
    model, opt = two_layers()
    if not truncate:
        opt = MuonAdam(model)
    spoil(model, value)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(FloatingPointError, match=r"gradient of 1\.weight is not finite"):
        opt.step(loss=1.0)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    assert not opt.state  # no average has seen it


def test_a_nonfinite_loss_raises():
    model, opt = two_layers()
    spoil(model, 1.0)
    with pytest.raises(FloatingPointError, match="the loss is not finite: nan"):
        opt.step(loss=math.nan)


def test_skipped_steps_are_counted_and_leave_everything():
    model, opt = two_layers(on_nonfinite="skip")
    spoil(model, math.nan)
    before = [p.detach().clone() for p in model.parameters()]
    opt.step(loss=1.0)
    opt.step(loss=1.0)
    assert opt.skipped_steps == 2
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    spoil(model, 1.0)
    opt.step(loss=1.0)
    assert opt.skipped_steps == 2
    assert not torch.equal(model[1].weight, before[2])


def matrix_and_bias(scale, weight=1.0):
    W, b = Parameter(weight * torch.eye(2)), Parameter(torch.zeros(2))
    W.grad, b.grad = scale * torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.ones(2)
    return W, b


EVERY_PRESET = [
    Momo, MomoAdam, MuonAdam, MuonAdamMomo, MuonMax, MuonMaxMomo, PolarGrad, Scion, SignGD,
]  # fmt: skip


@pytest.mark.parametrize("make", EVERY_PRESET)
@pytest.mark.parametrize("scale", [1e10, 1e15, 2e18])
def test_huge_but_finite_gradients_move_as_ordinary_ones(make, scale):
    """Squares of duals overflow, the duals do not; the next ordinary step is as good as any."""
    W, b = matrix_and_bias(scale)
    opt = make(([W], [b]), weight_decay=0.0, lr=1e-3)
    for _ in range(3):
        opt.step(loss=1.0)
        if opt.last.G is not None:
            assert opt.last.G.isfinite()
            dual = opt.last.layer_duals["group 0 parameter 0"]
            assert dual > (scale**0.5 if make is MomoAdam else scale)
        if opt.last.F is not None:
            assert opt.last.F.isfinite()
        assert W.isfinite().all()
        assert b.isfinite().all()
        W.grad = torch.eye(2)
    if opt.last.F is None:  # truncated steps of 1e-40 vanish
        assert not torch.equal(W.detach(), torch.eye(2))


@pytest.mark.parametrize("make", EVERY_PRESET)
@pytest.mark.parametrize("scale", [1e20, 1e25])
def test_a_gradient_whose_norm_overflows_raises(make, scale):
    """Its polar factor and second moment would be 0, and the step would leave it out unseen."""
    W, b = matrix_and_bias(scale)
    opt = make([("W", W), ("b", b)])
    with pytest.raises(FloatingPointError, match="the norm of the gradient of W is not finite"):
        opt.step(loss=1.0)
    assert torch.equal(W.detach(), torch.eye(2))
    assert not opt.state


@pytest.mark.parametrize("skip", [False, True])
def test_an_overflowing_product_of_gradient_and_parameter_raises(skip):
    W, b = matrix_and_bias(1e15, weight=1e25)
    before = W.detach().clone()
    options = {"on_nonfinite": "skip"} if skip else {}
    opt = MuonMaxMomo([("W", W), ("b", b)], weight_decay=0.0, **options)
    if skip:
        opt.step(loss=1.0)
        assert opt.skipped_steps == 1
    else:
        with pytest.raises(FloatingPointError, match="<g, w> of W is not finite: inf"):
            opt.step(loss=1.0)
        assert not opt.state
    assert torch.equal(W.detach(), before)
    with torch.no_grad():
        W.copy_(torch.eye(2))
    W.grad = torch.eye(2)
    opt.step(loss=1.0)  # no average has kept it
    assert opt.last.F.isfinite()
    assert W.isfinite().all()
    assert b.lt(0).all()


@pytest.mark.parametrize("make", [MuonMaxMomo, MuonAdamMomo, Momo])
def test_a_parameter_that_is_nan_stops_a_truncated_step(make):
    w, v = Parameter(torch.tensor([1.0, math.nan])), Parameter(torch.ones(2))
    w.grad, v.grad = torch.zeros(2), torch.ones(2)
    opt = make([("w", w), ("v", v)])
    with pytest.raises(FloatingPointError, match="<g, w> of w is not finite: nan"):
        opt.step(loss=1.0)
    assert torch.equal(v.detach(), torch.ones(2))
    assert not opt.state


@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf, torch.tensor(math.nan)])
def test_a_callable_bound_is_checked_as_the_constant_is(bound):
    w = Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    values = [0.0, bound, 0.5]
    opt = MuonMaxMomo([w], f_star=lambda step: values[step])
    opt.step(loss=1.0)
    before, average = w.detach().clone(), opt.state[w]["exp_avg"].clone()
    w.grad = 3 * torch.ones(2)
    with pytest.raises(ValueError, match=r"f_star\(1\) must be in \(-inf, inf\), got"):
        opt.step(loss=1.0)
    assert torch.equal(w.detach(), before)
    assert torch.equal(opt.state[w]["exp_avg"], average)
    assert opt.state[w]["truncated_steps"] == 1
    values[1] = torch.tensor(0.25)
    opt.step(loss=1.0)
    assert float(opt.last.f_star) == 0.25


@pytest.mark.parametrize("bound", [None, "x"])
def test_a_callable_bound_must_give_a_number(bound):
    w = Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    with pytest.raises(TypeError, match=r"f_star\(0\) must be a number, got"):
        MuonMaxMomo([w], f_star=lambda step: bound).step(loss=1.0)


def test_groups_of_unequal_lr_are_refused_at_the_step():
    W, b = pair()
    opt = MuonAdam((W, b))
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, [lambda e: 1.0, lambda e: 0.5])
    W[0].grad = torch.ones(2, 2)
    with pytest.raises(ValueError, match="use lr_scale"):
        opt.step()
    del scheduler
