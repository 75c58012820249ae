"""The rows that ``__manifest`` should have, from what it has, what it had, and the tables themselves.

Pure but for reading tables of which no version tells the partition values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.check_members import MemberRow, member_rows
from lance_df.namespace.health.check_rows import NO_PARENT, check_rows, row_keys, twin_ids, unproven_ids
from lance_df.namespace.health.contradictions import sorted_out
from lance_df.namespace.health.examine import NoMemberError, read_version, spec_of_path, values_of_member
from lance_df.namespace.health.findings import ProblemKind, Severity
from lance_df.namespace.health.orphans import ids_of_folder, is_id_of_folder, member_of_folder
from lance_df.namespace.health.repair_report import RepairAction, RepairKind
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import NAMESPACE, READ_FIELDS, TABLE
from lance_df.namespace.names import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
    from lance_df.storage import Location

    _Read: TypeAlias = tuple[int, pa.RecordBatch | None]

SET_ASIDE: Final = "set_aside"
_ROW_PROBLEMS: Final = (ProblemKind.ROW, ProblemKind.VALUES, ProblemKind.NAME)


@dataclass(slots=True)
class Rebuild:
    """A rebuilding under way.

    Attributes
    ----------
    columns
        Those that the rows will have.
    good
        Rows that are as they should be.
    open
        Rows below spec versions that are not complete.
    valued
        The ids of open rows with values that fit those of other rows.
    renamed
        The ids of open rows that were told by their folders.
    other
        Rows that are not of the partitioned namespace.
    spare
        Rows that have the id of another one, but not its folder.
    misplaced
        Rows that name the folder of another table.
    """

    root: Location
    specs: PartitionSpecs
    schema: NamespaceSchema
    columns: pa.Schema
    good: pa.Table
    open: pa.Table
    other: pa.Table
    spare: pa.Table
    misplaced: pa.Table
    valued: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    actions: list[RepairAction] = field(default_factory=list)

    @classmethod
    def of(cls, survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema) -> Rebuild:
        """Sort the rows of a version."""
        rows = survey.rows()
        is_own = is_spec_row(rows)
        found, other = sorted_out(rows.filter(is_own)), rows.filter(pc.invert(is_own))
        own = found.kept
        judged = _judged(survey, specs, schema, own)
        bad = bad_ids(survey, own, proven=judged.proven)
        for name in judged.wrong:
            bad.setdefault(name, set()).add(ProblemKind.VALUES)
        good = pc.invert(pc.is_in(own["object_id"], pa.array([*bad], pa.string())))
        if not survey.has_values:
            good = pc.equal(pc.count_substring(own["object_id"], SEPARATOR), 0)
        fitting = [name for name, kinds in bad.items() if kinds == {ProblemKind.ROW}]
        valued = frozenset(fitting if survey.has_values else ())
        complete = own.filter(good)
        incomplete, renamed = _as_folders_say(own.filter(pc.invert(good)), complete)
        columns, spare, misplaced = rows.schema, found.others, found.misplaced
        rebuild = cls(
            survey.root,
            specs,
            schema,
            columns,
            complete,
            incomplete,
            other,
            spare,
            misplaced,
            valued,
            frozenset(renamed),
        )
        for name, former in renamed.items():
            rebuild._did(RepairKind.RENAMED, former, name)
        for name in found.repeated:
            rebuild._did(RepairKind.REPEATED, name, "another row has its id and folder")
        return rebuild

    def recall(self, known: pa.Table, version: int) -> None:
        """Complete open rows from those of an older version: of the same id, type and folder.

        Parameters
        ----------
        known
            Rows that are as they should be.
        """
        places = pc.index_in(self.open["object_id"], value_set=_one(known["object_id"]))
        past = known.take(_one(places))
        is_same = pc.fill_null(pc.equal(self.open["object_type"], past["object_type"]), False)
        mine, theirs = (pc.fill_null(rows["location"], "") for rows in (self.open, past))
        is_same = pc.and_(is_same, pc.equal(mine, theirs))
        is_known = pc.equal(self.open["object_type"], NAMESPACE)
        # without any of these, the older row is no better
        for name in ("read_version", "read_tag", *_value_columns(self.specs)):
            if name in past.column_names:
                is_known = pc.or_(is_known, past[name].is_valid())
        is_same = pc.and_(is_same, pc.fill_null(is_known, False))
        if not (number := pc.sum(is_same).as_py()):
            return
        completed = self.open.filter(is_same)
        past = past.filter(is_same)
        for name in (*(each.name for each in READ_FIELDS), *_value_columns(self.specs)):
            if name in past.column_names:
                completed = completed.set_column(
                    completed.schema.get_field_index(name), completed.schema.field(name), past[name]
                )
        self.good = _joined(self.good, completed)
        self.open = self.open.filter(pc.invert(is_same))
        text = f"read versions and partition values of {number:,} rows"
        self._did(RepairKind.RECALLED, f"version {version}", text)

    def bring_back(self, rows: pa.Table, version: int) -> set[str]:
        """Add rows of tables that are gone, though their folders are not, and return these folders.

        They replace rows of the same id that name no folder, or that of another table. Where another table
        has the id, which was given out again since, they get another one. Those that were set aside are so
        again.

        Parameters
        ----------
        rows
            Of which each names a folder that no row names now.
        """
        is_own = is_spec_row(rows)
        aside = rows.filter(pc.invert(is_own))
        found = sorted_out(rows.filter(is_own))
        rows = _joined(found.kept, found.others)
        is_back = pc.is_in(self.open["object_id"], _one(rows["object_id"]))
        self.open = self.open.filter(pc.invert(pc.and_(is_back, self.open["location"].is_null())))
        taken = {*self.good["object_id"].to_pylist(), *self.open["object_id"].to_pylist()}
        ids = []
        for name, location in zip(
            *(rows[each].to_pylist() for each in ("object_id", "location")), strict=True
        ):
            others = (each for each in ids_of_folder(location) if each not in taken)
            ids.append(new := name if name not in taken else next(others))
            taken.add(new)
            self._did_bring_back(new, name, version)
        rows = _with(rows, "object_id", pa.array(ids, pa.string()))
        self.good = _joined(self.good, rows)
        is_back = pc.is_in(self.misplaced["object_id"], _one(rows["object_id"]))
        self.misplaced = self.misplaced.filter(pc.invert(is_back))
        if len(aside):
            before = aside["object_id"].to_pylist()
            for new, name in zip(self._add_others(aside, before), before, strict=True):
                self._did_bring_back(new, name, version)
        return {*rows["location"].to_pylist(), *aside["location"].to_pylist()}

    def examine(self, spread: Spread) -> None:
        """Find out what the open tables are; set aside what is no member."""
        is_table = pc.equal(self.open["object_type"], TABLE)
        tables, others = self.open.filter(is_table), self.open.filter(pc.invert(is_table))
        paths, taken = self._known_values()
        aside = []
        names = tables["object_id"].to_pylist()
        told = tables.select(["object_id", "location", *(each.name for each in READ_FIELDS)]).to_pylist()
        members = [MemberRow(**row, key=None, spec=None) for row in told]
        read = spread(partial(_read, self.root, self.specs, self.schema), members)
        for number, (name, found) in enumerate(zip(names, read, strict=True)):
            row = tables.slice(number, 1)
            try:
                self.good = _joined(self.good, self._examined(row, name, found, paths, taken))
            except NoMemberError as err:
                aside.append(row)
                self._did(RepairKind.SET_ASIDE, name, str(err))
        self.open = _joined(others, *aside)

    def add_namespaces(self) -> None:
        """Add the namespaces that tables are in, with the values of these, and each spec version."""
        for spec in self.specs:
            self._add_spec(spec)
            for level in range(len(spec.fields), 0, -1):
                self._add_level(spec, level)

    def set_aside(self) -> None:
        """Move what is left below a namespace of its own, where `DirectoryNamespace` finds it."""
        self._drop_shared()
        # to drop a table there would take the folder of the other one along
        self.good, self.misplaced = _joined(self.good, self.misplaced), self.misplaced.slice(0, 0)
        for name in self.spare["object_id"].to_pylist():
            self._did(RepairKind.SET_ASIDE, name, "another row has its id")
        self.open, self.spare = _joined(self.open, self.spare), self.spare.slice(0, 0)
        if not len(self.open):
            return
        names = self.open["object_id"].to_pylist()
        for name, kind in zip(names, self.open["object_type"].to_pylist(), strict=True):
            if kind != TABLE:
                self._did(RepairKind.SET_ASIDE, name, "no table of the namespace is below it")
        rows, self.open = self.open, self.open.slice(0, 0)
        self._add_others(rows, [f"{SET_ASIDE}{SEPARATOR}{name.replace(SEPARATOR, '.')}" for name in names])

    def set_aside_twins(self, rows: pa.Table, is_empty: Callable[[str], bool]) -> pa.Table:
        """Return rows, with the empty ones of several tables of the same partition moved, too.

        Parameters
        ----------
        is_empty
            Whether the table of an id has no rows.
        """
        twins: list[str] = []
        for spec in self.specs:
            is_own = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
            tables = rows.filter(pc.and_(is_own, pc.equal(rows["object_type"], TABLE)))
            for names in twin_ids(tables, spec):
                empty = [name for name in names if is_empty(name)]
                twins += empty if len(empty) < len(names) else empty[1:]
        is_twin = pc.is_in(rows["object_id"], pa.array(twins, pa.string()))
        is_own = pc.and_(is_spec_row(rows), pc.invert(is_twin))
        self.good, self.open = rows.filter(is_own), rows.filter(is_twin)
        self.other = rows.filter(pc.invert(pc.or_(is_own, is_twin)))
        for name in twins:
            self._did(RepairKind.SET_ASIDE, name, "another table has the same partition values, and rows")
        self.set_aside()
        return self.rows()

    def rows(self) -> pa.Table:
        """Return all rows but those that are still open."""
        return _joined(self.good, self.other)

    def all_rows(self) -> pa.Table:
        """Return all rows."""
        return _joined(self.rows(), self.open, self.spare, self.misplaced)

    # -- how ------------------------------------------------------------------------------------------------

    def _did(self, kind: RepairKind, subject: str, text: str) -> None:
        self.actions.append(RepairAction(kind, subject, text))

    def _did_bring_back(self, name: str, former: str, version: int) -> None:
        text = f"as version {version} had it, and without changes since"
        if name != former:
            text += f"; it was {former}, which is another table now"
        self._did(RepairKind.BROUGHT_BACK, name, text)

    def _add_others(self, rows: pa.Table, wanted: Sequence[str]) -> list[str]:
        """Add rows that are not of the partitioned namespace, and return their ids: those wanted, or near."""
        taken = set(self.other["object_id"].to_pylist())
        names = []
        for base in wanted:
            name, number = base, 1
            while name in taken:
                number += 1
                name = f"{base}.{number}"
            taken.add(name)
            names.append(name)
        rows = _with(_without_values(rows, self.specs), "object_id", pa.array(names, pa.string()))
        self.other = _joined(self.other, rows)
        is_aside = any(name.startswith(SET_ASIDE + SEPARATOR) for name in names)
        if is_aside and SET_ASIDE not in taken:
            row = {"object_id": SET_ASIDE, "object_type": NAMESPACE, "metadata": "{}"}
            self.other = _joined(self.other, pa.Table.from_pylist([row], self.columns))
        return names

    def _drop_shared(self) -> None:
        """Drop rows that name the folder of another table, which has a row that is as it should be."""
        is_shared = pc.is_in(self.misplaced["location"], _one(self.good["location"].drop_null()))
        for name, location in zip(
            *(self.misplaced.filter(is_shared)[each].to_pylist() for each in ("object_id", "location")),
            strict=True,
        ):
            self._did(RepairKind.SHARED, name, location)
        self.misplaced = self.misplaced.filter(pc.invert(is_shared))

    def _examined(
        self,
        row: pa.Table,
        name: str,
        found: _Read | str,
        paths: dict[str, bytes],
        taken: dict[tuple[int, bytes], str],
    ) -> pa.Table:
        """Return the row of an open table, complete."""
        if isinstance(found, str):
            raise NoMemberError(found)
        spec, (version, values) = spec_of_path(name, self.specs), found
        if values is None and name in self.valued:
            values = row.select([each.column for each in spec.fields]).combine_chunks().to_batches()[0]
        if values is None:
            raise NoMemberError("it has no rows, so that its partition values are not known")
        key = value_keys(values.columns)[0].as_py()
        if name in self.renamed and row_keys(row, values.schema.names)[0].as_py() != key:
            raise NoMemberError("its version may be that of another table, as its partition values are")
        if (other := taken.get((spec.id, key))) is not None:
            raise NoMemberError(f"{other} has the same partition values; append the rows and drop the table")
        levels = name.split(SEPARATOR)
        for level in range(1, len(spec.fields) + 1):
            prefix = value_keys(values.columns[:level])[0].as_py()
            namespace = SEPARATOR.join(levels[: level + 1])
            if paths.setdefault(namespace, prefix) != prefix:
                raise NoMemberError(f"its rows have other values than the namespace {namespace}")
        self._did(RepairKind.READ, name, f"of version {version}, which is to be read from now on")
        row = _with(row, "read_version", pa.array([version], pa.uint64()))
        for each in ("read_branch", "read_tag"):
            row = _with(row, each, pa.nulls(1, row.schema.field(each).type))
        for name_of, column in zip(values.schema.names, values.columns, strict=True):
            row = _with(row, name_of, column)
        return row

    def _known_values(self) -> tuple[dict[str, bytes], dict[tuple[int, bytes], str]]:
        """Return the keys of namespaces and of tables whose values are known; nothing if none are needed."""
        paths: dict[str, bytes] = {}
        taken: dict[tuple[int, bytes], str] = {}
        if not len(self.open):
            return paths, taken
        for spec in self.specs:
            columns = [each.column for each in spec.fields]
            below = self.good.filter(pc.starts_with(self.good["object_id"], spec.name + SEPARATOR))
            depth = pc.count_substring(below["object_id"], SEPARATOR)
            is_table = pc.equal(below["object_type"], TABLE)
            tables = below.filter(is_table)
            keys = row_keys(tables, columns).to_pylist()
            names = tables["object_id"].to_pylist()
            taken.update(((spec.id, key), name) for key, name in zip(keys, names, strict=True))
            for level in range(1, len(columns) + 1):
                own = below.filter(pc.and_(pc.invert(is_table), pc.equal(depth, level)))
                keys = row_keys(own, columns[:level]).to_pylist()
                paths.update(zip(own["object_id"].to_pylist(), keys, strict=True))
        return paths, taken

    def _add_spec(self, spec: PartitionSpec) -> None:
        if not pc.any(pc.equal(self.good["object_id"], spec.name)).as_py():
            row = {"object_id": spec.name, "object_type": NAMESPACE, "metadata": "{}"}
            self.good = _joined(self.good, pa.Table.from_pylist([row], self.columns))
            self._did(RepairKind.NAMESPACE, spec.name, "each spec version has one")

    def _add_level(self, spec: PartitionSpec, level: int) -> None:
        """Add the namespaces of a level that are missing: the parents of what is a level below."""
        depth = pc.count_substring(self.good["object_id"], SEPARATOR)
        is_below = pc.and_(
            pc.starts_with(self.good["object_id"], spec.name + SEPARATOR), pc.equal(depth, level + 1)
        )
        below = self.good.filter(is_below)
        parents = _one(pc.replace_substring_regex(below["object_id"], r"\$[^$]*$", ""))
        missing = parents.filter(pc.invert(pc.is_in(parents, value_set=_one(self.good["object_id"]))))
        if not len(missing):
            return
        distinct = missing.unique()
        rows = below.take(pc.index_in(distinct, value_set=parents))
        rows = _with(rows, "object_id", distinct)
        rows = _with(rows, "object_type", pa.repeat(NAMESPACE, len(rows)))
        # an open row of the namespace has its properties
        places = pc.index_in(distinct, value_set=_one(self.open["object_id"]))
        metadata = pc.fill_null(_one(self.open["metadata"]).take(places), "{}")
        rows = _with(rows, "metadata", metadata)
        hidden = [each.column for each in spec.fields[level:]]
        for name in ("location", *hidden, *(each.name for each in READ_FIELDS)):
            rows = _with(rows, name, pa.nulls(len(rows), rows.schema.field(name).type))
        self.good = _joined(self.good, rows)
        self.open = self.open.filter(pc.invert(pc.is_in(self.open["object_id"], distinct)))
        for name in distinct.to_pylist():
            self._did(RepairKind.NAMESPACE, name, "with the values of the tables in it")


def _read(root: Location, specs: PartitionSpecs, schema: NamespaceSchema, member: MemberRow) -> _Read | str:
    """Return the version of a table to read and the partition values of its rows, or why it is no member."""
    try:
        spec = spec_of_path(member.object_id, specs)
        if member.location is None:
            return "it has no location"
        table = read_version(root, member)
        return table.version, values_of_member(table, spec, schema)
    except NoMemberError as err:
        return str(err)


def bad_ids(survey: Survey, rows: pa.Table, *, proven: Container[str] = ()) -> dict[str, set[ProblemKind]]:
    """Return the ids of rows that contradict others or are not complete, and how.

    Parameters
    ----------
    proven
        Ids of members whose rows are known to be those of the partition of NULL.
    """
    found = {name: {ProblemKind.ROW} for name in unproven_ids(survey, rows) if name not in proven}
    for problem in check_rows(survey, rows):
        # what lacks only its namespace is complete: an older version may have an older version to read
        if problem.found == NO_PARENT:
            continue
        if problem.severity is Severity.ERROR and problem.kind in _ROW_PROBLEMS:
            found.setdefault(problem.subject, set()).add(problem.kind)
    return found


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the rows of tables say of values in ``__manifest`` that tables share, or that are not there.

    Attributes
    ----------
    proven
        Tables without any value, which is what their rows have.
    wrong
        Tables whose rows have other values, and the namespaces above them that have not those.
    """

    proven: frozenset[str]
    wrong: frozenset[str]


def _judged(survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema, rows: pa.Table) -> _Judged:
    unproven = frozenset(unproven_ids(survey, rows))
    twins = {name for spec in specs if survey.has_values for name in _twins(rows, spec)}
    wanted = pa.array(sorted(unproven | twins), pa.string())
    tables = rows.filter(pc.is_in(rows["object_id"], wanted))
    proven, wrong = set(), set()
    for member in member_rows(survey, tables):
        found = _read(survey.root, specs, schema, member)
        if isinstance(found, str) or member.spec is None:
            continue
        columns = [field.column for field in member.spec.fields]
        row = tables.filter(pc.equal(tables["object_id"], member.object_id))
        values = found[1]
        if values is None or row_keys(row, columns)[0].as_py() == value_keys(values.columns)[0].as_py():
            proven.add(member.object_id)
            continue
        wrong.add(member.object_id)
        levels = member.object_id.split(SEPARATOR)
        for level in range(1, len(columns) + 1):
            name = SEPARATOR.join(levels[: level + 1])
            above = rows.filter(pc.equal(rows["object_id"], name))
            key = value_keys(values.columns[:level])[0].as_py()
            if len(above) and row_keys(above, columns[:level])[0].as_py() != key:
                wrong.add(name)
    return _Judged(frozenset(proven) & unproven, frozenset(wrong))


def _twins(rows: pa.Table, spec: PartitionSpec) -> Iterator[str]:
    is_own = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
    for names in twin_ids(rows.filter(pc.and_(is_own, pc.equal(rows["object_type"], TABLE))), spec):
        yield from names


def _as_folders_say(incomplete: pa.Table, complete: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return rows, those of tables with the ids that their folders tell, and by these the ids that they had.

    Where a row that is as it should be has the id, it stays what it is, as does one with another id that the
    folder may have.
    """
    taken = set(complete["object_id"].to_pylist())
    ids, types = incomplete["object_id"].to_pylist(), incomplete["object_type"].to_pylist()
    renamed: dict[str, str] = {}
    for place, location in enumerate(incomplete["location"].to_pylist()):
        name = None if location is None else member_of_folder(location)
        if location is not None and name is not None and name not in taken:
            if is_id_of_folder(ids[place], location):
                name = ids[place]
            if ids[place] != name:
                renamed[name] = ids[place]
            ids[place], types[place] = name, TABLE
            taken.add(name)
    rows = _with(incomplete, "object_id", pa.array(ids, pa.string()))
    return _with(rows, "object_type", pa.array(types, pa.string())), renamed


def _value_columns(specs: PartitionSpecs) -> list[str]:
    return [each.column for each in specs.fields.values()]


def _without_values(rows: pa.Table, specs: PartitionSpecs) -> pa.Table:
    for name in (*_value_columns(specs), *(each.name for each in READ_FIELDS)):
        rows = _with(rows, name, pa.nulls(len(rows), rows.schema.field(name).type))
    return rows


def _with(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), column)


def _joined(*parts: pa.Table) -> pa.Table:
    return pa.concat_tables(parts).combine_chunks()


def _one(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
