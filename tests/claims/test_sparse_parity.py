import math

import numpy as np
import pytest

from fallline.claims._parity_runs import levels
from fallline.claims.sparse_parity import PUBLISHED, study
from fallline.parity import mean_field, paper_bounds, stability_limit
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def expected(part, cell):
    """What the theory and a prototype say of a cell."""
    c = cell.config
    N = c["N"]
    done = {"converged": 1.0, "support_errors": 0, "cpu_seconds": 0.1}
    match part:
        case "density" | "best density" | "learning rate" | "million":
            rate = c["alpha_per_N"]
            field = mean_field(N, rate * N, c["c"] / N).steps
            steps = c["cap"] if field is None else min(field, c["cap"])
            return done | {"steps": steps, "steps_of_mean": steps, "samples": steps * N}
        case "published density":
            return {"distance": 0.01, "median_distance": 0.009}
        case "paper's bound":
            return done | {"steps": 500}
        case "stability limit" | "limit at other densities":
            return done | {"steps": 30, "converged": float(c["of_limit"] < 1)}
        case "samples":
            return done | {"steps": 25 + cell.seed % 2, "samples": (25 + cell.seed % 2) * N}
        case "small batch":
            return done | {"steps": 200, "converged": 0.0}
        case "target" | "shape":
            return done | {"steps": 22_200 + cell.seed, "skew": 0.01, "kurtosis": 0.02}
        case "generalization":
            accuracy = 0.5 if cell.arm in ("mlp", "naive-product") else 1.0
            return {
                "accuracy": accuracy, "worst_accuracy": accuracy, "coverage": 0.035,
                "samples": 100 if cell.arm == "elimination" else 70_000,
            }  # fmt: skip
        case "dense inputs":
            return {"accuracy": 0.6}
        case "label noise":
            return {"mean": 0.1, "from_root": 0.001, "support_errors": 0}
        case "samples under noise":
            slow = cell.arm == "product-node" and c["alpha_per_N"] < 0.01
            samples = 200_000 if slow else 50_000 + 10_000 * (cell.arm == "product-node")
            return {"samples": samples + cell.seed, "converged": 1.0, "support_errors": 0}
    raise AssertionError(part)


def planted(change=lambda part, cell: {}):
    placed, records, attached = [], {}, {}
    for part, cell in cells("laptop"):
        placed.append(Placed(part.name, tuple(part.axes), cell))
        metrics = expected(part.name, cell) | change(part.name, cell)
        records[cell.key] = Record(Outcome.DONE, metrics)
        if part.name in ("target", "shape"):
            edges = np.linspace(-0.75, 1.75, 126)
            attached[cell.key] = {
                "edges": edges,
                "histogram at 0.3": np.ones(125),
                "quantiles of class 0": levels(),
                "quantiles of class 1": levels(),
            }
    curve = [{"step": 100.0 * k, "accuracy": 0.5, "coverage": 0.002 * k} for k in range(15)]
    return Results(
        study, "laptop", placed, records,
        artifacts=lambda key: attached.get(key, {}), curves=lambda key: curve,
    )  # fmt: skip


def test_the_laptop_scale_is_the_sheets_protocol():
    by_part = {}
    for part, cell in cells("laptop"):
        by_part.setdefault(part.name, []).append(cell)
    density = by_part["density"]
    assert len({cell.config["c"] for cell in density} - {1.0}) == 24
    assert {(cell.config["N"], cell.config["P"], cell.config["cap"]) for cell in density} == {
        (100, 200, 25_000)
    }
    assert {cell.seed for cell in density} == set(range(5))
    assert {cell.config["c"] for cell in by_part["published density"]} == set(PUBLISHED)
    assert {cell.config["N"] for cell in by_part["samples"]} >= {100, 300, 100_000}
    assert {cell.config["p_w"] for cell in by_part["target"]} == {0.0, 0.1, 0.5, 0.9, 1.0}
    assert {cell.config["noise"] for cell in by_part["label noise"]} == {0.1, 0.2, 0.3, 0.4}
    rates = [100 * cell.config["alpha_per_N"] for cell in by_part["learning rate"]]
    assert (min(rates), max(rates)) == pytest.approx((0.03, 5.0))


def test_the_bars_hold_on_what_the_theory_says():
    results = planted()
    bars = [check for check in results.checks if check.kind == "bar"]
    assert {check.name: check.outcome for check in bars} == {
        check.name: Verdict.HOLDS for check in bars
    }
    assert len(bars) == 23
    assert results.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("part", "metrics", "bar"),
    [
        ("density", {"steps": 1000}, "steps are the mean fields"),
        ("published density", {"distance": 0.0117}, "distance at the published steps"),
        ("published density", {"distance": 0.0165}, "distance at denser published steps"),
        ("density", {"steps": 1000}, "gain of the best density"),
        ("learning rate", {"steps": 1000}, "steps times rate is constant"),
        ("paper's bound", {"converged": 0.0}, "below the papers bound"),
        ("stability limit", {"converged": 0.0}, "below the stability limit"),
        ("stability limit", {"converged": 1.0}, "above the stability limit"),
        ("samples", {"steps": 29}, "steps do not depend on size"),
        ("samples", {"support_errors": 1}, "every support is found"),
        ("samples", {"samples": 1000}, "samples grow linearly"),
        ("small batch", {"converged": 1.0}, "a small batch fails"),
        ("target", {"steps": 22_950}, "steps at 100 000"),
        ("shape", {"skew": 0.11}, "classes are not skewed"),
        ("shape", {"kurtosis": 0.21}, "classes have gaussian tails"),
        ("generalization", {"worst_accuracy": 0.999}, "node generalizes"),
        ("generalization", {"coverage": 0.041}, "few inputs are seen"),
        ("generalization", {"accuracy": 0.56}, "mlp does not generalize"),
        ("label noise", {"from_root": 0.011}, "noise settles at its root"),
        ("label noise", {"support_errors": 1}, "noise leaves the support"),
    ],
)
def test_each_bar_can_fail(part, metrics, bar):
    results = planted(lambda name, cell: metrics if name == part else {})
    outcomes = {check.name: check.outcome for check in results.checks}
    assert outcomes[bar] is Verdict.FAILS
    assert results.verdict is Verdict.FAILS


def test_bars_about_the_best_density_can_fail():
    def shifted(part, cell):
        c = cell.config["c"]
        return {"steps": 1000 + 100 * abs(c - 3.2)} if "density" in part else {}

    outcomes = {check.name: check.outcome for check in planted(shifted).checks}
    assert outcomes["best density"] is Verdict.FAILS
    assert outcomes["best density at every size"] is Verdict.FAILS


def test_the_target_may_not_matter():
    def depends(part, cell):
        return {"steps": 22_000 + 500 * cell.config["p_w"]} if part == "target" else {}

    outcomes = {check.name: check.outcome for check in planted(depends).checks}
    assert outcomes["the target does not matter"] is Verdict.FAILS
    assert outcomes["steps at 100 000"] is Verdict.HOLDS


def test_notes_say_where_the_peers_win():
    results = planted()
    notes = " ".join(results.notes)
    assert "could not be computed" not in notes
    assert "2.2 at N = 100" in notes
    assert "N = 100: 100% at 0.9, 100% at 0.95, 0% at 1.05, 0% at 1.1" in notes
    assert "elimination over GF(2) is right on all inputs after 100 samples" in notes
    assert "50,002 against 60,002 at 40% flipped" in notes
    assert "right on 50.0% of the inputs" in notes
    (counting,) = (check for check in results.checks if check.kind == "open")
    assert "contradicted" in counting.answer


def test_figures_are_drawn():
    assert [picture.error for picture in planted().pictures] == [""] * 6


@pytest.mark.parametrize(
    ("part", "cell"),
    [(part, cell) for part, cell in cells("smoke")],
    ids=lambda value: f"{value.arm}" if hasattr(value, "arm") else value.name,
)
def test_smoke_cells_run(part, cell):
    points = []
    cell.on_point = points.append
    metrics = study.run(cell)
    assert all(math.isfinite(value) for value in metrics.values())
    assert set(study.metrics) & set(metrics)
    if part.name == "stability limit":
        assert metrics["converged"] == float(cell.config["of_limit"] < 1)
    if part.name == "target":
        assert metrics["converged"] == 1.0
        assert len(cell.artifacts["quantiles of class 0"]) == 100
    if part.name == "generalization":
        assert len(points) == 15
        assert metrics["accuracy"] == (1.0 if cell.arm == "elimination" else metrics["accuracy"])


def test_smoke_covers_every_experiment():
    experiments = {cell.config["experiment"] for _, cell in cells("laptop")}
    assert experiments == {cell.config["experiment"] for _, cell in cells("smoke")}


def test_the_same_cell_gives_the_same_figures():
    cell = next(cell for part, cell in cells("smoke") if part.name == "density")
    first, second = study.run(cell), study.run(cell)
    first.pop("cpu_seconds"), second.pop("cpu_seconds")
    assert first == second


def test_step_sizes_of_the_cells():
    from fallline.claims._parity_runs import Setting

    named = {part.name: cell for part, cell in cells("laptop")}
    assert Setting(named["learning rate"]).alpha == pytest.approx(5.0)
    assert Setting(named["learning rate"]).M == 20_000
    limit = Setting(named["stability limit"])
    assert (limit.N, limit.M) == (1000, 200_000)
    assert limit.alpha == pytest.approx(1.1 * stability_limit(1000, 1e-3))
    assert Setting(named["paper's bound"]).alpha == pytest.approx(0.95 * paper_bounds(1000).alpha2)
    assert Setting(named["target"]).alpha == pytest.approx(10.0)
    assert Setting(named["target"]).M == 1000
    assert Setting(named["generalization"]).M == 100
    assert Setting(named["generalization"]).alpha == pytest.approx(0.02)
    near = Setting(named["limit at other densities"])
    assert np.abs(near.weights - near.target).max() < 0.2
