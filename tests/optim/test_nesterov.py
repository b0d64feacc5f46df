import math

import pytest
import torch

from fallline.optim._nesterov import NesterovStep


def vectors(*, flip=False):
    generator = torch.Generator().manual_seed(0)

    def draw():
        matrix = torch.randn(6, 5, generator=generator, dtype=torch.float64)
        return [matrix.T.contiguous().T if flip else matrix, matrix[0] * 2.0]

    return draw(), draw(), draw()


def core_step(y, u, g, gamma, alpha, push):
    """The sheet's steps 4 and 2, literally."""
    u = u - push * g
    return (y + alpha * u - gamma * g) / (1.0 + alpha), u


STEPS = [(0.5, 0.3, 0.0), (0.1, 0.2, 2.0), (3.0, 1.5, 0.7), (1e-12, 1e-7, 1e5), (0.0, 0.0, 1.2)]


@pytest.mark.parametrize("flip", [False, True])
def test_it_is_the_core_step(flip):
    y, u, g = vectors(flip=flip)
    u_0 = [y_i - u_i for y_i, u_i in zip(y, u)]
    expected = list(zip(y, u))
    t = 2.5
    b = [t * d for d in u_0]
    y = [y_i.clone(memory_format=torch.preserve_format) for y_i in y]
    given = [g_i.clone() for g_i in g]
    for gamma, alpha, push in STEPS:
        step = NesterovStep.of(gamma, alpha, push, t)
        step.take(y, g, b)
        t = step.t
        for i, g_i in enumerate(g):
            expected[i] = core_step(*expected[i], g_i, gamma, alpha, push)
            y_i, u_i = expected[i]
            torch.testing.assert_close(y[i], y_i, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(y[i] - b[i] / t, u_i, rtol=1e-12, atol=1e-10)
    for g_i, given_i in zip(g, given):
        assert torch.equal(g_i, given_i)


def test_undoing_a_step_goes_back():
    y, b, g = vectors()
    before = [x.clone() for x in y + b]
    step = NesterovStep.of(0.7, 0.4, 1.1, 0.9)
    step.take(y, g, b)
    assert not torch.allclose(y[0], before[0])
    step.undo(y, g, b)
    torch.testing.assert_close(y + b, before, rtol=1e-13, atol=1e-13)


def test_a_step_without_gradient_is_one_with_a_zero_gradient():
    y, b, _ = vectors()
    y_0, b_0 = [x.clone() for x in y], [x.clone() for x in b]
    step = NesterovStep.of(0.7, 0.4, 1.1, 0.9)
    step.take_without_gradient(y, b)
    step.take(y_0, [torch.zeros_like(x) for x in y], b_0)
    torch.testing.assert_close(y + b, y_0 + b_0, rtol=1e-14, atol=1e-14)


def test_the_first_step_is_gradient_descent_shortened_by_the_momentum_to_come():
    y, b, g = [torch.ones(3)], [torch.zeros(3)], [torch.full((3,), 2.0)]
    step = NesterovStep.of(0.5, 0.25, 0.0, None)
    step.take(y, g, b)
    torch.testing.assert_close(y[0], torch.full((3,), 1.0 - 0.5 * 2.0 / 1.25))
    assert math.isclose(step.momentum, 1.0)
    torch.testing.assert_close(y[0] - b[0] / step.t, torch.ones(3))
