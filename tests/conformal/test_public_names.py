import subprocess
import sys

import pytest

import fallline.conformal

DESIGNED = {
    "RouteHypergraph",
    "nested_subgraphs",
    "NestedSubgraphs",
    "ConformalSubgraph",
    "ContextualConformalSubgraph",
    "control_risk",
    "sample_near_walks",
    "routes_from_points",
}


def test_all_is_complete_and_loadable():
    assert set(fallline.conformal.__all__) >= DESIGNED
    for name in fallline.conformal.__all__:
        assert getattr(fallline.conformal, name).__name__ == name
    assert dir(fallline.conformal) == sorted(fallline.conformal.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fallline.conformal.nothing


def test_importing_the_folder_loads_nothing_heavy():
    program = (
        "import sys, fallline.conformal; "
        "print({'scipy', 'sklearn', 'numba', 'networkx', 'ortools'} & sys.modules.keys())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "set()"


def test_k_shortest_says_which_extra_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    H = fallline.conformal.RouteHypergraph.from_routes([["a"]])
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fallline\[graphs\]'"):
        fallline.conformal.k_shortest(H, None, 0, 1)
