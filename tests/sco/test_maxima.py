import numpy as np
import pytest
from tests.sco import reference
from tests.sco.reference import in_ball, instance

from fallline.sco import CertificateError, HardInstance, LinearCode, qr_code, rs_golay_code
from fallline.sco.codes import row_basis


def pair(p, **options):
    return instance(p, oracle="certified", **options), instance(p, oracle="enumerate", **options)


@pytest.mark.parametrize("plain", [False, True])
def test_both_oracles_agree_along_gradient_descent(plain):
    certified, enumerated = pair(23, plain=plain)
    Z = certified.sample(6, random_state=0)
    x, reached = np.zeros(certified.d), 0.0
    for _ in range(2500):
        g = certified.subgradient(x, Z)
        np.testing.assert_allclose(enumerated.subgradient(x, Z), g, atol=1e-15)
        assert certified.population_risk(x) == pytest.approx(
            enumerated.population_risk(x), abs=1e-14
        )
        z = int(np.argmax(certified.loss(x, range(12))))
        one = certified.subgradient(x, z), enumerated.subgradient(x, z)
        np.testing.assert_allclose(*one, atol=1e-15)
        x -= 0.15 * g
        reached = max(reached, np.linalg.norm(x[12:]))
    assert reached > certified.rho0  # the run went on to where Phi charges


def test_what_is_certified_is_the_enumerated_maximum():
    rng, proved = np.random.default_rng(0), 0
    for certified, enumerated in (pair(7), pair(17), pair(23)):
        for x in in_ball(rng, certified.d, 200):
            x[: certified.N] *= 3
            try:
                value = certified.population_risk(x)
            except CertificateError:
                continue
            proved += 1
            assert value == pytest.approx(enumerated.population_risk(x), abs=1e-14)
    assert proved > 100


def test_small_y_and_large_u_cannot_be_proved():
    certified, _ = pair(23)
    s, w = np.split(certified.erm(range(6)).x, [12])
    x = np.concatenate([1e-6 * np.sign(s), w / 2])
    with pytest.raises(CertificateError, match=r"coupling term: 2 min\|y_j\| .* 2e-06 < 0\.0"):
        certified.population_risk(x)
    x[:12], x[12:] = 0.25, np.eye(24)[0] * 0.9
    with pytest.raises(CertificateError, match=r"Feldman term: .* bound 0\.\d+ > 0\.53"):
        certified.subgradient(x, 0)


def test_a_word_opposite_to_that_of_y_is_not_overlooked():
    # Extended QR codes hold -w for every w. With u = -r w the bound max(rho, 0)(1 - 2 delta) + e
    # is 0, yet the opposite word charges: rho < 0 proves nothing beyond |u| <= rho0.
    certified, enumerated = pair(23)
    s = np.where(np.arange(12) < 6, 1.0, -1.0)
    w = certified.erm(range(6)).x[12:] / 0.8
    x = np.concatenate([0.1 * s, -0.8 * w])
    assert enumerated.excess_parts(x).Phi > 0.1
    with pytest.raises(CertificateError, match="Feldman"):
        certified.population_risk(x)
    small = np.concatenate([0.1 * s, -0.5 * w])
    assert certified.population_risk(small) == pytest.approx(enumerated.population_risk(small))


def test_auto_enumerates_only_where_it_must_and_can():
    inst, (_, enumerated) = instance(23), pair(23)
    x = np.concatenate([np.full(12, 1e-6), np.eye(24)[0]])
    assert inst.population_risk(x) == pytest.approx(enumerated.population_risk(x), abs=1e-15)
    large = instance(47)
    with pytest.raises(CertificateError):
        large.population_risk(np.concatenate([np.full(24, 1e-6), np.eye(48)[0]]))


def test_enumeration_has_a_limit():
    with pytest.raises(ValueError, match="limited to N <= 20, got N = 24; use the certified"):
        instance(47, oracle="enumerate")


def test_enumeration_at_its_limit():
    rng = np.random.default_rng(0)
    generator = np.hstack([np.eye(20, dtype=int), rng.integers(2, size=(20, 24))])
    assert len(row_basis(generator)) == 20
    code = LinearCode(generator, 2)
    inst = HardInstance(code, oracle="enumerate")
    s = rng.choice([-1.0, 1.0], size=20)
    w = (1 - 2.0 * code.encode((s > 0).astype(np.uint8))) / np.sqrt(44)
    top = inst._maxima(0.1 * s, 0.3 * w)
    np.testing.assert_array_equal(top.s, s)
    np.testing.assert_allclose(top.w, w)


def test_every_charging_word_is_found():
    # A short distance and u between words: several words charge, and each z takes its highest.
    inst = HardInstance(LinearCode(np.eye(5, 7, dtype=int) + np.eye(5, 7, 2, dtype=int), 1))
    enumerated = HardInstance(inst.code, oracle="enumerate")
    listed, rng = list(reference.words(inst)), np.random.default_rng(0)
    several = 0
    for x in in_ball(rng, inst.d, 100):
        x[5:] *= 1 / np.linalg.norm(x[5:])
        several += len(enumerated._maxima(x[:5], x[5:]).words) > 1
        expected = [reference.loss(inst, x, z, listed) for z in range(5)]
        np.testing.assert_allclose(enumerated.loss(x, range(5)), expected, rtol=1e-13)
    assert several > 10


def test_decoding_follows_signs_back_and_forth():
    inst = HardInstance(rs_golay_code(3), oracle="certified")
    rng = np.random.default_rng(0)
    for _ in range(20):
        s = rng.choice([-1.0, 1.0], size=36)
        fresh = inst.code.encode((s > 0).astype(np.uint8))
        np.testing.assert_array_equal(inst._maxima(s, np.zeros(144)).w, (1 - 2.0 * fresh) / 12)


def test_a_claimed_code_computes_but_proves_nothing():
    inst = HardInstance(LinearCode(qr_code(47).generator, 12))
    assert not inst.erm([0, 1, 2]).unique
    assert instance(47).erm([0, 1, 2]).unique
