import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_shows_what_it_says():
    script = ROOT / "examples" / "poisson_certificate.py"
    run = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    schedule, linesearch, reference = map(int, re.findall(r"(\d+) gradients", run.stdout))
    assert reference < linesearch < schedule
    bound, gap = map(float, re.search(r"as (\S+) is (\S+)$", run.stdout.strip()).groups())
    assert gap <= bound <= 1e-4


def test_the_code_of_the_documentation_runs():
    page = (ROOT / "docs" / "methods" / "generalized-smooth-agd.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    scope = {}
    exec(compile(code, "generalized-smooth-agd.md", "exec"), scope)
    assert scope["result"].success
    assert scope["result"].gap_bound <= 1e-4
