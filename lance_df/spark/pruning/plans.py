"""Analyze logical plans in Spark's JVM, and replace their relations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lance_df.records import dataclass
from lance_df.spark.pruning.joins import JoinKey, keys_below, passed_keys
from lance_df.spark.pruning.nodes import SCAN, attributes_in, children, class_of, inner_plans, items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

RELATION: Final = "DataSourceV2Relation"
# nodes that have the rows of a plan that was executed before
_EXECUTED: Final = frozenset({"InMemoryRelation", "CommandResult"})
_STATEFUL: Final = "org.apache.spark.sql.catalyst.expressions.Nondeterministic"
_OF_SAMPLES: Final = "Sample"


def relations(plan: Any) -> Iterator[Any]:
    """Yield the relations of data sources in a plan that is not optimized yet."""
    if class_of(plan) == RELATION:
        yield plan
    for inner in inner_plans(plan):
        yield from relations(inner)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A read of a relation in an optimized plan.

    Attributes
    ----------
    conditions
        The plan uses only rows for which all these conditions are true.
    used
        The ids of the attributes that the plan uses; None for all.
    keys
        The keys from joins; the plan uses only rows that have one of the values of each.
    """

    relation: Any
    conditions: tuple[Any, ...]
    used: frozenset[int] | None
    keys: tuple[JoinKey, ...]


def occurrences(plan: Any, plans: Plans) -> list[Occurrence]:
    """Return the reads of relations in an optimized plan."""
    return list(_occurrences(plan, plans, (), ()))


def _occurrences(
    plan: Any, plans: Plans, above: tuple[Any, ...], keys: tuple[JoinKey, ...]
) -> Iterator[Occurrence]:
    """Yield the reads in a plan whose rows have these keys.

    Parameters
    ----------
    above
        The filters directly above the plan, and the projection above them if there is one.
    """
    kind = class_of(plan)
    if kind in _EXECUTED:
        return
    if kind in (SCAN, RELATION):
        yield _occurrence(plan.relation() if kind == SCAN else plan, plans, above, keys)
    if kind == "Join":
        for child, passed in zip(children(plan), keys_below(plan, keys), strict=True):
            yield from _occurrences(child, plans, (), passed)
    else:
        above = (plan,) if kind == "Project" else (*above, plan) if kind == "Filter" else ()
        for child in children(plan):
            yield from _occurrences(child, plans, above, passed_keys(plan, kind, keys))
    for inner in items(plan.innerChildren()):  # the plans of subqueries, and others that a node may have
        yield from _occurrences(inner, plans, (), ())


def _occurrence(relation: Any, plans: Plans, above: tuple[Any, ...], keys: tuple[JoinKey, ...]) -> Occurrence:
    conditions = tuple(each.condition() for each in above if class_of(each) == "Filter")
    has_projection = bool(above) and class_of(above[0]) == "Project"
    used = frozenset(
        number for plan in above for number in attributes_in(json.loads(plans.expressions_of(plan)))
    )
    return Occurrence(relation, conditions, used if has_projection else None, keys)


def is_of_rows_alone(plan: Any, context: Any) -> bool:
    """Whether the result does not depend on how many other rows a task reads.

    Random numbers, row numbers and samples depend on the position of a row among the rows of its task.
    """
    if class_of(plan) == _OF_SAMPLES:
        return False
    if not plan.deterministic() and not all(
        _is_stateless(each, context) for each in items(plan.expressions())
    ):
        return False
    return all(is_of_rows_alone(inner, context) for inner in inner_plans(plan))


def _is_stateless(expression: Any, context: Any) -> bool:
    if expression.deterministic():
        return True
    from py4j.java_gateway import is_instance_of

    if is_instance_of(context._gateway, expression, _STATEFUL):
        return False
    return all(_is_stateless(child, context) for child in children(expression))


class Plans:
    """Creates plans and DataFrames in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark
        jvm: Any = self._spark._sc._jvm
        self._jvm = jvm
        self._sql = jvm.org.apache.spark.sql

    @property
    def context(self) -> Any:
        """The Spark context."""
        return self._spark._sc

    def at_one_time(self, plan: Any) -> Any:
        """Return a plan in which the current time is the time of this call."""
        rule = getattr(self._sql.catalyst.optimizer, "ComputeCurrentTime$")
        return getattr(rule, "MODULE$").apply(plan)

    def optimized(self, plan: Any) -> Any:
        """Return the optimized logical plan of a plan."""
        return self.frame(plan)._jdf.queryExecution().optimizedPlan()

    def expressions_of(self, plan: Any) -> str:
        """Return the expressions of a node as JSON.

        The JSON of the node itself includes its children, and takes tens of milliseconds for a scan.
        """
        # one expression with all expressions as its children
        whole = getattr(self._jvm, "org.apache.spark.sql.catalyst.expressions.Coalesce")(plan.expressions())
        text: str = whole.toJSON()
        return text

    def options_of(self, relation: Any) -> dict[str, str]:
        """Return the options of a relation."""
        writer = getattr(self._jvm, "com.fasterxml.jackson.databind.ObjectMapper")()
        options: dict[str, str] = json.loads(
            writer.writeValueAsString(relation.options().asCaseSensitiveMap())
        )
        return options

    def with_output_of(self, relation: Any, other: Any) -> Any:
        """Return a relation with the attributes of another relation, which has the same columns."""
        parts, output = list(items(relation.productIterator().toSeq())), relation.output()
        held = self.context._gateway.new_array(getattr(self._jvm, "java.lang.Object"), len(parts))
        for position, part in enumerate(parts):
            held[position] = other.output() if output.equals(part) else part
        return relation.makeCopy(held)

    def renamed(self, plan: Any, outputs: Iterable[Any]) -> Any:
        """Return a plan whose columns, in order, have the names and ids of these attributes."""
        # looked up once, because each name in a package is a request to the JVM
        alias, empty, nothing = (
            self._sql.catalyst.expressions.Alias,
            self._seq(()),
            self._jvm.scala.Option.empty(),
        )
        aliases = [
            alias(mine, theirs.name(), theirs.exprId(), theirs.qualifier(), nothing, empty)
            for mine, theirs in zip(items(plan.output()), outputs, strict=True)
        ]
        return self._sql.catalyst.plans.logical.Project(self._seq(aliases), plan)

    def selected(self, plan: Any, expression: Any) -> Any:
        """Return a plan that computes one expression over the rows of another plan."""
        new = getattr(self._sql.catalyst.expressions, "NamedExpression$")
        number = getattr(new, "MODULE$").newExprId()
        empty = self._seq(())
        column = self._sql.catalyst.expressions.Alias(
            expression, "key", number, empty, self._jvm.scala.Option.empty(), empty
        )
        return self._sql.catalyst.plans.logical.Project(self._seq([column]), plan)

    def replaced(self, plan: Any, others: Sequence[tuple[Any, Any]]) -> Any:
        """Return a plan in which the second plan of each pair replaces the first, also in subqueries."""
        pairs = self._jvm.java.util.HashMap()
        for old, new in others:
            pairs.put(old, new)
        # a Scala map is a partial function
        function = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(pairs)
        return plan.transformWithSubqueries(function)

    def frame(self, plan: Any) -> DataFrame:
        """Return a DataFrame with the rows of a plan."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        rows = self._sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        return ClassicDataFrame(rows, self._spark)

    def field(self, value: Any, *names: str) -> Any:
        """Return a private field of a JVM object, or follow several fields in turn."""
        for name in names:
            if value is None:
                return None
            held = value.getClass().getDeclaredField(name)
            held.setAccessible(True)
            value = held.get(value)
        return value

    def _seq(self, values: Iterable[Any]) -> Any:
        held = self._jvm.java.util.ArrayList()
        for value in values:
            held.add(value)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(held).toSeq()
