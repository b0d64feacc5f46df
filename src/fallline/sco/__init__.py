"""Why empirical minimizers and gradient descent can overfit in convex learning, exactly."""

from fallline.sco import bounds
from fallline.sco.certificate import ERMCertificate
from fallline.sco.codes import LinearCode, qr_code
from fallline.sco.descent import Trajectory
from fallline.sco.instance import HardInstance
from fallline.sco.maxima import CertificateError
from fallline.sco.reed_solomon import rs_golay_code

__all__ = [
    "CertificateError",
    "ERMCertificate",
    "HardInstance",
    "LinearCode",
    "Trajectory",
    "bounds",
    "qr_code",
    "rs_golay_code",
]
