import math

import pytest

from fallline.claims.generalized_smooth_agd import run, study
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def placed_and(metrics_of, scale="laptop"):
    placed, records = [], {}
    for part, cell in cells(scale):
        placed.append(Placed(part.name, tuple(part.axes), cell))
        metrics = metrics_of(part, cell)
        if metrics is not None:
            outcome = Outcome.DONE if math.isfinite(metrics["calls"]) else Outcome.DIVERGED
            records[cell.key] = Record(outcome, metrics)
    return Results(study, scale, placed, records)


# Calls at eps = 1e-3 ... 1e-7 as a prototype counted them at L1 R = 8, and how they grow with it.
SPECTRUM = {
    "adaptive": [12, 27, 73, 219, 687],
    "schedule": [39, 66, 126, 286, 767],
    "schedule, gap by gradient": [54, 84, 144, 304, 784],
    "two_stage": [17, 56, 121, 322, 977],
    "linesearch": [10, 33, 109, 350, 1113],
    "gd-l": [17, 73, 614, 6014, 59979],
    "nag-frozen": [116, 367, 1154, 3697, 11758],
    "nag-exp": [964, 3363, 10636, 33794, math.inf],
    "agmsdr": [15, 114, 458, 1735, 6072],
    "normalized-gd": [math.inf] * 5,
    "polyak-gd": [15, 60, 400, 3000, 30000],
    "l-bfgs": [8, 16, 43, 127, 396],
}
REGRESSION = {
    "schedule": (289, 1839), "adaptive": (296, 2596), "linesearch": (68, 435),
    "linesearch, restart": (80, 198), "gd-l": (7472, math.inf), "l-bfgs": (24, 67),
}  # fmt: skip


def prototype(
    part, cell, spectrum=SPECTRUM, regression=REGRESSION, power=0.4965, grown=1.0, **more
):
    # Cells of the parts `slope` and `spectrum` may be the same cell.
    eps = cell.config["eps"]
    if part.name == "Gamma_0":
        calls = 690.0
    elif cell.arm == "adaptive" and cell.config["problem"] == "spectrum" and eps < 2e-6:
        calls = 219 * (1e-6 / eps) ** power * grown
    elif cell.config["problem"] == "spectrum":
        calls = spectrum[cell.arm][round(-math.log10(eps)) - 3]
    elif part.name in ("poisson", "diabetes"):
        calls = regression[cell.arm][eps < 1e-5]
    else:
        calls = 700
    if cell.arm == "l-bfgs" and part.name in ("valley", "superquadratic"):
        calls = 100
    return {"calls": calls, "steps": (calls - 1) / more.get("rejected", 1.0), "tightness": 0.24}


def outcomes(results):
    return {check.name: check.outcome for check in results.checks}


def test_the_prototypes_counts_hold_every_bar():
    results = placed_and(prototype)
    assert set(outcomes(results).values()) == {Verdict.HOLDS}
    assert results.verdict is Verdict.HOLDS
    notes = "\n".join(results.notes)
    assert "could not be computed" not in notes
    assert "L-BFGS needs fewer gradient calls" in notes
    assert "0.24 of what the certificate allows" in notes


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"grown": 1.2}, {"adaptive needs at most 760", "the start of gamma hardly matters"}),
        (
            {"spectrum": SPECTRUM | {"schedule, gap by gradient": [1, 2, 3, 4, 1100]}},
            {"schedule needs at most 1050"},
        ),
        (
            {"power": 0.7, "grown": 0.62},
            {"calls grow at most as the root"},
        ),
        (
            {"power": 0.4, "grown": 1.25},
            {"calls grow at least as the root"},
        ),
        ({"rejected": 1.05}, {"adaptive hardly ever refuses"}),
        (
            {"spectrum": SPECTRUM | {"gd-l": [1, 2, 3, 4, 30000]}},
            {"gradient descent needs 50 times more"},
        ),
        (
            {"spectrum": SPECTRUM | {"nag-frozen": [1, 2, 3, 4, 5000]}},
            {"a frozen step needs 10 times more"},
        ),
        (
            {"spectrum": SPECTRUM | {"agmsdr": [1, 2, 3, 4, 3000]}},
            {"a line search between sequences needs 5 times more"},
        ),
        (
            {"spectrum": SPECTRUM | {"nag-exp": [1, 2, 3, 10000, 20000]}},
            {"an exponential factor needs 80 times more"},
        ),
        (
            {"regression": REGRESSION | {"linesearch": (68, 900)}},
            {"poisson linesearch needs at most 700"},
        ),
        (
            {"regression": REGRESSION | {"adaptive": (296, 5000)}},
            {"poisson adaptive needs at most 4000"},
        ),
        (
            {"regression": REGRESSION | {"schedule": (900, 3000)}},
            {"poisson schedule needs at most 2800", "poisson gradient descent needs 10 times more"},
        ),
    ],
)
def test_each_bar_fails_where_it_should(change, failing):
    found = outcomes(placed_and(lambda part, cell: prototype(part, cell, **change)))
    assert {name for name, outcome in found.items() if outcome is Verdict.FAILS} == failing


def test_calls_that_depend_on_the_steepness_fail():
    def steep(part, cell):
        metrics = prototype(part, cell)
        if cell.arm == "adaptive" and cell.config.get("L1R") == 16.0 and cell.config["eps"] == 1e-7:
            metrics["calls"] = 755.0
        return metrics

    assert outcomes(placed_and(steep))["adaptive does not know the steepness"] is Verdict.FAILS


def test_a_baseline_that_is_cut_off_counts_as_the_cap():
    cut = SPECTRUM | {"gd-l": [math.inf] * 5}

    def metrics(part, cell):
        # All other L1 R arrive: an arm that never arrives anywhere says nothing.
        spectrum = cut if cell.config.get("L1R") == 8.0 else SPECTRUM
        return prototype(part, cell, spectrum=spectrum)

    results = placed_and(metrics)
    check = next(c for c in results.checks if c.name == "gradient descent needs 50 times more")
    assert check.figure.value == pytest.approx(60_000 / 767)


def test_a_missing_cell_is_no_verdict():
    def all_but_one(part, cell):
        missing = cell.arm == "adaptive" and cell.config["eps"] == 1e-7
        return None if missing and cell.config.get("L1R") == 16.0 else prototype(part, cell)

    results = placed_and(all_but_one)
    assert outcomes(results)["adaptive needs at most 760"] is Verdict.INCONCLUSIVE
    assert results.verdict is Verdict.INCONCLUSIVE


def test_smoke_runs_in_process_and_draws_its_pictures():
    counted, artifacts = {}, {}

    def metrics(part, cell):
        counted[part.name, cell.arm, cell.config["eps"], cell.config.get("L1R")] = m = run(cell)
        artifacts[cell.key] = cell.artifacts
        return m

    results = placed_and(metrics, "smoke")
    results.artifacts_of = artifacts.__getitem__
    assert counted["spectrum", "adaptive", 1e-3, 8.0]["calls"] == 12
    assert counted["spectrum", "schedule", 1e-3, 8.0]["calls"] == 39
    assert counted["spectrum", "gd-l", 1e-3, 8.0]["calls"] == 17
    assert counted["spectrum", "nag-frozen", 1e-3, 8.0]["calls"] == 116
    assert counted["spectrum", "nag-exp", 1e-3, 8.0]["calls"] == 964
    assert counted["spectrum", "l-bfgs", 1e-3, 8.0]["calls"] == 8
    found = outcomes(results)
    assert found["calls grow at least as the root"] is Verdict.HOLDS
    assert found["calls grow at most as the root"] is Verdict.HOLDS
    assert not any("could not be computed" in note for note in results.notes)
    for picture in results.pictures:
        assert not picture.error


def test_a_run_is_cut_off_at_its_cap():
    cell = next(
        cell for part, cell in cells("smoke") if part.name == "spectrum" and cell.arm == "gd-l"
    )
    cell.config = cell.config | {"cap": 5, "eps": 1e-6}
    assert run(cell) == {"calls": math.inf, "steps": 3.0}
