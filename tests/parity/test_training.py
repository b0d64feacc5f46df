import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array
from tests.parity.reference import dense_step

from fallline import FalllineWarning
from fallline.parity import ParityProduct, ParityStream, label_noise_mean, train_stream
from fallline.parity.kernel import pass_over

SHAPES = pytest.mark.parametrize("outputs", [None, 1, 3])


def start(stream, seed=0):
    return np.random.default_rng(seed).normal(0.5, 0.25, stream.target.shape)


def sparse_step(w, B, y, lr):
    """One step of the engine on given rows."""
    X = csr_array(B.astype(np.int8))
    after = w.copy()
    signs = 1.0 - 2.0 * y
    rows = np.arange(len(B))
    pass_over(
        after,
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        signs,
        rows,
        len(B),
        lr / len(B),
    )
    return after


@pytest.mark.parametrize("P", [1, 3])
def test_a_sparse_step_is_a_dense_autograd_step(P):
    rng = np.random.default_rng(0)
    for _ in range(50):
        B = np.zeros((12, 15), int)
        for row, active in zip(B, [0, 1, 2, 9, *rng.integers(0, 6, 8)]):
            row[rng.choice(15, active, replace=False)] = 1
        w, y = rng.normal(0.5, 0.5, (15, P)), rng.integers(0, 2, (12, P))
        w[rng.integers(0, 15, 4), 0] = 0.5
        np.testing.assert_allclose(
            sparse_step(w, B, y, 2.0), dense_step(w, B, y, 2.0), rtol=0, atol=1e-12
        )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_sparse_step_is_a_dense_step_on_any_rows(data):
    N, M, P = (data.draw(st.integers(1, 6)) for _ in range(3))
    bits = st.lists(st.integers(0, 1), min_size=M * N, max_size=M * N)
    B = np.array(data.draw(bits)).reshape(M, N)
    values = st.lists(st.sampled_from([0.0, 0.5, 1.0, 0.3, -2.0]), min_size=N * P, max_size=N * P)
    w = np.array(data.draw(values)).reshape(N, P)
    y = np.arange(M * P).reshape(M, P) % 2
    np.testing.assert_allclose(
        sparse_step(w, B, y, 0.7), dense_step(w, B, y, 0.7), rtol=0, atol=1e-10
    )


@SHAPES
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_training_is_dense_sgd_on_the_streams_batches(outputs, noise):
    ours, twin = (
        ParityStream(40, 0.08, p_w=0.5, n_outputs=outputs, noise=noise, seed=1) for _ in range(2)
    )
    w = start(ours)
    expected = w.reshape(40, -1).copy()
    result = train_stream(w, ours, 1.5, 16, 30, every=7)
    for X, y in itertools.islice(twin.batches(16), 30):
        expected = dense_step(expected, X.toarray(), y.reshape(16, -1), 1.5)
    np.testing.assert_allclose(w.reshape(40, -1), expected, rtol=0, atol=1e-12)
    assert (result.steps, result.samples, result.converged) == (30, 480, False)
    assert result.distance == pytest.approx(np.abs(w - ours.target).mean(), rel=1e-12)
    assert result.support_errors == ((w > 0.5) != ours.target).sum()


def test_it_stops_at_the_first_step_below_the_tolerance():
    stream = ParityStream(200, p_w=0.5, n_outputs=3, seed=2)
    w, distances = start(stream), []
    result = train_stream(
        w, stream, 20, 200, 500, each_output=True, every=1,
        callback=lambda step, d: distances.append(np.abs(w - stream.target).mean(axis=0)),
    )  # fmt: skip
    first = (np.array(distances) < 0.01).argmax(axis=0) + 1
    np.testing.assert_array_equal(result.first_steps, first)
    assert result.converged
    assert result.steps == first.max()

    again = ParityStream(200, p_w=0.5, n_outputs=3, seed=2)
    v = start(again)
    mean = train_stream(v, again, 20, 200, 500)
    assert mean.steps == (np.mean(distances, axis=1) < 0.01).argmax() + 1
    assert mean.distance < 0.01


def test_the_running_distance_does_not_drift():
    stream = ParityStream(300, p_w=0.5, seed=0)
    w = start(stream)
    result = train_stream(w, stream, 0.3, 30, 2500, tol=1e-300)
    assert result.distance == pytest.approx(np.abs(w - stream.target).mean(), rel=1e-12)


def test_chunks_make_no_difference():
    runs = []
    for every in (1, 13, 1000):
        stream = ParityStream(50, p_w=0.5, seed=0)
        w = start(stream)
        train_stream(w, stream, 0.1, 10, 1500, tol=1e-300, every=every)
        runs.append(w)
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


def test_nothing_is_done_where_all_is_done():
    stream = ParityStream(50, p_w=0.5, seed=0)
    w = stream.target.astype(float)
    result = train_stream(w, stream, 1.0, 10, 100)
    assert (result.steps, result.converged, result.distance) == (0, True, 0.0)


def test_the_callback_watches_and_stops():
    stream, seen = ParityStream(100, p_w=0.5, seed=0), []
    train_stream(start(stream), stream, 1.0, 10, 25, callback=lambda *at: seen.append(at), every=10)
    assert [step for step, _ in seen] == [10, 20, 25]
    assert seen[0][1] > seen[2][1] > 0
    result = train_stream(start(stream), stream, 1.0, 10, 25, callback=lambda k, d: k >= 4, every=2)
    assert result.steps == 4


def test_schedules_of_step_size_and_density():
    ours, twin = (ParityStream(30, p_w=0.5, seed=3) for _ in range(2))
    w = start(ours)
    expected = w[:, np.newaxis].copy()
    rates, densities = (lambda k: 1.0 / (1 + k)), (lambda k: min(1.0, (1 + k) / 30))
    train_stream(w, ours, rates, 8, 12, density=densities)
    for k in range(12):
        X, y = twin.sample(8, densities(k))
        expected = dense_step(expected, X.toarray(), y[:, np.newaxis], rates(k))
    np.testing.assert_allclose(w, expected[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_layer_is_trained_in_place(dtype):
    stream = ParityStream(500, p_w=0.5, n_outputs=2, seed=0)
    model = ParityProduct(500, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    memory = model.weight.data_ptr()
    result = train_stream(model, stream, 50, 500, 200)
    assert result.converged
    assert model.weight.data_ptr() == memory
    assert model.weight.dtype == dtype
    assert (model.harden().numpy() == stream.target).all()


def test_one_hot_inputs_at_half_the_batch_jump_to_the_target():
    for bit, weight in itertools.product((0, 1), (0.25, 0.3, 0.5, 1.75)):
        w = np.full((4, 1), weight)
        B = np.eye(4, dtype=int)[[2]]
        after = sparse_step(w, B, np.array([[bit]]), 0.5)
        assert after[2, 0] == pytest.approx(bit, abs=1e-15)
        assert (after[[0, 1, 3]] == weight).all()
        once = sparse_step(w, B, np.array([[bit]]), 0.2)
        assert once[2, 0] - bit == pytest.approx((1 - 2 * 0.2) * (weight - bit))


def test_the_share_of_the_target_does_not_matter():
    steps = []
    for p_w in (0.0, 0.5, 1.0):
        stream = ParityStream(10_000, p_w=p_w, seed=0)
        steps.append(train_stream(start(stream), stream, 1.0, 400, 25_000).steps)
    assert max(steps) / min(steps) < 1.01
    assert 21_700 < min(steps) < max(steps) < 22_200


@pytest.mark.parametrize(("ratio", "low", "high"), [(0.1, 25_000, 26_300), (0.25, 12_500, 13_800)])
def test_samples_depend_on_the_step_size_per_sample_alone(ratio, low, high):
    for M in (1, 10, 100):
        if ratio * M > 25:  # above alpha p_e = 0.025 a quarter is no longer safe
            continue
        counts = []
        for seed in range(3):
            stream = ParityStream(1000, p_w=0.5, seed=seed)
            counts.append(train_stream(start(stream), stream, ratio * M, M, 100_000).samples)
        assert low < np.mean(counts) < high


def settled(N, ratio, pace):
    """How many of ten runs converge at alpha = pace N and M = alpha / ratio."""
    count, lr = 0, pace * N
    for seed in range(10):
        stream = ParityStream(N, p_w=0.5, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FalllineWarning)  # some weights blow up
            result = train_stream(
                start(stream, seed), stream, lr, round(lr / ratio), int(60 / pace)
            )
        count += result.converged
    return count


def test_batches_that_are_small_for_the_step_size_fail_more_often_at_more_inputs():
    assert settled(1000, 0.1, 0.1) == settled(1000, 0.25, 0.025) == 10
    assert settled(100, 1 / 3, 0.1) >= 8
    assert settled(3000, 1 / 3, 0.1) <= 3
    assert settled(3000, 0.5, 0.1) == 0


@pytest.mark.parametrize("N", [25, 300, 10_000])
def test_steps_do_not_depend_on_size(N):
    outputs = 20 if N < 1000 else None
    stream = ParityStream(N, p_w=0.5, n_outputs=outputs, seed=0)
    result = train_stream(start(stream), stream, 0.005 * N, N, 1000, each_output=True)
    assert result.first_steps.mean() * 0.005 == pytest.approx(2.18, rel=0.05)


def one_hot_skewness(r, distance=0.1):
    """Skewness of weights of a class with target 0 when every sample has one active bit.

    A bit seen n ~ Poisson(lam) times has w = (1 - 2 r)^n w_0, so that E w^k = E w_0^k
    exp(lam ((1 - 2 r)^k - 1)) with w_0 ~ Normal(1/2, 1/16); the mean is the distance.
    """
    lam = np.log(0.5 / distance) / (2 * r)
    start_moments = (0.5, 0.25 + 1 / 16, 0.125 + 1.5 / 16)
    m1, m2, m3 = (
        m * np.exp(lam * ((1 - 2 * r) ** k - 1)) for k, m in enumerate(start_moments, start=1)
    )
    return (m3 - 3 * m1 * m2 + 2 * m1**3) / (m2 - m1**2) ** 1.5


def test_classes_are_gaussian_in_expectation_and_skewed_by_small_batches():
    assert one_hot_skewness(0.01) == pytest.approx(0.34, abs=0.01)
    assert one_hot_skewness(0.001) == pytest.approx(0.04, abs=0.01)
    assert one_hot_skewness(1e-5) == pytest.approx(0.0, abs=0.001)
    skews = {}
    for M in (200, 2000):
        stream = ParityStream(20_000, p_w=0.5, seed=0)
        w = start(stream)
        assert train_stream(w, stream, 2.0, M, 15_000, tol=0.1).converged
        mirrored = np.where(stream.target, 1 - w, w)
        skews[M] = stats.skew(mirrored)
    # Standard error 0.017.
    assert skews[200] > 0.15
    assert abs(skews[2000]) < 0.1


def test_label_noise_settles_at_its_root():
    stream = ParityStream(1000, p_w=0.5, noise=0.2, seed=0)
    w = start(stream)
    result = train_stream(w, stream, 0.4, 1000, 15_000, tol=1e-300)
    assert result.distance == pytest.approx(label_noise_mean(0.2), abs=0.01)
    assert result.support_errors == 0


def test_a_step_size_above_the_limit_is_told():
    stream = ParityStream(100, p_w=0.5, seed=0)
    with pytest.warns(FalllineWarning, match=r"lr = 60 is above the stability limit 50\.25"):
        train_stream(start(stream), stream, 60, 1000, 3)
    with pytest.warns(FalllineWarning, match="lr = 55 is above") as told:
        train_stream(start(stream), stream, lambda k: 5.0 + 50 * (k > 1500), 500, 2000, 1e-300)
    assert sum("above" in str(warning.message) for warning in told) == 1


def test_weights_that_blow_up_stop_the_run():
    stream = ParityStream(40, 0.3, p_w=0.5, seed=0)
    with pytest.warns(FalllineWarning) as told:
        result = train_stream(start(stream), stream, 500, 50, 2000)
    assert not result.converged
    assert result.steps < 2000
    assert not np.isfinite(result.distance)
    message = str(told[-1].message)
    assert "no longer finite" in message
    assert "lr = 500" in message
    assert "stability limit is 0.262" in message


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"lr": 0.0}, ValueError, "lr must be > 0 and finite, got 0.0"),
        ({"lr": lambda k: -1.0}, ValueError, "lr must be > 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be an integer >= 1, got 0"),
        ({"max_steps": 1.5}, ValueError, "max_steps must be an integer"),
        ({"tol": 0.0}, ValueError, "tol must be > 0"),
        ({"every": 0}, ValueError, "every must be"),
        ({"density": 1.1}, ValueError, r"p_e must lie in \(0, 1\]"),
        ({"weights": np.zeros(4)}, ValueError, r"shape \(4,\), the stream's target \(5,\)"),
        ({"weights": np.full(5, np.nan)}, ValueError, "weights must be finite"),
        ({"weights": np.zeros(5, np.float32)}, TypeError, "must be float64, got float32"),
        ({"weights": [0.0] * 5}, TypeError, "a ParityProduct or a float64 array, got list"),
        (
            {"weights": ParityProduct(5, device="meta")},
            ValueError,
            r"the model must be on the CPU, got meta",
        ),
    ],
)
def test_bad_input_is_refused(change, error, message):
    good = {
        "weights": np.full(5, 0.4),
        "stream": ParityStream(5, support=[1]),
        "lr": 0.1,
        "batch_size": 5,
        "max_steps": 3,
    }
    with pytest.raises(error, match=message):
        train_stream(**good | change)


def test_a_hundred_thousand_inputs_need_little_memory():
    program = """
import resource
import numpy as np
from fallline.parity import ParityStream, train_stream
stream = ParityStream(100_000, p_w=0.5, seed=0)
w = np.random.default_rng(0).normal(0.5, 0.25, 100_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = train_stream(w, stream, 10, 1000, 25_000)
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
assert result.converged and result.support_errors == 0, result
print(used)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 300
