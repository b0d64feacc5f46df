import math

import pytest
import torch

from fallline.optim import split_params
from fallline.tasks import GPT


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GPT(vocabulary=32, context=16, layers=2, width=48, heads=4)


def test_a_future_token_changes_no_earlier_logit(model):
    tokens = torch.randint(32, (2, 16))
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 32
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :9], after[:, :9], rtol=0, atol=0)
    assert not torch.allclose(before[:, 9:], after[:, 9:])


def test_initial_scales(model):
    assert model.wte.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert model.blocks[0].up.weight.std().item() == pytest.approx(0.02, rel=0.1)
    for residual in (model.blocks[1].attn.proj, model.blocks[1].down):
        assert residual.weight.std().item() == pytest.approx(0.02 / math.sqrt(4), rel=0.1)
    logits = model(torch.zeros(1, 4, dtype=torch.long))
    assert torch.nn.functional.cross_entropy(logits[0], torch.arange(4)).item() == pytest.approx(
        math.log(32), abs=0.1
    )


def test_no_linear_map_has_a_bias_and_the_head_is_untied(model):
    assert all(m.bias is None for m in model.modules() if isinstance(m, torch.nn.Linear))
    assert model.lm_head.weight is not model.wte.weight


def test_the_hidden_matrices_and_nothing_else_are_routed_to_matrix(model):
    matrix, other = split_params(model)
    named = {id(p): name for name, p in model.named_parameters()}
    assert {named[id(p)] for p in matrix} == {
        f"blocks.{layer}.{name}.weight"
        for layer in (0, 1)
        for name in ("attn.qkv", "attn.proj", "up", "down")
    }
    assert {"wte.weight", "wpe.weight", "lm_head.weight"} <= {named[id(p)] for p in other}
    assert len(list(matrix)) + len(list(other)) == len(named)


def test_heads_must_divide_width():
    with pytest.raises(ValueError, match="heads must divide width, got 5 heads and width 48"):
        GPT(32, 16, 2, 48, 5)
