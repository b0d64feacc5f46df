"""Train a small network on handwritten digits with MuonMax-Momo, at three learning rates.

Copy the four lines marked (1) to (4) into your own loop. The learning rate is only a cap here: the
optimizer takes a shorter step where the loss, which cannot fall below zero, leaves no room.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from fallline.optim import MuonMaxMomo  # (1)

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
x, x_test, y, y_test = train_test_split(images, torch.tensor(labels), random_state=0)


def train(lr: float) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    # (2) The module itself, not model.parameters(): names and types tell hidden matrices from
    # embeddings, biases and the output head, which take Adam steps.
    opt = MuonMaxMomo(model, lr=lr)
    steps = 200
    scheduler = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step(loss=loss)  # (3) hand over the loss
        scheduler.step()  # (4) schedules work as ever: they move the cap
    with torch.no_grad():
        return float((model(x_test).argmax(1) == y_test).float().mean())


if __name__ == "__main__":
    for lr in (1e-3, 1e-2, 1e-1):
        print(f"lr {lr:g}: test accuracy {train(lr):.3f}")
