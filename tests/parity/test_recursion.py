import numpy as np
import pytest

from fallline.parity import (
    ParityStream,
    label_noise_mean,
    mean_field,
    paper_bounds,
    train_stream,
)

# Steps at N = 100 and alpha = 0.1, by the mean number of active bits.
STEPS = {
    0.1: 19128, 0.49: 3914, 1.05: 2109, 2.02: 1578, 2.22: 1567, 2.44: 1578, 3.56: 1991,
    4.29: 2671, 5.18: 4282, 6.25: 8538,
}  # fmt: skip


def test_golden_step_counts():
    assert mean_field(100_000, 10, 1e-5).steps == 21851
    assert mean_field(10_000, 1, 1e-4, sigma0=0.5).steps == 24296
    assert mean_field(1_000_000, 1e4, 1e-6).steps == 218
    for c, steps in STEPS.items():
        assert abs(mean_field(100, 0.1, c / 100).steps - steps) <= 2


def test_the_recursion_in_plain_python():
    N, lr, p_e, eta = 50, 2.0, 0.02, 0.1
    field = mean_field(N, lr, p_e, 0.45, 0.2, steps=20, noise=eta)
    mu, sigma = 0.45, 0.2
    for k in range(21):
        assert field.mu[k] == pytest.approx(mu, rel=1e-12)
        assert field.sigma[k] == pytest.approx(sigma, rel=1e-12)
        A = (1 + 4 * p_e * (mu**2 + sigma**2 - mu)) ** (N - 1)
        B = (1 - 2 * p_e * mu) ** (N - 1)
        m = 1 - 2 * lr * p_e * A
        mu, sigma = m * mu + lr * p_e * (A - (1 - 2 * eta) * B), abs(m) * sigma
    assert len(field.mu) == 21


def test_the_distance_is_the_mean_of_a_folded_gaussian():
    field = mean_field(100, 1.0, 0.01, steps=300)
    draws = np.random.default_rng(0).standard_normal(400_000)
    for k in (0, 100, 200):
        expected = np.abs(field.mu[k] + field.sigma[k] * draws).mean()
        assert field.distance[k] == pytest.approx(expected, rel=0.01)
    point = mean_field(100, 1.0, 0.01, sigma0=0.0, steps=10)
    np.testing.assert_array_equal(point.distance, np.abs(point.mu))


def test_it_predicts_a_run():
    field = mean_field(20_000, 1000.0, 1 / 20_000, steps=40)
    stream = ParityStream(20_000, p_w=0.5, seed=0)
    w = np.random.default_rng(0).normal(0.5, 0.25, 20_000)

    def compare(step, distance):
        mirrored = np.where(stream.target, 1 - w, w)
        assert mirrored.mean() == pytest.approx(field.mu[step], abs=0.01)
        assert mirrored.std() == pytest.approx(field.sigma[step], abs=0.01)
        assert distance == pytest.approx(field.distance[step], abs=0.01)

    train_stream(w, stream, 1000, 400_000, 40, tol=1e-300, callback=compare, every=5)


def test_the_best_density_is_two_and_a_quarter():
    for N in (100, 1000, 10_000):
        steps = {c: mean_field(N, 1e-4 * N, c / N).steps for c in np.arange(1.0, 3.5, 0.05)}
        best = min(steps, key=steps.get)
        assert 2.15 <= best <= 2.3
        assert steps[1.0] / steps[best] == pytest.approx(1.39, abs=0.01)


@pytest.mark.parametrize("N", [25, 1000, 1_000_000])
def test_steps_at_one_active_bit(N):
    for pace in (1e-3, 1e-2, 0.05):
        steps = mean_field(N, pace * N, 1 / N).steps
        assert steps * pace == pytest.approx(2.18, rel=0.06 if N == 25 else 0.04)


@pytest.mark.parametrize("N", [18, 100, 1000])
def test_below_alpha2_the_spread_vanishes_and_the_mean_ends_in_the_interval(N):
    bounds = paper_bounds(N)
    for share in (0.3, 0.95):
        lr = share * bounds.alpha2
        field = mean_field(N, lr, 1 / N, steps=int(30 * N / lr))
        assert field.sigma[-1] < 1e-3 * field.sigma[0]
        assert (np.diff(field.sigma) <= 0).all()
        low, high = bounds.interval_at(lr)
        assert low <= field.mu[-1] <= high


def test_no_convergence_is_none():
    assert mean_field(100, 500, 0.01, steps=1000).steps is None
    assert mean_field(100, 0.1, 0.01, steps=50).steps is None
    assert mean_field(1000, 0.5, 0.5).steps is None
    assert mean_field(1000, 10, 1e-3, noise=0.1).steps is None
    assert mean_field(10, 0.1, 0.1, mu0=0.0, sigma0=0.001).steps == 0


def test_noise_ends_the_recursion_at_its_root():
    field = mean_field(1000, 50, 1e-3, steps=2000, noise=0.3)
    assert field.mu[-1] == pytest.approx(label_noise_mean(0.3, 1000), abs=1e-9)
    assert field.sigma[-1] < 1e-9


def test_roots_of_label_noise():
    roots = {0.1: 0.0573, 0.2: 0.1347, 0.3: 0.2432, 0.4: 0.3800}
    for eta, root in roots.items():
        mu = label_noise_mean(eta)
        assert mu == pytest.approx(root, abs=6e-5)
        kept = 1 - 2 * eta
        assert (1 - 2 * mu) * np.exp(4 * (mu**2 - mu)) == pytest.approx(kept * np.exp(-2 * mu))
        assert label_noise_mean(eta, 10**7) == pytest.approx(mu, abs=1e-6)
        assert label_noise_mean(eta, 1, 1.0) == pytest.approx(eta)
        assert 0 < label_noise_mean(eta, 50, 1.0) < 0.5
    assert label_noise_mean(0.0) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_field(0, 1, 0.5), "N must be an integer >= 1, got 0"),
        (lambda: mean_field(9, 0, 0.5), "lr must be > 0 and finite, got 0"),
        (lambda: mean_field(9, 1, 0), r"p_e must lie in \(0, 1\], got 0"),
        (lambda: mean_field(9, 1, 0.5, sigma0=-1), "sigma0 >= 0, got 0.5 and -1"),
        (lambda: mean_field(9, 1, 0.5, steps=-1), "steps must be an integer >= 0, got -1"),
        (lambda: mean_field(9, 1, 0.5, tol=0), "tol must be > 0, got 0"),
        (lambda: mean_field(9, 1, 0.5, noise=0.6), r"noise must lie in \[0, 0.5\)"),
        (lambda: label_noise_mean(0.5), r"noise must lie in \[0, 0.5\)"),
        (lambda: label_noise_mean(0.1, p_e=0.1), "needs N as well"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
