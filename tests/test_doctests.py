"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil
import warnings

import pytest

import fallline

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(fallline.__path__, "fallline.")
    # These act when they are imported: they are the command, and a process server's first import.
    if module.name not in ("fallline.__main__", "fallline.study.follow")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path, monkeypatch):
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0
