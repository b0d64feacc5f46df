"""Which parameters count as matrices, from everything an optimizer accepts."""

import logging
import warnings

import pytest
import torch
from torch import nn
from torch.nn import Parameter

from fallline import FalllineWarning
from fallline.optim import Momo, MuonAdam, MuonMaxMomo, Scion, SignGD, split_params


class TinyGPT(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.wpe = Parameter(torch.zeros(4, 8))
        self.block = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.conv = nn.Conv1d(8, 8, 3)
        self.head = nn.Linear(8, 11, bias=False)
        if tied:
            self.head.weight = self.table.weight


class Named(nn.Module):
    def __init__(self, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(torch.zeros(shape)))


class WithHead(nn.Module):
    """As Hugging Face's models, which say what their head is."""

    def __init__(self):
        super().__init__()
        self.out, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def get_output_embeddings(self):
        return self.out


def names_of(model, params):
    by_id = {id(p): name for name, p in model.named_parameters()}
    return {by_id[id(p)] for p in params}


@pytest.mark.parametrize("tied", [False, True])
def test_a_module_is_routed_by_the_rules(tied):
    model = TinyGPT(tied)
    split = split_params(model)
    assert names_of(model, split.matrix) == {"block.weight", "conv.weight"}
    matrix, other = split
    assert len(matrix) + len(other) == len(list(model.parameters()))


def test_hugging_face_models_say_what_their_head_is():
    model = WithHead()
    assert names_of(model, split_params(model).matrix) == {"last.weight"}


def test_a_declared_head_is_found_behind_a_wrapper():
    model = nn.ModuleDict({"module": WithHead()})
    assert names_of(model, split_params(model).matrix) == {"module.last.weight"}


def test_a_network_called_embedder_has_matrices():
    model = nn.ModuleDict(
        {
            "text_embedder": nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4)),
            "patch_embed": nn.Conv2d(1, 4, 2),
            "head": nn.Linear(4, 4),
        }
    )
    hidden = {"text_embedder.1.weight", "patch_embed.weight"}
    assert names_of(model, split_params(model).matrix) == hidden
    by_name = MuonAdam(model.named_parameters()).param_groups
    (matrices,) = (g["param_names"] for g in by_name if g["kind"] == "matrix")
    # A name alone does not tell an embedding in a list from a linear map, nor what is the head.
    assert matrices == ["text_embedder.0.weight", "text_embedder.1.weight", "head.weight"]


@pytest.mark.parametrize("name", ["head", "lm_head", "classifier", "score", "unembed", "output"])
def test_a_head_is_known_by_its_name_before_the_order_counts(name):
    class HeadFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.top = nn.ModuleDict({name: nn.Linear(4, 9)})
            block = nn.ModuleDict({"inner": nn.Linear(4, 4), "output": nn.Linear(4, 4)})
            self.blocks = nn.ModuleList([block, nn.Linear(4, 4)])

    model = HeadFirst()
    assert names_of(model, split_params(model).matrix) == {
        "blocks.0.inner.weight",
        "blocks.0.output.weight",  # of a block, so hidden
        "blocks.1.weight",
    }


def test_only_a_linear_map_is_a_head():
    model = nn.ModuleDict({"output": nn.Conv1d(4, 4, 3), "last": nn.Linear(4, 4)})
    assert names_of(model, split_params(model).matrix) == {"output.weight"}


@pytest.mark.parametrize(
    "name",
    ["embeddings_x", "embed_tokens_x", "wte", "wpe_x", "lm_head_x", "tok_emb", "pos_embed"],
)
def test_names_that_are_no_matrix(name):
    model = Named(**{name: (4, 4), "hidden": (4, 4)})
    assert names_of(model, split_params(model).matrix) == {"hidden"}


def test_a_predicate_decides():
    model = TinyGPT()
    split = split_params(model, is_matrix=lambda name, p: "head" in name or p.ndim == 1)
    assert names_of(model, split.matrix) == {"head.weight"}  # one dimension is never a matrix


def test_the_split_is_reported(caplog):
    model = TinyGPT()
    with caplog.at_level(logging.INFO, logger="fallline.optim"):
        split = split_params(model)
        MuonAdam(model)
    text = "matrix: 2 tensors (256 values); other: 7 tensors (240 values)"
    assert repr(split) == text
    assert [record.message for record in caplog.records] == [f"TinyGPT: {text}"] * 2


def test_a_suspiciously_large_matrix_warns():
    model = Named(projection=(20_001, 2), cube=(20_001, 2, 1))
    with pytest.warns(FalllineWarning, match=r"projection of shape \(20001, 2\)"):
        split_params(model)
    with pytest.warns(FalllineWarning, match="above 20000"):
        MuonAdam(model.named_parameters())


def kinds(opt):
    return {name: g["kind"] for g in opt.param_groups for name in g["param_names"]}


def test_named_parameters_are_routed_by_name():
    model = TinyGPT()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        routed = kinds(MuonMaxMomo(model.named_parameters()))
    assert routed["block.weight"] == routed["conv.weight"] == "matrix"
    assert routed["wpe"] == routed["norm.weight"] == "other"
    assert kinds(MuonMaxMomo(model))["head.weight"] == "other"


def test_plain_parameters_are_routed_by_shape_with_a_warning():
    model = TinyGPT()
    with pytest.warns(FalllineWarning, match="cannot be told apart"):
        opt = MuonAdam(model.parameters())
    by_kind = {g["kind"]: len(g["params"]) for g in opt.param_groups}
    assert by_kind == {"matrix": 5, "other": 4}


@pytest.mark.parametrize("make", [SignGD, Momo])
def test_no_warning_where_the_kind_has_no_effect(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(make(TinyGPT().parameters()).param_groups) == 1


def test_no_warning_where_the_shape_leaves_no_doubt():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MuonAdam([Parameter(torch.zeros(3)), Parameter(torch.zeros(()))])


def test_a_pair_says_its_kinds():
    W, b = Parameter(torch.zeros(2, 2)), Parameter(torch.zeros(2, 2))
    opt = MuonAdam(([W], iter([b])))
    assert [(g["kind"], g["params"]) for g in opt.param_groups] == [("matrix", [W]), ("other", [b])]
    assert len(MuonAdam(split_params(TinyGPT())).param_groups) == 2
    named = MuonAdam(([("W", W)], [("b", b)]))
    assert kinds(named) == {"W": "matrix", "b": "other"}


def test_two_named_pairs_are_not_a_pair_of_collections():
    pairs = (("weight", Parameter(torch.zeros(2, 2))), ("bias", Parameter(torch.zeros(2))))
    assert kinds(MuonAdam(pairs)) == {"weight": "matrix", "bias": "other"}


def test_groups_without_a_kind_are_split_and_keep_their_options():
    model = TinyGPT()
    named = list(model.named_parameters())
    opt = MuonAdam(
        [
            {"params": [x for x in named if x[1].ndim >= 2], "weight_decay": 0.3},
            {"params": [x for x in named if x[1].ndim < 2], "weight_decay": 0.0},
        ]
    )
    table = [(g["kind"], g["weight_decay"], len(g["params"])) for g in opt.param_groups]
    assert table == [("matrix", 0.3, 4), ("other", 0.3, 1), ("other", 0.0, 4)]


def test_a_frozen_and_a_tied_model_are_accepted():
    model = TinyGPT(tied=True)
    model.block.weight.requires_grad_(False)
    assert sum(len(g["params"]) for g in Scion(model).param_groups) == 8


@pytest.mark.parametrize("params", [torch.zeros(2), 5])
def test_what_is_not_parameters_is_refused(params):
    with pytest.raises(TypeError):
        MuonAdam(params)


def test_split_params_wants_a_module():
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got list"):
        split_params([])
