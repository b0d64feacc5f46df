import numpy as np
import pytest
from tests.sco.reference import instance

from fallline.sco import HardInstance, qr_code

cp = pytest.importorskip("cvxpy")
TIGHT = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}


@pytest.mark.parametrize("p", [7, 17])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_general_solver_finds_the_closed_form(p, seed):
    inst = instance(p)
    Z = inst.sample(inst.m, seed)
    problem = inst.to_cvxpy(Z)
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    certificate = inst.erm(Z)
    (x,) = problem.variables()
    assert x.name() == "x"
    assert problem.value == pytest.approx(certificate.value, abs=1e-8)
    np.testing.assert_allclose(x.value, certificate.x, atol=1e-8)


def test_the_program_is_the_empirical_risk():
    inst = instance(7, normalize=True)
    Z, rng = [0, 2, 2], np.random.default_rng(0)
    inst3 = HardInstance(qr_code(7), 3, normalize=True)
    for each in (inst, inst3):
        problem = each.to_cvxpy(Z)
        (x,) = problem.variables()
        x.value = rng.standard_normal(12) / 4
        assert problem.objective.value == pytest.approx(each.empirical_risk(x.value, Z))


def test_the_limit_is_explicit():
    inst = instance(23)
    with pytest.raises(ValueError, match="limited to N <= 9, got N = 12"):
        inst.to_cvxpy(range(6))
    assert inst.to_cvxpy(range(6), limit=12).is_dcp()
