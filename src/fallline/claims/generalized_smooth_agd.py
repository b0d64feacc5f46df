"""Whether acceleration under generalized smoothness forgets how steep its start was.

Gradient calls until the gap is at most eps, on problems without a global Lipschitz constant, for
A. Tyurin, "Near-Optimal Convergence of Accelerated Gradient Methods under Generalized and
(L0, L1)-Smoothness", ICML 2026, arXiv:2508.06884. A call counts wherever it is made: in refused
trials, line searches and first stages too.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fallline.study import Arm, Cell, Check, Limits, Part, Results, Study, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fallline.convex import SmoothnessLaw
    from fallline.tasks import ConvexProblem

CAP = 60_000
EPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
STEEPNESS = (1.0, 4.0, 8.0, 16.0)
NEAR = (1e-6, 3e-7, 1e-7, 3e-8, 1e-8)


class Reached(Exception):  # noqa: N818 -- the end of a count, which is no error
    """The gap is small enough, or the calls are spent."""


def run(cell: Cell) -> dict[str, float]:
    """Count the gradient calls until a point with a gap of at most eps has been evaluated."""
    problem, law = problem_of(cell)
    method, options = method_of(cell, problem, law)
    calls, steps, reached, tightness, path = 0, 0, False, 0.0, [problem.x0]
    falls: list[tuple[int, float]] = []

    def fun(x: Any) -> tuple[float, Any]:
        nonlocal calls, reached, tightness
        gap, gradient = problem.fun(x)
        calls += 1
        if cell.config.get("curvature") and calls % 10 == 1:
            tightness = max(tightness, curvature_over_law(problem, law, x, gradient))
        if cell.config.get("path") and (not falls or gap < 0.9 * falls[-1][1]):
            falls.append((calls, gap))
        reached = gap <= cell.config["eps"]
        if reached or calls >= cell.config.get("cap", CAP):
            raise Reached
        return gap, gradient

    def step(intermediate_result: Any) -> None:
        nonlocal steps
        steps += 1
        if cell.config.get("path"):
            path.append(intermediate_result.x)

    with contextlib.suppress(Reached):
        method(fun, problem.x0, gtol=0.0, maxiter=10**9, callback=step, **options)
    if cell.config.get("path"):
        cell.attach("path", thinned(path))
        cell.attach("gap", falls)
    counts = {"calls": float(calls) if reached else math.inf, "steps": float(steps)}
    return counts | ({"tightness": tightness} if cell.config.get("curvature") else {})


def problem_of(cell: Cell) -> tuple[ConvexProblem, SmoothnessLaw]:
    """Return the part's problem with a law that is proved for it."""
    from fallline import convex, tasks

    name = cell.config["problem"]
    if name == "spectrum":
        L1R = cell.config["L1R"]
        return tasks.spectrum_cosh(L1R), convex.L0L1Smooth(1.0, L1R)
    if name == "valley":
        return tasks.exponential_valley(), convex.cosh_smoothness([2.0 * math.sqrt(math.e)], 1.0)
    if name == "barrier":
        return tasks.square_root_barrier(), convex.PowerSmooth(1.0, 8.0, 3.0)
    regression = tasks.poisson_counts(cell.seed) if name == "poisson" else tasks.diabetes_counts()
    assert regression.data is not None
    return regression, convex.poisson_smoothness(*regression.data)


def method_of(
    cell: Cell, problem: ConvexProblem, law: SmoothnessLaw
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the arm's method with what it is told: never more than the table says."""
    from fallline import convex

    radius = problem.radius * cell.config.get("radius_factor", 1.0)
    if "Gamma_0" in cell.config:
        radius = math.sqrt(2.0 * problem.gap / cell.config["Gamma_0"])
    told: dict[str, Any] = {"smoothness": law, "radius": radius, "gap0": problem.gap}
    if cell.config.get("gap0") == "gradient":
        del told["gap0"]
    mode = cell.config.get("mode")
    if mode == "linesearch":
        told = {}
    if mode is not None:
        restart = cell.config.get("restart", False)
        return functools.partial(convex.minimize_agd, mode=mode, restart=restart), told
    methods: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
        "gd-l": (convex.gd_l, ("smoothness",)),
        "gd-fixed": (convex.gd_fixed, ("smoothness",)),
        "nag-frozen": (convex.nag_frozen, ("smoothness", "radius", "gap0")),
        "nag-exp": (convex.nag_exp, ("smoothness", "radius", "gap0")),
        "agmsdr": (convex.agmsdr, ("smoothness",)),
        "normalized-gd": (convex.normalized_gd, ("radius",)),
        "polyak-gd": (functools.partial(convex.polyak_gd, f_star=0.0), ()),
        "l-bfgs": (convex.lbfgs, ()),
    }
    method, names = methods[cell.arm]
    return method, {name: told[name] for name in names}


def curvature_over_law(problem: ConvexProblem, law: SmoothnessLaw, w: Any, gradient: Any) -> float:
    """Return how much of the certified curvature of a Poisson regression is there."""
    import numpy as np

    assert problem.data is not None
    X = problem.data[0]
    hessian = (X.T * np.exp(X @ w)) @ X / len(X)
    return float(np.linalg.norm(hessian, 2) / law(float(np.linalg.norm(gradient))))


def thinned(path: list[Any]) -> Any:
    """Return at most 400 points of a path, as an array."""
    import numpy as np

    return np.array(path[:: max(1, len(path) // 400)])


# Bars of the spectrum


def adaptive_needs_at_most_760(r: Results) -> Check:
    """Adaptive reaches 1e-7 within 760 calls for every L1 R."""
    return at_most(_max(_calls(r, "adaptive", eps=1e-7)), 760)


def adaptive_does_not_know_the_steepness(r: Results) -> Check:
    """Over L1 R from 1 to 16, adaptive's calls to 1e-7 differ by at most 5 % (max / min)."""
    calls = _calls(r, "adaptive", eps=1e-7)
    return at_most(_max(calls) / -_max(-n for n in calls), 1.05)


def schedule_needs_at_most_1050(r: Results) -> Check:
    """Schedule reaches 1e-7 within 1050 calls for every L1 R, also where only ||g|| R is known."""
    both = _calls(r, "schedule", eps=1e-7) + _calls(r, "schedule, gap by gradient", eps=1e-7)
    return at_most(_max(both), 1050)


def calls_grow_at_least_as_the_root(r: Results) -> Check:
    """Adaptive's calls have a log-log slope in eps of at most -0.45 on [1e-8, 1e-6]."""
    return at_most(_max(_slopes(r)), -0.45)


def calls_grow_at_most_as_the_root(r: Results) -> Check:
    """Adaptive's calls have a log-log slope in eps of at least -0.55 on [1e-8, 1e-6]."""
    return at_least(-_max(-slope for slope in _slopes(r)), -0.55)


def gradient_descent_needs_50_times_more(r: Results) -> Check:
    """At L1 R = 8 and eps = 1e-7, gd-l needs at least 50 times the calls of schedule."""
    return at_least(_ratio(r, "gd-l", 1e-7), 50)


def a_frozen_step_needs_10_times_more(r: Results) -> Check:
    """At L1 R = 8 and eps = 1e-7, nag-frozen needs at least 10 times the calls of schedule."""
    return at_least(_ratio(r, "nag-frozen", 1e-7), 10)


def a_line_search_between_sequences_needs_5_times_more(r: Results) -> Check:
    """At L1 R = 8 and eps = 1e-7, agmsdr needs at least 5 times the calls of schedule."""
    return at_least(_ratio(r, "agmsdr", 1e-7), 5)


def an_exponential_factor_needs_80_times_more(r: Results) -> Check:
    """At L1 R = 8 and eps = 1e-6, nag-exp needs at least 80 times the calls of schedule."""
    return at_least(_ratio(r, "nag-exp", 1e-6), 80)


def adaptive_hardly_ever_refuses(r: Results) -> Check:
    """Adaptive makes at most 1.01 calls per step on the way to 1e-7, for every L1 R."""
    view = r.where(part="spectrum", arm="adaptive", eps=1e-7)
    return at_most(_max(n / k for n, k in zip(_all(view, "calls"), _all(view, "steps"))), 1.01)


def the_start_of_gamma_hardly_matters(r: Results) -> Check:
    """With Gamma_0 times or over a hundred, adaptive's calls to 1e-7 change by at most 3 %."""
    spectrum = r.where(part="spectrum", arm="adaptive", eps=1e-7)
    view = r.where(part="Gamma_0")
    changed = (
        abs(n / _all(spectrum.where(L1R=L1R), "calls")[0] - 1.0)
        for L1R in view.axes["L1R"]
        for n in _all(view.where(L1R=L1R), "calls")
    )
    return at_most(_max(changed), 0.03)


# Bars of the Poisson regressions


def poisson_linesearch_needs_at_most_700(r: Results) -> Check:
    """On every generated Poisson regression, linesearch reaches 1e-6 within 700 calls."""
    return at_most(_max(_poisson(r, "linesearch", 1e-6)), 700)


def poisson_schedule_needs_at_most_2800(r: Results) -> Check:
    """On every generated Poisson regression, schedule reaches 1e-6 within 2800 calls."""
    return at_most(_max(_poisson(r, "schedule", 1e-6)), 2800)


def poisson_adaptive_needs_at_most_4000(r: Results) -> Check:
    """On every generated Poisson regression, adaptive reaches 1e-6 within 4000 calls."""
    return at_most(_max(_poisson(r, "adaptive", 1e-6)), 4000)


def poisson_gradient_descent_needs_10_times_more(r: Results) -> Check:
    """On every generated Poisson regression, gd-l needs 10 times schedule's calls to 1e-3."""
    pairs = zip(_poisson(r, "gd-l", 1e-3), _poisson(r, "schedule", 1e-3))
    return at_least(-_max(-slow / fast for slow, fast in pairs), 10)


# Open comparisons


def the_superquadratic_start_costs_adaptive_little(r: Results) -> Check:
    """On the superquadratic problem, adaptive reaches 1e-6 within 800 calls for every Gamma_0."""
    return at_most(_max(_all(r.where(part="superquadratic, Gamma_0"), "calls")), 800)


def the_superquadratic_start_costs_two_stage_little(r: Results) -> Check:
    """On the superquadratic problem, two_stage reaches 1e-6 within 1200 calls."""
    return at_most(_max(_all(r.where(part="superquadratic", arm="two_stage"), "calls")), 1200)


# Notes


def where_l_bfgs_needs_fewer_calls(r: Results) -> str:
    """Say where the practical reference wins."""
    spectrum = _tightest(r.where(part="spectrum"))
    views = {f"spectrum at L1 R = {L1R:g}": spectrum.where(L1R=L1R) for L1R in spectrum.axes["L1R"]}
    parts = ("poisson", "diabetes", "valley", "superquadratic")
    views |= {part: _tightest(r.where(part=part, seed=0)) for part in parts}
    told, won = [], 0
    for name, view in views.items():
        ours = {row.arm: row.counted("calls", {}) for row in view.rows if "mode" in row.config}
        best = min(ours, key=ours.__getitem__)
        reference = view.where(arm="l-bfgs").rows[0].counted("calls", {})
        won += reference < ours[best]
        told.append(f"{name} {reference:.0f} against {ours[best]:.0f} ({best})")
    return (
        f"L-BFGS needs fewer gradient calls than the best mode of this method on {won} of "
        f"{len(views)} problems, to the smallest gap of each: {'; '.join(told)}. It has no such "
        "guarantee, certifies no gap, and stores 10 pairs of vectors."
    )


def the_poisson_law_is_loose(r: Results) -> str:
    """Say why the line search wins on regressions."""
    tight = _max(_all(r.where(part="poisson curvature"), "tightness"))
    view = _tightest(r.where(part="poisson", seed=0))
    told = ", ".join(f"{arm} {_told(view, arm)}" for arm in ("linesearch", "schedule", "adaptive"))
    return (
        f"On the generated Poisson regressions the curvature along adaptive's path is at most "
        f"{tight:.2f} of what the certificate allows: the law is loose on these data. That is why "
        f"linesearch, which is told no law, needs fewer calls there (seed 0, to the smallest gap: "
        f"{told})."
    )


def real_data(r: Results) -> str:
    """Say the counts on the diabetes data."""
    return f"Diabetes data, calls to {_gaps(r, 'diabetes')}: {_table(r, 'diabetes')}."


def the_valley(r: Results) -> str:
    """Say the counts on the two-dimensional problem."""
    return f"Two-dimensional valley, calls to {_gaps(r, 'valley')}: {_table(r, 'valley')}."


def the_superquadratic_problem(r: Results) -> str:
    """Say the counts where the law grows as the cube and psi is bounded."""
    view = r.where(part="superquadratic, Gamma_0")
    starts = ", ".join(
        f"{n:.0f} at Gamma_0 = {G:g}" for G, n in zip(view.axes["Gamma_0"], _all(view, "calls"))
    )
    return (
        "Superquadratic problem, from a gap outside the range of psi, calls to "
        f"{_gaps(r, 'superquadratic')}: {_table(r, 'superquadratic')}, adaptive {starts}."
    )


def schedule_starts_with_gradient_descent_where_it_is_steep(r: Results) -> str:
    """Say what the automatic first stage does."""
    steepness = r.where(part="spectrum").axes["L1R"]
    told = ", ".join(
        f"{n:.0f} at L1 R = {L1R:g}" for L1R, n in zip(steepness, _calls(r, "schedule", eps=1e-3))
    )
    return (
        f"Schedule's calls to 1e-3: {told}. Where its first step would be below a thousandth of "
        "1 / l(0) it starts with gradient descent, which is why the steepest start is not the "
        "slowest."
    )


def _calls(r: Results, arm: str, eps: float) -> list[float]:
    """Return an arm's calls on the spectrum, by L1 R."""
    return _all(r.where(part="spectrum", arm=arm, eps=eps), "calls")


def _poisson(r: Results, arm: str, eps: float) -> list[float]:
    """Return an arm's calls on the generated regressions, by seed."""
    return _all(r.where(part="poisson", arm=arm, eps=eps), "calls")


def _ratio(r: Results, arm: str, eps: float) -> float:
    """Return an arm's calls over those of schedule; a run cut off counts as the cap."""
    view = r.where(part="spectrum", L1R=8.0, eps=eps)
    return _all(view.where(arm=arm), "calls")[0] / _all(view.where(arm="schedule"), "calls")[0]


def _slopes(r: Results) -> list[float]:
    view = r.where(part="slope")
    return [
        view.where(L1R=L1R).slope("calls", over="eps")["adaptive"].value for L1R in view.axes["L1R"]
    ]


def _tightest(view: Results) -> Results:
    return view.where(eps=min(map(float, view.axes["eps"])))  # type: ignore[arg-type]


def _told(view: Results, arm: str) -> str:
    row = view.where(arm=arm).rows[0]
    n = row.counted("calls", view.study.diverged)
    cap = row.config.get("cap", CAP)
    return f"more than {cap}" if row.outcome == "diverged" else f"{n:.0f}"


def _gaps(r: Results, part: str) -> str:
    return "a gap of " + " / ".join(f"{eps:g}" for eps in r.where(part=part).axes["eps"])


def _table(r: Results, part: str) -> str:
    view = r.where(part=part)
    told = []
    for arm in view.arms:
        counts = [_told(view.where(eps=eps), arm) for eps in view.axes["eps"]]
        told.append(f"{arm} {' / '.join(counts)}")
    return ", ".join(told)


def _all(view: Results, metric: str) -> list[float]:
    """Return every cell's value, NaN where there is none."""
    return [row.counted(metric, view.study.diverged) for row in view.rows]


def _max(values: Iterable[float]) -> float:
    """Return the largest value; NaN where one is NaN."""
    values = list(values)
    return math.nan if not values or any(map(math.isnan, values)) else max(values)


# Pictures


def calls_against_the_gap(r: Results) -> Figure:
    """Gradient calls against eps at L1 R = 8: accelerated modes and L-BFGS lie on slope -1/2."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, INK, MARKERS

    view = r.where(part="spectrum", L1R=8.0)
    figure = Figure(figsize=(5.2, 4.6))
    axes = figure.add_subplot(xlabel="gap ε", ylabel="gradient calls", xscale="log", yscale="log")
    for arm, colour, marker in zip(SHOWN, COLOURS, MARKERS):
        points = _reached(view, arm, "eps")
        axes.plot(*zip(*points), color=colour, marker=marker, label=arm)
    eps = sorted(map(float, view.axes["eps"]))  # type: ignore[arg-type]
    for slope, dash in ((-0.5, ":"), (-1.0, "--")):
        guide = [6.0 * (e / eps[-1]) ** slope for e in eps]
        axes.plot(eps, guide, color=INK, linestyle=dash, linewidth=1.0, label=f"slope {slope:g}")
    axes.invert_xaxis()
    axes.set_ylim(top=2e5)
    figure.legend(loc="outside upper left", ncols=2, fontsize=10)
    return figure


def calls_against_the_steepness(r: Results) -> Figure:
    """Gradient calls to 1e-6 against L1 R: flat for this method, exponential for frozen steps."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, MARKERS

    view = r.where(part="spectrum")
    eps = min(map(float, view.axes["eps"]), key=lambda eps: abs(math.log(eps / 1e-6)))  # type: ignore[arg-type]
    view = view.where(eps=eps)
    figure = Figure(figsize=(5.2, 4.6))
    axes = figure.add_subplot(
        xlabel="L₁R", ylabel=f"gradient calls to ε = {eps:g}", xscale="log", yscale="log"
    )
    for arm, colour, marker in zip(SHOWN, COLOURS, MARKERS):
        points = _reached(view, arm, "L1R")
        axes.plot(*zip(*points), color=colour, marker=marker, label=arm)
    steepness = [float(L1R) for L1R in view.axes["L1R"]]  # type: ignore[arg-type]
    axes.set_xticks(steepness, [f"{L1R:g}" for L1R in steepness])
    axes.minorticks_off()
    figure.legend(loc="outside upper left", ncols=2, fontsize=10)
    return figure


def descent_into_the_valley(r: Results) -> Figure:
    """Paths in the plane and the gap by calls: all enter the valley, momentum runs along it."""
    import numpy as np
    from matplotlib.figure import Figure

    from fallline import tasks
    from fallline.study.plots import COLOURS, INK

    problem = tasks.exponential_valley()
    x, y = np.linspace(-6.8, 2.2, 181), np.linspace(-6.8, 1.5, 121)
    gap = np.array([[problem.fun(np.array([a, b]))[0] for a in x] for b in y])
    figure = Figure(figsize=(5.2, 7.0))
    plane, falls = figure.subplots(2)
    plane.contour(x, y, gap, levels=np.logspace(-3, 3, 13), colors=INK, linewidths=0.4, alpha=0.5)
    plane.plot(*problem.x_star, marker="*", color=INK, markersize=12, linestyle="none")
    plane.set(xlabel="x", ylabel="y")
    plane.grid(visible=False)
    # Drawn from the slowest: what lies on top is the shorter path.
    colours = dict(
        zip(("adaptive", "schedule", "gd-l", "nag-frozen", "l-bfgs", "gd-fixed"), COLOURS)
    )
    drawn = {cell.arm: attached for cell, attached in r.where(part="valley").artifacts()}
    for arm in reversed([arm for arm in colours if arm in drawn]):
        path = np.array(drawn[arm]["path"])
        calls, gaps = np.array(drawn[arm]["gap"]).T
        falls.plot(calls, gaps, color=colours[arm], label=arm)
        if arm in ("adaptive", "schedule", "gd-l"):
            size = 8 if arm == "gd-l" else 4
            plane.plot(
                path[:, 0], path[:, 1], marker=".", markersize=size, linewidth=0.8,
                color=colours[arm],
            )  # fmt: skip
    falls.set(xlabel="gradient calls", ylabel="least gap", xscale="log", yscale="log")
    figure.legend(loc="outside upper left", ncols=3, fontsize=10)
    return figure


def _reached(view: Results, arm: str, over: str) -> list[tuple[float, float]]:
    rows = [row for row in view.where(arm=arm).rows if row.outcome == "done"]
    points = [(row.config[over], row.counted("calls", {})) for row in rows]
    return sorted(points) or [(math.nan, math.nan)]


ADAPTIVE = Arm("adaptive", settings={"mode": "adaptive"})
SCHEDULE = Arm("schedule", settings={"mode": "schedule"})
BY_GRADIENT = Arm("schedule, gap by gradient", settings={"mode": "schedule", "gap0": "gradient"})
TWO_STAGE = Arm("two_stage", settings={"mode": "two_stage", "gap0": "gradient"})
LINESEARCH = Arm("linesearch", settings={"mode": "linesearch"})
RESTART = Arm("linesearch, restart", settings={"mode": "linesearch", "restart": True})
WIDE = Arm("schedule, 3 R", settings={"mode": "schedule", "radius_factor": 3.0})
GAMMA = (
    Arm("adaptive, 100 Gamma_0", settings={"mode": "adaptive", "radius_factor": 0.1}),
    Arm("adaptive, Gamma_0 / 100", settings={"mode": "adaptive", "radius_factor": 10.0}),
)
SHOWN = ("adaptive", "schedule", "two_stage", "gd-l", "nag-frozen", "nag-exp", "agmsdr", "l-bfgs")
ON_SPECTRUM: list[str | Arm] = [
    ADAPTIVE, SCHEDULE, BY_GRADIENT, TWO_STAGE, LINESEARCH,
    "gd-l", "nag-frozen", "nag-exp", "agmsdr", "normalized-gd", "polyak-gd", "l-bfgs",
]  # fmt: skip
ON_REGRESSION: list[str | Arm] = [SCHEDULE, ADAPTIVE, LINESEARCH, RESTART, "gd-l", "l-bfgs"]
IN_VALLEY: list[str | Arm] = [
    SCHEDULE,
    BY_GRADIENT,
    WIDE,
    ADAPTIVE,
    "nag-frozen",
    "gd-l",
    "gd-fixed",
    "l-bfgs",
]
ON_BARRIER: list[str | Arm] = [TWO_STAGE, LINESEARCH, "gd-l", "l-bfgs"]
SPECTRUM = {"problem": "spectrum"}
VALLEY = {"problem": "valley", "path": True, "cap": 200_000}
CURVATURE = {"problem": "poisson", "curvature": True}
BARRIER = {"problem": "barrier"}


study = Study(
    "generalized-smooth-agd",
    run=run,
    question="Does acceleration under generalized smoothness forget how steep its start was?",
    paper="arXiv:2508.06884",
    metrics={"calls": "min", "steps": "min"},
    # A run that is cut off needs more than this: as a baseline it is flattered.
    diverged={"calls": CAP},
    scales={
        "smoke": [
            Part(
                "spectrum", ON_SPECTRUM, seeds=1, L1R=[1.0, 8.0], eps=[1e-2, 1e-3], fixed=SPECTRUM
            ),
            Part("slope", [ADAPTIVE], seeds=1, L1R=[8.0], eps=[1e-6, 1e-7], fixed=SPECTRUM),
            Part("Gamma_0", GAMMA, seeds=1, L1R=[8.0], eps=[1e-4], fixed=SPECTRUM),
            Part("poisson", ON_REGRESSION, seeds=1, eps=[1e-2], fixed={"problem": "poisson"}),
            Part("poisson curvature", [ADAPTIVE], seeds=1, eps=[1e-2], fixed=CURVATURE),
            Part("diabetes", ON_REGRESSION, seeds=1, eps=[1e-1], fixed={"problem": "diabetes"}),
            Part("valley", [ADAPTIVE, "l-bfgs"], seeds=1, eps=[1e-2], fixed=VALLEY),
            Part("superquadratic", ON_BARRIER, seeds=1, eps=[1e-1], fixed=BARRIER),
            Part(
                "superquadratic, Gamma_0",
                [ADAPTIVE],
                seeds=1,
                Gamma_0=[1.0],
                eps=[1e-2],
                fixed=BARRIER,
            ),
        ],
        "laptop": [
            Part("spectrum", ON_SPECTRUM, seeds=1, L1R=STEEPNESS, eps=EPS, fixed=SPECTRUM),
            Part("slope", [ADAPTIVE], seeds=1, L1R=STEEPNESS, eps=NEAR, fixed=SPECTRUM),
            Part("Gamma_0", GAMMA, seeds=1, L1R=STEEPNESS, eps=[1e-7], fixed=SPECTRUM),
            Part("poisson", ON_REGRESSION, seeds=5, eps=[1e-3, 1e-6], fixed={"problem": "poisson"}),
            Part("poisson curvature", [ADAPTIVE], seeds=5, eps=[1e-6], fixed=CURVATURE),
            Part(
                "diabetes", ON_REGRESSION, seeds=1, eps=[1e-3, 1e-6], fixed={"problem": "diabetes"}
            ),
            Part("valley", IN_VALLEY, seeds=1, eps=[1e-6], fixed=VALLEY),
            Part("superquadratic", ON_BARRIER, seeds=1, eps=[1e-6], fixed=BARRIER),
            Part(
                "superquadratic, Gamma_0",
                [ADAPTIVE],
                seeds=1,
                Gamma_0=[0.01, 1.0, 100.0],
                eps=[1e-6],
                fixed=BARRIER,
            ),
        ],
    },
    bars=[
        adaptive_needs_at_most_760,
        adaptive_does_not_know_the_steepness,
        schedule_needs_at_most_1050,
        calls_grow_at_least_as_the_root,
        calls_grow_at_most_as_the_root,
        gradient_descent_needs_50_times_more,
        a_frozen_step_needs_10_times_more,
        a_line_search_between_sequences_needs_5_times_more,
        an_exponential_factor_needs_80_times_more,
        adaptive_hardly_ever_refuses,
        the_start_of_gamma_hardly_matters,
        poisson_linesearch_needs_at_most_700,
        poisson_schedule_needs_at_most_2800,
        poisson_adaptive_needs_at_most_4000,
        poisson_gradient_descent_needs_10_times_more,
    ],
    open=[
        the_superquadratic_start_costs_adaptive_little,
        the_superquadratic_start_costs_two_stage_little,
    ],
    notes=[
        where_l_bfgs_needs_fewer_calls,
        the_poisson_law_is_loose,
        schedule_starts_with_gradient_descent_where_it_is_steep,
        real_data,
        the_valley,
        the_superquadratic_problem,
    ],
    figures=[calls_against_the_gap, calls_against_the_steepness, descent_into_the_valley],
    limits=Limits(seconds=300, gib=2, threads=1),
    sources=["fallline.convex"],
    preload=["numpy", "scipy.optimize", "scipy.linalg.blas"],
)
