import numpy as np
import pytest
import torch
from tests.parity.reference import enumerated_loss

from fallline.parity import ParityStream, population_gradient, population_loss
from fallline.parity.kernel import contributions

W, TRUE = [0.25, 0.5, 0.8], [0, 1, 1]


@pytest.mark.parametrize(
    ("p_e", "gradient", "loss"),
    [
        (1 / 2, (0.115, -0.3, -0.09375), 0.153125),
        (1 / 3, (0.1051851852, -0.2407407407, -0.0851851852), 0.1075925926),
    ],
)
def test_hand_computed_values(p_e, gradient, loss):
    np.testing.assert_allclose(population_gradient(W, TRUE, p_e), gradient, atol=5e-11)
    assert population_loss(W, TRUE, p_e) == pytest.approx(loss, abs=5e-11)


@pytest.mark.parametrize("p_e", [0.05, 1 / 3, 0.5, 1.0])
def test_both_equal_the_enumeration_of_all_inputs(p_e):
    rng = np.random.default_rng(0)
    w, w_true = rng.normal(0.5, 0.5, (6, 3)), rng.integers(0, 2, (6, 3))
    w[2, 0] = 0.5
    gradient, loss = population_gradient(w, w_true, p_e), population_loss(w, w_true, p_e)
    for p in range(3):
        point = torch.tensor(w[:, p], requires_grad=True)
        expected = enumerated_loss(point, torch.tensor(w_true[:, p], dtype=torch.float64), p_e)
        expected.backward()
        assert loss[p] == pytest.approx(expected.item(), abs=1e-12)
        np.testing.assert_allclose(gradient[:, p], point.grad.numpy(), atol=1e-12)


def test_a_zero_factor_is_no_trouble():
    # 1 + 4 p w (w - 1) is 0 at w = 1/2 and p = 1.
    gradient = population_gradient([0.5, 0.25, 0.75], [1, 0, 1], 1.0)
    assert np.isfinite(gradient).all()
    assert gradient[0] != 0


@pytest.mark.parametrize("p_e", [1 / 3, 0.7])
def test_the_engines_mean_gradient_is_it(p_e):
    count, stream = 2_000_000, ParityStream(3, p_e, support=[1, 2], seed=0)
    X, y = stream.sample(count)
    g = np.empty((X.nnz, 1))
    w = np.array(W)[:, np.newaxis]
    signs = (1.0 - 2.0 * y)[:, np.newaxis]
    contributions(w, X.indptr, X.indices, signs, np.arange(count), 1.0, g)
    for j, expected in enumerate(population_gradient(W, TRUE, p_e)):
        mine = -g[X.indices == j, 0]  # all other samples give 0
        mean = mine.sum() / count
        error = np.sqrt(((mine**2).sum() / count - mean**2) / count)
        assert abs(mean - expected) < 4 * error


def test_at_initialisation_it_points_the_right_way_and_is_largest_at_one_active_bit():
    # In expectation over weights of mean 1/2 the factors are 1 - p and the first term vanishes.
    N, w_true = 50, np.arange(50) % 2
    rng = np.random.default_rng(0)
    for p_e in (0.005, 1 / N, 0.06):
        drawn = [population_gradient(rng.normal(0.5, 0.25, N), w_true, p_e) for _ in range(5000)]
        mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0) / np.sqrt(5000)
        expected = -(2 * w_true - 1) * p_e * (1 - p_e) ** (N - 1)
        assert (np.abs(mean - expected) < 5 * error).all()
    size = {c: c / N * (1 - c / N) ** (N - 1) for c in (0.5, 0.9, 1.0, 1.1, 2.0)}
    assert max(size, key=size.get) == 1.0


def test_the_hessian_at_the_solution():
    N, p_e = 6, 1 / 6
    w_true = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    H = torch.autograd.functional.hessian(lambda w: enumerated_loss(w, w_true, p_e), w_true)
    s = 1 - 2 * w_true
    expected = 2 * p_e * (1 - p_e) * torch.eye(N, dtype=torch.float64) + 2 * p_e**2 * torch.outer(
        s, s
    )
    torch.testing.assert_close(H, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(torch.linalg.eigvalsh(H), [0.2777778] * 5 + [0.6111111], atol=5e-8)


def test_local_rates_of_the_mean_and_of_the_spread():
    N, p_e, alpha, size = 40, 0.03, 5.0, 1e-6
    w_true = np.arange(N) % 3 == 0
    s = 1.0 - 2.0 * w_true
    spread = np.where(np.arange(N) < 20, 1.0, -1.0) * s  # orthogonal to s
    for direction, rate in ((s, 1 - 2 * alpha * p_e * (1 + (N - 1) * p_e)),
                            (spread, 1 - 2 * alpha * p_e * (1 - p_e))):  # fmt: skip
        w = w_true + size * direction
        after = w - alpha * population_gradient(w, w_true, p_e) - w_true
        np.testing.assert_allclose(after, rate * size * direction, atol=size * 1e-4)


@pytest.mark.parametrize("function", [population_gradient, population_loss])
def test_bad_input_is_refused(function):
    with pytest.raises(ValueError, match=r"one shape, .* got \(2,\) and \(3,\)"):
        function([0, 1], [0, 1, 1], 0.5)
    for p_e in (0.0, -1, 1.5, float("nan"), "dense"):
        with pytest.raises(ValueError, match=r"p_e must lie in \(0, 1\], got"):
            function([0.5], [1], p_e)
