import math

import pytest

from fallline.claims.muonmax_momo_text import study
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results
from fallline.tasks import english_text


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def planted(scale, loss):
    placed = [Placed(part.name, tuple(part.axes), cell) for part, cell in cells(scale)]
    records = {
        at.cell.key: Record(
            Outcome.DONE,
            {"val_loss": loss(at.cell), "truncated": 0.1, "ms_per_step": 10.0},
        )
        for at in placed
    }
    return Results(study, scale, placed, records)


def bowl(depths):
    """Losses that grow with the distance from lr 0.01, by each arm's depth."""
    return lambda cell: (
        2.0 + 0.01 * cell.seed + depths.get(cell.arm, 0.5) * abs(math.log10(cell.config["lr"]) + 2)
    )


def test_laptop_tunes_nine_arms_over_two_decades_on_three_seeds():
    laptop = [cell for _, cell in cells("laptop")]
    assert len(laptop) == 9 * 7 * 3
    rates = {cell.config["lr"] for cell in laptop}
    assert max(rates) / min(rates) == pytest.approx(100)


@pytest.mark.parametrize("scale", ["smoke", "demo", "laptop"])
def test_every_cell_names_the_text(scale):
    assert {cell.config["text"] for _, cell in cells(scale)} == {english_text().sha256}


def test_a_cell_about_another_text_is_refused():
    cell = next(cell for _, cell in cells("smoke"))
    cell.config["text"] = "0" * 64
    with pytest.raises(ValueError, match="run every cell with one version of Python"):
        study.run(cell)


@pytest.mark.parametrize("scale", ["demo", "laptop"])
def test_the_bars_ask_whether_large_learning_rates_are_forgiven(scale):
    forgiving = planted(scale, bowl({"muonmax-momo": 0.1}))
    assert forgiving.verdict is Verdict.HOLDS
    assert planted(scale, bowl({})).verdict is Verdict.FAILS
    assert all("could not be computed" not in check.text for check in forgiving.checks)
    assert all("could not be computed" not in note for note in forgiving.notes)


def test_figures_are_drawn():
    assert [picture.error for picture in planted("demo", bowl({})).pictures] == [""] * 4


def test_a_diverged_run_counts_as_just_above_uniform():
    assert math.log(256) < study.diverged["val_loss"] < math.log(256) + 1


@pytest.mark.parametrize("cell", [cell for _, cell in cells("smoke")], ids=lambda c: c.arm)
def test_smoke_cells_run(cell):
    metrics = study.run(cell)
    assert set(study.metrics) <= set(metrics)
    assert all(math.isfinite(value) for value in metrics.values())


def test_the_same_cell_gives_the_same_loss_bitwise():
    cell = next(cell for _, cell in cells("smoke") if cell.arm == "muonmax-momo")
    assert study.run(cell)["val_loss"] == study.run(cell)["val_loss"]
