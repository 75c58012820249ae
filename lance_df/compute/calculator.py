"""The evaluator of this process, made when it is first asked.

DataFusion takes longer to be imported than many a read takes, and most namespaces are read without it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.compute.evaluator import ExpressionEvaluator


@cache
def evaluator() -> ExpressionEvaluator:
    """Return the evaluator of this process."""
    from lance_df.compute.evaluator import ExpressionEvaluator

    return ExpressionEvaluator()
