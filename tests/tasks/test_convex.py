import numpy as np
import pytest
from scipy.optimize import approx_fprime

from fallline.tasks import (
    diabetes_counts,
    exponential_valley,
    poisson_counts,
    poisson_regression,
    spectrum_cosh,
    square_root_barrier,
)

PROBLEMS = {
    "spectrum": lambda: spectrum_cosh(8.0, d=20),
    "valley": exponential_valley,
    "barrier": lambda: square_root_barrier(d=5),
    "poisson": lambda: poisson_counts(0),
    "diabetes": diabetes_counts,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_is_that_of_the_value(name):
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = problem.x_star + 0.2 * rng.uniform(-1.0, 1.0, problem.x_star.size)
        numeric = approx_fprime(x, lambda v: problem.fun(v)[0], 1e-7)
        np.testing.assert_allclose(problem.fun(x)[1], numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_solution_is_a_minimizer_with_gap_zero(name):
    problem = PROBLEMS[name]()
    gap, gradient = problem.fun(problem.x_star)
    assert gap == pytest.approx(0.0, abs=1e-13)
    assert np.linalg.norm(gradient) < 1e-13
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = problem.x_star + 0.2 * rng.uniform(-1.0, 1.0, problem.x_star.size)
        assert problem.fun(x)[0] > 0.0


def test_the_sheets_constants():
    spectrum = spectrum_cosh(8.0)
    assert spectrum.x0.shape == (400,)
    assert spectrum.radius == pytest.approx(1.0)
    barrier = square_root_barrier()
    assert barrier.gap == pytest.approx(0.842, abs=5e-4)
    assert np.linalg.norm(barrier.fun(barrier.x0)[1]) == pytest.approx(5e4, rel=1e-3)
    assert barrier.fun(np.full(30, 1.5))[0] == np.inf
    valley = exponential_valley()
    x = np.array([0.3, 2.0])
    plain = np.exp(0.3) + np.exp(0.7) + 0.0005 * 4.0 - 2.0 * np.sqrt(np.e)
    assert valley.fun(x)[0] == pytest.approx(plain, rel=1e-12)


def test_near_the_minimizer_no_digits_are_lost():
    for problem, curvature in [
        (spectrum_cosh(8.0), 1.0),
        (exponential_valley(), 2 * np.sqrt(np.e)),
    ]:
        x = problem.x_star.copy()
        x[0] += 1e-9
        assert problem.fun(x)[0] == pytest.approx(0.5 * curvature * 1e-18, rel=1e-6)


def test_the_golden_draw_of_the_regression():
    X, y = poisson_counts(0).data
    assert X.shape == (1000, 30)
    assert (X[:, 0] == 1.0).all()
    assert y.mean() == pytest.approx(0.943)
    assert not np.array_equal(y, poisson_counts(1).data[1])
    assert diabetes_counts().data[1].max() == pytest.approx(34.6)


def test_newton_finds_the_closed_form_of_a_two_group_regression():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    problem = poisson_regression(X, np.array([1.0, 3.0, 7.0]))
    np.testing.assert_allclose(problem.x_star, [np.log(2.0), np.log(3.5)], rtol=1e-12)
