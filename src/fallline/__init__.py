"""New optimization methods for machine learning, with evidence.

Everything but this file is imported when it is used: `import fallline` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fallline._errors import FalllineWarning

if TYPE_CHECKING:
    from fallline.comparison import compare

__version__ = "0.1.0.dev0"

__all__ = ["FalllineWarning", "compare"]


def __getattr__(name: str) -> Any:
    if name == "compare":
        from fallline.comparison import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
