"""`prune`: rebuild the query of a DataFrame over scans that read only what it needs."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from lance_df.engine.query import plan_with_sql
from lance_df.engine.report import ScanReport
from lance_df.errors import LanceError, UnsupportedFeatureError
from lance_df.records import dataclass
from lance_df.spark.failures import errors_of_spark, is_of_other_release
from lance_df.spark.pruning.conditions import Translator, all_of, any_of
from lance_df.spark.pruning.joins import scans_of_same_rows
from lance_df.spark.pruning.keys import are_comparable, keys_condition, num_bytes
from lance_df.spark.pruning.nodes import all_nodes, attribute_id, class_of, output_of
from lance_df.spark.pruning.plans import (
    RELATION,
    Occurrence,
    Plans,
    is_of_rows_alone,
    occurrences,
    relations,
)
from lance_df.spark.pruning.relations import NOT_READ, Relation
from lance_df.spark.sessions import check_frame, is_connect, register
from lance_df.spark.splits import Filter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


_log = logging.getLogger("lance_df")

MAX_KEY_BYTES: Final = 32 * 1024 * 1024
"""The greatest number of stored bytes of a join side whose keys are computed first."""
MIN_BYTES: Final = 32 * 1024 * 1024
"""The least number of stored bytes of the other side: computing keys takes as long as reading these."""
_TIMES_AS_LARGE: Final = 4


def prune(df: DataFrame, *, join_keys: bool = True) -> DataFrame:
    """Return the same rows, from scans that read only the columns and partitions that the query needs.

    The conditions and columns of the query become the options ``filter`` and ``columns`` of each table and
    namespace of lance_df in it. A condition without an equivalent in lance_df is not pushed down; the result
    is the same in any case. The result always reads the versions of this call, and
    ``current_timestamp()`` is the time of this call.

    Parameters
    ----------
    df
        The whole query. Operations that you add to the result prune nothing more.
    join_keys
        Whether to run a Spark job now that computes the keys of the small side of a join. The keys become a
        condition for a large side.

    Returns
    -------
    DataFrame
        ``df`` itself if nothing can be pruned, with Spark Connect, for streams, and for Spark releases whose
        plans are unknown (which is logged).

    Raises
    ------
    LanceError
        A job that computes keys fails.
    """
    check_frame(df, "prune expects")
    spark = df.sparkSession
    if is_connect(spark) or df.isStreaming:
        return df
    register(spark)
    with errors_of_spark():
        try:
            return _Query(spark, df).pruned(join_keys=join_keys)
        except Exception as error:
            if not is_of_other_release(error):
                raise
            _log.warning(
                "plans of Spark %s are not supported, so nothing is pruned: %s", spark.version, error
            )
            return df


def explain_scan(df: DataFrame) -> ScanReport:
    """Return a report of what the scans of a DataFrame read after pruning, and which conditions prune.

    ``bytes`` counts the pages of the columns that are read, in the partitions and fragments that remain.

    Raises
    ------
    UnsupportedFeatureError
        Spark Connect does not show its plans.
    """
    if is_connect(df.sparkSession):
        raise UnsupportedFeatureError(
            "explain_scan requires the plan of a query, which Spark Connect does not provide"
        )
    plans = Plans(df.sparkSession)
    reports = []
    for each in occurrences(df._jdf.queryExecution().optimizedPlan(), plans):
        relation = Relation.of(each.relation, plans)
        if relation is not None:
            names = relation.options.columns or relation.schema.names
            plan = plan_with_sql(relation.source, columns=list(names), filter=relation.options.filter)
            reports.append(plan.report)
    return ScanReport(tuple(reports))


@dataclass(frozen=True, slots=True)
class _Needs:
    """The rows and columns that a query needs of a relation: a filter, and columns or None for all."""

    filter: str | None
    names: list[str] | None


class _Origins:
    """Maps the relations of an optimized plan to the relations of the query, of which they may be copies.

    Spark gives the attributes of copies new ids, for example if a common table expression is used twice.
    """

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._nodes: list[tuple[int, Any, int]] = []

    def add(self, node: Any, number: int) -> None:
        self._nodes.append((_first_id(node), node, number))

    def of(self, node: Any) -> list[int]:
        """Return the numbers of the relations that a relation may be a copy of."""
        first = _first_id(node)
        same = [number for known, _, number in self._nodes if known == first]
        return same or [number for _, other, number in self._nodes if other.table().equals(node.table())]

    def occurrences(self, plan: Any) -> dict[int, list[Occurrence]]:
        """Return where a plan reads each relation."""
        by_relation = defaultdict(list)
        for each in occurrences(plan, self._plans):
            for number in self.of(each.relation):
                by_relation[number].append(each)
        return by_relation


class _Query:
    """A query, and its relations of lance_df by the ids of their first attributes."""

    def __init__(self, spark: SparkSession, df: DataFrame) -> None:
        self._spark = spark
        self._df = df
        self._plans = Plans(spark)
        held: Any = df._jdf
        cached = held.queryExecution().withCachedData()
        self._plan = self._plans.at_one_time(cached)
        is_same = self._plan.fastEquals(cached)
        opened = [Relation.of(node, self._plans) for node in relations(self._plan)]
        self._relations = {each.ids[0]: each for each in opened if each is not None and each.has_plain_names}
        self._occurrences: dict[int, list[Occurrence]] = {}
        if self._relations:
            origins = _Origins(self._plans)
            for number, relation in self._relations.items():
                origins.add(relation.node, number)
            optimized = (
                held.queryExecution().optimizedPlan() if is_same else self._plans.optimized(self._plan)
            )
            self._occurrences = origins.occurrences(optimized)

    def pruned(self, *, join_keys: bool) -> DataFrame:
        """Return the query over scans that read less."""
        if not self._occurrences:
            return self._df
        takes_filters = is_of_rows_alone(self._plan, self._plans.context)
        needs = {
            number: _needs(self._relations[number], uses, takes_filters=takes_filters)
            for number, uses in self._occurrences.items()
        }
        has_keys = any(one.keys for each in self._occurrences.values() for one in each)
        uses_keys = join_keys and takes_filters and has_keys
        if not uses_keys and all(need == _Needs(None, None) for need in needs.values()):
            return self._df
        df, origins = self._with(needs)
        more = self._key_filters(df, origins, needs) if uses_keys else {}
        if not more:
            return df
        for number, text in more.items():
            needs[number] = _Needs(all_of([needs[number].filter, text]), needs[number].names)
        return self._with(needs)[0]

    def _with(self, needs: Mapping[int, _Needs]) -> tuple[DataFrame, _Origins]:
        """Return the query over scans of what it needs, and the origins of its relations."""
        others, origins = [], _Origins(self._plans)
        for number, need in needs.items():
            relation = self._relations[number]
            rows = relation.read(self._spark, need.names, need.filter)
            if rows is None:
                continue
            held: Any = rows._jdf
            plan = held.queryExecution().analyzed()
            if class_of(plan) == RELATION:
                read = renamed = self._plans.with_output_of(plan, relation.node)
            else:
                read, renamed = next(relations(plan)), self._plans.renamed(plan, relation.attributes)
            others.append((relation.node, renamed))
            origins.add(read, number)
        if not others:
            return self._df, origins
        df = self._plans.frame(self._plans.replaced(self._plan, others))
        if any(need.names is not None for need in needs.values()) and self._takes_what_is_not_read(df):
            return self._with({number: _Needs(need.filter, None) for number, need in needs.items()})
        return df, origins

    def _takes_what_is_not_read(self, df: DataFrame) -> bool:
        held: Any = df._jdf
        nodes = all_nodes(held.queryExecution().optimizedPlan())
        return any(NOT_READ in self._plans.expressions_of(node) for node in nodes)

    def _key_filters(self, df: DataFrame, origins: _Origins, needs: Mapping[int, _Needs]) -> dict[int, str]:
        """Return filters for the relations of large join sides, from the keys of small sides."""
        held: Any = df._jdf
        uses = origins.occurrences(held.queryExecution().optimizedPlan())
        sizes = {number: num_bytes(self._relations[number], needs[number].filter) for number in uses}
        texts = {}
        for number, each in uses.items():
            if sizes[number] >= MIN_BYTES:
                sides = _Sides(origins, sizes, sizes[number] // _TIMES_AS_LARGE)
                text = any_of([self._key_filter(one, self._relations[number], sides) for one in each])
                if text is not None:
                    texts[number] = text
        return texts

    def _key_filter(self, use: Occurrence, relation: Relation, sides: _Sides) -> str | None:
        columns = {column.name: column for column in relation.columns().values()}
        names = dict(output_of(use.relation))
        texts = []
        for key in use.keys:
            column = columns.get(names.get(key.attribute, ""))
            if column is not None and are_comparable(column) and sides.is_small(key.side):
                keys = self._plans.frame(self._plans.selected(key.side, key.key))
                texts.append(keys_condition(keys, column))
        return all_of(texts)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The sides of joins with a large relation, and the bytes that the scans of each relation read."""

    origins: _Origins
    sizes: Mapping[int, int]
    max_bytes: int

    def is_small(self, side: Any) -> bool:
        """Whether a side reads little, and has the same rows when the query runs."""
        scans = scans_of_same_rows(side)
        if scans is None:
            return False
        numbers = [self.origins.of(each) for each in scans]
        if not all(numbers):
            return False
        size = sum(self.sizes[number] for each in numbers for number in each)
        return size <= min(MAX_KEY_BYTES, self.max_bytes)


def _needs(relation: Relation, uses: Sequence[Occurrence], *, takes_filters: bool) -> _Needs:
    names: list[str] | None = None
    if all(each.used is not None for each in uses):
        indices = {
            index
            for each in uses
            for index, (number, _) in enumerate(output_of(each.relation))
            if number in (each.used or ())
        }
        names = relation.names(frozenset(relation.ids[index] for index in indices))
    text = None
    if takes_filters:
        text = any_of([_implied(relation, each) for each in uses])
    return _Needs(_checked(relation, text), None if names == relation.schema.names else names)


def _implied(relation: Relation, use: Occurrence) -> str | None:
    """Return a filter that is true for the rows that one use needs."""
    columns = relation.columns()
    ids = zip(relation.ids, (number for number, _ in output_of(use.relation)), strict=True)
    implied = Translator({theirs: columns[ours] for ours, theirs in ids if ours in columns}).implied
    return all_of([implied(each) for each in use.conditions])


def _first_id(node: Any) -> int:
    return attribute_id(node.output().head())


def _checked(relation: Relation, text: str | None) -> str | None:
    """Return the filter, or None if lance_df does not accept it."""
    if text is None:
        return None
    try:
        if Filter.parse(text, relation.source.arrow_schema).sql is not None:
            plan_with_sql(relation.source, columns=relation.source.arrow_schema.names[:1], filter=text)
    except LanceError:
        return None
    return text
