import numpy as np
import pytest
import torch
from tests.sco.reference import in_ball, instance


def gradient(model, x, z):
    with torch.no_grad():
        model.x.copy_(torch.from_numpy(x))
    model.zero_grad()
    loss = model(z).mean()
    loss.backward()
    return loss.item(), model.x.grad.numpy().copy()


@pytest.mark.parametrize("p", [7, 23, 31])
def test_losses_and_gradients_are_those_of_the_instance(p):
    inst = instance(p, normalize=p == 23)
    model, rng = inst.to_torch(), np.random.default_rng(0)
    for x in in_ball(rng, inst.d, 20):
        z = rng.integers(inst.N, size=5)
        value, g = gradient(model, x, z)
        assert value == pytest.approx(inst.loss(x, z).mean(), abs=1e-14)
        np.testing.assert_allclose(g, inst.subgradient(x, z), atol=1e-14)
    _, at_origin = gradient(model, np.zeros(inst.d), [1])
    np.testing.assert_allclose(at_origin, inst.subgradient(np.zeros(inst.d), 1), atol=1e-17)


def test_autograd_gives_subgradients():
    inst = instance(23)
    model, rng = inst.to_torch(), np.random.default_rng(1)
    Z = inst.sample(6, 0)
    for x, other in zip(in_ball(rng, 36, 200), in_ball(rng, 36, 200)):
        x[:12] = np.where(rng.random(12) < 0.3, inst.theta * rng.choice([-1, 1], 12), x[:12])
        value, g = gradient(model, x, Z)
        assert inst.empirical_risk(other, Z) >= value + g @ (other - x) - 1e-12


@pytest.mark.parametrize("plain", [False, True])
def test_torch_sgd_reproduces_gd(plain):
    inst = instance(23, plain=plain)
    Z, eta, T = inst.sample(6, 0), 0.15, 800
    model = inst.to_torch()
    optimizer = torch.optim.SGD(model.parameters(), lr=eta)
    z = torch.from_numpy(Z)
    for _ in range(T):
        optimizer.zero_grad()
        model(z).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(model.x.detach().numpy(), inst.gd(Z, eta, T).x, atol=1e-12)


def test_it_is_a_module_like_any_other():
    model = instance(7).to_torch()
    assert [(name, p.shape, p.dtype) for name, p in model.named_parameters()] == [
        ("x", (12,), torch.float64)
    ]
    assert list(model.state_dict()) == ["x"]
    assert model(3).shape == ()
    assert model(torch.tensor([[0, 1], [2, 3]])).shape == (2, 2)


def test_refusals():
    with pytest.raises(ValueError, match="limited to N <= 16, got N = 24"):
        instance(47).to_torch()
    model = instance(7).to_torch()
    for z in ([4], [-1], [0.5]):
        with pytest.raises(ValueError, match=r"z must hold integers in 0\.\.3"):
            model(z)
