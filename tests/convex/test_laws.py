import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallline.convex import L0L1Smooth, LSmooth, PowerSmooth, ShiftedSquareSmooth

LAWS = [
    LSmooth(3.0),
    L0L1Smooth(2.0, 3.0),
    L0L1Smooth(2.0, 0.0),
    PowerSmooth(2.0, 3.0, 0.5),
    PowerSmooth(2.0, 3.0, 1.0),
    PowerSmooth(2.0, 3.0, 1.5),
    PowerSmooth(1.0, 0.5, 2.0),
    PowerSmooth(1.0, 8.0, 3.0),
    PowerSmooth(1.0, 0.0, 3.0),
    ShiftedSquareSmooth(0.7),
]


def exact_psi(law, s):
    """The integral itself, by mpmath."""
    ends = [0, *[mpmath.mpf(10) ** k for k in range(-6, 4) if 10.0**k < s], mpmath.mpf(s)]
    return mpmath.quad(lambda t: t / exact_level(law, t), ends)


def exact_level(law, t):
    match law:
        case LSmooth(L):
            return mpmath.mpf(L)
        case L0L1Smooth(L0, L1):
            return L0 + L1 * t
        case PowerSmooth(L0, L1, rho):
            return L0 + L1 * t ** mpmath.mpf(rho)
        case ShiftedSquareSmooth(c):
            return (mpmath.mpf(c) + t) ** 2


def test_the_sheets_values_of_l0l1():
    law = L0L1Smooth(1.0, 1.0)
    assert law.psi(1.0) == pytest.approx(0.3068528194400547, rel=1e-14)
    assert law.psi_inv(0.3068528194400547) == pytest.approx(1.0, rel=5e-12)
    assert law.gd_step(1.0) == pytest.approx(0.4054651081081644, rel=1e-14)
    law = L0L1Smooth(2.0, 3.0)
    assert law.psi_inv(1.0) == pytest.approx(4.344795177236019, rel=5e-12)
    assert law.psi_inv(100.0) == pytest.approx(304.08330452128416, rel=5e-12)
    assert law.psi_inv(1e-12) == pytest.approx(2.000002000005e-6, rel=1e-9)
    assert law.psi_inv(0.0) == 0.0


def test_the_sheets_values_of_powers():
    assert PowerSmooth(2, 3, 1.5).psi(4.0) == pytest.approx(0.6829059152397572, rel=1e-13)
    assert PowerSmooth(1, 0.5, 2).psi(3.0) == pytest.approx(1.7047480922384237, rel=1e-13)
    assert PowerSmooth(1, 0.5, 2).gd_step(3.0) == pytest.approx(0.09853924216073634, rel=1e-13)
    cubic = PowerSmooth(1, 2, 3)
    assert cubic.psi(2.0) == pytest.approx(0.5155205650673624, rel=1e-13)
    assert cubic.psi_inf == pytest.approx(0.761747999761543, rel=1e-13)
    with pytest.raises(ValueError, match=r"psi\(inf\) = 0.76174"):
        cubic.psi_inv(0.8)
    assert PowerSmooth(1, 8, 3).psi_inf == pytest.approx(0.3023, abs=5e-5)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("s", [1e-7, 3e-3, 0.0071, 0.4, 5.0, 900.0])
def test_psi_and_gd_step_are_their_integrals(law, s):
    assert law.psi(s) == pytest.approx(float(exact_psi(law, s)), rel=1e-12)
    step = mpmath.quad(lambda v: 1 / exact_level(law, s * (1 + v)), [0, 0.5, 1])
    assert law.gd_step(s) == pytest.approx(float(step), rel=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("s", [1e-7, 3e-3, 0.0071, 0.4, 5.0, 900.0])
def test_psi_inv_is_never_below_and_hardly_above_the_exact_root(law, s):
    exact = exact_psi(law, s)
    E = float(exact)
    root = law.psi_inv(E)
    assert math.isinf(root) or exact_psi(law, root) >= mpmath.mpf(E)
    assert root <= s * (1.0 + 1e-8) or law.psi_inf * (1 - 1e-5) < E


@given(
    st.floats(-150, 150).map(lambda x: 10.0**x),
    st.floats(-150, 150).map(lambda x: 10.0**x),
    st.floats(-150, 150).map(lambda x: 10.0**x),
)
def test_psi_inv_of_l0l1_is_outward_over_300_decades(L0, L1, E):
    root = L0L1Smooth(L0, L1).psi_inv(E)
    if root == math.inf:
        return
    with mpmath.workdps(340):
        tau = mpmath.mpf(L1) * mpmath.mpf(root) / mpmath.mpf(L0)
        reached = (tau - mpmath.log1p(tau)) * mpmath.mpf(L0) / mpmath.mpf(L1) ** 2
        assert 1 <= reached / mpmath.mpf(E) <= 1 + mpmath.mpf("1e-11")


@pytest.mark.parametrize("rho", [1.999999999, 2.000000001, 2.0001, 1.00001, 0.6667])
def test_powers_next_to_a_degenerate_one_still_round_outward(rho):
    law = PowerSmooth(1.0, 1.0, rho)
    for s in (0.3, 30.0):
        E = float(exact_psi(law, s))
        root = law.psi_inv(E)
        assert s <= root <= s * (1 + 1e-4)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_arrays_are_taken_elementwise_and_floats_give_floats(law):
    s = np.array([[0.0, 1e-3, 0.5], [2.0, 30.0, 1e40]])
    for method in (law, law.psi, law.gd_step):
        values = method(s)
        assert values.shape == s.shape
        assert type(method(2.0)) is float
        np.testing.assert_allclose(values, [[method(float(t)) for t in row] for row in s])
    E = law.psi(np.array([0.2, 3.0]))
    np.testing.assert_allclose(law.psi_inv(E), [law.psi_inv(e) for e in E.tolist()])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_at_zero_everything_is_flat(law):
    flat = law(0.0)
    assert law.psi(0.0) == law.psi_inv(0.0) == 0.0
    assert law.gd_step(0.0) == pytest.approx(1.0 / flat)
    assert law.gd_step(1e-14) == pytest.approx(1.0 / flat)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_norm_at_is_where_the_law_reaches_the_level(law):
    s = law.norm_at(2.0 * law(0.0))
    assert s == math.inf or law(s) == pytest.approx(2.0 * law(0.0), rel=1e-12)
    with pytest.raises(ValueError, match=r"level must be >= l\(0\)"):
        law.norm_at(0.5 * law(0.0))


def test_equal_laws_agree_whatever_their_form():
    s = np.geomspace(1e-6, 1e4, 30)
    for one, other in [
        (PowerSmooth(2.0, 3.0, 1.0), L0L1Smooth(2.0, 3.0)),
        (L0L1Smooth(2.0, 0.0), LSmooth(2.0)),
        (PowerSmooth(2.0, 0.0, 2.0), LSmooth(2.0)),
    ]:
        np.testing.assert_allclose(one.psi(s), other.psi(s), rtol=1e-12)
        np.testing.assert_allclose(one.gd_step(s), other.gd_step(s), rtol=1e-12)
        np.testing.assert_allclose(one.psi_inv(s), other.psi_inv(s), rtol=1e-10)


@pytest.mark.parametrize("E", [1e-6, 3.0])
def test_constants_of_single_precision_round_outward_too(E):
    law = L0L1Smooth(np.float32(1.3), np.float32(2.7))
    assert type(law.L0) is float
    exact = L0L1Smooth(float(np.float32(1.3)), float(np.float32(2.7)))
    assert law == exact
    assert law.psi_inv(E) == exact.psi_inv(E)


def test_what_overflows_is_infinite_and_safe():
    assert PowerSmooth(1.0, 1.0, 2.0).psi_inv(1e4) == math.inf
    assert ShiftedSquareSmooth(1.0).psi_inv(1e4) == math.inf
    cubic = PowerSmooth(1.0, 8.0, 3.0)
    assert cubic.psi_inv(cubic.psi_inf * (1.0 - 1e-15)) > 1e3
    assert L0L1Smooth(1.0, 1.0).psi_inv(math.inf) == math.inf


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LSmooth(0.0), "L must be > 0 and finite, got 0.0"),
        (lambda: L0L1Smooth(-1.0, 1.0), "L0 must be > 0 and finite, got -1.0"),
        (lambda: L0L1Smooth(1.0, -2.0), "L1 must be >= 0 and finite, got -2.0"),
        (lambda: L0L1Smooth(1.0, math.nan), "L1 must be >= 0"),
        (lambda: PowerSmooth(1.0, 1.0, 0.0), "rho must be > 0 and finite, got 0.0"),
        (lambda: ShiftedSquareSmooth(math.inf), "c must be > 0 and finite, got inf"),
        (lambda: LSmooth(1.0).psi_inv(-1.0), "E must be >= 0"),
        (lambda: LSmooth(1.0).psi_inv(math.nan), "E must be >= 0"),
        (lambda: LSmooth(1.0).norm_at(math.nan), "level must be >= "),
    ],
)
def test_bad_numbers_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
