"""Where a study lives, so that a fresh process can import it again."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.abc import ExecutionLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from fallline.study.errors import StudyError

if TYPE_CHECKING:
    from fallline.study.spec import Study


@dataclass(frozen=True)
class Origin:
    """A module name, or the path of a file, and who makes a study of it.

    `builder` is `"module:function"`, a function from the loaded module to the study; without one
    the study is found in the module by its name.
    """

    module: str = ""
    path: str = ""
    builder: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain data that crosses to a worker."""
        return asdict(self)

    def load(self, name: str, text: str | None = None) -> Study:
        """Import the module or file anew (a file under a name of its own) and return its study.

        With `text` that is what a file holds, whatever has become of it since.
        """
        loaded = load_file(self.path, text) if self.path else importlib.import_module(self.module)
        if self.builder:
            module, _, function = self.builder.partition(":")
            study: Study = getattr(importlib.import_module(module), function)(loaded)
            return study
        found = studies_in(loaded)
        if name not in found:
            raise StudyError(f"{self.path or self.module} defines no study named {name!r}")
        return found[name]

    def holds(self, name: str) -> bool:
        """Whether the module or file, as it is loaded here, has the study at its top level."""
        main = getattr(sys.modules["__main__"], "__file__", None)
        script = bool(self.path and main) and Path(str(main)).resolve() == Path(self.path)
        here = "__main__" if script else self.module or _file_module(Path(self.path))
        loaded = sys.modules.get(here)
        return bool(self.builder) or loaded is None or name in studies_in(loaded)

    def text(self) -> str | None:
        """Return what the file holds now; a module has the text with which it was imported."""
        return Path(self.path).read_text(encoding="utf-8") if self.path else None

    def imports(self) -> list[str]:
        """Return what a fresh process will import first: the module, or what the file uses.

        The file's neighbours are left to each cell, since they may be edited like the file.
        """
        if self.module:
            return [self.module]
        near = {module.__name__ for module in self._neighbours()}
        return sorted(name for name in self._used() if name not in near)

    def source_hash(self, sources: Sequence[str]) -> str:
        """Sha256 over the study's own file, what it imports from its folder, and `sources`."""
        own = self.path or _file_of(self.module)
        digest = hashlib.sha256(Path(own).read_bytes())
        for file in local_imports(Path(own)) if self.path else ():
            digest.update(file.read_bytes())
        for package in sorted(sources):
            digest.update(_package_hash(package).encode())
        return digest.hexdigest()

    def _used(self) -> list[str]:
        """Name the modules that the loaded file's namespace holds, or holds something of."""
        loaded = sys.modules.get(_file_module(Path(self.path)))
        values = [] if loaded is None else list(vars(loaded).values())
        names = {
            v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", None)
            for v in values
        }
        known = {name for name in names if isinstance(name, str) and name in sys.modules}
        return sorted(name for name in known if not name.startswith(("__main__", FILE_MODULE)))

    def _neighbours(self) -> list[ModuleType]:
        if not self.path:
            return []
        folder = Path(self.path).parent
        used = (sys.modules[name] for name in self._used())
        return [
            module
            for module in used
            if (file := getattr(module, "__file__", None))
            and Path(file).is_relative_to(folder)
            and "site-packages" not in Path(file).parts
        ]


def local_imports(path: Path) -> list[Path]:
    """Return the files of its own folder that a file imports, wherever, itself or through them."""
    folder, seen, todo = path.parent, {path}, [path]
    while todo:
        file = todo.pop()
        with contextlib.suppress(SyntaxError, ValueError):  # what cannot be parsed imports nothing
            for base, name in _imported(ast.parse(file.read_bytes()), file, folder):
                parts = name.split(".") if name else []
                for n in range(len(parts) + 1):
                    stem = base.joinpath(*parts[:n])
                    for found in (stem / "__init__.py", stem.with_suffix(".py")):
                        inside = found.is_relative_to(folder) and stem != folder
                        if inside and found not in seen and found.is_file():
                            seen.add(found)
                            todo.append(found)
    return sorted(seen - {path})


def _imported(tree: ast.AST, file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield where an import looks, and the dotted name that it looks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield folder, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if node.level else folder
            for alias in node.names:
                yield base, f"{node.module}.{alias.name}" if node.module else alias.name


def calling_module() -> Origin:
    """Return the origin of the first frame outside this package's engine."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        # dataclasses build __init__ in a namespace of their own, named after the class's module.
        if not name.startswith("fallline.study"):
            break
        frame = frame.f_back  # type: ignore[assignment]
    path = frame.f_globals.get("__file__", "") if frame is not None else ""
    if name == "__main__" or name not in sys.modules or name.startswith(FILE_MODULE):
        return Origin(path=str(Path(path).resolve()) if path and Path(path).is_file() else "")
    return Origin(module=name)


FILE_MODULE = "_fallline_file_"


class TextLoader(ExecutionLoader):
    """Imports a file from a text that was read before, so that all of a run has one source."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text

    def get_filename(self, fullname: str) -> str:
        """Name the file in tracebacks."""
        return str(self.path)

    def get_source(self, fullname: str) -> str:
        """Return the text."""
        return self.text


def load_file(path: str | Path, text: str | None = None) -> ModuleType:
    """Import a Python file under a name made from its path, so that two of one name can live.

    With `text` that is run in the file's place.
    """
    path = Path(path).resolve()
    if text is None:
        if not path.is_file():
            raise StudyError(f"{path} is not a file")
        text = path.read_text(encoding="utf-8")
    name, loader = _file_module(path), TextLoader(path, text)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a study may import its neighbours
    try:
        loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, (StudyError, KeyboardInterrupt)):
            raise
        raise StudyError(blame(path, error)) from error
    return module


def blame(path: Path, error: BaseException) -> str:
    """Say in one line what went wrong, and on which line of the user's file."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    line = next((f.lineno for f in reversed(frames) if f.filename == str(path)), None)
    at = f"{path}, line {line}" if line else str(path)
    return f"{at}: {type(error).__name__}: {' '.join(str(error).split())}"


def _file_module(path: Path) -> str:
    return FILE_MODULE + hashlib.sha256(str(path).encode()).hexdigest()[:16]


def studies_in(module: ModuleType) -> dict[str, Study]:
    """Return the studies that a module holds, by name."""
    from fallline.study.spec import Study

    return {value.name: value for value in vars(module).values() if isinstance(value, Study)}


def _file_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise StudyError(f"the source of module {module!r} cannot be found")
    return spec.origin


@lru_cache
def _package_hash(package: str) -> str:
    root = Path(_file_of(package))
    files = sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root.parent)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
