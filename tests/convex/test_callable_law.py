import math

import numpy as np
import pytest

from fallline.convex import CallableSmooth, L0L1Smooth, PowerSmooth, minimize_agd

PAIRS = [
    (CallableSmooth(lambda s: 2.0 + 3.0 * s), L0L1Smooth(2.0, 3.0)),
    (CallableSmooth(lambda s: 1.0 + 0.5 * s**2), PowerSmooth(1.0, 0.5, 2.0)),
    (
        CallableSmooth(lambda s: 1.0 + 8.0 * s**3, psi_inf=PowerSmooth(1.0, 8.0, 3.0).psi_inf),
        PowerSmooth(1.0, 8.0, 3.0),
    ),
]


@pytest.mark.parametrize(("law", "exact"), PAIRS)
def test_it_agrees_with_the_closed_form_and_rounds_outward(law, exact):
    s = np.geomspace(1e-9, 1e5, 200)
    np.testing.assert_allclose(law(s), exact(s))
    np.testing.assert_allclose(law.psi(s), exact.psi(s), rtol=1e-11)
    np.testing.assert_allclose(law.gd_step(s), exact.gd_step(s), rtol=1e-12)
    E = exact.psi(s)
    E = E[exact.psi_inf * 0.999 > E]
    roots, exact_roots = law.psi_inv(E), exact.psi_inv(E)
    assert (roots >= exact_roots * (1 - 1e-11)).all()
    assert (roots <= exact_roots * 1.001).all()


def test_a_kink_cannot_make_psi_inv_too_small():
    # l = max(1, s): psi = s^2 / 2 up to 1, then s - 1 / 2.
    law = CallableSmooth(lambda s: max(1.0, s))
    for s in (0.3, 0.9999, 1.003, 1.01, 7.0):
        E = s * s / 2.0 if s <= 1.0 else s - 0.5
        assert s <= law.psi_inv(E) <= s * 1.001


def test_a_step_is_bounded_by_monotony():
    # l jumps from 1 to 100 at 1, inside a cell: psi = 1 / 2 + (s^2 - 1) / 200 beyond.
    law = CallableSmooth(lambda s: 1.0 if s <= 1.0 else 100.0)
    for s in (0.5, 1.5, 30.0):
        E = s * s / 2.0 if s <= 1.0 else 0.5 + (s * s - 1.0) / 200.0
        assert law.psi_inv(E) >= s
    assert law.psi(30.0) == pytest.approx(0.5 + 899.0 / 200.0, rel=0.01)


def test_beyond_the_grid_and_beyond_float():
    law = CallableSmooth(lambda s: math.exp(s))  # OverflowError from 710 on
    assert law.psi(1e6) == pytest.approx(1.0, rel=1e-9)  # int t exp(-t) dt
    assert law.psi_inv(2.0) == math.inf
    with pytest.raises(ValueError, match=r"psi\(inf\) = 1.0"):
        CallableSmooth(lambda s: math.exp(s), psi_inf=1.0).psi_inv(1.0)
    assert CallableSmooth(lambda s: 1.0).norm_at(2.0) == 1e12
    assert law.norm_at(math.e) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda s: 1.0 / (1.0 + s), "non-decreasing"),
        (lambda s: 2.0 + math.sin(s), "non-decreasing"),
        (lambda s: s, "positive"),
        (lambda s: -1.0 - s, "positive"),
        (lambda s: math.nan, "never NaN"),
    ],
)
def test_what_is_no_law_is_refused(fn, message):
    with pytest.raises(ValueError, match=message):
        CallableSmooth(fn)


def test_other_bad_arguments():
    with pytest.raises(TypeError, match="fn must be callable"):
        CallableSmooth(3.0)
    with pytest.raises(ValueError, match="psi_inf must be > 0"):
        CallableSmooth(lambda s: 1.0 + s, psi_inf=0.0)


def test_it_drives_the_method_like_the_closed_form():
    def fun(x):
        return 2.0 * np.sum(np.sinh(x / 2.0) ** 2), np.sinh(x)

    runs = [
        minimize_agd(fun, [5.0, -2.0], smoothness=law, radius=5.5, mode="schedule", gap_tol=1e-8)
        for law in (CallableSmooth(lambda s: 1.0 + s), L0L1Smooth(1.0, 1.0))
    ]
    assert runs[0].success
    assert abs(runs[0].nit - runs[1].nit) <= 2
