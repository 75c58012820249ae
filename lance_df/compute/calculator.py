"""The expression evaluator of this process, made at its first use.

Importing DataFusion takes longer than many reads, and most namespaces are read without it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lance_df.compute.calls import check_process

if TYPE_CHECKING:
    from lance_df.compute.evaluator import ExpressionEvaluator


def evaluator() -> ExpressionEvaluator:
    """Return the evaluator of this process.

    Raises
    ------
    ForkedProcessError
        DataFusion's threads are in the parent of this process.
    """
    check_process()
    return _made()


@cache
def _made() -> ExpressionEvaluator:
    from lance_df.compute.evaluator import ExpressionEvaluator

    return ExpressionEvaluator()
