"""A training problem: what an optimizer needs to run, and how the result is scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from fallline.tasks.schedule import constant_then_linear


@dataclass
class TrainingTask:
    """A model, its data and its score, ready for any optimizer.

    Parameters
    ----------
    model
        A module with at least one trainable parameter; `run` trains it in place.
    loss
        `loss(model, batch) -> scalar tensor`, to be minimized.
    batches
        Anything that yields batches, such as a `DataLoader`; iterated again when it ends early.
    evaluate
        `evaluate(model) -> dict of numbers`, called in eval mode and without gradients.
    steps
        Number of optimizer steps of a full run.
    metrics
        Better direction of each number that `evaluate` returns; the first one decides.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot work; the message names it.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> x = torch.eye(2)
    >>> task = TrainingTask(
    ...     model,
    ...     loss=lambda model, batch: model(batch).square().mean(),
    ...     batches=[x],
    ...     evaluate=lambda model: {"val_loss": model(x).square().mean().item()},
    ...     steps=3,
    ... )
    >>> [step for step, loss in task.run(torch.optim.SGD(model.parameters(), lr=0.1))]
    [1, 2, 3]
    >>> sorted(task.score())
    ['val_loss']
    """

    model: nn.Module
    loss: Callable[[nn.Module, Any], Tensor]
    batches: Iterable[Any]
    evaluate: Callable[[nn.Module], Mapping[str, float]]
    steps: int
    metrics: Mapping[str, Literal["min", "max"]] = field(
        default_factory=lambda: {"val_loss": "min"}
    )
    diverged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise TypeError(
                f"TrainingTask: model must be a torch.nn.Module, got {type(self.model).__name__}"
            )
        if not any(p.requires_grad for p in self.model.parameters()):
            raise ValueError(
                f"TrainingTask: model {type(self.model).__name__} has no trainable parameters; "
                "an optimizer needs at least one with requires_grad=True"
            )
        for name in ("loss", "evaluate"):
            if not callable(getattr(self, name)):
                raise TypeError(
                    f"TrainingTask: {name} must be a function, got {getattr(self, name)!r}"
                )
        if not isinstance(self.batches, Iterable):
            raise TypeError(
                f"TrainingTask: batches must be iterable, got {type(self.batches).__name__}"
            )
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"TrainingTask: steps must be an integer >= 1, got {self.steps!r}")
        if not self.metrics or not set(self.metrics.values()) <= {"min", "max"}:
            raise ValueError(
                "TrainingTask: metrics must map each name that evaluate returns to 'min' or 'max', "
                f"got {dict(self.metrics)!r}"
            )

    @classmethod
    def from_torch(
        cls,
        model: nn.Module,
        loader: Iterable[Any],
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        *,
        validation: Iterable[Any],
        steps: int | None = None,
    ) -> TrainingTask:
        """Build the task of the usual loop: `loss_fn(model(inputs), targets)` over pairs.

        Parameters
        ----------
        model
            Maps a batch of inputs to predictions.
        loader
            Yields `(inputs, targets)`.
        loss_fn
            A mean over the batch, such as `torch.nn.functional.cross_entropy`.
        validation
            Yields the pairs whose mean `loss_fn` is the metric `val_loss`.
        steps
            By default one pass over `loader`.

        Examples
        --------
        >>> x, y = torch.randn(8, 3), torch.zeros(8, 1)
        >>> model = nn.Linear(3, 1)
        >>> task = TrainingTask.from_torch(
        ...     model, [(x, y)], nn.functional.mse_loss, validation=[(x, y)], steps=20
        ... )
        >>> before = task.score()["val_loss"]
        >>> for step, loss in task.run(torch.optim.SGD(model.parameters(), lr=0.1)):
        ...     pass
        >>> task.score()["val_loss"] < before
        True
        """
        if steps is None:
            if not isinstance(loader, Sized):
                raise ValueError(
                    "TrainingTask.from_torch: loader has no length, so one pass has no number of "
                    "steps; give steps="
                )
            steps = len(loader)

        def loss(model: nn.Module, batch: Any) -> Tensor:
            inputs, targets = batch
            return loss_fn(model(inputs), targets)

        def evaluate(model: nn.Module) -> dict[str, float]:
            total, count = 0.0, 0
            for inputs, targets in validation:
                total += float(loss_fn(model(inputs), targets)) * len(targets)
                count += len(targets)
            return {"val_loss": total / count if count else math.nan}

        return cls(model, loss, loader, evaluate, steps)

    def run(
        self,
        optimizer: Optimizer,
        *,
        schedule: Callable[[float], float] = constant_then_linear,
        clip: float | None = 1.0,
    ) -> Iterator[tuple[int, float]]:
        """Train, yielding `(step, loss)` after each step; a loss that is not finite ends the run.

        An optimizer with `set_loss` is told the loss before each step. A `FloatingPointError` of
        the optimizer counts as divergence too.

        Parameters
        ----------
        optimizer
            Over the parameters of `model`; its `lr` is multiplied by the schedule.
        schedule
            Multiplier of the learning rate as a function of the share of the run that is done.
        clip
            Largest norm of the whole gradient, or `None` to leave it as it is.
        """
        self.diverged = False
        scheduler = LambdaLR(optimizer, lambda step: schedule(min(step / self.steps, 1.0)))
        self.model.train()
        for step, batch in enumerate(self._cycled(), start=1):
            loss = self._step(optimizer, batch, clip)
            self.diverged = not math.isfinite(loss)
            yield step, loss
            if self.diverged or step == self.steps:
                return
            scheduler.step()

    def score(self) -> dict[str, float]:
        """Return the metrics of the model as it is now; all NaN if the last run diverged."""
        if self.diverged:
            return dict.fromkeys(self.metrics, math.nan)
        training = self.model.training
        self.model.eval()
        with torch.no_grad():
            values = {name: float(value) for name, value in self.evaluate(self.model).items()}
        self.model.train(training)
        if set(values) != set(self.metrics):
            raise ValueError(
                f"TrainingTask: evaluate returned {', '.join(values) or 'nothing'}, but metrics "
                f"declares {', '.join(self.metrics)}; make them agree"
            )
        return values

    def _step(self, optimizer: Optimizer, batch: Any, clip: float | None) -> float:
        optimizer.zero_grad()
        loss = self.loss(self.model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(
                f"TrainingTask: loss must return a scalar tensor, got {got}; reduce it, for "
                "instance with .mean()"
            )
        value = loss.item()
        if not math.isfinite(value):
            return math.nan
        loss.backward()  # type: ignore[no-untyped-call]
        if clip is not None:
            clip_grad_norm_(self.model.parameters(), clip)
        try:
            if hasattr(optimizer, "set_loss"):
                optimizer.set_loss(loss.detach())
            optimizer.step()
        except FloatingPointError:
            return math.nan
        return value

    def _cycled(self) -> Iterator[Any]:
        while True:
            empty = True
            for batch in self.batches:
                empty = False
                yield batch
            if empty:
                raise ValueError(
                    "TrainingTask: batches yielded nothing on a pass; give a collection or loader "
                    "with at least one batch that can be iterated again (a generator cannot)"
                )
