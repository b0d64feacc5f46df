"""Find the roads that a map of a city must hold, so that nine trips in ten stay on it.

A generated city with more than 20 000 roads, 10 000 trips from the airport to the centre, and the
smallest set of roads that `ConformalSubgraph` finds. Replace `streets` and `trips` by your own:
each trip is a list of roads, and a road is anything hashable.
"""

import time

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.collections import LineCollection

from fallline.conformal import ConformalSubgraph
from fallline.tasks import city

COVERAGE = 0.9

streets = city(seed=1)
rng = np.random.default_rng(1)
airport, center = streets.nearest(1.5, 2.0)[0], streets.nearest(9.0, 11.5, count=150)
trips = streets.trips(airport, center, 11_000, rng)
history, new = trips[:10_000], trips[10_000:]
roads = [tuple(road) for road in streets.edges.tolist()]
print(f"{len(roads)} roads, {len(history)} trips of {np.mean([*map(len, history)]):.0f} roads")

# The whole method: half of the history orders the roads, the other half chooses how many.
start = time.perf_counter()
model = ConformalSubgraph(coverage=COVERAGE, universe=roads).fit(history)
chosen = model.predict()
print(
    f"{model.size_} roads hold {COVERAGE:.0%} of trips (found in {time.perf_counter() - start:.1f} "
    f"s); {model.score(new):.1%} of {len(new)} new trips stay on them"
)

# What one would do today: the same guarantee, on the union of the most frequent routes or roads.
models = {"chain": model}
for method in ("forward_greedy", "top_routes"):
    models[method] = ConformalSubgraph(COVERAGE, method=method, universe=roads).fit(history)
    print(f"{method} needs {models[method].size_} roads for the same promise")

# The chosen roads as a networkx graph, for a planner.
G = nx.Graph(roads)
part = model.subgraph(G)
print(f"as a graph: {part.number_of_nodes()} junctions, {part.number_of_edges()} roads")

# A map: grey roads, dark by traffic, and in blue what to keep.
lines = streets.positions[streets.edges]
traffic = model.order_.hypergraph.traffic
kept = np.array([road in chosen for road in roads])
figure, axes = plt.subplots(figsize=(9, 9), layout="constrained")
fast = streets.lengths / streets.minutes > 0.6  # arterials and the ring
axes.add_collection(LineCollection(lines, colors="0.8", linewidths=np.where(fast, 1.2, 0.4)))
used = (traffic > 0) & ~kept
axes.add_collection(LineCollection(lines[used], colors="#D55E00", linewidths=0.9))
widths = 1.0 + 4.0 * np.sqrt(traffic[kept] / traffic.max())
axes.add_collection(LineCollection(lines[kept], colors="#0072B2", linewidths=widths))
axes.plot(*streets.positions[airport], "s", color="black", markersize=9)
axes.plot(*streets.positions[center].mean(axis=0), "*", color="black", markersize=16)
axes.set_title(
    f"{model.size_} of {len(roads)} roads hold {COVERAGE:.0%} of the trips from the airport (■) to "
    f"the centre (★);\norange: other roads that trips used"
)
axes.set_aspect("equal")
axes.margins(0.01)
axes.autoscale_view()
axes.set_axis_off()
figure.savefig("city_routes.png", dpi=150)
print("wrote city_routes.png")
