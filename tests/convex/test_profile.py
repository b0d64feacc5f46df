import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallline.convex import SmoothnessProfile, fit_l0l1, smoothness_profile


def cosh(x):
    return float(np.sum(np.cosh(x))), np.sinh(x)


def test_the_profile_of_a_known_path():
    points = np.array([[0.0], [1.0], [1.0], [3.0]])
    profile = smoothness_profile(cosh, True, points)
    np.testing.assert_allclose(profile.grad_norm, np.sinh([1.0, 3.0]))
    np.testing.assert_allclose(
        profile.local_lipschitz, [np.sinh(1.0), (np.sinh(3.0) - np.sinh(1.0)) / 2.0]
    )
    for one, other in zip(profile, smoothness_profile(None, np.sinh, points)):
        np.testing.assert_array_equal(one, other)


def test_the_profile_lies_between_its_fit_and_the_true_law():
    rng = np.random.default_rng(0)
    profile = smoothness_profile(cosh, True, rng.standard_normal((200, 4)) * 2.0)
    assert (profile.local_lipschitz <= 1.0 + profile.grad_norm).all()
    law = fit_l0l1(profile)
    assert law.L1 <= 1.0
    assert (law(profile.grad_norm) >= profile.local_lipschitz * (1.0 - 1e-12)).all()


def test_the_fit_recovers_an_exact_law_over_many_scales():
    s = np.append(0.0, np.geomspace(1e-4, 1e6, 40))
    law = fit_l0l1(SmoothnessProfile(s, 1e-3 + 5.0 * s))
    assert pytest.approx(1e-3, rel=1e-5) == law.L0
    assert pytest.approx(5.0, rel=1e-5) == law.L1


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(1e-6, 1e6)), min_size=1, max_size=30))
def test_the_fit_is_an_envelope(points):
    s, level = np.array(points).T
    law = fit_l0l1((s, level))
    assert (law(s) >= level * (1.0 - 1e-12)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smoothness_profile(cosh, True, [[0.0]]), "n >= 2"),
        (lambda: smoothness_profile(cosh, True, [[0.0], [0.0]]), "two different points"),
        (lambda: smoothness_profile(None, True, [[0.0], [1.0]]), "jac must be True"),
        (lambda: smoothness_profile(cosh, None, [[0.0], [1.0]]), "jac must be True"),
        (lambda: fit_l0l1(([1.0], [0.0])), "positive and finite"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
