"""New optimization methods for machine learning, with evidence."""

from fallline._errors import FalllineWarning

__version__ = "0.1.0.dev0"

__all__ = ["FalllineWarning", "__version__"]
