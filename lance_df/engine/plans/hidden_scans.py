"""Scans inside the expressions of a plan, which Python cannot access.

DataFusion 55 leaves uncorrelated scalar subqueries in expressions, where they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from lance_df.engine.plans.nodes import PlanNode

_SCAN: Final = "TableScan: "
_SCAN_LINE: Final = re.compile(rf"(?m)^ *{_SCAN}")
_END_OF_NAME: Final = " projection=["
# the filters in the line of a scan, if a literal is one of the conjuncts or there is a cast
_BLOCKED: Final = re.compile(r"(?s)filters=\[.*(Boolean\(|CAST\(|(?<!IS )(?<!IS NOT )\bNULL\b)")
_FILTERS: Final = "filters=["
_END_OF_FILTERS: Final = re.compile(r"\](, fetch=\d+)?$")
# each line but the first is indented; line breaks within names and literals are rarely followed by spaces
_LINE_BREAK: Final = re.compile(r"\n(?= )")


class HiddenScans:
    """The scans inside the expressions of a plan. Only the text of the plan contains them.

    Attributes
    ----------
    may_exist
        Whether an expression of the plan may contain plan nodes.

    Parameters
    ----------
    plan
        An optimized plan.
    visible
        The nodes of the plan outside of expressions.
    """

    def __init__(self, plan: PlanNode, visible: Sequence[PlanNode]) -> None:
        self.may_exist = any(node.has_subquery for node in visible)
        self._text = plan.shown_whole if self.may_exist else ""
        self._visible = [node.shown for node in visible] if self.may_exist else []

    def may_read(self, table: str) -> bool:
        """Return whether a hidden scan may read a table of this name, in any schema."""
        if not self._text:
            return False
        # the text contains each visible node, so if it shows a scan more often, a hidden node shows it
        count = partial(_count_scans, re.compile(f"(?={_SCAN}{_named(table)})"))
        return count(self._text) > sum(map(count, self._visible))

    @property
    def may_be_blocked(self) -> list[str]:
        """The texts of hidden scans whose conditions have a literal or a cast; see `is_shown_by`."""
        visible = Counter(shown for text in self._visible for shown in _scans_shown(text))
        return [shown for shown in Counter(_scans_shown(self._text)) - visible if _may_be_blocked(shown)]


def is_shown_by(table: str, shown: str) -> bool:
    """Return whether a text of `HiddenScans.may_be_blocked` may show a scan of the given table."""
    return re.match(_named(table), shown) is not None


def _named(table: str) -> str:
    """Return a pattern for a table name in the text of a scan: optional schema, name optionally quoted."""
    schema = rf"(?:(?:(?!{re.escape(_END_OF_NAME)})[^\n])*\.)?"
    quoted = table.replace('"', '""')
    return rf"{schema}(?:{re.escape(table)}|\"{re.escape(quoted)}\")(?![\w.])"


def _count_scans(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def _scans_shown(text: str) -> list[str]:
    """Return the text of each scan in a plan's text: the name of the table, and the rest of the line."""
    return [_LINE_BREAK.split(shown, maxsplit=1)[0].rstrip("\n") for shown in _SCAN_LINE.split(text)[1:]]


def _may_be_blocked(shown: str) -> bool:
    is_cut = _FILTERS in shown and _END_OF_FILTERS.search(shown) is None
    return is_cut or _BLOCKED.search(shown) is not None
