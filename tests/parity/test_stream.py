import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallline.parity import ParityStream


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 60), st.floats(1e-4, 1.0), st.integers(0, 99))
def test_batches_are_well_formed_and_labelled(N, M, p_e, seed):
    stream = ParityStream(N, p_e, p_w=0.5, n_outputs=2, seed=seed)
    X, y = stream.sample(M)
    assert X.shape == (M, N)
    assert y.shape == (M, 2)
    assert X.indptr[0] == 0
    assert X.indptr[-1] == X.nnz
    for m in range(M):
        row = X.indices[X.indptr[m] : X.indptr[m + 1]]
        assert (np.diff(row) > 0).all()
        assert ((row >= 0) & (row < N)).all()
        np.testing.assert_array_equal(y[m], stream.target[row].sum(axis=0) % 2)


@pytest.mark.parametrize(("N", "p_e"), [(1000, 0.001), (50, 0.3), (7, 0.95), (100_000, 2e-5)])
def test_active_counts_are_binomial(N, p_e):
    M = 40_000
    X, _ = ParityStream(N, p_e, support=[0], seed=1).sample(M)
    counts = np.diff(X.indptr)
    mean, variance = N * p_e, N * p_e * (1 - p_e)
    assert abs(counts.mean() - mean) < 4 * np.sqrt(variance / M)
    fourth = variance * (1 + 3 * (N - 2) * p_e * (1 - p_e))
    assert abs(counts.var() - variance) < 4 * np.sqrt((fourth - variance**2) / M)
    if N <= 50:
        columns = np.bincount(X.indices, minlength=N)
        z = (columns - M * p_e) / np.sqrt(M * p_e * (1 - p_e))
        assert np.abs(z).max() < 4.5


def test_bits_are_independent_of_each_other():
    X = ParityStream(4, 0.4, support=[0], seed=3).sample(200_000)[0].toarray()
    codes = np.bincount(X @ [1, 2, 4, 8], minlength=16)
    ones = np.array([bin(code).count("1") for code in range(16)])
    expected = 200_000 * 0.4**ones * 0.6 ** (4 - ones)
    assert ((codes - expected) ** 2 / expected).sum() < 45  # chi-squared, 15 degrees: p < 1e-4


def test_full_density_and_a_tiny_one():
    X, y = ParityStream(5, 1.0, support=[0, 3, 4], seed=0).sample(7)
    assert (X.toarray() == 1).all()
    assert (y == 1).all()
    X, _ = ParityStream(10**7, 1e-13, support=[0], seed=0).sample(1000)
    assert X.nnz == 0


def test_the_same_seed_gives_the_same_batches():
    first, second = (ParityStream(30, 0.1, p_w=0.5, noise=0.2, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.target, second.target)
    for (X, y), (Z, z) in itertools.islice(zip(first.batches(50), second.batches(50)), 4):
        assert (X != Z).nnz == 0
        np.testing.assert_array_equal(y, z)
    other = ParityStream(30, 0.1, p_w=0.5, noise=0.2, seed=6)
    assert (other.sample(50)[0] != first.sample(50)[0]).nnz > 0


def test_targets():
    support = ParityStream(6, support=[5, 1]).target
    assert support.tolist() == [False, True, False, False, False, True]
    assert not ParityStream(6, support=[]).target.any()
    matrix = np.eye(6, 2, dtype=bool)
    stream = ParityStream(6, support=matrix)
    assert stream.n_outputs == 2
    np.testing.assert_array_equal(stream.target, matrix)
    assert ParityStream(6, p_w=1.0).target.all()
    drawn = ParityStream(20_000, p_w=0.3, n_outputs=2, seed=0).target
    assert drawn.shape == (20_000, 2)
    assert abs(drawn.mean() - 0.3) < 0.01
    assert ParityStream(8, support=[0]).p_e == 1 / 8
    with pytest.raises(ValueError, match="read-only"):
        drawn[0] = True


def test_labels_are_flipped_at_the_rate_of_the_noise():
    clean, noisy = (ParityStream(20, 0.1, support=[1, 2], noise=eta, seed=0) for eta in (0, 0.2))
    X, y = noisy.sample(50_000)
    flipped = (X.toarray()[:, [1, 2]].sum(1) % 2 != y).mean()
    assert abs(flipped - 0.2) < 4 * np.sqrt(0.16 / 50_000)
    assert (clean.sample(50_000)[0] != X).nnz == 0  # flips are drawn after the bits


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0, "p_w": 0.5}, "n_features must be an integer >= 1, got 0"),
        ({"n_features": 2.5, "p_w": 0.5}, "n_features must be an integer >= 1, got 2.5"),
        ({"n_features": 2**31, "support": [0]}, "n_features must be <= 2147483647"),
        ({"n_features": 5, "p_e": 0.0, "p_w": 0.5}, r"p_e must lie in \(0, 1\], got 0.0"),
        ({"n_features": 5}, "give one of support and p_w"),
        ({"n_features": 5, "support": [1], "p_w": 0.5}, "give one of support and p_w"),
        ({"n_features": 5, "p_w": 1.5}, r"p_w must lie in \[0, 1\], got 1.5"),
        ({"n_features": 5, "support": [1, 5]}, "indices in 0..4, got 5"),
        ({"n_features": 5, "support": [-1]}, "indices in 0..4, got -1"),
        ({"n_features": 5, "support": [0.5]}, "support must be indices or booleans"),
        ({"n_features": 5, "support": [True, False]}, r"must have shape \(5,\) or \(5, P\)"),
        ({"n_features": 5, "support": [1], "n_outputs": 2}, "n_outputs = 2 goes with p_w"),
        ({"n_features": 5, "p_w": 0.5, "noise": 0.5}, r"noise must lie in \[0, 0.5\)"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ParityStream(**arguments)


def test_bad_batches_are_refused():
    stream = ParityStream(100_000, 0.5, support=[0])
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1, got 0"):
        stream.sample(0)
    with pytest.raises(ValueError, match="use a smaller batch"):
        stream.sample(10**6)
    with pytest.raises(ValueError, match="p_e must lie in"):
        stream.sample(1, p_e=2.0)
