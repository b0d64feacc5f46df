import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sco import reference
from tests.sco.reference import GOLAY, in_ball, instance

from fallline.sco import HardInstance, qr_code, rs_golay_code


def test_constants_of_the_smallest_instance():
    inst = instance(7)
    assert (inst.N, inst.n, inst.d, inst.m) == (4, 8, 12, 2)
    assert (inst.theta, inst.beta, inst.gamma) == (0.25, 0.125, 0.15625)
    assert (inst.lam, inst.rho0) == (0.0244140625, 0.4)


def test_strong_convexity_is_of_the_papers_order():
    for m in (6, 60, 720):
        inst = HardInstance.for_sample_size(m, family="rs-golay")
        assert inst.lam == pytest.approx(0.5 / (4 * 2**1.5 * 0.8**2) * m**-1.5)
        assert inst.lam == pytest.approx(0.0691 * m**-1.5, rel=1e-3)


def test_the_loss_is_the_definitions():
    rng = np.random.default_rng(0)
    for inst in (instance(7), instance(17), HardInstance(qr_code(7), 3, a=0.3, r=0.6, alpha=2.0)):
        listed = list(reference.words(inst))
        for x in in_ball(rng, inst.d, 20):
            expected = [reference.loss(inst, x, z, listed) for z in range(inst.N)]
            np.testing.assert_allclose(inst.loss(x, range(inst.N)), expected, rtol=1e-13)
            assert inst.population_risk(x) == pytest.approx(np.mean(expected), rel=1e-13)
            Z = rng.integers(inst.N, size=inst.m)
            empirical = np.mean([expected[z] for z in Z])
            assert inst.empirical_risk(x, Z) == pytest.approx(empirical, rel=1e-13)
            parts = inst.excess_parts(x)
            assert sum(parts) == pytest.approx(np.mean(expected) - inst.rho0, abs=1e-13)
            assert inst.loss(x, 1).shape == ()


def test_the_origin_is_the_population_minimum():
    rng = np.random.default_rng(1)
    for inst in (instance(7), GOLAY):
        assert inst.population_risk(np.zeros(inst.d)) == pytest.approx(inst.rho0, abs=1e-15)
        assert inst.minimum == inst.rho0
        for x in in_ball(rng, inst.d, 1000):
            assert inst.population_risk(x) >= inst.rho0


def test_the_loss_is_convex_and_lipschitz():
    rng = np.random.default_rng(2)
    for inst in (instance(7), GOLAY, instance(23, plain=True)):
        first, second = in_ball(rng, inst.d, 1000), in_ball(rng, inst.d, 1000)
        close = first + 1e-3 * second
        for x, other, near in zip(first, second, close / 1.001):
            z = rng.integers(inst.N)
            f_x, f_other = inst.loss(x, z), inst.loss(other, z)
            assert abs(f_x - f_other) <= inst.L * np.linalg.norm(x - other)
            assert abs(f_x - inst.loss(near, z)) <= inst.L * np.linalg.norm(x - near)
            assert inst.loss((x + other) / 2, z) <= (f_x + f_other) / 2 + 1e-15


def test_lipschitz_constants_are_those_of_the_sheet():
    sizes = [HardInstance.for_sample_size(m) for m in (2, 6, 8, 18, 60, 240, 720)]
    assert all(1.42 <= inst.L <= 1.55 for inst in sizes)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([7, 17, 23]), st.booleans())
def test_subgradients_support_the_loss(seed, p, plain):
    rng = np.random.default_rng(seed)
    inst = instance(p, plain=plain)
    Z = rng.integers(inst.N, size=inst.m)
    x, *others = in_ball(rng, inst.d, 6)
    # Kinks are where a wrong choice would show.
    x[: inst.N] = rng.choice([-inst.theta, 0.0, inst.theta, x[0]], size=inst.N)
    g = inst.subgradient(x, Z)
    for other in others:
        bound = inst.empirical_risk(x, Z) + g @ (other - x)
        assert inst.empirical_risk(other, Z) >= bound - 1e-12


def test_subgradient_of_one_point_and_of_a_sample():
    x = in_ball(np.random.default_rng(3), GOLAY.d, 1)[0]
    each = [GOLAY.subgradient(x, z) for z in (0, 5, 5)]
    np.testing.assert_allclose(GOLAY.subgradient(x, [0, 5, 5]), np.mean(each, axis=0), atol=1e-16)


def test_the_subgradient_at_the_origin_is_that_of_the_first_term():
    expected = np.zeros(GOLAY.d)
    expected[: GOLAY.N] = 1 / GOLAY.N
    expected[3] -= 1
    np.testing.assert_array_equal(GOLAY.subgradient(np.zeros(GOLAY.d), 3), expected)


def test_normalization_divides_everything_by_the_lipschitz_constant():
    raw, unit = instance(17), instance(17, normalize=True)
    x = in_ball(np.random.default_rng(4), raw.d, 1)[0]
    Z = [0, 1, 1, 5]
    assert abs(unit.L - 1) < 1e-15
    pairs = [
        (raw.loss(x, Z), unit.loss(x, Z)),
        (raw.subgradient(x, Z), unit.subgradient(x, Z)),
        (raw.population_risk(x), unit.population_risk(x)),
        (raw.empirical_risk(x, Z), unit.empirical_risk(x, Z)),
        (raw.excess_risk(x), unit.excess_risk(x)),
        (raw.erm(Z).value, unit.erm(Z).value),
        (raw.erm(Z).strong_convexity, unit.erm(Z).strong_convexity),
    ]
    for of_raw, of_unit in pairs:
        np.testing.assert_allclose(of_unit * raw.L, of_raw, rtol=1e-13)
    np.testing.assert_array_equal(unit.erm(Z).x, raw.erm(Z).x)
    lam = 0.5
    closed = raw.regularized_erm(Z, lam), unit.regularized_erm(Z, lam / raw.L)
    np.testing.assert_allclose(closed[0].x, closed[1].x, rtol=1e-13)
    runs = raw.gd(Z, 0.1, 50), unit.gd(Z, 0.1 * raw.L, 50)
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-13)


def test_sizes_chosen_for_a_sample():
    chosen = {m: HardInstance.for_sample_size(m) for m in (2, 6, 8, 26, 60, 100)}
    assert {m: inst.d for m, inst in chosen.items()} == {
        2: 12,
        6: 36,
        8: 48,
        26: 156,
        60: 600,
        100: 1020,
    }
    assert all(2 * m <= inst.N and inst.m == m for m, inst in chosen.items())
    assert HardInstance.for_sample_size(6, family="rs-golay").d == 60
    assert HardInstance.for_sample_size(5, family="qr").N == 12
    assert repr(chosen[6]) == "<HardInstance m=6 d=36 on <[24, 12, 8] code>>"


def test_the_instance_against_gradient_descent():
    code = rs_golay_code(10)
    last = HardInstance.for_gradient_descent(code, 0.1, 3000)
    assert last.r**2 == pytest.approx(0.5 * 300 / (4 * code.N**1.5))
    assert last.lam == 0
    mean = HardInstance.for_gradient_descent(code, 0.1, 30000, average="mean")
    assert mean.r**2 == pytest.approx(0.5 * 3000 / (4 * code.N**1.5) * code.delta / 2)
    assert mean.lam == pytest.approx(mean.p / mean.r)
    assert last.gamma <= 1
    assert mean.gamma <= 1


def test_samples_are_uniform_and_reproducible():
    Z = GOLAY.sample(12000, random_state=0)
    counts = np.bincount(Z, minlength=GOLAY.N)
    assert len(counts) == GOLAY.N
    assert abs(counts - 1000).max() < 5 * math.sqrt(1000)
    np.testing.assert_array_equal(Z, GOLAY.sample(12000, random_state=0))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(Z[:10], GOLAY.sample(10, rng))


PROGRAM = """
import hashlib
from fallline.sco import HardInstance
inst = HardInstance.for_sample_size(18)
Z = inst.sample(18, random_state=3)
runs = [inst.gd(Z, 0.19, 500), inst.sgd(Z), inst.regularized_erm(Z, 0.3)]
data = [Z, inst.erm(Z).x] + [part for run in runs for part in (run.x, run.excess, run.F_S)]
print(hashlib.sha256(b"".join(part.tobytes() for part in data)).hexdigest())
"""


def test_same_seed_same_bits_in_two_processes():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 12}, r"m must lie in 1\.\.11"),
        ({"m": 0}, r"m must lie in 1\.\.11"),
        ({"a": 0.7, "r": 0.8}, r"a\^2 \+ r\^2 < 1"),
        ({"a": 0.0}, "a and r must be > 0"),
        ({"r": -0.5}, "a and r must be > 0"),
        ({"alpha": 0.0}, "alpha must be > 0"),
        ({"alpha": math.inf}, "alpha must be > 0"),
        ({"oracle": "guess"}, "oracle must be one of auto, certified, enumerate, got 'guess'"),
    ],
)
def test_refused_instances(options, message):
    with pytest.raises(ValueError, match=message):
        HardInstance(qr_code(23), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GOLAY.population_risk(np.zeros(35)), r"x must have shape \(36,\), got \(35,\)"),
        (lambda: GOLAY.loss(np.full(36, np.nan), 0), "x must be finite"),
        (lambda: GOLAY.loss(np.zeros(36), 12), r"z must hold integers in 0\.\.11"),
        (lambda: GOLAY.loss(np.zeros(36), -1), r"z must hold integers in 0\.\.11"),
        (lambda: GOLAY.loss(np.zeros(36), 0.5), r"z must hold integers in 0\.\.11"),
        (lambda: GOLAY.erm([0, 40]), r"z must hold integers in 0\.\.11"),
        (lambda: GOLAY.empirical_risk(np.zeros(36), []), "Z must hold at least one point"),
        (lambda: HardInstance.for_sample_size(0), "m must be >= 1"),
        (lambda: HardInstance.for_sample_size(27, family="qr"), "codes for m <= 26, got m = 27"),
        (lambda: HardInstance.for_sample_size(6, family="bch"), "family must be"),
        (lambda: HardInstance.for_gradient_descent(GOLAY.code, 0.1, 4), r"eta \* T must lie in"),
        (lambda: HardInstance.for_gradient_descent(GOLAY.code, 9, 400), r"eta \* T must lie in"),
        (lambda: HardInstance.for_gradient_descent(GOLAY.code, 0, 400), "eta and T must be > 0"),
        (
            lambda: HardInstance.for_gradient_descent(GOLAY.code, 1, 9, average="suffix"),
            'average must be "last" or "mean"',
        ),
    ],
)
def test_refused_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
