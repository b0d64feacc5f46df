"""Optimizers for training networks."""

from fallline.optim._generalized_smooth_agd import GeneralizedSmoothAGD
from fallline.optim._non_euclidean import NonEuclidean
from fallline.optim._polar import polar
from fallline.optim._presets import (
    Momo,
    MomoAdam,
    MuonAdam,
    MuonAdamMomo,
    MuonMax,
    MuonMaxMomo,
    PolarGrad,
    Scion,
    SignGD,
)
from fallline.optim._routing import split_params

__all__ = [
    "GeneralizedSmoothAGD",
    "Momo",
    "MomoAdam",
    "MuonAdam",
    "MuonAdamMomo",
    "MuonMax",
    "MuonMaxMomo",
    "NonEuclidean",
    "PolarGrad",
    "Scion",
    "SignGD",
    "polar",
    "split_params",
]
