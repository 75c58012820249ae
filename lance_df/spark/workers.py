"""Save time in Spark's Python workers."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

_IS_REUSED: Final = "SPARK_REUSE_WORKER"
_num_frozen = 0


def keep_imports() -> None:
    """Exclude all objects that a Spark worker has imported so far from garbage collection.

    Spark collects garbage in a worker after each task. A search through the modules that a read imports, such
    as PyArrow and NumPy, takes longer than a small task, and they never become garbage.
    """
    global _num_frozen  # noqa: PLW0603 - there is one garbage collector, too
    if _IS_REUSED in os.environ and len(sys.modules) > _num_frozen:
        _num_frozen = len(sys.modules)
        gc.freeze()
