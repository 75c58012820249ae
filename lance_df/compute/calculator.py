"""The evaluator of this process, made when it is first asked.

DataFusion takes longer to be imported than many a read takes, and most namespaces are read without it.
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
        The threads of DataFusion are in the parent of this process.
    """
    check_process()
    return _made()


@cache
def _made() -> ExpressionEvaluator:
    from lance_df.compute.evaluator import ExpressionEvaluator

    return ExpressionEvaluator()
