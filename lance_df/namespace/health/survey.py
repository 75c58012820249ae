"""Read ``__manifest`` as far as possible, even if it is damaged or was rewritten by other programs."""

from __future__ import annotations

from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, LanceError, NotFoundError
from lance_df.format.operations import Restore
from lance_df.namespace.health.findings import REPAIR, Problem, ProblemKind, error
from lance_df.namespace.manifest_rows import check_all_rows
from lance_df.namespace.manifest_table import BASE_FIELDS, READ_FIELDS, column_problem, open_manifest_table
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY, NamespaceSchema
from lance_df.namespace.spec.partition_spec import KEY_PREFIX, PartitionSpec, PartitionSpecs
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.metadata.versions import DETACHED
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_df.storage import Location
    from lance_df.table.table import Table

# base_objects is for views, which namespaces do not have
_BASE: Final = BASE_FIELDS[:4]
SPEC_ROW = r"^v[0-9]+(\$|$)"


@dataclass(frozen=True, slots=True)
class Survey:
    """One version of ``__manifest``, intact or not.

    Attributes
    ----------
    specs, schema
        The specs and the schema; None if the metadata does not describe them.
    missing
        Columns that a namespace with these specs may have but the table lacks.
    problems
        The problems of the metadata and the columns.
    completed
        The rows with base columns that the table lacks; see `with_base_columns`.
    """

    root: Location
    table: Table
    specs: PartitionSpecs | None
    schema: NamespaceSchema | None
    missing: tuple[pa.Field, ...]
    problems: tuple[Problem, ...] = field(default=())
    completed: pa.Table | None = None

    @classmethod
    def of(cls, root: Location, table: Table, metadata: Mapping[str, str] | None = None) -> Survey:
        """Return the survey of a version.

        Parameters
        ----------
        metadata
            Used instead of the metadata of the version.
        """
        known = table.manifest.table_metadata if metadata is None else metadata
        problems: list[Problem] = []
        specs = _specs(known, table.uri, problems)
        schema = _schema(known, table.uri, problems)
        missing = _missing(table, specs)
        if lost := [each for each in missing if _is_lost(each, table)]:
            problems.append(_lost_columns(table, lost))
        return cls(root, table, specs, schema, missing, tuple(problems))

    @property
    def is_whole(self) -> bool:
        """Whether the specs, the schema and the columns that they require exist."""
        return self.specs is not None and self.schema is not None and not self.lost

    @property
    def lost(self) -> tuple[pa.Field, ...]:
        """Required columns that the table lacks or has with another type."""
        return tuple(each for each in self.missing if _is_lost(each, self.table))

    @property
    def has_values(self) -> bool:
        """Whether there is a column for each partition field."""
        others = {field.name for field in (*_BASE, *READ_FIELDS)}
        return self.specs is not None and all(each.name in others for each in self.missing)

    @property
    def lost_base(self) -> tuple[pa.Field, ...]:
        """The base columns that the table lacks or has with another type."""
        return tuple(each for each in self.missing if each in _BASE)

    def rows(self) -> pa.Table:
        """Return all rows; missing columns are NULL."""
        if self.completed is not None:
            return self.completed
        plan = plan_scan(self.table, ScanRequest(requires=Promise.COMPLETE))
        rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema).combine_chunks()
        check_all_rows(self.table, rows)
        for each in self.missing:
            if each.name in rows.column_names:
                rows = rows.drop_columns([each.name])
            # the rows of a damaged table may lack an id
            rows = rows.append_column(each.with_nullable(True), pa.nulls(len(rows), each.type))
        return rows


def open_survey(root: Location, version: int | None = None) -> Survey:
    """Read the ``__manifest`` of a namespace, in its newest version or another one.

    Raises
    ------
    NotFoundError
        There is no partitioned namespace, or no such version.
    CorruptDataError
        The table itself is damaged.
    """
    table = open_manifest_table(root, version)
    if not any(key.startswith(KEY_PREFIX) for key in table.manifest.table_metadata):
        raise NotFoundError(f"{table.uri}: this is a directory namespace, without partition specs")
    return Survey.of(root, table)


def is_spec_row(rows: pa.Table) -> pa.ChunkedArray:
    """Return which rows are spec versions or below one."""
    return pc.match_substring_regex(rows["object_id"], SPEC_ROW)


def older_surveys(survey: Survey) -> Iterator[Survey]:
    """Yield the existing versions before a survey's, the newest first, without damaged ones."""
    for older in islice(lineage(survey.table), 1, None):
        try:
            yield Survey.of(survey.root, older)
        except LanceError:
            continue


def lineage(table: Table) -> Iterator[Table]:
    """Yield a version and its predecessors, the newest first, without damaged ones.

    The predecessor of a version that restores an older one is that older one, because the versions in between
    were discarded on purpose. No other operation of ``__manifest`` removes a member but keeps its folder. So
    a member that a predecessor has and a later version lacks was lost. The predecessor of a restored detached
    version, which changes of columns create, is the version before.
    """
    yield table
    newest = _before(table)
    for number in reversed(table.history.numbers()):
        if number > newest:
            continue
        try:
            older = table.checkout(number)
            yield older
            newest = _before(older)
        except LanceError:
            continue


def _before(table: Table) -> int:
    """Return the number of the predecessor of a version."""
    try:
        transaction = table.transaction()
    except LanceError:  # its file is missing or damaged
        transaction = None
    if transaction is not None and isinstance(transaction.operation, Restore):
        restored = transaction.operation.version
        if not restored & DETACHED:
            return restored
    return table.version - 1


def _specs(metadata: Mapping[str, str], uri: str, problems: list[Problem]) -> PartitionSpecs | None:
    is_bad = False
    for key, text in metadata.items():
        if not key.startswith(KEY_PREFIX):
            continue
        try:
            PartitionSpec.from_json(text, source=f"{uri}: {key}")
        except LanceError as err:
            is_bad = True
            problems.append(_bad_metadata(key, err))
    if is_bad:
        return None
    try:
        return PartitionSpecs.from_metadata(metadata, source=uri)
    except LanceError as err:
        problems.append(_bad_metadata(f"{KEY_PREFIX}*", err))
        return None


def _schema(metadata: Mapping[str, str], uri: str, problems: list[Problem]) -> NamespaceSchema | None:
    if SCHEMA_KEY not in metadata:
        problems.append(_bad_metadata(SCHEMA_KEY, CorruptDataError("the schema is missing")))
        return None
    try:
        return NamespaceSchema.from_json(metadata[SCHEMA_KEY], source=f"{uri}: {SCHEMA_KEY}")
    except LanceError as err:
        problems.append(_bad_metadata(SCHEMA_KEY, err))
        return None


def _missing(table: Table, specs: PartitionSpecs | None) -> tuple[pa.Field, ...]:
    partition = [] if specs is None else specs.fields.values()
    wanted = [*_BASE, *READ_FIELDS, *(pa.field(each.column, each.result_type) for each in partition)]
    types = {each.name: each.type for each in table.arrow_schema}
    return tuple(each for each in wanted if types.get(each.name) != each.type)


def _is_lost(column: pa.Field, table: Table) -> bool:
    """Whether a column is required; those that name a version are optional, but must have their type."""
    is_optional = column.name in {field.name for field in READ_FIELDS}
    return not is_optional or column.name in table.arrow_schema.names


def _bad_metadata(key: str, err: LanceError) -> Problem:
    expected = "valid metadata of __manifest according to the partitioning specification"
    return error(ProblemKind.METADATA, key, str(err), expected, f"{REPAIR}: an older version may have it")


def _lost_columns(table: Table, missing: Sequence[pa.Field]) -> Problem:
    types = {each.name: each.type for each in table.arrow_schema}
    differences = []
    if absent := ", ".join(each.name for each in missing if each.name not in types):
        differences.append(f"version {table.version} lacks the columns {absent}")
    differences += (column_problem(each, types[each.name]) for each in missing if each.name in types)
    expected = (
        "the columns of each namespace, and one for each partition field; another program removed or changed "
        "them"
    )
    return error(ProblemKind.COLUMNS, table.uri, "; ".join(differences), expected, REPAIR)
