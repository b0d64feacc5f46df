import math

import pytest

from fallline.claims import muonmax_momo
from fallline.claims.muonmax_momo import LRS, study
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results

# Final losses of a prototype (of this task for torch-muon, momo and momo-adam), by arm along the
# learning rates: the bars hold on them, and MuonMax without truncation is not robust.
PROTOTYPE = {
    "adamw": [2.805, 2.431, 2.235, 2.158, 2.493, 3.174, 3.254],
    "torch-muon": [2.823, 2.402, 2.140, 1.955, 1.903, 1.962, 2.738],
    "scion": [2.690, 2.144, 2.012, 2.071, 2.600, 3.591, 6.279],
    "muon-adam": [2.809, 2.263, 2.080, 2.086, 2.343, 3.009, 3.369],
    "polargrad": [2.843, 2.476, 2.318, 2.076, 2.045, 2.124, 2.246],
    "muonmax": [2.789, 2.263, 2.181, 2.234, 2.662, 3.173, 3.091],
    "muon-adam-momo": [2.809, 2.263, 2.080, 2.076, 2.153, 2.216, 2.874],
    "muonmax-momo": [2.789, 2.263, 2.180, 2.107, 2.119, 2.129, 2.317],
    "momo": [3.474, 3.446, 3.379, 3.213, 3.031, 3.108, 3.025],
    "momo-adam": [2.789, 2.409, 2.215, 2.106, 2.489, 2.507, 3.060],
    "muon-adam-momo-tight": [2.809, 2.263, 2.080, 2.094, 2.136, 2.492, 2.493],
    "muonmax-momo-tight": [2.789, 2.263, 2.143, 2.073, 2.069, 2.136, 2.207],
}


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def planted(table, seeds=3):
    placed, records = [], {}
    for part, cell in cells("laptop"):
        if cell.seed < seeds:
            placed.append(Placed(part.name, tuple(part.axes), cell))
            loss = table[cell.arm][LRS.index(cell.config["lr"])] + 0.001 * cell.seed
            metrics = {"val_loss": loss, "truncated": 0.1, "ms_per_step": 5.0}
            records[cell.key] = Record(Outcome.DONE, metrics)
    return Results(study, "laptop", placed, records)


def test_the_laptop_scale_is_the_sheets_protocol():
    laptop = [cell for _, cell in cells("laptop")]
    assert len(laptop) == 12 * 7 * 3
    assert {cell.config["steps"] for cell in laptop} == {200}
    assert {cell.config["lr"] for cell in laptop} == {3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3}
    assert {cell.config.get("f_star") for cell in laptop} == {None, 1.506}


def test_the_bars_hold_on_the_prototypes_losses():
    results = planted(PROTOTYPE)
    bars = [check for check in results.checks if check.kind == "bar"]
    assert [check.outcome for check in bars] == [Verdict.HOLDS] * 6
    assert results.verdict is Verdict.HOLDS
    figures = [round(check.figure.value, 3) for check in bars]
    assert figures == [2.264, 0.168, 0.201, 0.88, -0.004, 0.027]


def test_open_comparisons_say_what_is_not_shown():
    answers = {check.name: check.answer for check in planted(PROTOTYPE).checks}
    assert answers["muonmax is robust without truncation"].startswith("not shown at this scale")
    assert answers["tuned muonmax momo beats adamw"] == "shown at this scale"
    assert "contradicted" in answers["tuned muonmax momo beats torch muon"]
    assert "contradicted" in answers["tuned muonmax momo beats momo adam"]


def test_a_learning_rate_that_ruins_muonmax_momo_fails_the_study():
    ruined = {**PROTOTYPE, "muonmax-momo": [*PROTOTYPE["muonmax-momo"][:5], 3.1, 3.1]}
    results = planted(ruined)
    assert results.verdict is Verdict.FAILS


def test_two_seeds_are_inconclusive():
    assert planted(PROTOTYPE, seeds=2).verdict is Verdict.INCONCLUSIVE


def test_notes_name_the_winner_whoever_it_is():
    best, spreads, tight = planted(PROTOTYPE).notes
    assert "1.904, by torch-muon at learning rate 0.03" in best
    assert "polargrad 0.43" in spreads
    assert "muonmax-momo gains +0.000 at 0.001, +0.037 at 0.003" in tight
    assert "-0.276 at 0.1" in tight


def test_figures_are_drawn():
    assert [picture.error for picture in planted(PROTOTYPE).pictures] == [""] * 4


def test_a_diverged_run_counts_as_just_above_uniform():
    assert math.log(32) < study.diverged["val_loss"] < math.log(32) + 1


@pytest.mark.parametrize("cell", [cell for _, cell in cells("smoke")], ids=lambda c: c.arm)
def test_smoke_cells_run(cell):
    points = []
    cell.on_point = points.append
    metrics = study.run(cell)
    assert set(study.metrics) <= set(metrics)
    assert all(math.isfinite(value) for value in metrics.values())
    assert len(points) == cell.config["steps"]
    assert set(points[0]) == {"step", "loss", "eta"}


def test_the_same_cell_gives_the_same_loss_bitwise():
    cell = [cell for _, cell in cells("smoke") if cell.arm == "muonmax-momo"][-1]
    assert study.run(cell)["val_loss"] == study.run(cell)["val_loss"]


def test_a_diverged_cell_gives_nan_and_no_exception():
    cell = next(cell for _, cell in cells("smoke") if cell.arm == "scion")
    cell.config["lr"] = 1e30
    assert math.isnan(study.run(cell)["val_loss"])


def test_the_entropy_rate_is_that_of_the_data():
    from fallline.tasks import sample_markov_mixture

    assert sample_markov_mixture(0).entropy_rate == pytest.approx(
        muonmax_momo.ENTROPY_RATE, abs=5e-4
    )
