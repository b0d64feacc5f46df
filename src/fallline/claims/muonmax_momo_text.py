"""The question of `muonmax-momo` on real English.

A byte-level GPT on the language reference that ships with CPython. The arms are what a user
would choose from today, AdamW and torch's Muon, and the family of arXiv:2510.09827.
"""

from __future__ import annotations

from fallline.claims._pictures import (
    loss_against_learning_rate,
    ms_per_step,
    rate_over_time,
    truncated_against_learning_rate,
)
from fallline.claims._questions import (
    best_of_all,
    gain_at_a_large_learning_rate,
    spread_against_muonadam,
    spread_of_each,
    tuned_muonmax_momo_beats_adamw,
    tuned_muonmax_momo_beats_momo_adam,
    tuned_muonmax_momo_beats_muonadam,
    tuned_muonmax_momo_beats_torch_muon,
    with_three_seeds,
)
from fallline.claims._training import train
from fallline.study import Cell, Check, Limits, Part, Results, Study, at_most
from fallline.tasks import english_text

ARMS = (
    "adamw",
    "muonmax-momo",
    "torch-muon",
    "muon-adam",
    "muon-adam-momo",
    "scion",
    "polargrad",
    "muonmax",
    "momo-adam",
)
DEMO_ARMS = ("adamw", "muonmax-momo", "torch-muon", "muon-adam", "momo-adam")
LRS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
DEMO_LRS = (0.001, 0.003, 0.01, 0.03, 0.1)
# The text changes with the version of Python, and so must the cells that were trained on it.
TEXT = english_text().sha256


def run(cell: Cell) -> dict[str, float]:
    """Train on the text that the cell names."""
    from fallline.tasks import english_bytes

    if cell.config["text"] != TEXT:
        raise ValueError(
            f"this cell is about the text with sha256 {cell.config['text']}, but this Python "
            f"carries {TEXT}; run every cell with one version of Python"
        )
    return train(english_bytes(cell.seed, steps=cell.config["steps"]), cell)


def spread_of_muonmax_momo(r: Results) -> Check:
    """MuonMax-Momo depends less on the learning rate than MuonAdam."""
    return at_most(spread_against_muonadam(r, "muonmax-momo"), 1.0)


def spread_as_on_generated_data(r: Results) -> Check:
    """MuonMax-Momo depends on it at most 0.4 times as much, the bar of the generated task."""
    return at_most(spread_against_muonadam(r, "muonmax-momo"), 0.4)


def more_forgiving_than_adamw(r: Results) -> Check:
    """MuonMax-Momo depends less on the learning rate than AdamW."""
    spread = with_three_seeds(r).spread("val_loss", over="lr")
    return at_most(spread["muonmax-momo"] - spread["adamw"], 0.0)


def more_forgiving_than_torch_muon(r: Results) -> Check:
    """MuonMax-Momo depends less on the learning rate than torch's Muon beside AdamW."""
    spread = with_three_seeds(r).spread("val_loss", over="lr")
    return at_most(spread["muonmax-momo"] - spread["torch-muon"], 0.0)


study = Study(
    "muonmax-momo-text",
    run=run,
    question="Does MuonMax-Momo train well at any learning rate on real English?",
    paper="arXiv:2510.09827",
    metrics={"val_loss": "min", "truncated": "min", "ms_per_step": "min"},
    # Just above ln 256 = 5.545, the loss of guessing: a diverged run is worth less than no run,
    # but not so much less that one alone could decide a spread.
    diverged={"val_loss": 6.0},
    scales={
        "smoke": [
            Part(
                "learning rate",
                ARMS,
                seeds=1,
                lr=[1e-2, 0.1],
                fixed={"steps": 3, "text": TEXT},
            )
        ],
        "demo": [
            Part(
                "learning rate",
                DEMO_ARMS,
                seeds=3,
                lr=DEMO_LRS,
                fixed={"steps": 200, "text": TEXT},
            )
        ],
        "laptop": [
            Part("learning rate", ARMS, seeds=3, lr=LRS, fixed={"steps": 600, "text": TEXT})
        ],
    },
    bars=[spread_of_muonmax_momo, gain_at_a_large_learning_rate],
    open=[
        spread_as_on_generated_data,
        more_forgiving_than_adamw,
        more_forgiving_than_torch_muon,
        tuned_muonmax_momo_beats_adamw,
        tuned_muonmax_momo_beats_torch_muon,
        tuned_muonmax_momo_beats_muonadam,
        tuned_muonmax_momo_beats_momo_adam,
    ],
    notes=[best_of_all, spread_of_each],
    figures=[
        loss_against_learning_rate,
        truncated_against_learning_rate,
        rate_over_time,
        ms_per_step,
    ],
    limits=Limits(seconds=300, gib=2, threads=1),
    sources=["fallline.optim", "fallline.tasks", "fallline.arms", "fallline.claims._training"],
    # The first optimizer of a process imports torch._dynamo, which takes longer than torch itself.
    preload=["torch._dynamo", "fallline.optim", "fallline.tasks.language"],
)
