import functools
import warnings

import numpy as np
import pytest
import torch
from tests.parity.reference import enumerated_loss

from fallline import FalllineWarning
from fallline.parity import (
    ParityStream,
    mean_field,
    paper_bounds,
    stability_limit,
    suggest,
    train_stream,
)


def test_the_limit_is_two_over_the_largest_eigenvalue():
    assert stability_limit(100, 0.01) == pytest.approx(50.2512563, abs=5e-8)
    for N, p_e in ((5, 0.2), (6, 0.7), (4, 1.0), (1, 0.3)):
        w_true = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0][:N], dtype=torch.float64)
        loss = functools.partial(enumerated_loss, w_true=w_true, p_e=p_e)
        H = torch.autograd.functional.hessian(loss, w_true)
        largest = torch.linalg.eigvalsh(H)[-1].item()
        assert stability_limit(N, p_e) == pytest.approx(2 / largest)
    assert stability_limit(10**6, 1e-6) == pytest.approx(5e5, rel=1e-5)


def converges(c, share, seed, near=False):
    N = 100
    stream = ParityStream(N, c / N, p_w=0.5, seed=seed)
    rng = np.random.default_rng(seed)
    w = stream.target + rng.normal(0, 0.03, N) if near else rng.normal(0.5, 0.25, N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FalllineWarning)
        lr = share * stability_limit(N, c / N)
        return train_stream(w, stream, lr, 20_000, 300, 1e-4 if near else 0.01).converged


@pytest.mark.parametrize("seed", range(3))
def test_runs_converge_below_the_limit_and_fail_above(seed):
    assert converges(1.0, 0.9, seed)
    assert not converges(1.0, 1.1, seed)
    for c in (0.5, 2.0):
        # From afar a run above the limit may pass near the solution before it leaves.
        assert converges(c, 0.9, seed, near=True)
        assert not converges(c, 1.1, seed, near=True)


def test_golden_bounds():
    hundred, thousand = paper_bounds(100), paper_bounds(1000)
    assert hundred.alpha0 == pytest.approx(10.036788, abs=5e-7)
    assert hundred.alpha1 == pytest.approx(5.018394, abs=5e-7)
    assert hundred.alpha2 == pytest.approx(1.488074, abs=5e-7)
    assert hundred.interval == pytest.approx((-0.032999850, 0.030956716), abs=5e-10)
    bounds = (thousand.alpha0, thousand.alpha1, thousand.alpha2)
    assert bounds == pytest.approx((104.89536, 52.44768, 17.71697), abs=5e-6)
    assert paper_bounds(18).alpha2 == pytest.approx(0.0131067, abs=5e-8)


@pytest.mark.parametrize("N", [18, 19, 50, 1000, 10**6])
def test_order_of_the_bounds(N):
    bounds = paper_bounds(N)
    assert 0 < bounds.alpha2 < bounds.alpha1 < bounds.alpha0 < stability_limit(N, 1 / N)
    low, high = bounds.interval_at(bounds.alpha2 / 2)
    assert low < bounds.interval[0] < 0 < bounds.interval[1] < high < 0.5


def test_small_sizes_have_no_alpha2():
    bounds = paper_bounds(17)
    assert bounds.alpha1 == bounds.alpha0 / 2 > 0
    for name in ("alpha2", "interval"):
        with pytest.raises(ValueError, match="proved for N >= 18, got N = 17"):
            getattr(bounds, name)
    with pytest.raises(ValueError, match="N >= 18"):
        bounds.interval_at(0.001)
    with pytest.raises(ValueError, match="N must be an integer >= 3, got 2"):
        paper_bounds(2)
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, alpha2 = 1.48807\), got 2"):
        paper_bounds(100).interval_at(2)


def test_suggestions():
    plain = suggest(1000)
    assert (plain.p_e, plain.lr, plain.batch_size) == (1e-3, 100.0, 1000)
    assert plain.samples == 1000 * plain.steps
    assert plain.steps == mean_field(1000, 100.0, 1e-3).steps
    assert suggest(1000, 10).lr == 1.0
    assert suggest(10, 1000).lr == 1.0
    assert suggest(1000, p_e=1e-3).lr == pytest.approx(100.0)
    for c in (0.2, 2.25, 6.0):
        dense = suggest(1000, 10**6, p_e=c / 1000)
        assert dense.lr == pytest.approx(stability_limit(1000, c / 1000) / 5, rel=2e-3)
    assert suggest(1000, p_e=0.5).steps is None
    assert suggest(1).steps is not None


def test_a_suggestion_works():
    for N, M, c in ((100, None, None), (1000, 50, None), (500, 500, 2.25), (7, None, None)):
        advice = suggest(N, M, p_e=None if c is None else c / N)
        stream = ParityStream(N, advice.p_e, p_w=0.5, n_outputs=20, seed=0)
        w = np.random.default_rng(0).normal(0.5, 0.25, (N, 20))
        result = train_stream(
            w, stream, advice.lr, advice.batch_size, 10 * advice.steps, each_output=True
        )
        assert result.converged
        # The noise of sampling costs about a fifth at r = 0.1.
        assert np.median(result.first_steps) == pytest.approx(1.15 * advice.steps, rel=0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stability_limit(0, 0.5), "N must be an integer >= 1, got 0"),
        (lambda: stability_limit(5, 1.5), r"p_e must lie in \(0, 1\], got 1.5"),
        (lambda: suggest(0), "N must be"),
        (lambda: suggest(5, 0), "batch_size must be an integer >= 1, got 0"),
        (lambda: suggest(5, p_e=0.0), r"p_e must lie in \(0, 1\], got 0.0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
