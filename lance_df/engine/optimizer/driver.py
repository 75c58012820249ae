"""Apply the optimizer rules to a statement, and check that each rule preserves its result.

If a rule fails, the statement stays as it is, and ``explain_scan`` reports the reason. Expected are only the
errors by which rules say that they do not apply, and errors of stored data. Any other failure, such as an
invalid plan, is a mistake in a rule, and also causes a `RewriteWarning`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from lance_df.engine.optimizer.planned import DoesNotApplyError, Planned, RuleReport
from lance_df.engine.plans.nodes import Join, frame_of
from lance_df.engine.plans.order import RewriteWarning, lost_by_rewriting
from lance_df.engine.plans.rebuild import NotRebuiltError, refusals
from lance_df.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.engine.optimizer.planned import Context


@dataclass(frozen=True, slots=True)
class Rule:
    """An optimizer rule.

    Attributes
    ----------
    name
        The name of the module in `lance_df.engine.optimizer.rules`, and of the function in it. The module is
        imported when the rule may apply.
    may_apply
        A fast check whether the rule may apply to a statement.
    """

    name: str
    may_apply: Callable[[Planned], bool]

    def apply(self, planned: Planned, context: Context) -> Planned | None:
        """Return the statement as the rule changes it; None if the rule does not apply."""
        function = getattr(import_module(f"lance_df.engine.optimizer.rules.{self.name}"), self.name)
        changed: Planned | None = function(planned, context)
        return changed


def _has_aggregate(planned: Planned) -> bool:
    return planned.may_be_large and bool(planned.aggregates)


def _has_large_joins(planned: Planned) -> bool:
    return planned.may_be_large and any(isinstance(node, Join) for node in planned.read.nodes)


def _reads_namespaces(planned: Planned) -> bool:
    return planned.reads_namespaces


RULES: Final = (
    Rule("partial_aggregate", _has_aggregate),
    Rule("partitioned_join", _reads_namespaces),
    Rule("string_views", lambda planned: not planned.over_runs and _has_aggregate(planned)),
    Rule("decided_filters", _reads_namespaces),
    Rule("scalar_subqueries", lambda planned: planned.may_be_large and planned.read.has_subquery),
    Rule("join_side", _has_large_joins),
    Rule("join_keys", _has_large_joins),
    Rule("join_mode", _has_large_joins),
)


_OF_STORED_DATA: Final = (
    *(StorageError, CorruptDataError, UnsupportedFeatureError),
    *(DatasetNotFoundError, VersionNotFoundError),
)


def optimized(planned: Planned, context: Context, rules: tuple[Rule, ...] = RULES) -> Planned:
    """Return a statement that computes the same rows, columns and order faster."""
    given = planned
    for rule in rules:
        if planned.is_final:
            break
        if not (context.statement.options.allows(rule.name) and rule.may_apply(planned)):
            continue
        changed = _applied(rule, planned, context)
        if changed is None:
            continue
        if changed.read.blocked:  # see `LogicalScan.is_blocked`
            context.statement.forget_units()
            _skipped(rule, context, "a condition of a scan would become a literal")
            continue
        lost = _lost(given, planned, changed, context)
        if lost is None:
            planned = changed
            context.statement.rules.append(RuleReport(rule.name, "applied"))
        else:
            context.statement.forget_units()
            _skipped(rule, context, lost, is_expected=False)
    return planned


def _lost(given: Planned, planned: Planned, changed: Planned, context: Context) -> str | None:
    """Return a description of what a rule did not preserve; None if it preserved everything."""
    if changed.frame is not planned.frame:
        return lost_by_rewriting(given.frame, given.optimized, changed.frame)
    if changed.optimized is planned.optimized:
        return None
    before, after = (frame_of(context.session, each.optimized) for each in (given, changed))
    return lost_by_rewriting(before, given.optimized, after)


def _applied(rule: Rule, planned: Planned, context: Context) -> Planned | None:
    try:
        with refusals():
            return rule.apply(planned, context)
    except (DoesNotApplyError, NotRebuiltError) as err:
        _skipped(rule, context, str(err))
    except _OF_STORED_DATA as err:  # the scan raises it again when it reads the data
        _skipped(rule, context, str(err))
    except Exception as err:  # noqa: BLE001 - the statement also runs without the rule
        _skipped(rule, context, f"{type(err).__name__}: {err}", is_expected=False)
    return None


def _skipped(rule: Rule, context: Context, why: str, *, is_expected: bool = True) -> None:
    context.statement.rules.append(RuleReport(rule.name, f"skipped: {why}"))
    if not is_expected:
        warnings.warn(f"the optimizer rule {rule.name} was not applied: {why}", RewriteWarning, stacklevel=2)
