"""A study whose `run` is a closure."""

from fallline.study import Part, Study


def scaled(factor):
    return lambda cell: {"y": factor * cell.seed}


study = Study(
    "lambdas",
    run=scaled(3.0),
    metrics={"y": "min"},
    scales={"laptop": [Part("p", ["a"], seeds=3)]},
)
