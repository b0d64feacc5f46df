"""The codes that grow with the sample size."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from fallline.sco.codes import QR_DISTANCES, LinearCode, qr_code
from fallline.sco.reed_solomon import rs_golay_code

Family: TypeAlias = Literal["qr", "rs-golay"]


def code_for(m: int, family: Family | None) -> LinearCode:
    """Return the smallest code of a family with N >= 2 m."""
    sizes = {p: (p + 1) // 2 for p in QR_DISTANCES}
    if family not in (None, "qr", "rs-golay"):
        raise ValueError(f'family must be "qr" or "rs-golay", got {family!r}')
    if m < 1:
        raise ValueError(f"m must be >= 1, got {m!r}")
    if family is None:
        family = "qr" if 2 * m in sizes.values() else "rs-golay"
    if family == "rs-golay":
        return rs_golay_code(math.ceil(m / 6))
    fitting = [p for p, size in sizes.items() if size >= 2 * m]
    if not fitting:
        raise ValueError(
            f'family "qr" has codes for m <= {max(sizes.values()) // 2}, got m = {m}; '
            'use family="rs-golay"'
        )
    return qr_code(fitting[0])
