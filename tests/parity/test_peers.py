import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fallline.parity import (
    NaiveProduct,
    ParityStream,
    count_parity,
    parity_loss,
    parity_mlp,
    solve_gf2,
)


def rank_gf2(X):
    """Rank by elimination on Python integers."""
    rows, rank = [int("".join(map(str, row)), 2) for row in X.astype(int)], 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            rows = [row ^ pivot if row & low else row for row in rows]
    return rank


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 150), st.integers(1, 150), st.integers(1, 70), st.integers(0, 10**6))
def test_elimination_explains_every_label(n, N, P, seed):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, N)) < rng.choice([0.02, 0.5])).astype(int)
    hidden = rng.integers(0, 2, (N, P))
    solution = solve_gf2(X, X @ hidden % 2)
    np.testing.assert_array_equal(X @ solution.support % 2, X @ hidden % 2)
    assert solution.rank == rank_gf2(X)
    assert solution.unique == (solution.rank == N)
    if solution.unique:
        np.testing.assert_array_equal(solution.support, hidden == 1)


def test_elimination_takes_sparse_data_and_one_output():
    X, y = ParityStream(130, support=[0, 64, 129], seed=0).sample(3000)
    solution = solve_gf2(X, y)
    assert solution.unique
    assert np.flatnonzero(solution.support).tolist() == [0, 64, 129]


def test_elimination_refuses_noise():
    X, y = ParityStream(50, 0.5, p_w=0.5, seed=0).sample(100)
    assert solve_gf2(X, y).unique
    y[17] ^= 1
    with pytest.raises(ValueError, match=r"some are flipped.*count_parity"):
        solve_gf2(X, y)
    with pytest.raises(ValueError, match=r"got shapes \(100, 50\) and \(3,\)"):
        solve_gf2(X, y[:3])


def test_counting_by_hand():
    X = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
    y = np.array([1, 1, 0, 0, 1, 1])
    counts = count_parity(X, y)
    assert counts.sightings.tolist() == [3, 1, 0]
    assert counts.odd.tolist() == [2, 0, 0]
    assert counts.support.tolist() == [True, False, False]
    both = count_parity(csr_array(X), np.column_stack([y, 1 - y]))
    assert both.support.tolist() == [[True, False], [False, True], [False, False]]
    joined = count_parity(X[:2], y[:2]) + count_parity(X[2:], y[2:])
    assert joined.odd.tolist() == counts.odd.tolist()
    assert joined.sightings.tolist() == counts.sightings.tolist()
    with pytest.raises(ValueError, match="got shapes"):
        count_parity(X, y[:2])


def test_counting_survives_noise():
    stream = ParityStream(200, p_w=0.5, noise=0.3, seed=0)
    X, y = stream.sample(100_000)
    counts = count_parity(X, y)
    assert (counts.support == stream.target).all()
    assert counts.sightings.mean() == pytest.approx(500 * (1 - 1 / 200) ** 199, rel=0.05)


def test_the_networks():
    generator = torch.Generator().manual_seed(0)
    mlp = parity_mlp(16, generator=generator)
    assert [layer.out_features for layer in mlp[::2]] == [512, 512, 64, 1]
    assert mlp[0].weight.abs().max() <= np.sqrt(6 / 16)
    assert mlp[0].weight.std().item() == pytest.approx(np.sqrt(2 / 16), rel=0.05)
    again = parity_mlp(16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again[0].weight, mlp[0].weight)

    naive = NaiveProduct(4, 2, generator=generator)
    x = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    out = naive(x)
    torch.testing.assert_close(out[0], naive.weight.prod(dim=0))
    assert not out[1].any()
    parity_loss(out[1:], torch.ones(1, 2)).backward()
    # One inactive input kills the output, and the gradient of every active one.
    assert not naive.weight.grad.any()
