"""Whether sparse samples make plain SGD learn parities of any size, as fast as the theory says.

"Learning High-Dimensional Parity Functions with Product Networks using Gradient Descent", Larue,
Dufrène, Lampin, Ghauch and Rekaya-Ben Othman, ICML 2026, arXiv:2605.28612. A run is given by
numbers that do not depend on its size N: c = N p_e, alpha / N and M / N.
"""

from __future__ import annotations

import math
import statistics
import warnings
from typing import Any

from fallline._errors import FalllineWarning
from fallline.claims._parity_pictures import (
    accuracy_against_coverage,
    classes_against_gaussian,
    every,
    largest,
    limits_against_size,
    mean_by,
    predicted,
    samples_against_size,
    smallest,
    steps_against_density,
    weights_over_time,
)
from fallline.claims._parity_runs import EXPERIMENTS, PUBLISHED
from fallline.study import Cell, Check, Estimate, Limits, Part, Results, Study, at_least, at_most
from fallline.study.spec import Scalar

DENSITIES = tuple(sorted([*(round(0.1 * 80 ** (i / 23), 4) for i in range(24)), 1.0]))
GRID = tuple(round(1.0 + 0.2 * i, 1) for i in range(13))
RATES = (3e-4, 6.2e-4, 1.3e-3, 2.7e-3, 5.6e-3, 1.16e-2, 2.4e-2, 5e-2)
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
NODE = ["product-node"]


def run(cell: Cell) -> dict[str, float]:
    """Do one run of the experiment that the settings name."""
    with warnings.catch_warnings():
        # Some runs are here to fail, and the engine warns of it.
        warnings.simplefilter("ignore", FalllineWarning)
        return EXPERIMENTS[cell.config["experiment"]](cell)


def steps_are_the_mean_fields(r: Results) -> Check:
    """For c in [0.1, 5.2] an output takes the steps of the mean field, within 4 %."""
    found = mean_by(r.where(part="density"), "steps", "c")
    gaps = [abs(steps / predicted(c) - 1) for c, steps in found.items() if c <= 5.2]
    return at_most(largest(gaps), 0.04)


def distance_at_the_published_steps(r: Results) -> Check:
    """For c <= 2.5 the mean distance at the published step is within 15 % of 0.01."""
    return at_most(_published_gap(r, 2.5), 0.15)


def distance_at_denser_published_steps(r: Results) -> Check:
    """For c <= 4.3 the mean distance at the published step is within 60 % of 0.01."""
    return at_most(_published_gap(r, 4.3), 0.6)


def best_density(r: Results) -> Check:
    """Where the steps are least, c lies in [1.8, 2.7]: distance from the middle."""
    best = r.where(part="density").best_at("steps", over="c")["product-node"]
    return at_most(abs(float(best) - 2.25), 0.45)  # type: ignore[arg-type]


def gain_of_the_best_density(r: Results) -> Check:
    """Against c = 1 the best c gains a factor in [1.25, 1.45]: distance from the middle."""
    steps = mean_by(r.where(part="density"), "steps", "c")
    return at_most(abs(steps[1.0] / smallest(steps.values()) - 1.35), 0.1)


def best_density_at_every_size(r: Results) -> Check:
    """For N from 25 to 1000 the best c lies in [1.7, 2.7]: largest distance from the middle."""
    return at_most(largest(abs(best - 2.2) for best in _best_densities(r).values()), 0.5)


def steps_times_rate_is_constant(r: Results) -> Check:
    """For alpha from 0.03 to 5 at N = 100 the steps times alpha vary by at most 10 %."""
    steps = mean_by(r.where(part="learning rate"), "steps", "alpha_per_N")
    products = [rate * count for rate, count in steps.items()]
    return at_most(largest(products) / smallest(products) - 1, 0.1)


def below_the_papers_bound(r: Results) -> Check:
    """Every run below alpha2 converges."""
    return at_least(smallest(every(r.where(part="paper's bound"), "converged")), 1.0)


def below_the_stability_limit(r: Results) -> Check:
    """At 0.9 times the limit every run converges (N = 100 and 1000)."""
    runs = r.where(part="stability limit", N=[100, 1000], of_limit=0.9)
    return at_least(smallest(every(runs, "converged")), 1.0)


def above_the_stability_limit(r: Results) -> Check:
    """At 1.1 times the limit no run converges (N = 100 and 1000)."""
    runs = r.where(part="stability limit", N=[100, 1000], of_limit=1.1)
    return at_most(largest(every(runs, "converged")), 0.0)


def steps_do_not_depend_on_size(r: Results) -> Check:
    """With alpha = N / 10 and M = N every run takes 24 to 28 steps: largest distance from 26."""
    return at_most(largest(abs(s - 26) for s in every(r.where(part="samples"), "steps")), 2.0)


def every_support_is_found(r: Results) -> Check:
    """No run of the sample law ends with an error in the support, up to N = 100,000."""
    return at_most(largest(every(r.where(part="samples"), "support_errors")), 0.0)


def samples_grow_linearly(r: Results) -> Check:
    """In N the samples have a log-log slope of 1, within 0.05."""
    slope = r.where(part="samples").slope("samples", over="N")["product-node"].value
    return at_most(abs(slope - 1), 0.05)


def a_small_batch_fails(r: Results) -> Check:
    """With alpha = M, which is a tenth of N, no run converges."""
    return at_most(largest(every(r.where(part="small batch"), "converged")), 0.0)


def steps_at_100_000(r: Results) -> Check:
    """N = 100,000 takes 21,500 to 22,900 steps for every target: largest distance from 22,200."""
    runs = r.where(part="target")
    return at_most(largest(abs(steps - 22_200) for steps in every(runs, "steps")), 700.0)


def the_target_does_not_matter(r: Results) -> Check:
    """At N = 100,000 steps vary by less than 2 % over the share of bits in the target."""
    steps = every(r.where(part="target"), "steps")
    return at_most(largest(steps) / smallest(steps) - 1, 0.02)


def classes_are_not_skewed(r: Results) -> Check:
    """At d = 0.1 and M = 1000 alpha each class of weights has a skewness of at most 0.1."""
    return at_most(largest(every(r.where(part="shape"), "skew")), 0.1)


def classes_have_gaussian_tails(r: Results) -> Check:
    """At d = 0.1 and M = 1000 alpha each class has an excess kurtosis of at most 0.2."""
    return at_most(largest(every(r.where(part="shape"), "kurtosis")), 0.2)


def node_generalizes(r: Results) -> Check:
    """After 1500 steps every output is right on all 65,536 inputs: smallest accuracy."""
    runs = r.where(part="generalization", arm="product-node")
    return at_least(smallest(every(runs, "worst_accuracy")), 1.0)


def few_inputs_are_seen(r: Results) -> Check:
    """By then less than 4 % of the inputs have been seen."""
    return at_most(largest(every(r.where(part="generalization"), "coverage")), 0.04)


def mlp_does_not_generalize(r: Results) -> Check:
    """By then the MLP of the paper is right on at most 55 % of the inputs, averaged over seeds."""
    runs = r.where(part="generalization", arm="mlp")
    return at_most(runs.mean("accuracy")["mlp"], 0.55)


def noise_settles_at_its_root(r: Results) -> Check:
    """Under label noise the mean weight settles within 0.01 of the predicted root."""
    return at_most(largest(every(r.where(part="label noise"), "from_root")), 0.01)


def noise_leaves_the_support(r: Results) -> Check:
    """Up to 40 % of flipped labels leave no error in the support."""
    return at_most(largest(every(r.where(part="label noise"), "support_errors")), 0.0)


def node_needs_fewer_noisy_samples_than_counting(r: Results) -> Estimate:
    """With 40 % of flipped labels and a tuned step size, the node needs fewer samples."""
    runs = r.where(part="samples under noise", noise=0.4)
    return runs.tuned("samples", over="alpha_per_N").paired(
        "product-node", "counting", relative=True
    )


def best_densities_told(r: Results) -> str:
    """Name the best density at every size."""
    told = ", ".join(f"{best:g} at N = {N}" for N, best in _best_densities(r).items())
    return f"Best constant c = N p_e on a grid of 0.2: {told}."


def sharpness_of_the_limit(r: Results) -> str:
    """Say how many runs converge next to the stability limit."""
    told = []
    for part, axis in (("stability limit", "N"), ("limit at other densities", "c")):
        for value in r.where(part=part).axes[axis]:
            at: dict[str, Any] = {axis: value}
            runs = r.where(part=part, **at)
            shares = mean_by(runs, "converged", "of_limit")
            line = ", ".join(f"{share:.0%} at {of:g}" for of, share in shares.items())
            told.append(f"{axis} = {value:g}: {line}")
    return f"Share of runs that converge, by step size over its limit; {'; '.join(told)}."


def cost_at_scale(r: Results) -> str:
    """Say what the large runs cost."""
    seconds = statistics.median(every(r.where(part="target"), "cpu_seconds"))
    told = f"N = 100,000, alpha = 10, M = 1000 takes {seconds:.2g} CPU seconds"
    if "million" not in r.parts:
        return f"{told}."
    (one,) = r.where(part="million").frame.to_dict("records")
    expected = predicted(1.0, 1_000_000, 0.01)
    return (
        f"{told}; N = 1,000,000, alpha = 10,000, M = 100,000 takes {one['steps']:.0f} steps "
        f"(mean field {expected:.0f}) and {one['cpu_seconds']:.2g} CPU seconds."
    )


def shape_with_small_batches(r: Results) -> str:
    """Say how far from Gaussian a smaller batch makes the classes."""
    runs = r.where(part="target")
    skew, kurtosis = largest(every(runs, "skew")), largest(every(runs, "kurtosis"))
    return (
        f"With M = 100 alpha the classes have a skewness of up to {skew:.2f} and an excess "
        f"kurtosis of up to {kurtosis:.2f} at d = 0.1: bits differ in how often they were seen. "
        "Both fall with alpha / M."
    )


def where_elimination_wins(r: Results) -> str:
    """Say what exact elimination needs on the same noise-free samples."""
    samples = r.where(part="generalization").median("samples")
    return (
        "Noise-free and N = 16: elimination over GF(2) is right on all inputs after "
        f"{samples['elimination']:.0f} samples, the node after {samples['product-node']:.0f} "
        "(looking every 100 steps)."
    )


def where_counting_wins(r: Results) -> str:
    """Say what counting needs under noise."""
    told = []
    for noise in r.where(part="samples under noise").axes["noise"]:
        runs = r.where(part="samples under noise", noise=noise)
        best = runs.best("samples", over="alpha_per_N")
        told.append(
            f"{best['counting']:,.0f} against {best['product-node']:,.0f} at {noise:.0%} flipped"
        )
    return (
        "Samples until all of N = 1000 bits are on their side, counting the labels of lone bits "
        f"against the node at its best step size: {'; '.join(told)}."
    )


def what_the_other_networks_do(r: Results) -> str:
    """Say where the naive product and dense inputs end."""
    naive = r.where(part="generalization").mean("accuracy")["naive-product"]
    dense = r.where(part="dense inputs").mean("accuracy")["product-node"]
    steps = r.where(part="dense inputs").rows[0].config["cap"]
    return (
        f"The naive product of weighted inputs is right on {naive:.1%} of the inputs; the node on "
        f"inputs with half of the bits active on {dense:.1%} after {steps:,} steps."
    )


def _published_gap(r: Results, densest: float) -> float:
    found = mean_by(r.where(part="published density"), "distance", "c")
    return largest(abs(d / 0.01 - 1) for c, d in found.items() if c <= densest)


def _best_densities(r: Results) -> dict[Scalar, float]:
    best = {}
    for N in r.where(part="best density").axes["N"]:
        steps = mean_by(r.where(part="best density", N=N), "steps", "c")
        unknown = math.isnan(largest(steps.values()))
        best[N] = math.nan if unknown else min(steps, key=steps.__getitem__)
    return best


def _part(name: str, experiment: str, *, seeds: int = 5, arms: Any = NODE, **settings: Any) -> Part:
    """Return a part whose tuples are axes; c is 1 and the cap 25,000 where nothing else is said."""
    settings = {"c": 1.0, "cap": 25_000, **settings}
    axes = {name: value for name, value in settings.items() if isinstance(value, tuple)}
    fixed = {name: value for name, value in settings.items() if name not in axes}
    return Part(name, arms, seeds=seeds, fixed={"experiment": experiment, **fixed}, **axes)


# The paper's setting: small steps, so that the curves are those of the theory.
SLOW: dict[str, Any] = {"N": 100, "alpha_per_N": 1e-3, "M_per_N": 1.0}
# The setting to use: a step size of N / 10 and a batch of N.
FAST: dict[str, Any] = {"alpha_per_N": 0.1, "M_per_N": 1.0}
# Batches so large that sampling makes no noise.
EXACT: dict[str, Any] = {"M_per_N": 200, "least_M": 20_000}
TABLE: dict[str, Any] = {"N": 16, "alpha_per_N": 0.02 / 16, "M_per_N": 6.25, "P": 20}
NOISY: dict[str, Any] = {"N": 1000, "M_per_N": 1.0}
LEARNERS = ["product-node", "mlp", "naive-product", "elimination"]
AROUND = (0.9, 0.95, 1.05, 1.1)

study = Study(
    "sparse-parity",
    run=run,
    question="Do sparse samples make SGD learn parities of 100,000 bits, as fast as predicted?",
    paper="arXiv:2605.28612",
    metrics={
        "steps": "min",
        "samples": "min",
        "converged": "max",
        "accuracy": "max",
        "distance": "min",
        "support_errors": "min",
    },
    scales={
        "smoke": [
            _part("density", "convergence", seeds=1, c=(1.0, 2.2), P=4, **SLOW),
            _part("published density", "published", seeds=1, c=(2.02,), P=4, **SLOW),
            _part(
                "stability limit",
                "convergence",
                seeds=1,
                N=(25,),
                of_limit=(0.9, 1.1),
                cap=100,
                M_per_N=200,
            ),
            _part("paper's bound", "convergence", seeds=1, N=(25,), of_alpha2=(0.9,), M_per_N=40),
            _part("samples", "convergence", seeds=2, N=(100, 1000), cap=200, **FAST),
            _part(
                "target",
                "classes",
                seeds=1,
                N=2000,
                p_w=(0.0, 0.5),
                cap=200,
                distances=[0.3, 0.1, 0.01],
                **FAST,
            ),
            _part("generalization", "table", seeds=1, arms=LEARNERS, **TABLE | {"N": 8, "cap": 15}),
            _part("dense inputs", "dense inputs", seeds=1, **TABLE | {"N": 8, "c": 4.0, "cap": 50}),
            _part(
                "label noise",
                "label noise",
                seeds=1,
                noise=(0.2,),
                alpha_per_N=1e-3,
                cap=100,
                **NOISY,
            ),
            _part(
                "samples under noise",
                "samples",
                seeds=1,
                arms=["product-node", "counting"],
                noise=(0.1,),
                alpha_per_N=(0.03,),
                **NOISY,
            ),
        ],
        "laptop": [
            _part("density", "convergence", c=DENSITIES, P=200, **SLOW),
            _part("published density", "published", c=tuple(PUBLISHED), P=200, **SLOW),
            _part(
                "best density",
                "convergence",
                N=(25, 100, 300, 1000),
                c=GRID,
                P=20,
                alpha_per_N=1e-3,
                M_per_N=1.0,
            ),
            _part("learning rate", "convergence", N=100, alpha_per_N=RATES, P=8, **EXACT),
            _part(
                "paper's bound",
                "convergence",
                N=(25, 100, 1000),
                of_alpha2=(0.3, 0.95),
                **EXACT,
            ),
            _part(
                "stability limit",
                "convergence",
                N=(25, 100, 300, 1000),
                of_limit=AROUND,
                cap=300,
                **EXACT,
            ),
            _part(
                "limit at other densities",
                "convergence",
                N=100,
                c=(0.5, 2.0),
                of_limit=AROUND,
                cap=500,
                start="solution",
                tol=1e-4,
                **EXACT,
            ),
            _part("samples", "convergence", N=SIZES, cap=200, **FAST),
            _part(
                "small batch",
                "convergence",
                N=SIZES,
                cap=200,
                alpha_per_N=0.1,
                M_per_N=0.1,
            ),
            _part(
                "target",
                "classes",
                N=100_000,
                p_w=(0.0, 0.1, 0.5, 0.9, 1.0),
                alpha_per_N=1e-4,
                M_per_N=0.01,
                distances=[0.3, 0.2, 0.1, 0.05, 0.01],
            ),
            # Gaussian in expectation: with ten times the batch, sampling adds little to the shape.
            _part(
                "shape",
                "classes",
                N=100_000,
                p_w=(0.1, 0.5),
                alpha_per_N=1e-4,
                M_per_N=0.1,
                distances=[0.1],
            ),
            _part(
                "million",
                "convergence",
                seeds=1,
                N=1_000_000,
                alpha_per_N=0.01,
                M_per_N=0.1,
            ),
            _part("generalization", "table", arms=LEARNERS, **TABLE | {"cap": 1500}),
            _part("dense inputs", "dense inputs", **TABLE | {"c": 8.0, "cap": 100_000}),
            _part(
                "label noise",
                "label noise",
                noise=(0.1, 0.2, 0.3, 0.4),
                alpha_per_N=1e-4,
                cap=60_000,
                **NOISY,
            ),
            _part(
                "samples under noise",
                "samples",
                arms=["product-node", "counting"],
                noise=(0.1, 0.2, 0.3, 0.4),
                alpha_per_N=(3e-3, 1e-2, 3e-2),
                **NOISY,
            ),
        ],
    },
    bars=[
        steps_are_the_mean_fields,
        distance_at_the_published_steps,
        distance_at_denser_published_steps,
        best_density,
        gain_of_the_best_density,
        best_density_at_every_size,
        steps_times_rate_is_constant,
        below_the_papers_bound,
        below_the_stability_limit,
        above_the_stability_limit,
        steps_do_not_depend_on_size,
        every_support_is_found,
        samples_grow_linearly,
        a_small_batch_fails,
        steps_at_100_000,
        the_target_does_not_matter,
        classes_are_not_skewed,
        classes_have_gaussian_tails,
        node_generalizes,
        few_inputs_are_seen,
        mlp_does_not_generalize,
        noise_settles_at_its_root,
        noise_leaves_the_support,
    ],
    open=[node_needs_fewer_noisy_samples_than_counting],
    notes=[
        best_densities_told,
        sharpness_of_the_limit,
        cost_at_scale,
        shape_with_small_batches,
        where_elimination_wins,
        where_counting_wins,
        what_the_other_networks_do,
    ],
    figures=[
        steps_against_density,
        limits_against_size,
        samples_against_size,
        weights_over_time,
        classes_against_gaussian,
        accuracy_against_coverage,
    ],
    limits=Limits(seconds=600, gib=2, threads=1),
    sources=["fallline.parity", "fallline.claims._parity_runs"],
    # The engine's machine code is loaded with its module, once and not in every cell.
    preload=["torch._dynamo", "fallline.parity.layer", "fallline.parity.training", "scipy.stats"],
)
