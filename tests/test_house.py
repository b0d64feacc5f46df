"""What keeps the house in order: floors, public names, lazy imports, README and examples."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fallline
from fallline._errors import import_extra

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fallline"
FLOORS = [
    {"_errors", "_typing", "curvature"},
    {
        "admm", "bayesopt", "conformal", "convex", "curriculum", "decentralized", "exactcover",
        "modeling", "nn", "optim", "parity", "portfolio", "rl", "robust", "sco",
    },
    {"study", "tasks"},
    {"arms", "claims", "comparison"},
    {"cli", "__main__"},
]  # fmt: skip
# Within a floor: the folder on the left may use those on the right.
ALLOWED = {
    "optim": {"convex"},
    "exactcover": {"nn"},
    "portfolio": {"nn"},
    "claims": {"arms"},
    "comparison": {"arms"},
    "__main__": {"cli"},
}
ROOMS = sorted(
    p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
)
PACKAGES = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py"))
FORBIDDEN_IN_STUDY = {"torch", "sklearn", "numba"}


def floor(room):
    (number,) = [i for i, rooms in enumerate(FLOORS) if room in rooms]
    return number


def imports(path):
    """Yield every module that a file imports, wherever it stands in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its room"
            yield from (
                [f"fallline.{alias.name}" for alias in node.names]
                if node.module == "fallline"
                else [str(node.module)]
            )


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "__init__"])
def test_a_floor_imports_only_from_floors_below(room):
    here = SOURCE / room
    for file in here.rglob("*.py") if here.is_dir() else [here.with_suffix(".py")]:
        for name in imports(file):
            if not name.startswith("fallline."):
                continue
            other = name.split(".")[1]
            if other == room or other not in ROOMS:  # itself, or a name such as __version__
                continue
            fine = floor(other) < floor(room) or other in ALLOWED.get(room, ())
            assert fine, f"{file.relative_to(ROOT)} imports {name}"


def test_the_engine_knows_no_method_library():
    for file in (SOURCE / "study").rglob("*.py"):
        found = {name.split(".")[0] for name in imports(file)} & FORBIDDEN_IN_STUDY
        assert not found, f"{file.relative_to(ROOT)} imports {found}"


def test_claims_do_not_import_claims():
    for file in (SOURCE / "claims").glob("[a-z]*.py"):
        for name in imports(file):
            if name.startswith("fallline.claims."):
                assert name.split(".")[2].startswith("_"), f"{file.name} imports {name}"


def order(name):
    """Constants, classes, the rest; each by name: what ruff sorts by too."""
    return (not name.isupper(), not name[0].isupper(), name)


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_public_names_are_complete_and_sorted(package):
    module = importlib.import_module(f"fallline.{package}".rstrip("."))
    assert list(module.__all__) == sorted(module.__all__, key=order)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    modules = {path.stem for path in Path(module.__file__).parent.iterdir()}
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in modules
        and getattr(value, "__module__", "").startswith("fallline")
    }
    assert public <= set(module.__all__), (
        f"public but not in __all__: {public - set(module.__all__)}"
    )


def loaded_by(*arguments):
    code = (
        "import sys\n"
        f"sys.argv = {['fallline', *arguments]!r}\n"
        "try:\n    import fallline\n    if len(sys.argv) > 1:\n"
        "        from fallline.cli import main; main()\n"
        "except SystemExit:\n    pass\n"
        "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "--help"), ("list", "studies")])
def test_nothing_heavy_is_loaded_before_it_is_needed(arguments):
    heavy = {"torch", "matplotlib", "pandas", "scipy", "sklearn", "numba"}
    assert not loaded_by(*arguments) & heavy


def test_the_engine_runs_a_study_without_the_heavy_libraries(tmp_path):
    (tmp_path / "s.py").write_text(
        "from fallline.study import *\n"
        "study = Study('s', run=lambda c: {'y': 1}, metrics={'y': 'min'},"
        " scales={'laptop': [Part('p', ['a'], seeds=1)]})\n"
    )
    code = (
        "import sys\nfrom fallline.study.origin import load_file\n"
        "study = load_file('s.py').study\n"
        "assert study.execute(store='s.db').complete\n"
        "print(*sorted({'torch', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert out.stdout.strip() == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_folder_needs_no_extra(package):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {re.match(r"[\w-]+", need)[0].replace("-", "_") for e in extras.values() for need in e}
    blocked = sorted(names - {"fallline"})
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\nimport fallline.{package}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_extra_says_how_to_install_it():
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fallline\[bayesopt\]'"):
        import_extra("a_package_nobody_has", extra="bayesopt")
    assert import_extra("json", extra="bayesopt") is __import__("json")


def test_a_broken_extra_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'something_it_needs'"):
        import_extra("half_installed", extra="bayesopt")


def code_blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_python_in_the_documentation_runs(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = code_blocks(page, "python")
    if not blocks:
        return
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 6 * 1024


def test_the_version_is_one():
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert metadata["project"]["version"] == fallline.__version__
    assert re.search(r"^torch==2\.13\.0$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_all_is_the_union_of_the_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (union,) = extras.pop("all")
    assert union == f"fallline[{','.join(sorted(extras))}]"
