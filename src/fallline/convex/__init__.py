"""Minimize a convex function with a certificate, also where its curvature grows without bound."""

from fallline.convex.agd import minimize_agd, scipy_agd
from fallline.convex.baselines import (
    agmsdr,
    gd_fixed,
    gd_l,
    lbfgs,
    nag_exp,
    nag_frozen,
    normalized_gd,
    polyak_gd,
)
from fallline.convex.callable_law import CallableSmooth
from fallline.convex.certificates import (
    cosh_smoothness,
    exp_affine_smoothness,
    gamma_smoothness,
    poisson_smoothness,
)
from fallline.convex.laws import (
    L0L1Smooth,
    LSmooth,
    PowerSmooth,
    ShiftedSquareSmooth,
    SmoothnessLaw,
)
from fallline.convex.profile import SmoothnessProfile, fit_l0l1, smoothness_profile
from fallline.convex.rules import AssumptionWarning

__all__ = [
    "AssumptionWarning",
    "CallableSmooth",
    "L0L1Smooth",
    "LSmooth",
    "PowerSmooth",
    "ShiftedSquareSmooth",
    "SmoothnessLaw",
    "SmoothnessProfile",
    "agmsdr",
    "cosh_smoothness",
    "exp_affine_smoothness",
    "fit_l0l1",
    "gamma_smoothness",
    "gd_fixed",
    "gd_l",
    "lbfgs",
    "minimize_agd",
    "nag_exp",
    "nag_frozen",
    "normalized_gd",
    "poisson_smoothness",
    "polyak_gd",
    "scipy_agd",
    "smoothness_profile",
]
