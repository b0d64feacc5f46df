"""Cells that spend minutes in one native call which never lets another thread run."""

from fallline.study import Limits, Part, Study


def run(cell):
    return {"y": sum(range(10**11))}


study = Study(
    "holds-the-gil",
    run=run,
    metrics={"y": "min"},
    scales={"laptop": [Part("p", ["a", "b"], seeds=1)]},
    limits=Limits(seconds=1.5),
)
