import subprocess
import sys
from pathlib import Path

import pytest

import fallline.claims
from fallline import claims


def test_the_catalog_is_complete_and_each_study_has_its_modules_name():
    files = Path(fallline.claims.__file__).parent.glob("[a-z]*.py")
    assert claims.names() == sorted(file.stem.replace("_", "-") for file in files)
    for name in claims.names():
        study = claims.load(name)
        assert study.name == name
        assert study.question.endswith("?")
        assert study.paper.startswith("arXiv:")
        assert {"smoke", "laptop"} <= set(study.scales)


def test_an_unknown_study_lists_what_exists():
    with pytest.raises(ValueError, match=r"no study 'muon'; choose one of .*muonmax-momo"):
        claims.load("muon")


@pytest.mark.parametrize("use", ["names()", "load('muonmax-momo')", "load('muonmax-momo-text')"])
def test_the_driver_needs_no_torch(use):
    code = (
        f"import sys; from fallline import claims; claims.{use}; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
