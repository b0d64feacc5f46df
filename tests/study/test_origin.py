"""What of a study's folder belongs to its source."""

import pytest

from fallline.study.origin import Origin, load_file, local_imports

FILES = {
    "mine.py": "from config import WIDTH\nimport helpers.deep\n"
    "def run(cell):\n    import lazy\n    return lazy.value",
    "config.py": "from constants import N\nWIDTH = N",
    "constants.py": "N = 4",
    "helpers/__init__.py": "",
    "helpers/deep.py": "from .near import x\nfrom . import other",
    "helpers/near.py": "x = 1",
    "helpers/other.py": "y = 1",
    "lazy.py": "import os, numpy\nvalue = {'y': 1.0}",
    "stranger.py": "z = 1",
    "broken.py": "def (",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "helpers").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_a_file_imports_from_its_folder_wherever_the_import_stands(folder):
    found = [str(file.relative_to(folder)) for file in local_imports(folder / "mine.py")]
    assert found == sorted(set(FILES) - {"mine.py", "stranger.py", "broken.py"})
    assert local_imports(folder / "broken.py") == []


@pytest.mark.parametrize("name", sorted(set(FILES) - {"stranger.py", "broken.py"}))
def test_an_edit_of_any_of_them_is_another_source(folder, name):
    origin = Origin(path=str(folder / "mine.py"))
    before = origin.source_hash(())
    (folder / "stranger.py").write_text("z = 2")
    assert origin.source_hash(()) == before
    (folder / name).write_text(FILES[name] + "\n# edited")
    assert origin.source_hash(()) != before


def test_a_file_loads_again_after_its_hash_was_taken(folder):
    assert Origin(path=str(folder / "constants.py")).source_hash(())
    assert load_file(folder / "constants.py").N == 4
