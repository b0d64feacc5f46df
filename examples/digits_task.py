"""A task of your own for `fallline compare`: copy this file and put your training in it.

    fallline compare examples/digits_task.py --arms adamw,torch-muon,muonmax-momo --seeds 3

The command calls `task(seed)` afresh for every optimizer, learning rate and seed, trains the model
and compares the scores. It needs one function and no class.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fallline.tasks import TrainingTask


def task(seed: int) -> TrainingTask:
    # All randomness hangs on the seed, so that every optimizer starts from the same weights and
    # sees the same batches: seeds are then paired, and their noise cancels in the comparison.
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)

    # The data and its split stay fixed. Here: 8 x 8 images of handwritten digits.
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    train, validation = torch.utils.data.random_split(
        data, [1347, 450], generator=torch.Generator().manual_seed(0)
    )

    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )

    # The loop is the usual one: loss_fn(model(inputs), targets) for each (inputs, targets) of the
    # loader, gradient clipping at norm 1, and a learning rate that is constant for 40 % of the
    # steps and then falls to a tenth. The loader starts again when `steps` exceeds its length.
    # The score is the mean loss over the validation pairs. If your model needs a loss of another
    # shape, or another score such as accuracy, call TrainingTask(...) itself: its `loss(model,
    # batch)` and `evaluate(model)` are functions of yours.
    return TrainingTask.from_torch(
        model,
        DataLoader(train, batch_size=64, shuffle=True, generator=order),
        nn.functional.cross_entropy,
        validation=DataLoader(validation, batch_size=450),
        steps=200,
    )
