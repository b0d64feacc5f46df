"""Whether the one empirical minimizer overfits, SGD does not, and gradient descent comes to.

An instance with the properties proved in "All ERMs Can Fail in Stochastic Convex Optimization:
Lower Bounds in Linear Dimension", Burla and Livni, ICML 2026, arXiv:2602.08350. All risks are
exact: nothing is estimated but the mean over samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fallline.study import (
    Arm,
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
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from fallline.sco import HardInstance
    from fallline.sco.descent import Trajectory

SIZES = (6, 18, 60, 240, 720)
LEARNERS = ("erm", "sgd", "regularized-erm")
FIXED = {"m": 18, "family": "rs-golay", "eta": 0.19}
HORIZONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FEWEST_STEPS = 2000  # the first step does not push u: an error of 1 / (delta T) in its excess
TORCH = (
    Arm("torch-sgd-momentum", settings={"optimizer": "SGD", "lr": 0.02, "momentum": 0.9}),
    Arm("torch-adam", settings={"optimizer": "Adam", "lr": 0.001}),
    Arm("torch-adagrad", settings={"optimizer": "Adagrad", "lr": 0.02}),
)


def run(cell: Cell) -> dict[str, float]:
    """Draw the seed's sample and run one method on it."""
    from fallline.sco import HardInstance, bounds

    if "X" in cell.config:
        return horizon(cell)
    m = cell.config["m"]
    inst = HardInstance.for_sample_size(m, family=cell.config["family"])
    Z = inst.sample(m, random_state=cell.seed)
    if cell.arm == "cvxpy":
        return general_solver(inst, Z)
    if "optimizer" in cell.config:
        x = torch_optimizer(inst, Z, cell.config)
    elif cell.arm == "erm":
        x = inst.erm(Z).x
    else:
        trajectory = descend(inst, Z, cell)
        for t, excess in zip(trajectory.t, trajectory.excess):
            cell.report(int(t), excess=excess, X=t * cell.config.get("eta", 1.0) / m**1.5)
        x = trajectory.x
    return {
        "excess": inst.excess_risk(x),
        "training_gap": inst.empirical_risk(x, Z) - inst.erm(Z).value,
        "of_sure_excess": inst.excess_risk(x) / (inst.delta * inst.r / 2),
        "of_sgd_bound": inst.excess_risk(x) / bounds.sgd(m, inst.L),
    }


def descend(inst: HardInstance, Z: NDArray[np.intp], cell: Cell) -> Trajectory:
    """Run the method that the arm names."""
    if cell.arm == "sgd":
        return inst.sgd(Z)
    if cell.arm == "regularized-erm":
        return inst.regularized_erm(Z, inst.L / math.sqrt(len(Z)))
    T = math.ceil(cell.config["end"] * len(Z) ** 1.5 / cell.config["eta"])
    return inst.gd(Z, cell.config["eta"], T)


def horizon(cell: Cell) -> dict[str, float]:
    """Run gradient descent on the instance made against its step size and horizon."""
    import numpy as np

    from fallline.sco import HardInstance, bounds

    m, X = cell.config["m"], cell.config["X"]
    typical = HardInstance.for_sample_size(m, family=cell.config["family"])
    Z = typical.sample(m, random_state=cell.seed)
    # The largest step size that keeps the decoder's proof, or a smaller one.
    eta = typical.theta * m / (2 * np.bincount(Z).max())
    T = max(FEWEST_STEPS, math.ceil(X * m**1.5 / eta))
    eta = X * m**1.5 / T
    inst = HardInstance.for_gradient_descent(typical.code, eta, T)
    trajectory = inst.gd(Z, eta, T)
    unseen = 1 - len(np.unique(Z)) / inst.N
    return {
        "excess": trajectory.excess[-1],
        "feldman_excess": inst.excess_parts(trajectory.x).Phi,
        "expected": bounds.gd_lower(eta, T, m, inst.delta, unseen=unseen),
        "lower_bound": bounds.gd_lower(eta, T, m, inst.delta),
        "generalization_gap": trajectory.F[-1] - trajectory.F_S[-1],
        "upper_bound": bounds.gd_stability_upper(eta, T, m, inst.L),
        "T": T,
    }


def general_solver(inst: HardInstance, Z: NDArray[np.intp]) -> dict[str, float]:
    """Solve the listed problem and compare with the closed form."""
    import numpy as np

    problem: Any = inst.to_cvxpy(Z)
    accuracy = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}
    problem.solve(solver="CLARABEL", **accuracy)
    certificate = inst.erm(Z)
    x = np.asarray(problem.variables()[0].value)
    return {
        "excess": inst.excess_risk(x),
        "value_error": abs(float(problem.value) - certificate.value),
        "point_error": float(np.abs(x - certificate.x).max()),
    }


def torch_optimizer(
    inst: HardInstance, Z: NDArray[np.intp], config: dict[str, Any]
) -> NDArray[np.float64]:
    """Run an optimizer of torch on the full batch, projected on the unit ball."""
    import torch

    model = inst.to_torch()
    options = {k: v for k, v in config.items() if k in ("lr", "momentum")}
    optimizer = getattr(torch.optim, config["optimizer"])(model.parameters(), **options)
    points = torch.from_numpy(Z)
    for _ in range(config["steps"]):
        optimizer.zero_grad()
        model(points).mean().backward()
        optimizer.step()
        with torch.no_grad():
            model.x.div_(model.x.norm().clamp(min=1.0))
    return model.x.detach().numpy()


def gd_ends_at_the_erm(r: Results) -> Check:
    """On a fixed instance, gradient descent at X = 100 has the ERM's excess within 5 %."""
    climb = r.where(part="climb", end=100)
    gd, erm = climb.grid("excess", "gd")[()], climb.grid("excess", "erm")[()]
    return at_most(_max(abs(gd[seed] / erm[seed] - 1) for seed in erm), 0.05)


def every_erm_overfits(r: Results) -> Check:
    """For every sample the ERM has an excess of at least delta r / 2: smallest ratio of the two."""
    ratios = _all(r.where(part="sample size", arm="erm"), "of_sure_excess")
    return at_least(-_max(-ratio for ratio in ratios), 1.0)


def erm_against_sgd_at_240(r: Results) -> Check:
    """At m = 240 the ERM's mean excess is at least 10 times that of SGD."""
    return at_least(_erm_over_sgd(r, 240), 10.0)


def erm_against_sgd_at_720(r: Results) -> Check:
    """At m = 720 the ERM's mean excess is at least 20 times that of SGD."""
    return at_least(_erm_over_sgd(r, 720), 20.0)


def sgd_stays_below_its_bound(r: Results) -> Check:
    """For every sample the excess of SGD is at most L / sqrt(m): largest ratio of the two."""
    return at_most(_max(_all(r.where(part="sample size", arm="sgd"), "of_sgd_bound")), 1.0)


def sgd_falls_fast_enough(r: Results) -> Check:
    """SGD's excess has a log-log slope of at most -0.35 in m."""
    return at_most(_sgd_slope(r), -0.35)


def sgd_falls_no_faster_than_the_theory(r: Results) -> Check:
    """SGD's excess has a log-log slope of at least -0.6 in m."""
    return at_least(_sgd_slope(r), -0.6)


def gd_grows_fast_enough(r: Results) -> Check:
    """Gradient descent's Feldman excess has a log-log slope in X of at least 0.45, for every m."""
    return at_least(-_max(-slope for slope in _gd_slopes(r)), 0.45)


def gd_grows_no_faster_than_the_theory(r: Results) -> Check:
    """Gradient descent's Feldman excess has a log-log slope in X of at most 0.55, for every m."""
    return at_most(_max(_gd_slopes(r)), 0.55)


def gd_has_the_excess_of_the_theory(r: Results) -> Check:
    """Every run of gradient descent has a Feldman excess within 10 % of the theory's."""
    runs = r.where(part="horizon")
    pairs = zip(_all(runs, "feldman_excess"), _all(runs, "expected"))
    return at_most(_max(abs(found / expected - 1) for found, expected in pairs), 0.1)


def a_general_solver_agrees(r: Results) -> Check:
    """CVXPY with Clarabel finds the closed form's value and point within 1e-8 (N = 4 and 9)."""
    solved = r.where(part="general solver")
    return at_most(_max(_all(solved, "value_error") + _all(solved, "point_error")), 1e-8)


def gd_stays_below_the_stability_bound(r: Results) -> Check:
    """Every gap F - F_S of gradient descent is below 2 L^2 eta sqrt(T) + 4 L^2 eta T / m."""
    runs = r.where(part="horizon")
    pairs = zip(_all(runs, "generalization_gap"), _all(runs, "upper_bound"))
    return at_most(_max(gap / bound for gap, bound in pairs), 1.0)


def coefficient_of_the_collapse(r: Results) -> str:
    """Say how well one curve c sqrt(X) fits all sample sizes."""
    told = []
    for m in r.where(part="horizon").axes["m"]:
        view = r.where(part="horizon", m=m)
        mean = {X: view.where(X=X).mean("feldman_excess")["gd"] for X in view.axes["X"]}
        c = [value / math.sqrt(float(X)) for X, value in mean.items()]  # type: ignore[arg-type]
        told.append(f"{min(c):.4f} to {max(c):.4f} at m = {m}")
    return f"Feldman excess of gradient descent over the root of X: {', '.join(told)}."


def how_far_gd_is_before_it_climbs(r: Results) -> str | None:
    """Say what a shorter run has."""
    curves = r.where(part="climb", arm="gd").curves()
    if curves.empty:
        return None
    early = curves[(curves["X"] >= 1) & (curves["X"] <= 20)]["excess"]
    erm = r.where(part="climb", arm="erm").mean("excess")["erm"]
    return (
        f"On the fixed instance gradient descent has an excess of {early.min():.3f} to "
        f"{early.max():.3f} for X in 1 to 20, against the ERM's mean of {erm:.3f}: stopping early "
        "saves it."
    )


def torch_optimizers(r: Results) -> str:
    """Say where other optimizers end on the smallest practical instance."""
    view = r.where(part="torch optimizers")
    excess, gap = view.mean("excess"), view.mean("training_gap")
    told = [
        f"{arm} {excess[arm]:.3f} with a training loss {gap[arm]:.1e} above the least"
        for arm in view.arms
        if arm != "erm"
    ]
    return f"Excess on Golay (m = 6) against the ERM's {excess['erm']:.3f}: {'; '.join(told)}."


def _erm_over_sgd(r: Results, m: int) -> float:
    mean = r.where(part="sample size", m=m).mean("excess")
    return mean["erm"] / mean["sgd"]


def _sgd_slope(r: Results) -> Estimate:
    return r.where(part="sample size", arm="sgd").slope("excess", over="m")["sgd"]


def _gd_slopes(r: Results) -> list[float]:
    runs = r.where(part="horizon")
    return [runs.where(m=m).slope("feldman_excess", over="X")["gd"].value for m in runs.axes["m"]]


def _all(view: Results, metric: str) -> list[float]:
    """Return every cell's value, NaN where there is none."""
    return [row.counted(metric, view.study.diverged) for row in view.rows]


def _max(values: Iterable[float]) -> float:
    """Return the largest value; NaN where one is NaN."""
    values = list(values)
    return math.nan if not values or any(map(math.isnan, values)) else max(values)


def excess_against_sample_size(r: Results) -> Figure:
    """Excess risk by sample size: the ERM's stays, those of SGD and regularized ERM fall."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, INK, MARKERS

    view = r.where(part="sample size")
    figure = Figure()
    axes = figure.add_subplot(
        xlabel="sample size m", ylabel="excess risk", xscale="log", yscale="log"
    )
    for arm, colour, marker in zip(view.arms, COLOURS, MARKERS):
        points = view.where(arm=arm).frame.groupby("m")["excess"]
        mean, low, high = points.mean(), points.min(), points.max()
        axes.plot(mean.index, mean, color=colour, marker=marker, label=arm)
        axes.fill_between(mean.index, low, high, color=colour, alpha=0.15, linewidth=0)
    sgd = view.where(arm="sgd").frame
    bound = (sgd["excess"] / sgd["of_sgd_bound"]).groupby(sgd["m"]).mean()
    axes.plot(bound.index, bound, color=INK, linestyle="--", linewidth=1.2, label="L / √m")
    _legend(figure)
    return figure


def gd_against_horizon(r: Results) -> Figure:
    """Feldman excess of gradient descent against X = ηT / m^1.5: all sample sizes lie on c √X."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS, INK, MARKERS

    view = r.where(part="horizon")
    figure = Figure()
    axes = figure.add_subplot(
        xlabel="X = ηT / m$^{1.5}$", ylabel="excess risk (Feldman term)", xscale="log", yscale="log"
    )
    curves = ["feldman_excess", "lower_bound", "upper_bound"]
    for i, m in enumerate(view.axes["m"]):
        mean = view.where(m=m).frame.groupby("X")[curves].mean()
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(
            mean.index,
            mean["feldman_excess"],
            MARKERS[i % len(MARKERS)],
            color=colour,
            # Rings inside each other where the points coincide.
            markersize=12 - 3 * i,
            markerfacecolor="none",
            label=f"m = {m}",
        )
        axes.plot(mean.index, mean["lower_bound"], color=colour, linewidth=1.0)
        axes.plot(mean.index, mean["upper_bound"], color=colour, linewidth=1.0, linestyle=":")
    axes.plot([], [], color=INK, linewidth=1.0, label="lower bound, sure")
    axes.plot([], [], color=INK, linewidth=1.0, linestyle=":", label="upper bound, by stability")
    _legend(figure)
    return figure


def gd_climbs_to_the_erm(r: Results) -> Figure:
    """Excess risk of gradient descent on one instance: a plateau in X, then up to the ERM's."""
    from matplotlib.figure import Figure

    from fallline.study.plots import COLOURS

    view = r.where(part="climb")
    figure = Figure()
    axes = figure.add_subplot(xlabel="X = ηT / m$^{1.5}$", ylabel="excess risk", xscale="log")
    curves = view.where(arm="gd").curves()
    if not curves.empty:
        by_step = curves.groupby("step")
        X, excess = by_step["X"].mean(), by_step["excess"]
        axes.plot(X, excess.mean(), color=COLOURS[0], label="gradient descent")
        axes.fill_between(X, excess.min(), excess.max(), color=COLOURS[0], alpha=0.15, linewidth=0)
    erm = view.where(arm="erm").mean("excess")["erm"]
    axes.axhline(erm, color=COLOURS[1], linestyle="--", label="ERM")
    axes.set_ylim(bottom=0)
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    figure.legend(loc="outside upper left", ncols=2, fontsize=10)


ON_GOLAY = {"m": 6, "family": "qr"}
SCALABLE = {"family": "rs-golay"}


study = Study(
    "erm-overfit",
    run=run,
    question="Can the only empirical minimizer of a convex problem be bad where SGD is good?",
    paper="arXiv:2602.08350",
    metrics={"excess": "min"},
    scales={
        "smoke": [
            Part("sample size", LEARNERS, seeds=2, m=[6, 18], fixed=SCALABLE),
            Part("horizon", ["gd"], seeds=2, m=[18], X=[0.1, 1.0], fixed=SCALABLE),
            Part("climb", ["gd", "erm"], seeds=1, fixed=FIXED | {"end": 1}),
            Part("torch optimizers", TORCH[:1], seeds=1, fixed=ON_GOLAY | {"steps": 20}),
        ],
        "laptop": [
            Part("sample size", LEARNERS, seeds=5, m=SIZES, fixed=SCALABLE),
            # gamma <= 1 asks for X >= 1.5 / N.
            Part("horizon", ["gd"], seeds=5, m=[18], X=HORIZONS[1:], fixed=SCALABLE),
            Part("horizon", ["gd"], seeds=5, m=[60, 240], X=HORIZONS, fixed=SCALABLE),
            Part("climb", ["gd", "erm"], seeds=5, fixed=FIXED | {"end": 100}),
            Part("general solver", ["cvxpy"], seeds=5, m=[2, 4], fixed={"family": "qr"}),
            Part("torch optimizers", ["erm", *TORCH], seeds=3, fixed=ON_GOLAY | {"steps": 5000}),
        ],
        "full": [
            Part("sample size", LEARNERS, seeds=20, m=[*SIZES, 2400, 12000], fixed=SCALABLE),
            Part("horizon", ["gd"], seeds=20, m=[60, 240, 720, 2400], X=HORIZONS, fixed=SCALABLE),
            Part("climb", ["gd", "erm"], seeds=20, fixed=FIXED | {"end": 100}),
            Part("general solver", ["cvxpy"], seeds=5, m=[2, 4], fixed={"family": "qr"}),
            Part("torch optimizers", ["erm", *TORCH], seeds=20, fixed=ON_GOLAY | {"steps": 5000}),
        ],
    },
    bars=[
        gd_ends_at_the_erm,
        every_erm_overfits,
        erm_against_sgd_at_240,
        erm_against_sgd_at_720,
        sgd_stays_below_its_bound,
        sgd_falls_fast_enough,
        sgd_falls_no_faster_than_the_theory,
        gd_grows_fast_enough,
        gd_grows_no_faster_than_the_theory,
        gd_has_the_excess_of_the_theory,
        a_general_solver_agrees,
    ],
    open=[gd_stays_below_the_stability_bound],
    notes=[coefficient_of_the_collapse, how_far_gd_is_before_it_climbs, torch_optimizers],
    figures=[excess_against_sample_size, gd_against_horizon, gd_climbs_to_the_erm],
    limits=Limits(seconds=600, gib=2, threads=1),
    sources=["fallline.sco"],
    preload=["numpy", "numba"],
)
