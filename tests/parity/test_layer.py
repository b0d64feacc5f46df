import copy

import numpy as np
import pytest
import torch
from tests.parity.reference import node
from torch.autograd import gradcheck, gradgradcheck

from fallline.parity import ParityProduct, parity_loss
from fallline.parity.layer import product

# torch says so once, at the first sparse_csr tensor of a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")


def layer(weights, **options):
    weights = torch.tensor(weights, dtype=torch.float64)
    made = ParityProduct(*weights.shape, dtype=torch.float64, **options)
    made.weight.data.copy_(weights)
    return made


def random_case(N=7, P=3, M=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = ParityProduct(N, P, generator=generator, dtype=torch.float64)
    bits = torch.rand(M, N, generator=generator) < 0.4
    bits[3] = False
    made.weight.data[2, 1] = 0.5
    return made, bits


def as_indices(bits):
    rows = [row.nonzero().flatten() for row in bits]
    offsets = torch.tensor([0] + [len(row) for row in rows]).cumsum(0)[:-1]
    return torch.cat(rows), offsets


@pytest.mark.parametrize(
    ("weights", "bits", "output"),
    [
        ((0.3, 0.9, 0.5), (1, 0, 1), 0.5),
        ((0.3, 0.9, 0.5), (0, 0, 0), 0.0),
        ((1.0, 1.0, 0.0), (1, 1, 1), 0.0),
        ((1.0, 1.0, 0.0), (1, 0, 1), 1.0),
    ],
)
def test_hand_computed_outputs(weights, bits, output):
    made = layer([[w] for w in weights])
    x = torch.tensor([bits], dtype=torch.float64)
    assert made(x).item() == output
    assert made(x.to_sparse_csr()).item() == output
    assert made.forward_indices(*as_indices(x)).item() == output


def test_the_gradient_at_a_zero_factor():
    made = layer([[0.3], [0.9], [0.5]])
    for form in (lambda x: x, lambda x: x.to_sparse_csr()):
        made.zero_grad()
        x = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
        parity_loss(made(form(x)), torch.ones(1, 1)).backward()
        # (y - y*)^2 = (Pi - Pi*)^2 / 4 with Pi - Pi* = 1: -b_j prod_{i != j} a_i.
        torch.testing.assert_close(
            made.weight.grad.flatten(), torch.tensor([0.0, 0.0, -0.4], dtype=torch.float64)
        )


def test_the_three_forms_are_the_reference():
    made, bits = random_case()
    expected = 0.5 * (1 - node(made.weight.detach().numpy(), bits.numpy().astype(int)))
    indices, offsets = as_indices(bits)
    longest = int(bits.sum(1).max())
    padded = torch.full((len(bits), longest), made.in_features)
    for m, row in enumerate(bits):
        padded[m, : int(row.sum())] = row.nonzero().flatten()
    for out in (
        made(bits),
        made(bits.double()),
        made(bits.to(torch.int8)),
        made(bits.double().to_sparse_csr()),
        made.forward_indices(indices, offsets),
        made.forward_indices(padded),
    ):
        np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-15)


def test_the_three_forms_have_one_gradient():
    made, bits = random_case()
    gradients = []
    for form in (
        lambda m: m(bits),
        lambda m: m(bits.double().to_sparse_csr()),
        lambda m: m.forward_indices(*as_indices(bits)),
    ):
        copied = copy.deepcopy(made)
        form(copied).square().sum().backward()
        gradients.append(copied.weight.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-14)
    torch.testing.assert_close(gradients[0], gradients[2], rtol=0, atol=1e-14)


def test_product_is_differentiable_twice_at_zeros():
    factors = torch.randn(4, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    factors[0, 1, 0] = factors[1, 0, 1] = factors[1, 2, 1] = 0.0
    factors.requires_grad_()
    assert gradcheck(product, factors)
    assert gradgradcheck(product, factors)


def test_the_backward_never_divides():
    # Pi / a_j is 0 / 1e-200 here: the product underflows before the division.
    factors = torch.tensor([[1e-200], [1e-200], [3.0]], dtype=torch.float64, requires_grad=True)
    product(factors).backward()
    assert factors.grad.flatten().tolist() == [3e-200, 3e-200, 0.0]


def test_dense_inputs_may_be_real_and_get_a_gradient():
    made, bits = random_case()
    x = bits.double() * 0.7
    assert gradcheck(made, x.requires_grad_())
    torch.testing.assert_close(made(x.detach().to_sparse_csr()), made(x))


def test_shapes():
    made = ParityProduct(5, 2)
    assert made(torch.zeros(5)).shape == (2,)
    assert made(torch.zeros(3, 4, 5)).shape == (3, 4, 2)
    assert made(torch.zeros(0, 5)).shape == (0, 2)
    empty = made(torch.zeros(3, 5).to_sparse_csr())
    assert empty.tolist() == [[0.0, 0.0]] * 3
    empty.sum().backward()
    assert not made.weight.grad.any()
    none = made.forward_indices(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    assert none.shape == (0, 2)


def test_float32_is_near_float64():
    made, bits = random_case(N=200, P=2, M=50)
    single = copy.deepcopy(made).float()
    assert single(bits).dtype == torch.float32
    torch.testing.assert_close(single(bits).double(), made(bits), rtol=1e-4, atol=1e-5)


def test_state_dict_and_initial_weights():
    made, bits = random_case()
    other = ParityProduct(7, 3, dtype=torch.float64)
    other.load_state_dict(made.state_dict())
    assert torch.equal(other(bits), made(bits))
    drawn = ParityProduct(40_000, generator=torch.Generator().manual_seed(0)).weight
    assert abs(drawn.mean().item() - 0.5) < 0.005
    assert abs(drawn.std().item() - 0.25) < 0.005
    fixed = ParityProduct(4, init_mean=0.2, init_std=0.0).weight
    assert torch.equal(fixed, torch.full((4, 1), 0.2))


def test_harden_and_support():
    made = layer([[0.9, 0.1], [0.5, 0.8], [0.6, 0.7]])
    assert made.harden().tolist() == [[True, False], [False, True], [True, True]]
    assert made.support().tolist() == [0, 2]
    assert made.support(1).tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_it_compiles_without_a_graph_break():
    made, bits = random_case()
    torch.testing.assert_close(
        torch.compile(made, backend="eager", fullgraph=True)(bits), made(bits)
    )
    indices = torch.tensor([[0, 1, 7], [7, 7, 7], [2, 4, 3]])
    compiled = torch.compile(made.forward_indices, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(indices), made.forward_indices(indices))


def test_it_stays_on_its_device():
    made = ParityProduct(7, 3, device="meta")
    bits, indices = torch.zeros(4, 7, device="meta"), torch.zeros(4, 2, dtype=int, device="meta")
    for out in (made(bits), made.forward_indices(indices)):
        assert out.device.type == "meta"
        assert out.shape == (4, 3)
        out.sum().backward()
    assert made.weight.grad.device.type == "meta"


def test_it_maps_over_a_batch():
    made, bits = random_case()
    x = bits.double()
    torch.testing.assert_close(torch.func.vmap(made)(x), made(x))
    per_sample = torch.func.vmap(
        torch.func.grad(lambda w, b: torch.func.functional_call(made, {"weight": w}, (b,)).sum()),
        in_dims=(None, 0),
    )(made.weight.detach(), x)
    made(bits).sum().backward()
    torch.testing.assert_close(per_sample.sum(0), made.weight.grad)


def test_the_loss_sums_outputs_and_averages_samples():
    y = torch.tensor([[0.5, 1.0], [0.0, 0.0]])
    assert parity_loss(y, torch.tensor([[True, True], [True, False]])).item() == 0.625
    assert parity_loss(y[0], torch.tensor([1, 1])).item() == 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: ParityProduct(0), "in_features must be >= 1, got 0"),
        (lambda m: ParityProduct(2, 0), "out_features must be >= 1, got 0"),
        (lambda m: ParityProduct(2, init_std=-1), "init_std must be >= 0, got -1"),
        (lambda m: m(torch.zeros(2, 4)), r"x must have 3 features, got shape \(2, 4\)"),
        (lambda m: m(torch.zeros(2, 3).to_sparse_coo()), "to_sparse_csr"),
        (lambda m: m.forward_indices(torch.zeros(2, dtype=torch.long)), "offsets missing"),
        (
            lambda m: m.forward_indices(torch.tensor([0, 1]), torch.tensor([1])),
            "offsets must start at 0",
        ),
        (
            lambda m: m.forward_indices(torch.tensor([0, 1]), torch.tensor([0, 5])),
            "offsets must start at 0, never fall",
        ),
        (lambda m: parity_loss(m(torch.zeros(2, 3)), torch.zeros(2)), r"y_true.unsqueeze\(-1\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(ParityProduct(3))
