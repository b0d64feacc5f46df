import subprocess
import sys

import fallline.sco

DESIGNED = {
    "HardInstance",
    "LinearCode",
    "qr_code",
    "rs_golay_code",
    "bounds",
    "ERMCertificate",
    "CertificateError",
}


def test_all_is_sorted_complete_and_loadable():
    names = fallline.sco.__all__
    assert set(names) >= DESIGNED
    assert names == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(fallline.sco, name) for name in names)
    assert fallline.sco.bounds.__all__ == sorted(fallline.sco.bounds.__all__)


def test_importing_the_folder_loads_nothing_heavy():
    program = (
        "import sys, fallline.sco; print(sorted({'torch', 'cvxpy', 'numba'} & sys.modules.keys()))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "[]"


def test_a_missing_extra_says_which(monkeypatch):
    import pytest

    monkeypatch.setitem(sys.modules, "cvxpy", None)
    inst = fallline.sco.HardInstance.for_sample_size(2)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fallline\[cvxpy\]'"):
        inst.to_cvxpy([0, 1])
