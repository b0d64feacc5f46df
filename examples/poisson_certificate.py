"""Fit a Poisson regression and know how far the answer is from the best one.

    python examples/poisson_certificate.py

Poisson regression has no Lipschitz gradient, but a law that its data prove: the Hessian is at most
L0 + L1 times the gradient's norm. From it follows a bound on the gap at every step.
"""

import numpy as np

from fallline.convex import lbfgs, minimize_agd, poisson_smoothness

rng = np.random.default_rng(0)
X = np.column_stack([np.ones(500), rng.normal(size=(500, 4))])  # the intercept is a column
y = rng.poisson(np.exp(X @ [0.5, 0.8, -0.6, 0.3, 0.0]))


def fun(w):
    """Mean negative log-likelihood, up to a constant, and its gradient."""
    eta = X @ w
    mu = np.exp(eta)
    return np.mean(mu - y * eta), X.T @ (mu - y) / len(y)


law = poisson_smoothness(X, y)
print(f"certified: ||hess f|| <= {law.L0:.1f} + {law.L1:.1f} ||grad f||")

# The weights are believed to lie within distance 2 of the start; the run stops when the gap is
# certified. Were the radius found wrong, it would warn and go on without a certificate.
start = np.zeros(5)
certified = minimize_agd(fun, start, smoothness=law, radius=2.0, mode="schedule", gap_tol=1e-4)
print(f"schedule:   {certified.njev:4} gradients, gap at most {certified.gap_bound:.1e}")

# Told nothing, the line search needs fewer gradients here, and L-BFGS fewer still: no certificate.
searched = minimize_agd(fun, start, restart=True, gtol=1e-6)
print(f"linesearch: {searched.njev:4} gradients")
reference = lbfgs(fun, start, gtol=1e-6)
print(f"L-BFGS:     {reference.njev:4} gradients")

gap = certified.fun - reference.fun
print(f"the gap that was certified as {certified.gap_bound:.1e} is {gap:.1e}")
