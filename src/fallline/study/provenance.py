"""On what machine, with what versions and from what source a cell was computed."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from fallline.study.spec import Limits, canonical

PACKAGES = ("fallline", "numpy", "scipy", "torch", "scikit-learn", "numba", "pandas", "matplotlib")


def environment(limits: Limits, folder: Path) -> dict[str, Any]:
    """Describe this machine, its package versions and the git state of the study's folder."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": limits.threads,
        "packages": dict(versions(PACKAGES)),
        "git": git_state(folder),
    }


def environment_hash(data: dict[str, Any]) -> str:
    """Name an environment by its content."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:16]


def versions(packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the installed packages with their versions."""
    for package in packages:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue


def extras(package: str) -> Iterator[tuple[str, str]]:
    """Yield each extra of a package with what it lacks here."""
    from packaging.requirements import Requirement

    needs = [Requirement(line) for line in metadata.requires(package) or ()]
    for extra in metadata.metadata(package).get_all("Provides-Extra") or ():
        wanted = [
            need.name
            for need in needs
            if need.marker is not None and need.marker.evaluate({"extra": extra})
        ]
        missing = [name for name in wanted if not dict(versions((name,)))]
        if extra != "all":
            hint = f"missing {', '.join(missing)}: pip install '{package}[{extra}]'"
            yield extra, hint if missing else "installed"


def cpu_name() -> str:
    """Return the processor's name as the operating system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit of the checkout around `folder` and whether it has changes, or nothing."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}
