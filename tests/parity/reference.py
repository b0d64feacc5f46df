"""The node and its loss in the slowest and plainest way."""

import itertools

import numpy as np
import torch


def all_inputs(N):
    return np.array(list(itertools.product([0, 1], repeat=N)))


def node(w, B):
    """Products (M, P) of rows of bits (M, N) at weights (N, P), one factor at a time."""
    Pi = np.ones((len(B), w.shape[1]))
    for m, row in enumerate(B):
        for i, b in enumerate(row):
            Pi[m] *= 1 - 2 * w[i] * b
    return Pi


def enumerated_loss(w, w_true, p_e):
    """Expected loss over all 2^N inputs, as a function that torch can differentiate."""
    B = torch.tensor(all_inputs(len(w)), dtype=torch.float64)
    weight = torch.prod(p_e * B + (1 - p_e) * (1 - B), dim=1)
    error = torch.prod(1 - 2 * B * w, dim=1) - torch.prod(1 - 2 * B * w_true, dim=1)
    return (weight * error**2).sum() / 4


def dense_step(w, B, y, lr):
    """One SGD step by autograd on the dense product, loss summed over outputs, mean over rows."""
    weight = torch.tensor(w, requires_grad=True)
    factors = 1 - 2 * torch.tensor(B, dtype=torch.float64).unsqueeze(-1) * weight
    out = 0.5 * (1 - factors.prod(dim=1))
    loss = ((out - torch.tensor(y, dtype=torch.float64)) ** 2).sum(dim=1).mean()
    loss.backward()
    return w - lr * weight.grad.numpy()
