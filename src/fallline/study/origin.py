"""Where a study lives, so that a fresh process can import it again."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
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

    def load(self, name: str) -> Study:
        """Import the module or file anew (a file under a name of its own) and return its study."""
        loaded = load_file(self.path) if self.path else importlib.import_module(self.module)
        if self.builder:
            module, _, function = self.builder.partition(":")
            study: Study = getattr(importlib.import_module(module), function)(loaded)
            return study
        found = studies_in(loaded)
        if name not in found:
            raise StudyError(f"{self.path or self.module} defines no study named {name!r}")
        return found[name]

    def imports(self) -> list[str]:
        """Return what a fresh process will import first: the module, or what the file uses."""
        if self.module:
            return [self.module]
        loaded = sys.modules.get(_file_module(Path(self.path)))
        used = [] if loaded is None else vars(loaded).values()
        names = (
            v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", "") for v in used
        )
        known = {name for name in names if isinstance(name, str) and name in sys.modules}
        return sorted(name for name in known if not name.startswith(("__main__", FILE_MODULE)))

    def source_hash(self, sources: Sequence[str]) -> str:
        """Sha256 over the study's own file and every file of the packages it names."""
        own = self.path or _file_of(self.module)
        digest = hashlib.sha256(Path(own).read_bytes())
        for package in sorted(sources):
            digest.update(_package_hash(package).encode())
        return digest.hexdigest()


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


def load_file(path: str | Path) -> ModuleType:
    """Import a Python file under a name made from its path, so that two of one name can live."""
    path = Path(path).resolve()
    if not path.is_file():
        raise StudyError(f"{path} is not a file")
    name = _file_module(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StudyError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a study may import its neighbours
    try:
        spec.loader.exec_module(module)
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
