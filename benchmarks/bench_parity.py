"""The engine of the active bits against a dense product in torch, and against exact elimination."""

import numpy as np
import torch
from torch import nn

from _timing import interleaved, publish, row
from fallline.parity import (
    ParityProduct,
    ParityStream,
    parity_loss,
    solve_gf2,
    suggest,
    train_stream,
)

STEPS = 200
UNREACHABLE = 1e-300


def initial(N):
    return np.random.default_rng(0).normal(0.5, 0.25, N)


def step_against_dense_torch(N=10_000, M=1000):
    """Ours draws its samples too; the peers' batch is at hand."""
    stream = ParityStream(N, p_w=0.5, seed=0)
    weights = initial(N)
    X, y = stream.sample(M)
    dense = torch.from_numpy(X.toarray()).float()
    sparse = torch.sparse_csr_tensor(
        torch.from_numpy(X.indptr).long(), torch.from_numpy(X.indices).long(),
        torch.ones(X.nnz), X.shape,
    )  # fmt: skip
    labels = torch.from_numpy(y).float().unsqueeze(-1)
    weight = nn.Parameter(torch.from_numpy(initial(N)).float())
    model = ParityProduct(N)

    def engine():
        train_stream(weights, stream, 1.0, M, STEPS, UNREACHABLE, every=STEPS)

    def plain_product():
        weight.grad = None
        y = 0.5 * (1.0 - torch.prod(1.0 - 2.0 * dense * weight, dim=1))
        (y - labels[:, 0]).square().mean().backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=1e-6)

    def layer(x):
        model.weight.grad = None
        parity_loss(model(x), labels).backward()
        with torch.no_grad():
            model.weight.sub_(model.weight.grad, alpha=1e-6)

    found = interleaved(
        {
            "engine": engine,
            "dense": plain_product,
            "layer on CSR": lambda: layer(sparse),
            "layer on dense": lambda: layer(dense),
        },
        windows=7,
    )
    found["engine"] /= STEPS
    return found


def to_the_target(N=100_000):
    def run():
        weights = initial(N)
        result = train_stream(weights, ParityStream(N, p_w=0.5, seed=0), 10, 1000, 25_000)
        assert result.converged

    return interleaved({"run": run}, windows=3)["run"]


def support_against_elimination(N):
    """Both from drawing samples to the support: sparse ones here, N + 20 dense ones there."""
    advice = suggest(N)

    def engine():
        weights = initial(N)
        stream = ParityStream(N, p_w=0.5, seed=0)
        assert train_stream(weights, stream, advice.lr, N, 200).support_errors == 0

    def elimination():
        X, y = ParityStream(N, 0.5, p_w=0.5, seed=0).sample(N + 20)
        assert solve_gf2(X, y).unique

    return interleaved({"engine": engine, "elimination": elimination}, windows=5)


def main():
    torch.set_num_threads(1)
    found = step_against_dense_torch()
    label = "step at N = 10,000, M = 1000"
    rows = [
        row(f"parity engine, {label}", "torch.prod, dense", found["engine"], found["dense"], 500.0),
        row(
            f"ParityProduct on CSR, {label}", "torch.prod, dense",
            found["layer on CSR"], found["dense"],
        ),
        row(
            f"ParityProduct on dense inputs, {label}", "torch.prod, dense",
            found["layer on dense"], found["dense"],
        ),
        row(
            "N = 100,000 to d < 0.01, alpha = 10, M = 1000", "15 CPU seconds", to_the_target(),
            15.0, 1.0,
        ),
    ]  # fmt: skip
    for N in (1000, 5000):
        times = support_against_elimination(N)
        rows.append(
            row(
                f"support of N = {N} noise-free bits by the engine",
                "bit-packed elimination",
                times["engine"],
                times["elimination"],
            )
        )
    publish("parity", rows)


if __name__ == "__main__":
    main()
