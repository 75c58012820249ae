"""Repair a partitioned namespace that another program has rewritten or that is damaged.

Nothing is lost. Rows are completed from older versions, or else from the contents of the tables. A table that
cannot be a member of the namespace is moved to the namespace ``set_aside`` and stays a table. The result is
computed from the newest version and published in one commit.
"""

from __future__ import annotations

import datetime as dt
import math
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import (
    CorruptDataError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    VersionNotFoundError,
)
from lance_df.format.operations import Overwrite, UpdateConfig
from lance_df.namespace.directory.manifest import check_writable
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.health.added_namespaces import add_namespaces
from lance_df.namespace.health.base_columns import with_base_columns
from lance_df.namespace.health.check_members import MemberRow, differing_values, member_rows, pinned_table
from lance_df.namespace.health.check_rows import check_rows, missing_specs
from lance_df.namespace.health.examine import NoMemberError, newest_version, spec_of_path, values_of_member
from lance_df.namespace.health.examined_tables import examine
from lance_df.namespace.health.findings import ProblemKind, Severity
from lance_df.namespace.health.judged_rows import bad_ids
from lance_df.namespace.health.locations import attach_folders, with_locations
from lance_df.namespace.health.old_columns import has_old_columns, with_columns
from lance_df.namespace.health.orphans import (
    ORPHAN_AGE,
    UnknownFolderError,
    lost_folders,
    remove_orphans,
)
from lance_df.namespace.health.rebuild import Rebuild
from lance_df.namespace.health.recalled_rows import bring_back, recall
from lance_df.namespace.health.repair_report import RepairAction, RepairKind, RepairReport, changes
from lance_df.namespace.health.set_aside import set_aside, set_aside_twins
from lance_df.namespace.health.spread import in_threads
from lance_df.namespace.health.survey import Survey, is_spec_row, older_surveys
from lance_df.namespace.health.twins import move_rows, twins_with_rows
from lance_df.namespace.manifest_table import READ_FIELDS, STRICT, TABLE, manifest_schema, open_manifest_table
from lance_df.namespace.object_account import check_none_lost
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY
from lance_df.namespace.spec.partition_spec import KEY_PREFIX
from lance_df.namespace.spec.promotion import is_widening
from lance_df.records import dataclass
from lance_df.storage.listing import scan_folder
from lance_df.table.changes.writing import rows_written
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS, RowChange
from lance_df.table.evolution.metadata import map_update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.format.schema import Schema
    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpecs
    from lance_df.storage import Location
    from lance_df.table.table import Table

_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """What a repair does in addition to completing ``__manifest``.

    Attributes
    ----------
    dry_run
        Report the repair actions without changing anything.
    publish_newer
        Publish the newest version of every member, also if another program committed it, provided that its
        rows belong to the partition.
    forget_missing
        Remove rows of tables whose folders are gone.
    remove_orphans
        Remove folders of members that no version names and that were not written to for ``older_than``.
    """

    dry_run: bool = False
    publish_newer: bool = False
    forget_missing: bool = False
    remove_orphans: bool = False
    older_than: dt.timedelta = ORPHAN_AGE


def repair_namespace(root: Location, options: RepairOptions, *, spread: Spread = in_threads) -> RepairReport:
    """Repair a namespace; an intact one is not changed.

    Parameters
    ----------
    spread
        Runs the examination of the members.

    Raises
    ------
    NotFoundError
        There is no partitioned namespace, and there never was one.
    CorruptDataError
        ``__manifest`` cannot be read, or no version of it has readable specs and a readable schema.
    UnsupportedFeatureError
        Writing the namespace needs features that this release does not have.
    RetryableConflictError
        Other writers were faster again and again.
    CommitStateUnknownError
        It is not known whether the repair was published. It is safe to repair again.
    """
    for _ in range(_ATTEMPTS):
        try:
            version, actions = _repaired(root, options, spread)
        except RetryableConflictError:
            continue
        if options.remove_orphans:
            actions += _removed(root, options)
        return RepairReport(root.uri, version, options.dry_run, tuple(actions))
    raise RetryableConflictError(
        f"{root.uri}: {_ATTEMPTS} attempts in a row failed because other writers published first; try again"
    )


def _repaired(root: Location, options: RepairOptions, spread: Spread) -> tuple[int, list[RepairAction]]:
    table = open_manifest_table(root)
    check_writable(table)
    survey, metadata = _with_metadata(with_base_columns(Survey.of(root, table)))
    specs, schema = survey.specs, survey.schema
    if specs is None or schema is None:
        worst = survey.problems[0]
        raise CorruptDataError(
            f"{table.uri}: the metadata key {worst.subject} cannot be read, and no older version has it: "
            f"{worst.found}"
        )
    actions = [RepairAction(RepairKind.METADATA, key, "as it was") for key in metadata]
    before = survey
    survey, corrected = with_locations(survey)
    actions += corrected
    if survey.lost:
        names = ", ".join(each.name for each in survey.missing)
        actions.append(RepairAction(RepairKind.COLUMNS, table.uri, names))
    rebuild = Rebuild.of(survey, specs, schema, spread)
    _recall(survey, rebuild)
    attach_folders(rebuild)
    examine(rebuild, spread)
    add_namespaces(rebuild)
    set_aside(rebuild)
    actions += rebuild.actions
    rows = rebuild.rows()
    if options.forget_missing:
        rows = _without_missing(survey, rows, actions, spread)
    else:
        actions += _missing(survey, rows)
    if options.publish_newer:
        rows = _with_newer(survey, rows, actions, spread)
    rows = _with_columns(survey, schema, rows, actions, options)
    rows, emptied = _with_twins_joined(survey, specs, schema, rows, actions, options)
    done = len(rebuild.actions)
    is_empty = partial(_is_empty, survey.root, rows)
    rows = set_aside_twins(rebuild, rows, lambda name: name in emptied or is_empty(name))
    actions += rebuild.actions[done:]
    if _has_members(survey.rows()) and not _has_members(rows):
        text = "no table is left in the namespace; see the reasons above. A query of it returns no rows"
        actions.append(RepairAction(RepairKind.EMPTY, root.uri, text))
    is_repair = bool(metadata or survey.lost)
    if changes(actions) and not is_repair and _equal(before.rows(), rows):
        actions = [action for action in actions if not changes([action])]
        actions += _left(survey, rows)
    if options.dry_run or not changes(actions):
        return table.version, actions
    _check_objects(survey, rows, actions)
    return _published(survey, rows, metadata).version, actions


def _equal(before: pa.Table, after: pa.Table) -> bool:
    """Whether two tables have the same rows in any order."""
    before, after = (each.sort_by("object_id") for each in (before, after.select(before.column_names)))
    return before.equals(after)


def _left(survey: Survey, rows: pa.Table) -> list[RepairAction]:
    """Return actions that report rows that neither an older version nor the tables can complete."""
    return [
        RepairAction(RepairKind.LEFT, problem.subject, f"{problem.found} (expected: {problem.expected})")
        for problem in check_rows(survey, rows)
        if problem.severity is Severity.ERROR
    ]


def _has_members(rows: pa.Table) -> bool:
    is_member = pc.and_(is_spec_row(rows), pc.equal(rows["object_type"], TABLE))
    return bool(pc.any(is_member).as_py())


def _with_metadata(survey: Survey) -> tuple[Survey, dict[str, str]]:
    """Return a version with correct metadata, and the entries that were taken from older versions."""
    metadata = survey.table.manifest.table_metadata
    is_good = survey.specs is not None and survey.schema is not None
    lacking = missing_specs(survey, survey.rows()) if is_good else set()
    if is_good and not lacking:
        return _with_past_specs(survey)
    for older in older_surveys(survey):
        if older.specs is None or older.schema is None:
            continue
        past = older.table.manifest.table_metadata
        missing = {
            key: text
            for key, text in past.items()
            if (key == SCHEMA_KEY or key.startswith(KEY_PREFIX)) and metadata.get(key) != text
        }
        if lacking:  # the existing entries are correct
            missing = {key: text for key, text in missing.items() if key in lacking}
        if missing:
            return with_base_columns(Survey.of(survey.root, survey.table, {**metadata, **missing})), missing
    if not any(key.startswith(KEY_PREFIX) for key in metadata):
        raise NotFoundError(f"{survey.table.uri}: this is a directory namespace, without partition specs")
    return survey, {}


def _with_past_specs(survey: Survey) -> tuple[Survey, dict[str, str]]:
    """Return a version with the specs of an older version, if its rows agree better with these.

    Only the types of a spec version may change, and the columns change with them.
    """
    number = _num_contradictions(survey)
    metadata = survey.table.manifest.table_metadata
    for older in older_surveys(survey) if number else ():
        if older.specs is None or survey.specs is None:
            continue
        past = {
            spec.key: older.table.manifest.table_metadata[spec.key]
            for spec in older.specs
            if survey.specs.version(spec.id) not in (None, spec)
        }
        if not past:
            continue
        restored = with_base_columns(Survey.of(survey.root, survey.table, {**metadata, **past}))
        if restored.is_whole and _num_contradictions(restored) < number:
            return restored, past
    return survey, {}


def _num_contradictions(survey: Survey) -> float:
    """Return how many rows contradict the specs; infinite if there are other columns than in the specs."""
    if survey.lost:
        return math.inf
    kinds = (ProblemKind.NAME, ProblemKind.VALUES)
    problems = check_rows(survey, survey.rows())
    return sum(each.kind in kinds and each.severity is Severity.ERROR for each in problems)


def _recall(survey: Survey, rebuild: Rebuild) -> None:
    """Restore open rows, and rows of missing tables, from older versions."""
    lost = lost_folders(survey, rebuild.all_rows())
    for older in older_surveys(survey) if lost or len(rebuild.open) else ():
        if not (older.is_whole and _same_specs(older.specs, rebuild.specs)):
            continue
        try:
            rows = _in_types_of(rebuild.columns, with_locations(older)[0].rows())
        except (LanceError, pa.ArrowInvalid):  # an interrupted clean-up has removed its files
            continue
        known = rows.filter(is_spec_row(rows))
        is_hidden = False
        if len(rebuild.open):
            # an even older version may have the correct row
            is_bad = pc.is_in(known["object_id"], pa.array([*bad_ids(older, known)], pa.string()))
            recall(rebuild, known.filter(pc.invert(is_bad)), older.table.version)
            bad = known.filter(is_bad)["object_id"].combine_chunks()
            is_hidden = bool(pc.any(pc.is_in(rebuild.open["object_id"], bad)).as_py())
        back = rows.filter(pc.is_in(rows["location"], pa.array(sorted(lost), pa.string())))
        if len(back):
            lost -= bring_back(rebuild, _as(back, rebuild.columns), older.table.version)
        if not (lost or is_hidden):
            # rows that the newest intact version does not have were added later
            return


def _same_specs(older: PartitionSpecs | None, specs: PartitionSpecs) -> bool:
    """Whether spec versions have the same fields, so that values can be taken from an older version.

    Types may have been widened since.
    """
    for spec in specs:
        past = None if older is None else older.version(spec.id)
        if past is None:
            continue
        if [(each.field_id, each.definition) for each in past.fields] != [
            (each.field_id, each.definition) for each in spec.fields
        ]:
            return False
        pairs = zip(past.fields, spec.fields, strict=True)
        if not all(is_widening(old.result_type, new.result_type) for old, new in pairs):
            return False
    return True


def _in_types_of(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    types = {each.name: each.type for each in schema}
    return rows.cast(pa.schema([each.with_type(types.get(each.name, each.type)) for each in rows.schema]))


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[each.name] if each.name in rows.column_names else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def _without_missing(survey: Survey, rows: pa.Table, actions: list[RepairAction], spread: Spread) -> pa.Table:
    members = [member for member in member_rows(survey, rows) if member.location is not None]
    gone = []
    for member, reason in zip(members, spread(partial(_loss, survey.root), members), strict=True):
        if reason is not None:
            gone.append(member.object_id)
            actions.append(RepairAction(RepairKind.FORGOTTEN, member.object_id, reason))
    return rows.filter(pc.invert(pc.is_in(rows["object_id"], pa.array(gone, pa.string()))))


def _missing(survey: Survey, rows: pa.Table) -> list[RepairAction]:
    """Return actions that report tables without a folder, which a user may restore."""
    folders = {entry.name for entry in scan_folder(survey.root) if entry.is_directory}
    text = "bring its folder back, or remove the row with forget_missing=True (--forget-missing)"
    return [
        RepairAction(RepairKind.MISSING, member.object_id, text)
        for member in member_rows(survey, rows)
        if member.location is not None
        and member.location.split("/", 1)[0] not in folders
        and _loss(survey.root, member) is not None
    ]


def _is_empty(root: Location, rows: pa.Table, name: str) -> bool:
    """Whether the table with an id is empty, in the version to read."""
    row = rows.filter(pc.equal(rows["object_id"], name)).slice(0, 1)
    (fields,) = row.select(["object_id", "location", *(each.name for each in READ_FIELDS)]).to_pylist()
    try:
        member = MemberRow(**fields, key=None, spec=None)
        return pinned_table(folder_at(root, member.location or ""), member).count_rows() == 0
    except LanceError:
        return False


def _loss(root: Location, member: MemberRow) -> str | None:
    """Return the error that shows that the table of a member is gone, None if other versions may exist."""
    if member.location is None:
        return None
    try:
        pinned_table(folder_at(root, member.location), member)
    except VersionNotFoundError:
        return None
    except NotFoundError as err:
        return str(err)
    except LanceError:
        return None
    return None


def _with_newer(survey: Survey, rows: pa.Table, actions: list[RepairAction], spread: Spread) -> pa.Table:
    moved: dict[str, int] = {}
    members = [member for member in member_rows(survey, rows) if member.location is not None]
    newer = spread(partial(_newer, survey.root, survey.specs, survey.schema), members)
    for member, newest in zip(members, newer, strict=True):
        if isinstance(newest, str):
            actions.append(RepairAction(RepairKind.NOT_PUBLISHED, member.object_id, newest))
        elif newest is not None:
            moved[member.object_id] = newest
            text = f"version {newest} instead of {member.named}"
            actions.append(RepairAction(RepairKind.PUBLISHED, member.object_id, text))
    return _with_versions(rows, moved)


def _subjects(actions: Sequence[RepairAction], kind: RepairKind) -> frozenset[str]:
    return frozenset(action.subject for action in actions if action.kind is kind)


def _with_columns(
    survey: Survey,
    schema: NamespaceSchema,
    rows: pa.Table,
    actions: list[RepairAction],
    options: RepairOptions,
) -> pa.Table:
    """Return rows in which restored members are at versions with the columns of the namespace."""
    restored = _subjects(actions, RepairKind.BROUGHT_BACK)
    members = [member for member in member_rows(survey, rows) if member.object_id in restored]
    old = [member for member in members if has_old_columns(survey.root, schema, member)]
    for member in old:
        text = "columns that were added since then are NULL, dropped columns are removed"
        actions.append(RepairAction(RepairKind.FITTED, member.object_id, text))
    if options.dry_run:
        return rows
    made = in_threads(partial(with_columns, survey.root, schema), old)
    names = (member.object_id for member in old)
    return _with_versions(rows, dict(zip(names, made, strict=True)))


def _with_twins_joined(
    survey: Survey,
    specs: PartitionSpecs,
    schema: NamespaceSchema,
    rows: pa.Table,
    actions: list[RepairAction],
    options: RepairOptions,
) -> tuple[pa.Table, frozenset[str]]:
    """Return rows with one non-empty table for each partition, and the tables that are empty now."""
    emptied: set[str] = set()
    moved: dict[str, int] = {}
    restored = _subjects(actions, RepairKind.BROUGHT_BACK)
    fitted = _subjects(actions, RepairKind.FITTED)
    for twins in twins_with_rows(survey.root, specs, schema, rows, restored=restored, fitted=fitted):
        target = twins.target.object_id
        for source in twins.sources:
            emptied.add(source.object_id)
            text = f"to {target}, which has the same partition values"
            actions.append(RepairAction(RepairKind.MOVED, source.object_id, text))
        if not options.dry_run:
            moved |= move_rows(survey.root, schema, twins)
    return _with_versions(rows, moved), frozenset(emptied)


def _with_versions(rows: pa.Table, versions: Mapping[str, int]) -> pa.Table:
    """Return rows with new versions of main for some members."""
    if not versions:
        return rows
    names = rows["object_id"].to_pylist()
    for column in READ_FIELDS:
        index = rows.schema.get_field_index(column.name)
        is_version = column.name == "read_version"
        new = [
            (versions[name] if is_version else None) if name in versions else old
            for name, old in zip(names, rows[column.name].to_pylist(), strict=True)
        ]
        rows = rows.set_column(index, rows.schema.field(index), pa.array(new, column.type))
    return rows


def _newer(
    root: Location, specs: PartitionSpecs | None, schema: NamespaceSchema | None, member: MemberRow
) -> int | str | None:
    """Return the newer version of a member, None if there is none, or why it cannot be published.

    A member that is read from a branch or by a tag has a newer version only if these do not exist.
    """
    try:
        if member.read_branch is not None or member.read_tag is not None:
            try:
                pinned_table(folder_at(root, member.location or ""), member)
            except VersionNotFoundError:
                pass
            else:
                return None
        table = newest_version(root, member.location or "")
        if table.version == member.read_version:
            return None
        if specs is not None and schema is not None:
            spec = spec_of_path(member.object_id, specs)
            values_of_member(table, spec, schema)
            if member.key is not None and differing_values(table, spec, schema, member.key)[0]:
                return "its rows belong to another partition"
    except NoMemberError as err:
        return str(err)
    return table.version


def _check_objects(survey: Survey, rows: pa.Table, actions: Sequence[RepairAction]) -> None:
    """Check that only reported rows have another id, and that every folder of a table still has a row."""
    uri, before = survey.table.uri, survey.rows()
    forgotten = _subjects(actions, RepairKind.FORGOTTEN)
    is_gone = pc.is_in(before["object_id"], pa.array(sorted(forgotten), pa.string()))
    before = before.filter(pc.invert(is_gone))
    check_none_lost(uri, before=before["location"], after=rows["location"])
    moved = (RepairKind.SET_ASIDE, RepairKind.RENAMED, RepairKind.SHARED)
    aside = pa.array(sorted({name for kind in moved for name in _subjects(actions, kind)}), pa.string())
    check_none_lost(
        uri,
        before=before["object_id"].filter(pc.invert(pc.is_in(before["object_id"], aside))),
        after=rows["object_id"],
    )


def _published(survey: Survey, rows: pa.Table, metadata: Mapping[str, str]) -> Table:
    """Publish the rows, then the metadata, without which it is not a partitioned namespace."""
    table = survey.table
    schema = _schema(survey, rows.schema)
    batches = _as(rows, schema.to_arrow()).to_batches()
    with rows_written(table, schema, batches) as fragments:
        table = commit_change(
            table, Overwrite(fragments, schema), rows=RowChange.replacing(len(rows)), options=STRICT
        )
    if metadata:
        update = UpdateConfig(table_metadata=map_update(dict(metadata)))
        table = commit_change(table, update, rows=NO_ROWS, options=STRICT)
    return table


def _schema(survey: Survey, columns: pa.Schema) -> Schema:
    """Return the schema with its primary key, and with columns that other programs have added."""
    if not survey.missing:
        return survey.table.schema
    base = set(manifest_schema(()).names)
    return manifest_schema([each for each in columns if each.name not in base])


def _removed(root: Location, options: RepairOptions) -> list[RepairAction]:
    try:
        orphans = remove_orphans(root, older_than=options.older_than, dry_run=options.dry_run)
    except UnknownFolderError as err:
        return [RepairAction(RepairKind.NOT_REMOVED, root.uri, str(err))]
    return [
        RepairAction(RepairKind.REMOVED, each.folder.name, f"{each.num_bytes:,} bytes") for each in orphans
    ]
