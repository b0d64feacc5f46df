import math

import numpy as np
import pytest
from tests.sco import reference
from tests.sco.reference import GOLAY, in_ball, instance

from fallline.sco import HardInstance, bounds, qr_code


def closed_forms(inst, Z):
    """(excess, F_S) of the minimizer by fact 3."""
    share = len(set(Z)) / inst.N
    common = inst.beta * (inst.N * inst.theta - inst.gamma * inst.r)
    common += inst.lam / 2 * (inst.a**2 + inst.r**2)
    excess = common + (1 - share) * (inst.r - inst.rho0)
    return excess, common - 2 * inst.alpha * inst.theta * (1 - share) + inst.rho0


def test_golden_values_of_the_smallest_instance():
    inst = instance(7)
    certificate = inst.erm([0, 1])
    assert certificate.value == pytest.approx(0.2702392578125, abs=1e-15)
    assert inst.excess_risk(certificate.x) == pytest.approx(0.3202392578125, abs=1e-15)
    assert inst.empirical_risk(np.zeros(12), [0, 1]) == 0.4


def test_golden_values_on_golay():
    six = GOLAY.erm(range(6))
    assert GOLAY.excess_risk(six.x) == pytest.approx(0.204585911720868, abs=1e-14)
    assert six.value == pytest.approx(0.460248344423465, abs=1e-14)
    two = GOLAY.erm([3, 3, 3, 7, 7, 7])
    assert GOLAY.excess_risk(two.x) == pytest.approx(0.293474800609760, abs=1e-14)


def test_golden_value_on_length_32():
    inst = instance(31)
    excess = inst.excess_risk(inst.erm([0, 1, 2, 3, 4, 5, 6, 6]).x)
    assert inst.d == 48
    assert excess == pytest.approx(0.1744, abs=5e-5)


@pytest.mark.parametrize("inst", reference.enumerable(), ids=repr)
def test_enumerated_risks_equal_the_closed_form(inst):
    enumerated = HardInstance(inst.code, oracle="enumerate")
    for seed in range(10):
        Z = inst.sample(inst.m, seed)
        certificate = inst.erm(Z)
        excess, value = closed_forms(inst, Z.tolist())
        assert enumerated.excess_risk(certificate.x) == pytest.approx(excess, abs=1e-12)
        assert enumerated.empirical_risk(certificate.x, Z) == pytest.approx(value, abs=1e-12)
        assert certificate.value == pytest.approx(value, abs=1e-12)
        assert certificate.unique


def test_the_certificate_says_why():
    certificate = GOLAY.erm([0, 0, 4])
    assert certificate.kkt_residual < 1e-16
    assert certificate.strong_convexity == GOLAY.lam
    assert certificate.coupling_margin == pytest.approx(GOLAY.beta * GOLAY.theta)
    assert certificate.feldman_margin == pytest.approx(GOLAY.r * GOLAY.delta)
    s, w = certificate.x[:12] / GOLAY.theta, certificate.x[12:] / GOLAY.r
    np.testing.assert_allclose(np.flatnonzero(s > 0), [0, 4])
    assert np.linalg.norm(w) == pytest.approx(1.0)
    assert certificate.unique


def test_every_other_point_is_worse_by_the_strong_convexity():
    rng = np.random.default_rng(0)
    for inst in (instance(7), GOLAY):
        Z = inst.sample(inst.m, 1)
        certificate = inst.erm(Z)
        for h in in_ball(rng, inst.d, 200, radius=0.5):
            worse = inst.empirical_risk(certificate.x + h, Z) - certificate.value
            assert worse >= inst.lam / 2 * (h @ h) - 1e-15


def test_the_origin_is_not_an_erm():
    # It is one for the plain max function of Feldman: that shows a bad ERM, not that all fail.
    for m in (2, 6, 60, 240):
        inst = HardInstance.for_sample_size(m)
        Z = inst.sample(m, 0)
        assert inst.erm(Z).value < inst.empirical_risk(np.zeros(inst.d), Z)


@pytest.mark.parametrize("m", [6, 18, 60, 240])
def test_the_excess_is_constant_for_every_sample(m):
    inst = HardInstance.for_sample_size(m, family="rs-golay")
    for seed in range(20):
        assert inst.excess_risk(inst.erm(inst.sample(m, seed)).x) >= inst.delta * inst.r / 2


def test_approximate_erms_overfit_too():
    rng = np.random.default_rng(0)
    Z = np.arange(6)
    certificate, epsilon = GOLAY.erm(Z), 1e-5
    excess = GOLAY.excess_risk(certificate.x)
    bound = bounds.approximate_erm(excess, epsilon, GOLAY.lam, GOLAY.L)
    assert bound >= excess / 2
    for h in in_ball(rng, 36, 100):
        low, high = 0.0, 0.5 / np.linalg.norm(h)
        for _ in range(60):  # the farthest point along h that is an epsilon-ERM
            middle = (low + high) / 2
            gap = GOLAY.empirical_risk(certificate.x + middle * h, Z) - certificate.value
            low, high = (middle, high) if gap <= epsilon else (low, middle)
        x = certificate.x + low * h
        assert low > 0
        assert np.linalg.norm(low * h) <= math.sqrt(2 * epsilon / GOLAY.lam)
        assert GOLAY.excess_risk(x) >= bound


def test_samples_smaller_than_m_and_universes_larger_than_twice_m():
    inst = HardInstance(qr_code(23), 4)
    for Z in ([0], [0, 1, 2, 3]):
        assert inst.erm(Z).unique
    excess, value = closed_forms(inst, [0, 1, 2, 3])
    assert inst.excess_risk(inst.erm([0, 1, 2, 3]).x) == pytest.approx(excess, abs=1e-14)
    assert inst.erm([0, 1, 2, 3]).value == pytest.approx(value, abs=1e-14)


def test_refusals():
    with pytest.raises(ValueError, match="at most m = 6 points in Z, got 7"):
        GOLAY.erm(range(7))
    with pytest.raises(ValueError, match="strongly convex instance, got plain=True"):
        instance(23, plain=True).erm([0])
    with pytest.raises(ValueError, match="the closed form needs r > "):
        instance(23, r=0.1).erm([0])
