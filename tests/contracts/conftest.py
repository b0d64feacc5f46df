"""Collect the contract suites, whose files are named by the interface and not test_*."""

from pathlib import Path

import pytest


def pytest_collect_file(file_path, parent):
    asked_for_by_path = parent.session.isinitpath(file_path)  # pytest then collects it itself
    is_suite = file_path.suffix == ".py" and file_path.stem not in ("conftest", "__init__")
    if is_suite and not asked_for_by_path and file_path.parent == Path(__file__).parent:
        return pytest.Module.from_parent(parent, path=file_path)
    return None
