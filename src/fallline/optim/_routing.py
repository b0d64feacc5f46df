"""Which parameters are matrices of hidden maps, and which are not (arXiv:2510.09827)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from fallline._errors import FalllineWarning

logger = logging.getLogger("fallline.optim")

Named = tuple[str, Tensor]
ParamsLike = (
    nn.Module
    | tuple[Iterable[Tensor], Iterable[Tensor]]
    | Iterable[Tensor]
    | Iterable[Named]
    | Iterable[dict[str, Any]]
)

# The authors' list, looked for anywhere in a name.
NOT_MATRIX_NAMES = ("embeddings", "embed_tokens", "wte", "wpe", "lm_head")
# Tables such as tok_emb.weight or pos_embed say so themselves; a path may lead to them through a
# whole network called embedder, whose layers are matrices.
TABLE_STEMS = ("embed", "_emb")
MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Whole names of modules, whatever the order of registration.
HEAD_NAMES = ("head", "lm_head", "classifier", "score", "unembed", "output")
_LARGE_SIDE = 20_000


class Split(NamedTuple):
    """The parameters of a model by kind; prints as a report with counts."""

    matrix: list[Tensor]
    other: list[Tensor]

    def __repr__(self) -> str:
        return f"matrix: {_count(self.matrix)}; other: {_count(self.other)}"


def split_params(
    model: nn.Module, *, is_matrix: Callable[[str, Tensor], bool] | None = None
) -> Split:
    """Split a model's parameters into ``(matrix, other)`` for the Muon family.

    A matrix has two or more dimensions (a conv kernel counts as its flattening ``(out, rest)``),
    is not the weight of an ``nn.Embedding`` (a tied weight counts as embedding), is not the
    output head, has no name containing ``embeddings``, ``embed_tokens``, ``wte``, ``wpe`` or
    ``lm_head``, and is not itself called a table, with ``embed`` or ``_emb`` in its own name.
    The output head is what ``get_output_embeddings()`` returns where the model has that method
    (Hugging Face), else every ``nn.Linear`` outside numbered blocks called ``head``, ``lm_head``,
    ``classifier``, ``score``, ``unembed`` or ``output``, else the ``nn.Linear`` registered last.

    Parameters
    ----------
    model : nn.Module
        The model; its parameters keep their order.
    is_matrix : callable (name, parameter) -> bool, optional
        Decides instead of the rules above, for parameters of two or more dimensions.

    Returns
    -------
    Split
        Named tuple ``(matrix, other)`` of lists, ready for any optimizer of the family. Its
        ``repr`` reports tensors and values of each kind; the same line is logged (level INFO,
        logger ``fallline.optim``).

    Warns
    -----
    FalllineWarning
        If a 2-D parameter with a side above 20000 is routed to `matrix`: most likely a table.

    References
    ----------
    arXiv:2510.09827, parameter routing of the authors' implementation.

    Examples
    --------
    >>> from torch import nn
    >>> from fallline.optim import split_params
    >>> model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.Linear(4, 10))
    >>> split_params(model)
    matrix: 1 tensor (16 values); other: 4 tensors (94 values)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    matrix, other = _split_module(model, is_matrix)
    split = Split([p for _, p in matrix], [p for _, p in other])
    logger.info("%s: %r", type(model).__name__, split)
    return split


def to_groups(params: ParamsLike) -> list[dict[str, Any]]:
    """Turn everything an optimizer of the family accepts into parameter groups."""
    if isinstance(params, nn.Module):
        matrix, other = _split_module(params, None)
        logger.info(
            "%s: %r", type(params).__name__, Split([p for _, p in matrix], [p for _, p in other])
        )
        return _by_kind(matrix, other)
    if isinstance(params, Tensor):
        raise TypeError("params must be a module or an iterable of tensors, got one Tensor")
    if isinstance(params, tuple) and len(params) == 2 and all(map(_is_collection, params)):
        return _by_kind(*(list(part) for part in params))
    entries = list(params)
    for entry in entries:
        if not isinstance(entry, (Tensor, tuple, dict)):
            raise TypeError(
                f"params got a {type(entry).__name__} in an iterable of parameters; give tensors, "
                "(name, tensor) pairs or groups, or a tuple (matrix_params, other_params)"
            )
    if entries and all(isinstance(entry, dict) for entry in entries):
        return entries  # type: ignore[return-value]
    return [{"params": entries}]


def split_group(group: dict[str, Any], owner: str) -> list[dict[str, Any]]:
    """Route a group that does not say its kind: by name where named, by shape with a warning."""
    entries = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
    named = bool(entries) and all(isinstance(entry, tuple) for entry in entries)
    matrix: list[Any] = []
    other: list[Any] = []
    for entry in entries:
        name, p = entry if named else ("", entry)
        (matrix if _may_be_matrix(name, p) else other).append(entry)
    if named:
        _warn_large(matrix)
    elif matrix:
        warnings.warn(
            f"{owner} routes {len(matrix)} parameters to kind='matrix' by shape alone: without "
            "names, embeddings and the output head cannot be told apart. Pass the module, "
            "model.named_parameters() or split_params(model).",
            FalllineWarning,
            stacklevel=4,
        )
    options = {key: value for key, value in group.items() if key != "params"}
    return [options | part for part in _by_kind(matrix, other)]


def _split_module(
    model: nn.Module, is_matrix: Callable[[str, Tensor], bool] | None
) -> tuple[list[Named], list[Named]]:
    barred = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    }
    barred.update(id(module.weight) for module in _output_heads(model))
    maps = {id(module.weight) for module in model.modules() if isinstance(module, MAPS)}
    matrix: list[Named] = []
    other: list[Named] = []
    for name, p in model.named_parameters():
        if is_matrix is not None:
            chosen = p.ndim >= 2 and is_matrix(name, p)
        else:
            chosen = id(p) not in barred and _may_be_matrix(name, p, is_map=id(p) in maps)
        (matrix if chosen else other).append((name, p))
    _warn_large(matrix)
    return matrix, other


def _output_heads(model: nn.Module) -> list[Any]:
    declared = [
        module.get_output_embeddings()  # type: ignore[operator]
        for module in model.modules()  # the model may sit in a wrapper such as DDP
        if callable(getattr(module, "get_output_embeddings", None))
    ]
    declared = [head for head in declared if isinstance(getattr(head, "weight", None), Tensor)]
    if declared:
        return declared
    linears = [(n, module) for n, module in model.named_modules() if isinstance(module, nn.Linear)]
    named = [module for name, module in linears if _is_head_name(name)]
    return named or [module for _, module in linears[-1:]]


def _is_head_name(name: str) -> bool:
    """Whether a module is called a head, and is not the output map of a numbered block."""
    *path, own = name.split(".")
    return own in HEAD_NAMES and not any(part.isdigit() for part in path)


def _may_be_matrix(name: str, p: Tensor, *, is_map: bool = False) -> bool:
    own = name.removesuffix(".weight").rpartition(".")[2]
    is_table = not is_map and any(stem in own for stem in TABLE_STEMS)
    return p.ndim >= 2 and not is_table and not any(part in name for part in NOT_MATRIX_NAMES)


def _warn_large(matrix: list[Named]) -> None:
    for name, p in matrix:
        if p.ndim == 2 and max(p.shape) > _LARGE_SIDE:
            warnings.warn(
                f"{name} of shape {tuple(p.shape)} is routed to kind='matrix', but a side above "
                f"{_LARGE_SIDE} suggests an embedding or an output head",
                FalllineWarning,
                stacklevel=2,
            )


def _by_kind(matrix: list[Any], other: list[Any]) -> list[dict[str, Any]]:
    parts = (("matrix", matrix), ("other", other))
    return [{"params": entries, "kind": kind} for kind, entries in parts if entries]


def _is_collection(value: object) -> bool:
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return False  # a (name, parameter) pair
    return isinstance(value, Iterable) and not isinstance(value, (Tensor, str, dict))


def _count(params: list[Tensor]) -> str:
    tensors = "1 tensor" if len(params) == 1 else f"{len(params)} tensors"
    return f"{tensors} ({sum(p.numel() for p in params):,} values)"
