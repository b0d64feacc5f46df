import math

import pytest

from fallline.sco import bounds


def test_coefficients_of_the_lower_bound():
    assert bounds.gd_lower(1, 1, 1, 1) == pytest.approx(0.105, abs=2e-4)
    expected = bounds.gd_lower(1, 1, 1, 1, unseen=math.exp(-0.5))
    assert expected == pytest.approx(0.1275, abs=1e-4)
    # Theory at m = 60 and 240 of the concatenated codes.
    for K, value in ((10, 0.0234), (40, 0.0218)):
        delta = 8 * (K + 1) / (48 * K)
        assert bounds.gd_lower(1, 1, 1, delta, unseen=math.exp(-0.5)) == pytest.approx(
            value, abs=1e-4
        )


def test_the_lower_bound_grows_like_a_root():
    one, hundred = bounds.gd_lower(0.1, 50, 9, 0.2), bounds.gd_lower(0.1, 5000, 9, 0.2)
    assert hundred == pytest.approx(10 * one)
    assert bounds.gd_lower(0.1, 50, 9, 0.2, alpha=4.0) == pytest.approx(2 * one)
    assert bounds.gd_lower(0.1, 50, 9, 0.2, a=0.125) == pytest.approx(one / 2)


def test_the_upper_bounds():
    assert bounds.gd_stability_upper(0.1, 100, 10, 2.0) == pytest.approx(8.0 + 16.0)
    assert bounds.sgd(16, 2.0) == 0.5
    assert bounds.approximate_erm(0.3, 0.02, 0.01, 0.1) == pytest.approx(0.1)
