"""What the Python workers of Spark are spared."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

_IS_REUSED: Final = "SPARK_REUSE_WORKER"
_num_frozen = 0


def keep_imports() -> None:
    """Take what a worker of Spark has imported so far out of the search for garbage.

    Spark collects garbage in a worker after each task, before the next one. To look through the modules that
    a read takes, PyArrow and NumPy among them, lasts longer than a small task, and they never become garbage.
    """
    global _num_frozen  # noqa: PLW0603 - there is one garbage collector, too
    if _IS_REUSED in os.environ and len(sys.modules) > _num_frozen:
        _num_frozen = len(sys.modules)
        gc.freeze()
