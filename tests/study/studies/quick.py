"""Cells of a few milliseconds with a metric, a curve and an artifact."""

import math
import os
import time

from fallline.study import Limits, Part, Study


def run(cell):
    time.sleep(0.002 * (cell.seed % 5))
    for step in range(3):
        cell.report(step, loss=1 / (1 + step + cell.seed))
    cell.attach("notes", {"seed": cell.seed, "x": cell.config["x"]})
    value = math.sin(cell.seed + cell.config["x"]) + len(cell.arm)
    return {"y": value, "threads": int(os.environ["OMP_NUM_THREADS"])}


study = Study(
    "quick",
    run=run,
    metrics={"y": "min"},
    scales={
        "smoke": [Part("p", ["a", "bb"], seeds=2, x=[0.5])],
        "laptop": [Part("p", ["a", "bb"], seeds=10, x=[0.5, 1.5, 2.5])],
    },
    limits=Limits(seconds=20, gib=1.0, threads=1),
)
