"""The polar factor: figures of the sheet, exact references, degenerate matrices."""

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fallline.optim import _polar as private
from fallline.optim import polar


def spectrum_matrix(values, rows=None, columns=None, seed=0, dtype=torch.float64):
    """Make a matrix with the given singular values and random singular vectors."""
    k = len(values)
    rows, columns = rows or k, columns or k
    g = torch.Generator().manual_seed(seed)
    U, _ = torch.linalg.qr(torch.randn(rows, k, generator=g, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(columns, k, generator=g, dtype=torch.float64))
    return (U * values @ V.T).to(dtype)


LOG_SPACED = torch.logspace(0, -3, 64, dtype=torch.float64)


@pytest.mark.parametrize(
    ("method", "steps", "smallest", "largest", "nuclear"),
    [
        ("newton_schulz", 5, 0.214, 1.201, 0.936),
        ("polar_express", 5, 0.417, 1.111, 1.0136),
        ("polar_express", 8, 0.9894, 0.9901, 0.9901),
    ],
)
def test_singular_values_after_the_iteration(method, steps, smallest, largest, nuclear):
    m = spectrum_matrix(LOG_SPACED)
    u = polar(m, method=method, steps=steps)
    singular = torch.linalg.svdvals(u)
    assert singular.min() == pytest.approx(smallest, abs=3e-3)
    assert singular.max() == pytest.approx(largest, abs=3e-3)
    assert (m * u).sum() / LOG_SPACED.sum() == pytest.approx(nuclear, abs=3e-3)


def test_an_undivided_last_step_reaches_one():
    u = polar(spectrum_matrix(LOG_SPACED), steps=8, safety="all_but_last")
    assert torch.linalg.svdvals(u).sub(1).abs().max() < 1e-3


@pytest.mark.parametrize("method", ["polar_express", "newton_schulz", "svd"])
@pytest.mark.parametrize("shape", [(5, 5), (4, 12), (12, 4), (6, 9), (1, 7), (7, 1)])
def test_a_transposed_matrix_gives_the_transposed_factor(method, shape):
    m = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u = polar(m, method=method)
    assert u.shape == m.shape
    assert u.is_contiguous()
    torch.testing.assert_close(polar(m.mT, method=method), u.mT)


@pytest.mark.parametrize("method", ["polar_express", "newton_schulz", "svd"])
def test_a_batch_is_its_matrices_one_by_one(method):
    m = torch.randn(2, 3, 4, 10, generator=torch.Generator().manual_seed(2))
    one_by_one = torch.stack([polar(x, method=method) for x in m.flatten(0, 1)]).view(m.shape)
    torch.testing.assert_close(polar(m, method=method), one_by_one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["polar_express", "newton_schulz"])
@pytest.mark.parametrize("columns", [128, 200, 256, 1024])
def test_the_gram_route_equals_the_plain_route(method, columns):
    m = torch.randn(64, columns, generator=torch.Generator().manual_seed(3))
    rows = private._coefficients(method, 5, "every_step")
    plain = private._normalised(m, method, torch.float32)
    for a, b, c in rows:
        A = plain @ plain.T
        plain = a * plain + (b * A + c * A @ A) @ plain
    torch.testing.assert_close(
        polar(m, method=method, dtype=torch.float32), plain, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("method", ["polar_express", "newton_schulz"])
@pytest.mark.parametrize("steps", [5, 8, 12, 20])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_rank_deficient_wide_matrix_does_not_diverge(dtype, method, steps, rank):
    g = torch.Generator().manual_seed(4)
    m = torch.randn(32, rank, generator=g) @ torch.randn(rank, 128, generator=g)
    u = polar(m, method=method, steps=steps, dtype=dtype)
    assert torch.linalg.svdvals(u).max() < 1.25


def test_the_gram_matrix_is_built_anew_before_rounding_diverges():
    rows = private._coefficients("polar_express", 8, "every_step")
    lengths = {
        dtype: [len(run) for run in private._gram_runs(rows[:5], dtype)]
        for dtype in (torch.float64, torch.float32, torch.bfloat16)
    }
    assert lengths == {torch.float64: [5], torch.float32: [5], torch.bfloat16: [2, 3]}
    for dtype in lengths:
        assert [row for run in private._gram_runs(rows, dtype) for row in run] == rows


@pytest.mark.parametrize("method", ["polar_express", "newton_schulz", "svd"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 8), (0, 4), (4, 0)])
def test_a_zero_or_empty_matrix_stays(method, shape):
    assert polar(torch.zeros(shape), method=method).equal(torch.zeros(shape))


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e30])
def test_extreme_scales_stay_finite(scale):
    m = scale * torch.randn(8, 8, generator=torch.Generator().manual_seed(5))
    assert torch.linalg.svdvals(polar(m)).max() < 1.2


def test_the_exact_factor_drops_null_directions():
    m = spectrum_matrix(torch.tensor([3.0, 2.0, 0.0], dtype=torch.float64), 4, 6)
    u = polar(m, method="svd")
    assert (m * u).sum() == pytest.approx(5.0)
    torch.testing.assert_close(
        torch.linalg.svdvals(u), torch.tensor([1, 1, 0, 0], dtype=torch.float64)
    )


matrices = npst.arrays(
    np.float64,
    npst.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-10, 10).map(lambda x: round(x, 3)),
)


@given(matrices)
@settings(max_examples=60, deadline=None)
def test_the_exact_factor_is_the_maximiser(array):
    m = torch.from_numpy(array.copy())
    u = polar(m, method="svd")
    nuclear = torch.linalg.svdvals(m).sum()
    assert torch.linalg.svdvals(u).max() <= 1 + 1e-9
    assert float((m * u).sum()) == pytest.approx(float(nuclear), rel=1e-6, abs=1e-9)


@given(matrices)
@settings(max_examples=60, deadline=None)
def test_the_iteration_is_odd_and_bounded(array):
    m = torch.from_numpy(array.copy())
    u = polar(m)
    torch.testing.assert_close(polar(-m), -u)
    assert torch.linalg.svdvals(u).max() < 1.13


@pytest.mark.parametrize(
    ("m", "options", "error", "message"),
    [
        (torch.zeros(3), {}, ValueError, r"2 dimensions, got shape \(3,\)"),
        (torch.zeros(2, 2, dtype=torch.complex64), {}, TypeError, "complex64"),
        (torch.zeros(2, 2, dtype=torch.int64), {}, TypeError, "int64"),
        (torch.zeros(2, 2), {"method": "qr"}, ValueError, "method must be one of .*'qr'"),
        (torch.zeros(2, 2), {"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        (torch.zeros(2, 2), {"steps": 2.0}, TypeError, "steps must be an int, got float"),
        (torch.zeros(2, 2), {"dtype": torch.int32}, ValueError, "dtype must be 'auto' or a float"),
        (torch.zeros(2, 2), {"dtype": "bf16"}, ValueError, "or a floating torch.dtype, got 'bf16'"),
        (torch.zeros(2, 2), {"safety": "none"}, ValueError, "safety must be one of"),
    ],
)
def test_wrong_arguments_are_named(m, options, error, message):
    with pytest.raises(error, match=message):
        polar(m, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["polar_express", "svd"])
def test_the_dtype_of_the_input_returns(dtype, method):
    m = torch.randn(4, 6, generator=torch.Generator().manual_seed(6)).to(dtype)
    u = polar(m, method=method)
    assert u.dtype == dtype
    exact = polar(m.double(), method="svd")
    assert ((u.double() - exact).norm() / exact.norm()) < 0.3


def test_auto_dtype():
    small, large = torch.zeros(64, 64), torch.zeros(256, 256)
    assert private.working_dtype(small, "auto") == torch.float32
    assert private.working_dtype(small.double(), "auto") == torch.float64
    assert private.working_dtype(large.double(), "auto") == torch.float64
    fast = torch.cpu.get_capabilities().get("amx_bf16", False)
    expected = torch.bfloat16 if fast else torch.float32
    assert private.working_dtype(large, "auto") == expected


def test_each_matches_one_by_one_in_bfloat16_batches():
    g = torch.Generator().manual_seed(7)
    matrices = [torch.randn(s, generator=g) for s in [(40, 40), (90, 30), (40, 40), (0, 3)] * 3]
    options = {"method": "polar_express", "steps": 5, "dtype": torch.bfloat16}
    factors, norms = private.polar_each(matrices, **options, nuclear=True)
    for m, u, n in zip(matrices, factors, norms):
        torch.testing.assert_close(u.to(m.dtype), polar(m, **options), rtol=0, atol=0.04)
        torch.testing.assert_close(n, (m * u).sum())
    assert private.polar_each(matrices, **options)[1] == []


@pytest.mark.parametrize("shape", [(4, 4), (4, 16), (16, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_matches_one_by_one_in_single_precision_batches(shape, dtype):
    """What a GPU does with equal shapes."""
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]
    rows = private._coefficients("polar_express", 5, "every_step")
    batched = private._chunk_factors(matrices, "polar_express", rows, "auto")
    for m, u in zip(matrices, batched):
        torch.testing.assert_close(u, polar(m), rtol=1e-4, atol=1e-5)
    on_device = [torch.empty(shape, device="meta") for _ in range(3)]
    assert list(private._chunks(on_device, "polar_express", torch.float32)) == [[0, 1, 2]]


@pytest.mark.parametrize("shape", [(4, 4), (4, 16), (16, 4)])
@pytest.mark.parametrize("m_dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_each_takes_every_pair_of_dtypes(shape, m_dtype, dtype):
    m = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(m_dtype)
    (u,), _ = private.polar_each([m], method="polar_express", steps=5, dtype=dtype)
    torch.testing.assert_close(u.float(), polar(m.float()), rtol=0.1, atol=0.1)
