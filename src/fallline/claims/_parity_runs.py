"""Runs of the product node on sparse samples, one kind per experiment of the paper."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fallline.parity import StreamResult
    from fallline.study import Cell

# Steps until the distance, averaged over 1000 outputs, fell below 0.01: N = 100, alpha = 0.1.
PUBLISHED = {
    0.10: 19056, 0.49: 3883, 1.05: 2113, 2.02: 1592, 2.22: 1585, 2.44: 1605, 3.56: 2201, 4.29: 3258,
    5.18: 5877,
}  # fmt: skip
CHECKPOINTS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class Setting:
    """A run's stream, weights and step size, from the numbers of its cell."""

    def __init__(self, cell: Cell) -> None:
        import numpy as np

        from fallline.parity import ParityStream, paper_bounds, stability_limit

        config = cell.config
        self.N, P = config["N"], config.get("P")
        p_e = min(1.0, config["c"] / self.N)
        self.M = max(round(config["M_per_N"] * self.N), config.get("least_M", 1))
        if "of_limit" in config:
            self.alpha = config["of_limit"] * stability_limit(self.N, p_e)
        elif "of_alpha2" in config:
            self.alpha = config["of_alpha2"] * paper_bounds(self.N).alpha2
        else:
            self.alpha = config["alpha_per_N"] * self.N
        self.stream = ParityStream(
            self.N,
            p_e,
            p_w=config.get("p_w", 0.5),
            n_outputs=P,
            noise=config.get("noise", 0.0),
            seed=cell.seed,
        )
        rng = np.random.default_rng([cell.seed, 1])
        if config.get("start") == "solution":
            self.weights = self.target + rng.normal(0.0, 0.03, self.target.shape)
        else:
            self.weights = rng.normal(0.5, 0.25, self.target.shape)

    @property
    def target(self) -> NDArray[np.bool_]:
        """The target's bits."""
        return self.stream.target

    def train(self, steps: int, tol: float = 0.01, **options: Any) -> StreamResult:
        """Train the weights further."""
        from fallline.parity import train_stream

        return train_stream(self.weights, self.stream, self.alpha, self.M, steps, tol, **options)

    def errors(self) -> int:
        """Weights on the wrong side of 1/2."""
        return int(((self.weights > 0.5) != self.target).sum())


def convergence(cell: Cell) -> dict[str, float]:
    """Train until every output, and their mean, is near the target; a run that fails counts `cap`.

    `steps` is the mean over outputs of each one's own count, `steps_of_mean` the count at which
    the mean distance over the outputs is below the tolerance.
    """
    import numpy as np

    at, cap, tol = Setting(cell), cell.config["cap"], cell.config.get("tol", 0.01)
    start = time.process_time()
    mean = at.train(cap, tol)
    first = mean.first_steps
    if mean.converged and (first < 0).any() and mean.steps < cap:
        later = at.train(cap - mean.steps, tol, each_output=True).first_steps
        first = np.where(first >= 0, first, np.where(later >= 0, mean.steps + later, -1))
    return {
        "steps": float(np.where(first >= 0, first, cap).mean()),
        "steps_of_mean": mean.steps if mean.converged else cap,
        "converged": float((first >= 0).mean()),
        "support_errors": at.errors(),
        "samples": mean.samples,
        "cpu_seconds": time.process_time() - start,
    }


def at_the_published_step(cell: Cell) -> dict[str, float]:
    """Train for the steps that the paper needed, and measure the distance there."""
    import numpy as np

    at = Setting(cell)
    at.train(PUBLISHED[cell.config["c"]], tol=1e-300)
    distances = np.abs(at.weights - at.target).mean(axis=0)
    return {"distance": float(distances.mean()), "median_distance": float(np.median(distances))}


def classes(cell: Cell) -> dict[str, float]:
    """Train to one distance after the other, and look at the shape of each class at d = 0.1."""
    import numpy as np
    from scipy import stats

    at, cap = Setting(cell), cell.config["cap"]
    edges = np.linspace(-0.75, 1.75, 126)
    shape = {"skew": 0.0, "kurtosis": 0.0}
    steps, start = 0, time.process_time()
    for distance in cell.config["distances"]:
        result = at.train(cap - steps, distance)
        steps += result.steps
        cell.attach(f"histogram at {distance}", np.histogram(at.weights, edges, density=True)[0])
        if distance == 0.1:
            for which in (False, True):
                w = at.weights[at.target == which]
                if len(w):
                    shape["skew"] = max(shape["skew"], abs(float(stats.skew(w))))
                    shape["kurtosis"] = max(shape["kurtosis"], abs(float(stats.kurtosis(w))))
                    sample = np.quantile((w - w.mean()) / w.std(), levels())
                    cell.attach(f"quantiles of class {int(which)}", sample)
    cell.attach("edges", edges)
    return {
        "steps": steps if result.converged else cap,
        "converged": float(result.converged),
        "support_errors": at.errors(),
        "cpu_seconds": time.process_time() - start,
        **shape,
    }


def label_noise(cell: Cell) -> dict[str, float]:
    """Train for long under label noise, and see where the weights settle."""
    import numpy as np

    from fallline.parity import label_noise_mean

    at = Setting(cell)
    at.train(cell.config["cap"], tol=1e-300)
    mean = float(np.abs(at.weights - at.target).mean())
    root = label_noise_mean(cell.config["noise"], at.N, at.stream.p_e)
    return {"mean": mean, "from_root": abs(mean - root), "support_errors": at.errors()}


def samples_to_support(cell: Cell) -> dict[str, float]:
    """Count the samples after which every bit is on its side; `inf` samples never suffice."""
    from fallline.parity import count_parity

    at, before = Setting(cell), 0
    counts = None
    for step in CHECKPOINTS:
        if cell.arm == "counting":
            X, y = at.stream.sample((step - before) * at.M)
            counts = count_parity(X, y) if counts is None else counts + count_parity(X, y)
            errors = int((counts.support != at.target).sum())
        else:
            at.train(step - before, tol=1e-300)
            errors = at.errors()
        before = step
        if errors == 0:
            break
    return {"samples": before * at.M, "converged": float(errors == 0), "support_errors": errors}


def all_inputs(N: int) -> NDArray[np.float32]:
    """Return the 2^N inputs; as floats, so that BLAS counts the bits."""
    import numpy as np

    return ((np.arange(2**N)[:, np.newaxis] >> np.arange(N)) & 1).astype(np.float32)


def parities(inputs: NDArray[np.float32], bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the parity of each column's bits in each input."""
    odd: NDArray[np.bool_] = inputs @ bits.astype(inputs.dtype) % 2 == 1
    return odd


def accuracy(
    inputs: NDArray[np.float32], found: NDArray[np.bool_], target: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the share of inputs that each output is right on, by the bits it takes for its own."""
    right: NDArray[np.float64] = 1.0 - parities(inputs, found ^ target).mean(axis=0)
    return right


def table(cell: Cell) -> dict[str, float]:
    """Train on the same sparse samples as every arm and test on all 2^N inputs."""
    import numpy as np

    at, steps = Setting(cell), cell.config["cap"]
    inputs = all_inputs(at.N)
    seen = np.zeros(2**at.N, bool)
    learn = ARMS[cell.arm](at, inputs, cell)
    worst = 0.0
    every = max(1, steps // 15)
    for step in range(1, steps + 1):
        X, y = at.stream.sample(at.M)
        seen[X @ (1 << np.arange(at.N))] = True
        right = learn(X, y, step % every == 0)
        if right is not None:
            worst = float(right.min())
            cell.report(step, accuracy=float(right.mean()), coverage=float(seen.mean()))
            if worst == 1.0 and "accurate" not in cell.artifacts:
                cell.attach("accurate", {"samples": step * at.M})
    return {
        "accuracy": float(right.mean()),
        "worst_accuracy": worst,
        "coverage": float(seen.mean()),
        "samples": cell.artifacts.get("accurate", {"samples": steps * at.M})["samples"],
    }


Learn = Callable[[Any, Any, bool], Any]


def _network(at: Setting, inputs: NDArray[np.float32], cell: Cell) -> Learn:
    """Take SGD steps on a torch module; the MLP learns the first output, the others all."""
    import torch

    from fallline.parity import NaiveProduct, ParityProduct, parity_loss, parity_mlp

    generator = torch.Generator().manual_seed(cell.seed)
    outputs = at.target.shape[1]
    if cell.arm == "mlp":
        outputs, alpha = 1, 0.02
        model: torch.nn.Module = parity_mlp(at.N, generator=generator)
    else:
        kind, alpha = (ParityProduct if cell.arm == "product-node" else NaiveProduct), at.alpha
        model = kind(at.N, outputs, generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=alpha)
    everything = torch.from_numpy(inputs)
    truth = parities(inputs, at.target[:, :outputs])

    def learn(X: Any, y: Any, test: bool) -> Any:
        optimizer.zero_grad()
        x = torch.from_numpy(X.toarray()).float()
        loss = parity_loss(model(x), torch.from_numpy(y[:, :outputs]))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if not test:
            return None
        if isinstance(model, ParityProduct):  # the same by its hardened weights, at less cost
            return accuracy(inputs, model.harden().numpy(), at.target)
        with torch.no_grad():
            return ((model(everything) > 0.5).numpy() == truth).mean(axis=0)

    return learn


def _elimination(at: Setting, inputs: NDArray[np.float32], cell: Cell) -> Learn:
    """Exact elimination over all samples so far."""
    import numpy as np

    from fallline.parity import solve_gf2

    kept: list[tuple[Any, Any]] = []

    def learn(X: Any, y: Any, test: bool) -> Any:
        kept.append((X.toarray(), y))
        if not test and len(kept) > 20:
            return None
        solution = solve_gf2(np.vstack([x for x, _ in kept]), np.vstack([y for _, y in kept]))
        return accuracy(inputs, solution.support, at.target)

    return learn


ARMS = {
    "product-node": _network,
    "mlp": _network,
    "naive-product": _network,
    "elimination": _elimination,
}


def dense_inputs(cell: Cell) -> dict[str, float]:
    """Train the node on inputs with half of the bits active, and test on all inputs."""
    at = Setting(cell)
    at.train(cell.config["cap"])
    return {"accuracy": float(accuracy(all_inputs(at.N), at.weights > 0.5, at.target).mean())}


def levels() -> NDArray[np.float64]:
    """Return the levels of the quantiles that a run keeps."""
    import numpy as np

    return np.linspace(0.005, 0.995, 100)


EXPERIMENTS: dict[str, Callable[[Cell], dict[str, float]]] = {
    "classes": classes,
    "convergence": convergence,
    "dense inputs": dense_inputs,
    "label noise": label_noise,
    "published": at_the_published_step,
    "samples": samples_to_support,
    "table": table,
}
