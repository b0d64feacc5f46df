"""Handwritten digits of scikit-learn with a small MLP."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from fallline.tasks.training import TrainingTask


def digits(seed: int, *, steps: int = 200) -> TrainingTask:
    """Return a three-layer MLP on 8 x 8 images of digits; 1347 train, 450 validate, batches of 64.

    Parameters
    ----------
    seed
        Draws the initial weights and the order of the images; the split is fixed.
    steps
        Optimizer steps of a run.

    Examples
    --------
    >>> task = digits(seed=0, steps=100)
    >>> for step, loss in task.run(torch.optim.Adam(task.model.parameters(), lr=3e-3)):
    ...     pass
    >>> task.score()["accuracy"] > 0.9
    True
    """
    images, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        torch.as_tensor(images / 16.0, dtype=torch.float32),
        torch.as_tensor(labels),
        test_size=450,
        random_state=0,
        stratify=labels,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
    loader = DataLoader(
        TensorDataset(x_train, y_train),
        batch_size=64,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(seed),
    )

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return cross_entropy(model(inputs), targets)

    def evaluate(model: nn.Module) -> dict[str, float]:
        logits = model(x_val)
        return {
            "val_loss": cross_entropy(logits, y_val).item(),
            "accuracy": (logits.argmax(1) == y_val).float().mean().item(),
        }

    metrics = {"val_loss": "min", "accuracy": "max"}
    return TrainingTask(model, loss, loader, evaluate, steps, metrics)  # type: ignore[arg-type]
