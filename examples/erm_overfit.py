"""See the one empirical minimizer of a convex problem fail where one pass of SGD learns.

    python examples/erm_overfit.py

All risks are exact: the population is an average over N points, and no test set is drawn.
"""

import math

from fallline.sco import HardInstance

m = 60
inst = HardInstance.for_sample_size(m)
Z = inst.sample(m, random_state=0)

# The minimizer comes with a proof that it is one and the only one.
certificate = inst.erm(Z)
print(f"m = {m}, d = {inst.d}; the ERM is unique: {certificate.unique}")

answers = {
    "ERM": certificate.x,
    "SGD, one pass": inst.sgd(Z).x,
    "regularized ERM": inst.regularized_erm(Z, lam=inst.L / math.sqrt(m)).x,
}
# Full-batch gradient descent learns if it stops early, and ends at the ERM if it does not.
for X in (1, 100):
    T = math.ceil(X * m**1.5 / 0.2)
    answers[f"GD, {T} steps"] = inst.gd(Z, eta=0.2, T=T).x

for name, x in answers.items():
    print(f"{name:20} training {inst.empirical_risk(x, Z):.4f}  excess {inst.excess_risk(x):.4f}")
