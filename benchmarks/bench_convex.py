"""The torch optimizer beside torch's SGD with Nesterov momentum, and the laws' inverse by itself.

One thread. Gradients lie in place, so that a step is the optimizer's own work alone: a few passes
over the parameters, where memory decides. The bars: at most 1.1 times the time of
`SGD(foreach=True)` in mode `schedule`, at most 1.8 times in mode `adaptive`, and less than 10 us
for `psi_inv`.
"""

import torch

from _timing import interleaved, publish, row
from fallline.convex import L0L1Smooth
from fallline.optim import GeneralizedSmoothAGD

SHAPES = {
    "20 of 64 x 64": [(64, 64)] * 20,
    "one 2048 x 2048": [(2048, 2048)],
    "200 of 128 x 256": [(128, 256)] * 200,
}
LAW = L0L1Smooth(1.0, 1.0)


def parameters(shapes):
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in shapes:
        p = torch.nn.Parameter(torch.randn(shape, generator=generator))
        p.grad = 1e-3 * torch.randn(shape, generator=generator)
        params.append(p)
    return params


def stepping(shapes):
    def sgd(**options):
        return torch.optim.SGD(parameters(shapes), 1e-3, momentum=0.9, nesterov=True, **options)

    optimizers = {
        # A radius far too large: the schedule goes on expecting a gradient as large as this one.
        "schedule": GeneralizedSmoothAGD(
            parameters(shapes), LAW, radius=1e6, gap0=100.0, mode="schedule"
        ),
        "adaptive": GeneralizedSmoothAGD(parameters(shapes), LAW),
        "SGD foreach": sgd(foreach=True),
        "SGD fused": sgd(fused=True),
    }
    return interleaved(
        {name: optimizer.step for name, optimizer in optimizers.items()},
        windows=51, seconds_per_window=0.05,
    )  # fmt: skip


def main():
    torch.set_num_threads(1)
    rows = []
    for name, shapes in SHAPES.items():
        found = stepping(shapes)
        for mode, most in (("schedule", 1.1), ("adaptive", 1.8)):
            for peer, bar in (("SGD foreach", 1.0 / most), ("SGD fused", None)):
                label = f"GeneralizedSmoothAGD step, {mode}, {name}"
                rows.append(row(label, f"torch {peer}, Nesterov", found[mode], found[peer], bar))
    found = interleaved(
        {"psi_inv": lambda: LAW.psi_inv(1.0)}, windows=101, seconds_per_window=0.005
    )
    rows.append(row("L0L1Smooth.psi_inv", "10 microseconds", found["psi_inv"], 1e-5, 1.0))
    publish("convex", rows)


if __name__ == "__main__":
    main()
