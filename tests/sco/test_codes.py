import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallline.sco import LinearCode, qr_code, rs_golay_code
from fallline.sco.codes import minimum_distance, row_basis, span_signs
from fallline.sco.reed_solomon import _golay_words, _logarithms


@pytest.mark.parametrize(
    ("p", "N", "distance"),
    [(7, 4, 4), (17, 9, 6), (23, 12, 8), (31, 16, 8), (47, 24, 12), (79, 40, 16), (103, 52, 20)],
)
def test_quadratic_residue_codes(p, N, distance):
    code = qr_code(p)
    assert (code.N, code.n, code.d_min) == (N, p + 1, distance)
    assert code.certified
    assert len(row_basis(code.generator)) == N
    assert code.generator.any(axis=0).all()
    # Extended QR codes are doubly even for p = -1 mod 8: all weights are multiples of 4.
    if p % 8 == 7:
        assert not (code.generator.sum(axis=1) % 4).any()
    if N <= 16:
        assert minimum_distance(code.generator) == distance


@pytest.mark.parametrize("p", [47, 79, 103])
def test_the_distance_of_larger_codes_is_attained_by_no_small_sum(p):
    # Sums of up to three rows of a basis: a wrong code would show a light word among them.
    code = qr_code(p)
    rows = code.generator.astype(int)
    lightest = min(
        int(((rows[list(chosen)]).sum(axis=0) % 2).sum())
        for size in (1, 2, 3)
        for chosen in itertools.combinations(range(code.N), size)
    )
    assert lightest >= code.d_min


def test_the_golay_code_has_its_weight_distribution():
    weights = ((24 - span_signs(qr_code(23).generator).sum(axis=1)) / 2).astype(int)
    counts = dict(zip(*np.unique(weights, return_counts=True)))
    assert counts == {0: 1, 8: 759, 12: 2576, 16: 759, 24: 1}


def test_concatenated_code_of_one_symbol_has_distance_sixteen():
    code = rs_golay_code(1)
    assert (code.N, code.n, code.d_min) == (12, 48, 16)
    assert minimum_distance(code.generator) == 16
    assert len(row_basis(code.generator)) == 12


@pytest.mark.parametrize(("K", "delta"), [(3, 0.222), (10, 0.183), (40, 0.171)])
def test_relative_distances_of_concatenated_codes(K, delta):
    code = rs_golay_code(K)
    assert (code.N, code.n) == (12 * K, 48 * K)
    assert code.delta == pytest.approx(delta, abs=5e-4)
    assert code.certified


def test_concatenated_words_keep_their_distance():
    code, rng = rs_golay_code(4), np.random.default_rng(0)
    for weight in (1, 2, 3, 12, 48):
        for _ in range(50):
            message = np.zeros(code.N, dtype=np.uint8)
            message[rng.choice(code.N, weight, replace=False)] = 1
            assert code.encode(message).sum() >= code.d_min


def test_field_multiplication_is_that_of_the_polynomial():
    log, exp = _logarithms()
    assert sorted(exp) == list(range(1, 4096))  # the polynomial is primitive

    def product(a, b):
        result = 0
        for i in range(12):
            if b >> i & 1:
                result ^= a << i
        for i in range(22, 11, -1):
            if result >> i & 1:
                result ^= 0b1000001010011 << (i - 12)
        return result

    rng = np.random.default_rng(0)
    for a, b in rng.integers(1, 4096, size=(200, 2)).tolist():
        assert exp[(log[a] + log[b]) % 4095] == product(a, b)


def test_reed_solomon_is_polynomial_evaluation():
    K, rng = 3, np.random.default_rng(1)
    log, exp = _logarithms()
    message = rng.integers(2, size=12 * K)
    symbols = [int("".join(map(str, bits[::-1])), 2) for bits in message.reshape(K, 12)]
    word = rs_golay_code(K).encode(message).reshape(2 * K, 24)
    for i in range(2 * K):
        value = 0
        for k, symbol in enumerate(symbols):
            if symbol:
                value ^= exp[(log[symbol] + k * i) % 4095]
        np.testing.assert_array_equal(word[i], _golay_words()[value])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([7, 23, 103, "rs"]))
def test_encoding_is_linear_and_is_the_generators(seed, which):
    code = rs_golay_code(3) if which == "rs" else qr_code(which)
    first, second = np.random.default_rng(seed).integers(2, size=(2, code.N))
    one, two = code.encode(first), code.encode(second)
    np.testing.assert_array_equal(code.encode(first ^ second), one ^ two)
    np.testing.assert_array_equal(one, first @ code.generator % 2)


def test_the_largest_code_encodes_without_a_generator():
    code = rs_golay_code(2047)
    assert code.N == 24564
    message = np.ones(code.N, dtype=np.uint8)
    assert code.encode(message).sum() >= code.d_min


def test_messages_are_listed_in_binary_order():
    generator = qr_code(7).generator
    for index, bits in enumerate(itertools.product((0, 1), repeat=4)):
        expected = 1 - 2 * (np.array(bits) @ generator % 2)
        np.testing.assert_array_equal(span_signs(generator)[index], expected)


def test_a_claim_is_verified_where_that_is_possible():
    golay = qr_code(23).generator
    assert LinearCode(golay, 8).certified
    assert LinearCode(golay, 6).d_min == 6  # a weaker claim is still true
    with pytest.raises(ValueError, match="dmin must be <= 8, the code's minimum distance, got 9"):
        LinearCode(golay, 9)
    claimed = LinearCode(qr_code(47).generator, 12)
    assert not claimed.certified
    assert repr(claimed) == "<[48, 24, 12] code, claimed>"


@pytest.mark.parametrize(
    ("G", "dmin", "message"),
    [
        ([[1, 1, 0], [1, 1, 0]], 1, "rank 1 for 2 rows"),
        ([[1, 0, 1], [1, 0, 0]], 1, r"columns \[1\] are zero"),
        ([[1, 2]], 1, "array of 0 and 1"),
        ([1, 0], 1, "array of 0 and 1"),
        ([[1, 1]], 0, r"dmin must lie in 1\.\.2, got 0"),
        ([[1, 1]], 3, r"dmin must lie in 1\.\.2, got 3"),
    ],
)
def test_refusals(G, dmin, message):
    with pytest.raises(ValueError, match=message):
        LinearCode(G, dmin)


def test_refused_parameters():
    with pytest.raises(ValueError, match="p must be one of 7, 17"):
        qr_code(11)
    for K in (0, 2048):
        with pytest.raises(ValueError, match=r"K must lie in 1\.\.2047"):
            rs_golay_code(K)
    for message in ([1] * 5, [0, 1, 2, 0], [0, -1, 1, 0]):
        with pytest.raises(ValueError, match="message must be 4 bits, 0 or 1, got"):
            qr_code(7).encode(message)
