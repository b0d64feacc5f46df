"""MuonMax-Momo beside the Muons that people use, and its polar factor beside the matrix product.

The optimizers step twelve matrices (eight 256 x 256, four 256 x 1024) with gradients in place, on
one thread. What the CPU has decides: with a bfloat16 matrix unit (AMX) every Muon is several times
as fast as without, so both are measured, the second by hiding the unit from oneDNN in a process of
its own.
"""

import json
import os
import subprocess
import sys

import torch

from _timing import interleaved, publish, published, row
from fallline.optim import Momo, MomoAdam, MuonAdam, MuonMaxMomo
from fallline.optim._polar import _coefficients, _gram_runs, polar_each, working_dtype

SHAPES = [(256, 256)] * 8 + [(256, 1024)] * 4
HIDE_UNIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
WITH_UNIT, WITHOUT_UNIT = "CPU with AMX", "CPU without bfloat16 unit"


def matrices():
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in SHAPES:
        p = torch.nn.Parameter(0.02 * torch.randn(shape, generator=generator))
        p.grad = 0.01 * torch.randn(shape, generator=generator)
        params.append(p)
    return params


def optimizers(polar_dtype):
    import heavyball
    import pytorch_optimizer

    momo = MuonMaxMomo((matrices(), []), lr=1e-4, polar_dtype=polar_dtype)
    return {
        "MuonMax-Momo": lambda: momo.step(loss=3.0),
        "MuonAdam": MuonAdam((matrices(), []), lr=1e-4, polar_dtype=polar_dtype).step,
        "torch.optim.Muon": torch.optim.Muon(matrices(), lr=1e-4).step,
        "pytorch_optimizer.Muon": pytorch_optimizer.Muon(
            [{"params": matrices(), "use_muon": True}], lr=1e-4
        ).step,
        "heavyball.Muon": keeping_gradients(heavyball.Muon, lr=1e-4, compile_step=False),
    }


def keeping_gradients(make, **options):
    """Give the gradients back before each step, for an optimizer that drops them."""
    params = matrices()
    gradients = [p.grad for p in params]
    opt = make(params, **options)

    def step():
        for p, g in zip(params, gradients):
            p.grad = g
        opt.step()

    return step


def polar_flops(dtype):
    """Multiply-adds counted twice, of the products that the polar factor really takes."""
    total = 0
    rows = _coefficients("polar_express", 5, "every_step")
    for m, n in SHAPES:
        if n < 2 * m:
            total += len(rows) * (4 * m * m * n + 2 * m**3)
        else:
            for run in _gram_runs(rows, dtype):
                k = len(run)  # R and Q X; a B each; two for each R after the first, one for each Q
                total += 4 * m * m * n + 2 * m**3 * (k + 3 * (k - 1))
    return total


def polar_share(polar_dtype, name):
    """Rate of the polar factor over the rate of one large product of its dtype."""
    momenta = [p.detach() for p in matrices()]
    dtype = working_dtype(momenta[0], polar_dtype)
    A = torch.randn(1024, 1024).to(dtype)
    seconds = interleaved(
        {
            "polar": lambda: polar_each(
                momenta, method="polar_express", steps=5, dtype=polar_dtype
            ),
            "product": lambda: A @ A,
        }
    )
    achieved = polar_flops(dtype) / seconds["polar"]
    peak = 2 * 1024**3 / seconds["product"]
    label = str(dtype).removeprefix("torch.")
    print(f"  polar {achieved / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s in {label}")
    at_peak = polar_flops(dtype) / peak
    title = f"polar factors of twelve matrices, {label}, {name}"
    return row(title, "the same work at the rate of a product", seconds["polar"], at_peak, 0.7)


def measure(name, polar_dtype):
    seconds = interleaved(optimizers(polar_dtype))
    ours = seconds.pop("MuonMax-Momo")
    bars = {"torch.optim.Muon": 2.0, "MuonAdam": 1 / 1.15}
    title = f"MuonMax-Momo step, twelve matrices, {name}"
    rows = [row(title, peer, ours, found, bars.get(peer)) for peer, found in seconds.items()]
    return [*rows, polar_share(polar_dtype, name)]


def beside_momo_opt():
    """Measure the two members of the family that momo-opt has, whose steps are the same."""
    import momo

    def stepping(optimizer, loss):
        return lambda: optimizer.step(loss=loss)

    rows = []
    # The package takes its loss as a tensor only.
    for ours, theirs in ((Momo, momo.Momo), (MomoAdam, momo.MomoAdam)):
        seconds = interleaved(
            {
                "ours": stepping(ours(matrices(), lr=1e-4, weight_decay=0.0), 3.0),
                "theirs": stepping(theirs(matrices(), lr=1e-4), torch.tensor(3.0)),
            },
            seconds_per_window=0.1,
        )
        title = f"{ours.__name__} step, twelve matrices"
        peer = f"momo-opt's {theirs.__name__}"
        rows.append(row(title, peer, seconds["ours"], seconds["theirs"]))
    return rows


def main():
    torch.set_num_threads(1)
    # A training step frees large activations, after which the allocator keeps its pages.
    torch.ones(7_500_000)
    if sys.argv[1:] == ["--without-unit"]:
        # Float32 is what "auto" chooses on a CPU that has no unit; hidden, it cannot know.
        json.dump(measure(WITHOUT_UNIT, torch.float32), sys.stderr)
        return
    rows = []
    if torch.cpu.get_capabilities().get("amx_bf16", False):
        rows += measure(WITH_UNIT, "auto")
        hidden = subprocess.run(
            [sys.executable, __file__, "--without-unit"],
            env=os.environ | HIDE_UNIT,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows += json.loads(hidden.stderr.splitlines()[-1])
    else:
        # What a machine with the unit has found stays: this one cannot measure it.
        rows += [found for found in published().get("optim", ()) if WITH_UNIT in found["name"]]
        rows += measure(WITHOUT_UNIT, "auto")
    publish("optim", rows + beside_momo_opt())


if __name__ == "__main__":
    main()
