import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "erm_overfit.py"


def test_the_example_shows_what_it_says():
    run = subprocess.run([sys.executable, EXAMPLE], check=True, capture_output=True, text=True)
    assert "the ERM is unique: True" in run.stdout
    excess = [float(line.split()[-1]) for line in run.stdout.splitlines()[1:]]
    erm, sgd, regularized, early, late = excess
    assert max(sgd, regularized) < erm / 5
    assert early < erm / 2
    assert abs(late / erm - 1) < 0.1
