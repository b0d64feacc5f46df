import subprocess
import sys

import pytest

import fallline.parity

DESIGNED = {
    "ParityProduct",
    "parity_loss",
    "ParityClassifier",
    "ParityStream",
    "train_stream",
    "mean_field",
    "population_gradient",
    "stability_limit",
    "paper_bounds",
    "suggest",
}


def test_all_is_complete_and_loadable():
    assert set(fallline.parity.__all__) >= DESIGNED
    assert dir(fallline.parity) == fallline.parity.__all__
    assert all(callable(getattr(fallline.parity, name)) for name in fallline.parity.__all__)
    with pytest.raises(AttributeError, match="no attribute 'harden'"):
        fallline.parity.harden  # noqa: B018


@pytest.mark.parametrize(
    ("names", "unneeded"),
    [
        ("", {"torch", "numba", "scipy", "sklearn", "numpy"}),
        ("population_gradient", {"torch", "numba", "sklearn"}),
        ("ParityStream, train_stream, mean_field", {"torch", "sklearn"}),
        ("ParityClassifier", {"torch"}),
    ],
)
def test_a_name_loads_what_it_needs_and_no_more(names, unneeded):
    use = f"from fallline.parity import {names}" if names else "import fallline.parity"
    program = f"import sys; {use}; print(*sorted({unneeded!r} & sys.modules.keys()))"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == ""
