import math
from itertools import pairwise

import numpy as np
import pytest

from fallline.claims import conformal_routes as claim
from fallline.claims.conformal_routes import LEVELS, MASSES, TRIP_LEVELS, study
from fallline.study import Outcome, Verdict
from fallline.study.record import Record
from fallline.study.results import Placed, Results
from fallline.tasks import GridRoutes, Itineraries, city, peeling_trap

# Means of a prototype, by arm along the coverages: the bars hold on them.
EDGES = {
    "chain": [32.3, 39.3, 47.5, 57.4, 63.4, 74.6, 79.2],
    "chain by number": [43.7, 46.9, 49.9, 57.7, 63.5, 74.7, 79.2],
    "forward-greedy": [44.3, 55.7, 62.7, 69.0, 70.5, 74.4, 79.1],
    "reverse-greedy": [39.2, 53.1, 61.1, 67.6, 69.4, 73.5, 79.0],
    "top-routes": [43.7, 62.3, 67.4, 70.5, 71.3, 74.6, 79.1],
    "ratio-greedy": [38.6, 51.7, 58.8, 65.0, 67.9, 73.6, 79.1],
}
COVERED = [0.235, 0.427, 0.635, 0.802, 0.850, 0.943, 1.0]
OPTIMUM = {
    "optimum": [33.2, 41.7, 50.7, 68.3],
    "chain": [34.3, 42.3, 53.2, 75.7],
    "reverse-greedy": [47.3, 55.5, 62.2, 69.2],
}
RATIOS = [1.0, 1.0, 1.0, 1.04, 1.37, 2.15, 3.0]


def cells(scale):
    for part in study.parts(scale):
        for cell in part.cells(study.name, study.version):
            yield part, cell


def planted_metrics(cell, edges):
    problem, arm = cell.config["problem"], cell.arm
    if problem == "trap":
        return {"elements": 8.0 if arm == "chain" else 46.0}
    if problem == "trips":
        return {f"ratio at {phi:g}": x for phi, x in zip(TRIP_LEVELS, RATIOS)}
    if problem == "optimum":
        return {f"edges of mass {tau:g}": x for tau, x in zip(MASSES, OPTIMUM[arm])}
    jitter = 0.1 * math.sin(cell.seed)
    return {f"edges at {phi:g}": x + jitter for phi, x in zip(LEVELS, edges[arm])} | {
        f"covered at {phi:g}": x for phi, x in zip(LEVELS, COVERED)
    }


def planted(edges=EDGES):
    placed, records = [], {}
    for part, cell in cells("laptop"):
        if cell.seed < 5:
            placed.append(Placed(part.name, tuple(part.axes), cell))
            records[cell.key] = Record(Outcome.DONE, planted_metrics(cell, edges))
    return Results(study, "laptop", placed, records)


@pytest.fixture(scope="module")
def smoke():
    placed, records, artifacts = [], {}, {}
    for part, cell in cells("smoke"):
        placed.append(Placed(part.name, tuple(part.axes), cell))
        records[cell.key] = Record(Outcome.DONE, study.run(cell))
        artifacts[cell.key] = cell.artifacts
    return Results(study, "smoke", placed, records, artifacts=artifacts.__getitem__)


def test_the_laptop_scale_is_the_sheets_protocol():
    laptop = [cell for _, cell in cells("laptop")]
    navigation = [cell for cell in laptop if cell.config["problem"] == "navigation"]
    seeds = {arm: sum(cell.arm == arm for cell in navigation) for arm in EDGES}
    assert min(seeds.values()) >= 50
    assert {cell.config["core"] for cell in laptop if "core" in cell.config} == {0.2, 0.4, 0.6, 0.8}
    assert LEVELS == (0.2, 0.4, 0.6, 0.75, 0.8, 0.9, 1.0)


def test_the_bars_hold_on_the_prototypes_means():
    results = planted()
    assert [c.outcome for c in results.checks if c.kind == "bar"] == [Verdict.HOLDS] * 10
    figures = [round(c.figure.value, 3) for c in results.checks if c.kind == "bar"]
    assert figures == [6.9, 13.8, 13.6, 10.2, 6.0, 0.0, 1.0, 3.0, 0.0, 0.0]
    answers = {c.name: c.answer for c in results.checks if c.kind == "open"}
    assert answers["smaller than ratio greedy at 60"] == "shown at this scale"
    assert "contradicted" in answers["smaller than reverse greedy at 90"]


def test_a_chain_that_saves_nothing_fails():
    assert planted({**EDGES, "chain": EDGES["reverse-greedy"]}).verdict is Verdict.FAILS


def test_notes_say_what_is_saved_and_where_reverse_greedy_wins():
    savings, lost, optimum, trips = planted().notes
    assert "+18 % at 0.2 (fresh routes covered: 0.235)" in savings
    assert "-1 % at 0.9" in savings
    assert "1.1 at 0.9, 0.2 at 1" in lost
    assert "33.2 / 34.3 / 47.3 at 0.4" in optimum
    assert "chain 1.00 and 3.00" in trips


def test_smoke_cells_answer_every_question(smoke):
    assert all(c.figure.value == c.figure.value for c in smoke.checks)
    outcomes = {c.name: c.outcome for c in smoke.checks}
    for name in ("chain escapes the trap", "peeling falls into the trap", "finds the core"):
        assert outcomes[name] is Verdict.HOLDS
    optimum = smoke.where(part="exact optimum")
    for tau in MASSES:
        mean = optimum.mean(f"edges of mass {tau:g}")
        assert mean["optimum"] <= min(mean["chain"], mean["reverse-greedy"])
    assert len(smoke.notes) >= 3


def test_figures_are_drawn(smoke):
    assert [picture.error for picture in smoke.pictures] == [""] * 3


def test_the_same_cell_gives_the_same_numbers():
    cell = next(cell for _, cell in cells("smoke"))
    assert study.run(cell) == study.run(cell)


def test_literal_selection_covers_the_selection_routes_as_the_paper_asks():
    task, rng = GridRoutes(), np.random.default_rng(0)
    training, selection = task.draw(50, rng), task.draw(50, rng)
    H = claim_hypergraph(training, task)
    for arm in EDGES:
        cell = next(c for _, c in cells("smoke") if c.arm == arm and c.seed == 0)
        metrics, chosen = study.run(cell), claim.order(arm, H)
        for phi in LEVELS:
            size = int(metrics[f"edges at {phi:g}"])
            inside = [chosen.prefix(size).issuperset(route) for route in selection]
            fewer = [chosen.prefix(size - 1).issuperset(route) for route in selection]
            assert np.mean(inside) >= phi > np.mean(fewer)


def claim_hypergraph(training, task):
    from fallline.conformal import RouteHypergraph

    return RouteHypergraph.from_routes(training, universe=task.edges)


# The generated problems


def test_grid_routes_are_paths_from_corner_to_corner():
    task = GridRoutes()
    assert len(task.edges) == len({*task.edges}) == 80
    assert task.positions.shape == (36 + 19, 2)
    routes = task.draw(200, np.random.default_rng(1))
    for route in routes:
        assert {*route} <= {*task.edges}
        here = 0
        for u, v in route:
            here = v if here == u else u
        assert here == 35
    assert 0.05 < np.mean([route == task.detour for route in routes]) < 0.25
    assert GridRoutes(share=0.0).draw(3, np.random.default_rng(0)) == [task.detour] * 3


def test_grid_routes_are_the_shortest_under_their_weights():
    import networkx as nx

    task = GridRoutes(size=4, share=1.0)
    weights = np.random.default_rng(2)
    weights.random(1)  # the draw of who takes the bypass
    (route,) = task.draw(1, np.random.default_rng(2))
    G = nx.Graph()
    for (u, v), w in zip(task.edges[:24], weights.uniform(0.1, 2.0, 24)):
        G.add_edge(u, v, weight=w)
    path = nx.shortest_path(G, 0, 15, weight="weight")
    assert route == [tuple(sorted(e)) for e in pairwise(path)]


def test_itineraries_have_one_activity_of_each_type():
    data = Itineraries(0.4)
    assert len(data.core_activities) == 20
    assert len(data.activities) == 50
    routes = data.draw(2000, np.random.default_rng(0))
    assert all([t for t, _ in route] == list(range(5)) for route in routes)
    assert {a for route in routes for a in route} == {*data.activities}
    inside = np.mean([data.core_activities.issuperset(route) for route in routes])
    assert inside == pytest.approx(0.8, abs=0.03)


def test_the_trap_has_80_per_cent_in_its_singles():
    routes, weights = peeling_trap()
    assert sum(weights[1:]) == 0.8 * sum(weights)
    assert [len(route) for route in routes] == [40] + [1] * 8


def test_a_city_is_connected_and_its_trips_are_quickest_paths():
    import networkx as nx

    streets = city(0, side=20)
    G = nx.Graph()
    for (u, v), t in zip(streets.edges.tolist(), streets.minutes):
        G.add_edge(u, v, minutes=t)
    assert nx.is_connected(G)
    assert len(G) == len(streets.positions)
    origin, targets = int(streets.nearest(0, 0)[0]), streets.nearest(8, 8, count=5)
    rng = np.random.default_rng(0)
    trips = streets.trips(origin, targets, 20, rng, drivers=2, spread=0.0)
    for trip in trips:
        here = origin
        for u, v in trip:
            here = v if here == u else u
        assert here in targets
        minutes = sum(G.edges[road]["minutes"] for road in trip)
        best = nx.shortest_path_length(G, origin, here, weight="minutes")
        assert minutes == pytest.approx(best)
    stay = streets.trips(origin, np.array([origin]), 3, rng, drivers=1)
    assert stay == [[], [], []]
