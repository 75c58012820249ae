"""What older releases of DataFusion say otherwise than this package."""

import datafusion

_ZEROS = datafusion.SessionContext().from_pydict({"f": [0.0, -0.0]}, name="zeros")

NEGATIVE_ZERO = 0.0 if _ZEROS.filter("f = 0.0").count() == 1 else -0.0
"""-0.0, where it is equal to 0.0, as predicates and partition values here have it; else 0.0."""
