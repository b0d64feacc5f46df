import math

import pytest

from fallline.claims.erm_overfit import SIZES, study
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results

# Mean excess of a prototype by sample size.
PROTOTYPE = {
    "erm": [0.222, 0.151, 0.110, 0.094, 0.088],
    "sgd": [0.028, 0.018, 0.010, 0.0051, 0.0030],
    "regularized-erm": [0.037, 0.022, 0.012, 0.0062, 0.0036],
}
DELTA = {6: 1 / 3, 18: 2 / 9, 60: 0.1833, 240: 0.1708, 720: 0.168}


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def planted_metrics(part, cell, power=0.5, gd=0.144, prototype=PROTOTYPE):
    if part.name == "horizon":
        excess = 0.022 * cell.config["X"] ** power
        told = 0.022 * cell.config["X"] ** 0.5
        return {
            "excess": 2 * excess,
            "feldman_excess": excess,
            "expected": told,
            "lower_bound": told / 1.2,
            "generalization_gap": excess,
            "upper_bound": 10.0,
        }
    if part.name == "climb":
        return {"excess": {"gd": gd, "erm": 0.145}[cell.arm]}
    if part.name == "general solver":
        return {"excess": 0.3, "value_error": 1e-12, "point_error": 1e-10}
    if part.name == "torch optimizers":
        return {"excess": 0.2, "training_gap": 1e-4}
    m = cell.config["m"]
    excess = prototype[cell.arm][SIZES.index(m)] * (1 + 0.01 * cell.seed)
    sure, bound = 0.4 * DELTA[m], 1.45 / math.sqrt(m)
    return {"excess": excess, "of_sure_excess": excess / sure, "of_sgd_bound": excess / bound}


def planted(**options):
    placed, records = [], {}
    for part, cell in cells("laptop"):
        placed.append(Placed(part.name, tuple(part.axes), cell))
        records[cell.key] = Record(Outcome.DONE, planted_metrics(part, cell, **options))
    return Results(study, "laptop", placed, records)


def outcomes(results):
    return {check.name: check.outcome for check in results.checks}


def test_the_bars_hold_on_the_prototypes_figures():
    results = planted()
    assert set(outcomes(results).values()) == {Verdict.HOLDS}
    assert results.verdict is Verdict.HOLDS
    figures = {check.name: round(check.figure.value, 3) for check in results.checks}
    assert figures["erm against sgd at 240"] == 18.431
    assert figures["erm against sgd at 720"] == 29.333
    assert figures["sgd falls fast enough"] == -0.471
    assert figures["every erm overfits"] == 1.31


def test_a_false_claim_fails_its_own_bar():
    sgd = {**PROTOTYPE, "sgd": [0.028, 0.0275, 0.027, 0.0265, 0.026]}
    cases = {
        "gd ends at the erm": {"gd": 0.13},
        "gd grows no faster than the theory": {"power": 0.6},
        "gd grows fast enough": {"power": 0.4},
        "erm against sgd at 720": {"prototype": sgd},
        "sgd falls fast enough": {"prototype": sgd},
        "every erm overfits": {"prototype": {**PROTOTYPE, "erm": [0.05] * 5}},
    }
    for name, options in cases.items():
        results = planted(**options)
        assert outcomes(results)[name] is Verdict.FAILS
        assert results.verdict is Verdict.FAILS


def test_the_laptop_scale_is_the_protocol():
    laptop = list(cells("laptop"))
    sizes = {c.config["m"] for part, c in laptop if part.name == "sample size"}
    assert sizes == {6, 18, 60, 240, 720}
    assert {c.seed for part, c in laptop if part.name == "sample size"} == set(range(5))
    horizons = {c.config["m"] for part, c in laptop if part.name == "horizon"}
    assert horizons == {18, 60, 240}
    climb = [c.config for part, c in laptop if part.name == "climb"]
    assert all((c["m"], c["eta"], c["end"]) == (18, 0.19, 100) for c in climb)


@pytest.mark.parametrize(
    "cell", [cell for _, cell in cells("smoke")], ids=lambda c: f"{c.arm}-{c.config['m']}-{c.seed}"
)
def test_smoke_cells_run(cell):
    points = []
    cell.on_point = points.append
    metrics = study.run(cell)
    assert set(study.metrics) <= set(metrics)
    assert all(math.isfinite(value) for value in metrics.values())
    assert study.run(cell) == metrics
    assert bool(points) == (cell.arm in ("gd", "sgd", "regularized-erm") and "X" not in cell.config)


def test_the_general_solver_agrees_on_the_smallest_instance():
    pytest.importorskip("cvxpy")
    cell = next(cell for part, cell in cells("laptop") if part.name == "general solver")
    metrics = study.run(cell)
    assert max(metrics["value_error"], metrics["point_error"]) <= 1e-8


def test_what_the_smoke_cells_measure_satisfies_the_bars_that_they_reach():
    placed, records = [], {}
    for part, cell in cells("smoke"):
        placed.append(Placed(part.name, tuple(part.axes), cell))
        records[cell.key] = Record(Outcome.DONE, study.run(cell))
    results = Results(study, "smoke", placed, records)
    found = outcomes(results)
    for name in (
        "every erm overfits",
        "sgd stays below its bound",
        "gd grows fast enough",
        "gd grows no faster than the theory",
        "gd has the excess of the theory",
    ):
        assert found[name] is Verdict.HOLDS
    # At X = 1 gradient descent has not reached the ERM: no answer, and no false one.
    assert found["gd ends at the erm"] is Verdict.INCONCLUSIVE


def test_pictures_and_notes_are_made():
    results = planted()
    assert [picture.error for picture in results.pictures] == [""] * 3
    assert len(results.notes) == 2  # the climb has no curve here
    assert "0.0220 to 0.0220 at m = 18" in results.notes[0]
    assert "ERM's 0.200: torch-sgd-momentum 0.200" in results.notes[1]
