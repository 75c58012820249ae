"""The scans inside the expressions of a plan, which Python does not get.

DataFusion 55 leaves scalar subqueries that refer to nothing outside where they are written, in expressions.
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
# filters of a scan, in the line that shows it, with a literal as a conjunct or a cast
_BLOCKED: Final = re.compile(r"(?s)filters=\[.*(Boolean\(|CAST\(|(?<!IS )(?<!IS NOT )\bNULL\b)")
_FILTERS: Final = "filters=["
_END_OF_FILTERS: Final = re.compile(r"\](, fetch=\d+)?$")
# each line but the first is indented, those within names and literals hardly ever
_LINE_BREAK: Final = re.compile(r"\n(?= )")


class HiddenScans:
    """The scans of a plan inside expressions, of which the text of the plan is all that there is.

    Attributes
    ----------
    may_exist
        Whether a node may have nodes inside expressions.

    Parameters
    ----------
    plan
        An optimized plan.
    visible
        Its nodes.
    """

    def __init__(self, plan: PlanNode, visible: Sequence[PlanNode]) -> None:
        self.may_exist = any(node.has_subquery for node in visible)
        self._text = plan.shown_whole if self.may_exist else ""
        self._visible = [node.shown for node in visible] if self.may_exist else []

    def may_read(self, table: str) -> bool:
        """Return whether a table of this name, in any schema, may be scanned out of sight."""
        if not self._text:
            return False
        # each visible node is a part of the text, so what is shown more often is shown by another node
        count = partial(_count_scans, re.compile(f"(?={_SCAN}{_named(table)})"))
        return count(self._text) > sum(map(count, self._visible))

    @property
    def may_be_blocked(self) -> list[str]:
        """What is shown of scans with a literal or a cast among their conditions, see `is_shown_by`."""
        visible = Counter(shown for text in self._visible for shown in _scans_shown(text))
        return [shown for shown in Counter(_scans_shown(self._text)) - visible if _may_be_blocked(shown)]


def is_shown_by(table: str, shown: str) -> bool:
    """Return whether a text of `HiddenScans.may_be_blocked` may be of the table of a name."""
    return re.match(_named(table), shown) is not None


def _named(table: str) -> str:
    """Return a pattern of how scans show a table: its name, perhaps quoted, after those of its schema."""
    schema = rf"(?:(?:(?!{re.escape(_END_OF_NAME)})[^\n])*\.)?"
    quoted = table.replace('"', '""')
    return rf"{schema}(?:{re.escape(table)}|\"{re.escape(quoted)}\")(?![\w.])"


def _count_scans(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def _scans_shown(text: str) -> list[str]:
    """Return what a text shows of scans: the name of the table, and what follows."""
    return [_LINE_BREAK.split(shown, maxsplit=1)[0].rstrip("\n") for shown in _SCAN_LINE.split(text)[1:]]


def _may_be_blocked(shown: str) -> bool:
    is_cut = _FILTERS in shown and _END_OF_FILTERS.search(shown) is None
    return is_cut or _BLOCKED.search(shown) is not None
