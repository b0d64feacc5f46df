"""What the study engine itself costs: per cell, to resume and to report 10 000 cells."""

import tempfile
import time
from pathlib import Path

from _timing import publish
from fallline.study import Outcome, Part, Study
from fallline.study.progress import Progress
from fallline.study.record import Record
from fallline.study.request import place
from fallline.study.store import Store

CELLS = 300


def run(cell):
    return {"y": float(cell.seed)}


study = Study(
    "overhead",
    run=run,
    metrics={"y": "min"},
    scales={
        "trivial": [Part("p", ["a", "b"], seeds=CELLS // 2)],
        "large": [
            Part("p", ["a", "b"], seeds=20, lr=[10.0**-i for i in range(5)], n=list(range(50)))
        ],
    },
)


def limit(name, seconds, bar):
    """One line of the table: seconds, and how many times they fit into what is allowed."""
    print(f"{name}: {seconds:.3g} s, at most {bar:g} s")
    return {
        "name": name,
        "peer": "the budget",
        "seconds": seconds,
        "peer_seconds": bar,
        "ratio": bar / seconds,
        "bar": 1.0,
    }


def cost_per_cell(folder):
    """Processor time of the driver, which waits while the cells' own processes work."""
    start = time.process_time()
    study.execute("trivial", store=folder / "trivial.db", progress=Progress())
    return (time.process_time() - start) / CELLS


def fill(path):
    with Store.write(path) as store:
        store.connection.execute("PRAGMA synchronous=OFF")
        for placed in place(study, study.parts("large")):
            record = Record(Outcome.DONE, {"y": float(placed.cell.seed)}, seconds=0.1)
            store.put(placed.cell, record, [{"step": 0, "y": 1.0}])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [limit("engine work per trivial cell", cost_per_cell(folder), 0.005)]
        fill(folder / "large.db")
        start = time.perf_counter()
        results = study.execute("large", store=folder / "large.db", progress=Progress())
        rows.append(limit("resume of 10 000 finished cells", time.perf_counter() - start, 2.0))
        start = time.perf_counter()
        results.save(folder / "large.html")
        rows.append(limit("report of 10 000 cells", time.perf_counter() - start, 15.0))
        publish("study", rows)


if __name__ == "__main__":
    main()
