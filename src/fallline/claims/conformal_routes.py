"""Whether the parametric chain gives smaller conformal subgraphs than greedy choices of edges.

Experiments of "Compact Conformal Subgraphs", Gollapudi, Kollias, Munagala and Vijayaraghavan,
arXiv:2602.07530: routes across a grid with a bypass, itineraries with a core, and the instance on
which peeling is worst.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fallline.study import (
    Cell,
    Check,
    Estimate,
    Limits,
    Part,
    Results,
    Study,
    at_least,
    at_most,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fallline.conformal import ElementOrder, RouteHypergraph

LEVELS = (0.2, 0.4, 0.6, 0.75, 0.8, 0.9, 1.0)
TRIP_LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
MASSES = (0.4, 0.6, 0.75, 0.9)
CORES = (0.2, 0.4, 0.6, 0.8)
BASELINES = ("forward-greedy", "top-routes", "ratio-greedy")
RIVALS = ("chain", "reverse-greedy")
PICTURED = 0.6
FRESH = 2000


def run(cell: Cell) -> dict[str, float]:
    """Draw the seed's routes, order their elements by the arm's method, and choose how many."""
    problems = {
        "navigation": navigation,
        "optimum": against_the_optimum,
        "trips": trips,
        "trap": trap,
    }
    return problems[cell.config["problem"]](cell)


def order(arm: str, H: RouteHypergraph) -> ElementOrder:
    """Order the elements by the method that the arm names."""
    from fallline import conformal

    if arm.startswith("chain"):
        return conformal.nested_subgraphs(H, refine="order" if "by number" in arm else "peel")
    found: ElementOrder = getattr(conformal, arm.replace("-", "_"))(H)
    return found


def navigation(cell: Cell) -> dict[str, float]:
    """Choose edges by 50 routes, their number by 50 more, and look at 2000 fresh ones.

    `edges` follows the paper's rule (empirical coverage on the selection routes), `covered` the
    rule with the finite-sample guarantee.
    """
    import numpy as np

    from fallline.conformal import RouteHypergraph, conformal_quantile
    from fallline.tasks import GridRoutes

    task, rng = GridRoutes(), np.random.default_rng(cell.seed)
    training, selection, fresh = (task.draw(n, rng) for n in (50, 50, FRESH))
    H = RouteHypergraph.from_routes(training, universe=task.edges)
    chosen = order(cell.arm, H)
    scores, unseen = chosen.scores(selection), chosen.scores(fresh)
    metrics = {}
    for phi in LEVELS:
        literal = conformal_quantile(scores, phi, finite_sample=False)
        valid = min(conformal_quantile(scores, phi), H.n)
        metrics[f"edges at {phi:g}"] = float(np.count_nonzero(chosen.ranks <= literal))
        metrics[f"covered at {phi:g}"] = float(np.mean(unseen <= valid))
    cell.attach("order", chosen.order)
    cell.attach("traffic", H.traffic)
    cell.attach("covered", [float(np.mean(unseen <= r)) for r in range(H.n + 1)])
    return metrics


def against_the_optimum(cell: Cell) -> dict[str, float]:
    """Count the edges that hold a share of the training routes."""
    import numpy as np

    from fallline.conformal import RouteHypergraph, smallest_subgraph
    from fallline.tasks import GridRoutes

    task, rng = GridRoutes(), np.random.default_rng(cell.seed)
    H = RouteHypergraph.from_routes(task.draw(50, rng), universe=task.edges)
    if cell.arm == "optimum":
        sizes = [len(smallest_subgraph(H, tau, seconds=300.0)) for tau in MASSES]
    else:
        chosen = order(cell.arm, H)
        sizes = [len(chosen.prefix_at_mass(tau)) for tau in MASSES]
    return {f"edges of mass {tau:g}": float(size) for tau, size in zip(MASSES, sizes)}


def trips(cell: Cell) -> dict[str, float]:
    """Choose activities by 100 itineraries and their number by 100 more: size over the core's."""
    import numpy as np

    from fallline.conformal import RouteHypergraph, conformal_quantile
    from fallline.tasks import Itineraries

    task, rng = Itineraries(cell.config["core"]), np.random.default_rng(cell.seed)
    H = RouteHypergraph.from_routes(task.draw(100, rng), universe=task.activities)
    chosen = order(cell.arm, H)
    scores = chosen.scores(task.draw(100, rng))
    core = len(task.core_activities)
    return {
        f"ratio at {phi:g}": conformal_quantile(scores, phi, finite_sample=False) / core
        for phi in TRIP_LEVELS
    }


def trap(cell: Cell) -> dict[str, float]:
    """Count the elements that hold 80 % of the weight."""
    from fallline.conformal import NestedSubgraphs, RouteHypergraph
    from fallline.tasks import peeling_trap

    chosen = order(cell.arm, RouteHypergraph.from_routes(*peeling_trap()))
    of_mass = chosen.at_mass if isinstance(chosen, NestedSubgraphs) else chosen.prefix_at_mass
    return {"elements": float(len(of_mass(0.8)))}


def saving(r: Results, phi: float, arm: str = "reverse-greedy") -> Estimate:
    """Return the edges that the chain saves against another arm, paired by seed."""
    return r.where(part="navigation", arm=["chain", arm]).paired(f"edges at {phi:g}", "chain", arm)


def saves_edges_at_20(r: Results) -> Check:
    """At coverage 0.2 the chain saves at least 4 edges against reverse greedy (paired mean)."""
    return at_least(saving(r, 0.2), 4.0)


def saves_edges_at_40(r: Results) -> Check:
    """At coverage 0.4 the chain saves at least 9 edges against reverse greedy (paired mean)."""
    return at_least(saving(r, 0.4), 9.0)


def saves_edges_at_60(r: Results) -> Check:
    """At coverage 0.6 the chain saves at least 9 edges against reverse greedy (paired mean)."""
    return at_least(saving(r, 0.6), 9.0)


def saves_edges_at_75(r: Results) -> Check:
    """At coverage 0.75 the chain saves at least 6 edges against reverse greedy (paired mean)."""
    return at_least(saving(r, 0.75), 6.0)


def saves_edges_at_80(r: Results) -> Check:
    """At coverage 0.8 the chain saves at least 2 edges against reverse greedy (paired mean)."""
    return at_least(saving(r, 0.8), 2.0)


def coverage_holds_on_fresh_routes(r: Results) -> Check:
    """Mean coverage of fresh routes by the chain is at least that promised, less 0.01: worst."""
    view = r.where(part="navigation", arm="chain")
    gaps = [view.mean(f"covered at {phi:g}")["chain"] - phi for phi in LEVELS]
    return at_least(math.nan if any(map(math.isnan, gaps)) else min(gaps), -0.01)


def finds_the_core(r: Results) -> Check:
    """For every core and coverage up to 0.7 the chain keeps at most 1.05 times the core (mean)."""
    ratios = [ratio(r, phi, core) for phi in TRIP_LEVELS if phi <= 0.7 for core in trip_cores(r)]
    return at_most(math.nan if any(map(math.isnan, ratios)) else max(ratios), 1.05)


def has_to_leave_the_core_at_90(r: Results) -> Check:
    """With a core of 20 %, a coverage of 0.9 takes more than 2 times the core (mean)."""
    return at_least(ratio(r, 0.9, 0.2), 2.0)


def chain_escapes_the_trap(r: Results) -> Check:
    """On the trap the chain keeps exactly the 8 elements of the optimum: distance from 8."""
    elements = r.where(part="trap").mean("elements")["chain"]
    return at_most(abs(elements - 8.0), 0.0)


def peeling_falls_into_the_trap(r: Results) -> Check:
    """On the trap reverse greedy keeps exactly 46 elements: distance from 46."""
    elements = r.where(part="trap").mean("elements")["reverse-greedy"]
    return at_most(abs(elements - 46.0), 0.0)


def smaller_than_forward_greedy_at_60(r: Results) -> Estimate:
    """At coverage 0.6 the chain saves edges against the most used edges."""
    return saving(r, 0.6, "forward-greedy")


def smaller_than_top_routes_at_60(r: Results) -> Estimate:
    """At coverage 0.6 the chain saves edges against the union of the most frequent routes."""
    return saving(r, 0.6, "top-routes")


def smaller_than_ratio_greedy_at_60(r: Results) -> Estimate:
    """At coverage 0.6 the chain saves edges against routes added by mass per edge."""
    return saving(r, 0.6, "ratio-greedy")


def smaller_than_reverse_greedy_at_90(r: Results) -> Estimate:
    """At coverage 0.9 the chain saves edges against reverse greedy."""
    return saving(r, 0.9)


def trip_cores(r: Results) -> list[float]:
    """Return the shares of the core that were run."""
    return [float(core) for core in r.where(part="trip planning").axes["core"]]  # type: ignore[arg-type]


def ratio(r: Results, phi: float, core: float, arm: str = "chain") -> float:
    """Return the mean size over that of the core."""
    view = r.where(part="trip planning", core=core)
    return float(view.mean(f"ratio at {phi:g}")[arm])


def savings_in_per_cent(r: Results) -> str:
    """Say what the chain saves at each coverage, and whether the coverage held."""
    view = r.where(part="navigation", arm=RIVALS)
    told = []
    for phi in LEVELS:
        mean = view.mean(f"edges at {phi:g}")
        gain = 1 - mean["chain"] / mean["reverse-greedy"]
        held = view.mean(f"covered at {phi:g}")["chain"]
        told.append(f"{round(100 * gain):+d} % at {phi:g} (fresh routes covered: {held:.3f})")
    return f"Edges that the chain saves against reverse greedy: {', '.join(told)}."


def where_reverse_greedy_wins(r: Results) -> str | None:
    """Name the coverages at which reverse greedy needs fewer edges."""
    lost = [
        f"{-estimate.value:.1f} at {phi:g}"
        for phi in LEVELS
        if (estimate := saving(r, phi)).value < 0
    ]
    if not lost:
        return None
    return f"Reverse greedy needs fewer edges than the chain at high coverage: {', '.join(lost)}."


def distance_from_the_optimum(r: Results) -> str:
    """Compare with the exact optimum on the training routes."""
    view = r.where(part="exact optimum")
    told = []
    for tau in MASSES:
        mean = view.mean(f"edges of mass {tau:g}")
        told.append(
            f"{mean['optimum']:.1f} / {mean['chain']:.1f} / {mean['reverse-greedy']:.1f} at {tau:g}"
        )
    return (
        "Edges that hold a share of the training routes, by integer programming / chain / reverse "
        f"greedy: {', '.join(told)}."
    )


def greedy_finds_the_core_too(r: Results) -> str:
    """Say how the baselines do on the itineraries."""
    told = [
        f"{arm} {ratio(r, 0.7, 0.2, arm):.2f} and {ratio(r, 0.9, 0.2, arm):.2f}"
        for arm in r.where(part="trip planning").arms
    ]
    return (
        "Trip planning shows recovery of the core, not superiority. Size over the core's (20 %) at "
        f"coverage 0.7 and 0.9: {'; '.join(told)}."
    )


def edges_against_coverage(r: Results) -> Figure:
    """Edges kept against the coverage asked for: mean over seeds with its 95 % band."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, MARKERS
    from fallline.study.statistics import mean_interval

    view = r.where(part="navigation")
    figure = Figure(figsize=(5.2, 4.4))
    axes = figure.add_subplot(xlabel="coverage asked for", ylabel="edges kept, of 80")
    for arm, colour, marker in zip(view.arms, COLOURS, MARKERS):
        means = [
            mean_interval(list(view.grid(f"edges at {phi:g}", arm)[()].values())) for phi in LEVELS
        ]
        axes.plot(LEVELS, [e.value for e in means], color=colour, marker=marker, label=arm)
        low, high = [e.low for e in means], [e.high for e in means]
        axes.fill_between(LEVELS, low, high, color=colour, alpha=0.2, linewidth=0)
    figure.legend(loc="outside upper left", ncols=2, fontsize=10)
    return figure


def edges_that_are_kept(r: Results) -> Figure:
    """Grid and bypass, lines as wide as their traffic; in colour, what each method keeps."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS

    view = r.where(part="navigation", arm=RIVALS, seed=r.seeds[0])
    size = int(view.mean(f"edges at {PICTURED:g}")["chain"])
    figure = Figure(figsize=(5.2, 3.2))
    panels = dict(zip(RIVALS, figure.subplots(1, 2)))
    for cell, artifacts in view.artifacts():
        _draw_grid(panels[cell.arm], artifacts, size, COLOURS[RIVALS.index(cell.arm)])
        covered = 100 * artifacts["covered"][size]
        panels[cell.arm].set_title(f"{cell.arm}\n{size} edges, covers {covered:.0f} %")
    return figure


def _draw_grid(axes: Axes, artifacts: dict[str, Any], size: int, colour: str) -> None:
    from matplotlib.collections import LineCollection

    from fallline.study.plots import INK
    from fallline.tasks import GridRoutes

    task = GridRoutes()
    lines: Any = task.positions[task.edges]
    widths = 0.6 + 5.0 * artifacts["traffic"] / artifacts["traffic"].max()
    kept = artifacts["order"][:size]
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=INK, alpha=0.15))
    axes.add_collection(LineCollection(lines[kept], linewidths=widths[kept], colors=colour))
    axes.plot(*task.positions[[0, task.size**2 - 1]].T, "o", color=INK, markersize=5)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_axis_off()


def size_against_coverage(r: Results) -> Figure:
    """Activities that the chain keeps over the core's, by coverage: 1 up to 0.8, then a knee."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, INK, MARKERS

    figure = Figure()
    axes = figure.add_subplot(xlabel="coverage asked for", ylabel="activities kept / core")
    axes.axvline(0.8, color=INK, linewidth=1.0, linestyle="--", alpha=0.6)
    for core, colour, marker in zip(trip_cores(r), COLOURS, MARKERS):
        ratios = [ratio(r, phi, core) for phi in TRIP_LEVELS]
        axes.plot(TRIP_LEVELS, ratios, color=colour, marker=marker, label=f"core {core:.0%}")
    axes.legend()
    return figure


def parts(seeds: int, others: int, trips: int, optima: int) -> list[Part]:
    """Return the four experiments; the rivals of the bars run on more seeds than the others."""
    navigation, planning = {"problem": "navigation"}, {"problem": "trips"}
    return [
        Part("navigation", RIVALS, seeds=seeds, fixed=navigation),
        Part("navigation", [*BASELINES, "chain by number"], seeds=others, fixed=navigation),
        Part("trip planning", [*RIVALS, "forward-greedy"], seeds=trips, fixed=planning, core=CORES),
        Part("trap", RIVALS, seeds=1, fixed={"problem": "trap"}),
        Part("exact optimum", [*RIVALS, "optimum"], seeds=optima, fixed={"problem": "optimum"}),
    ]


study = Study(
    "conformal-routes",
    run=run,
    question="Is the parametric chain smaller than greedy subgraphs, at the coverage it promises?",
    paper="arXiv:2602.07530",
    metrics=dict.fromkeys(
        [
            *(f"edges at {phi:g}" for phi in LEVELS),
            *(f"edges of mass {tau:g}" for tau in MASSES),
            *(f"ratio at {phi:g}" for phi in TRIP_LEVELS),
            "elements",
        ],
        "min",
    )
    | dict.fromkeys([f"covered at {phi:g}" for phi in LEVELS], "max"),  # type: ignore[arg-type]
    scales={
        "smoke": parts(seeds=3, others=2, trips=1, optima=1),
        "laptop": parts(seeds=300, others=100, trips=20, optima=6),
    },
    bars=[
        saves_edges_at_20,
        saves_edges_at_40,
        saves_edges_at_60,
        saves_edges_at_75,
        saves_edges_at_80,
        coverage_holds_on_fresh_routes,
        finds_the_core,
        has_to_leave_the_core_at_90,
        chain_escapes_the_trap,
        peeling_falls_into_the_trap,
    ],
    open=[
        smaller_than_forward_greedy_at_60,
        smaller_than_top_routes_at_60,
        smaller_than_ratio_greedy_at_60,
        smaller_than_reverse_greedy_at_90,
    ],
    notes=[
        savings_in_per_cent,
        where_reverse_greedy_wins,
        distance_from_the_optimum,
        greedy_finds_the_core_too,
    ],
    figures=[edges_against_coverage, edges_that_are_kept, size_against_coverage],
    limits=Limits(seconds=600, gib=2, threads=1),
    sources=["fallline.conformal", "fallline.tasks.grid_routes", "fallline.tasks.itineraries"],
    preload=["scipy.sparse.csgraph", "ortools.graph.python.max_flow", "fallline.conformal.peeling"],
)
