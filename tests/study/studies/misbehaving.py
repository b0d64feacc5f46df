"""One arm per way in which a cell can go wrong."""

import ctypes
import os
import signal
import subprocess
import sys
import time

from fallline.study import Limits, Part, Study


def run(cell):
    match cell.arm:
        case "raises":
            print("about to fail")
            raise ValueError("planted")
        case "nan":
            cell.report(0, loss=float("inf"))
            return {"y": float("nan"), "z": 1.0}
        case "loops":
            cell.report(0, loss=2.0)
            time.sleep(0.3)
            cell.report(1, loss=1.0)
            while True:
                pass
        case "eats":
            hoard = []
            while True:
                hoard.append(b"x" * 10_000_000)
        case "exits":
            print("leaving")
            os._exit(7)
        case "segfaults":
            ctypes.string_at(0)
        case "kills itself":
            os.kill(os.getpid(), signal.SIGKILL)
        case "prints":
            sys.stdout.write("x" * 10_000_000 + "the end")
            return {"y": 1.0}
        case "returns an object":
            return {"y": object()}
        case "returns no dict":
            return 3.0
        case "attaches an object":
            cell.attach("thing", object())
            return {"y": 1.0}
        case "calls sys.exit":
            sys.exit(0)
        case "leaves a child":
            child = subprocess.Popen(["sleep", "600"])
            return {"y": float(child.pid)}
        case "good":
            return {"y": 1.0}
    raise AssertionError(f"{cell.arm} came back")


ARMS = [
    "raises",
    "nan",
    "loops",
    "eats",
    "exits",
    "segfaults",
    "kills itself",
    "prints",
    "returns an object",
    "returns no dict",
    "attaches an object",
    "calls sys.exit",
    "leaves a child",
    "good",
]

study = Study(
    "misbehaving",
    run=run,
    metrics={"y": "min"},
    scales={"laptop": [Part("p", ARMS, seeds=1)]},
    limits=Limits(seconds=4.0, gib=0.25, threads=1),
)
