"""Check that the versions that a stream reads have its columns: the same columns under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_df.errors import ColumnNotFoundError, VersionNotFoundError
from lance_df.format.operations import Overwrite, Restore
from lance_df.spark.splits import Filter
from lance_df.table.metadata.versions import DETACHED

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_df.format.operations import Operation
    from lance_df.format.schema import Field
    from lance_df.namespace.kind import Source

Path: TypeAlias = tuple[str, ...]

ADVICE: Final = "Select columns with the option columns, or begin at a later version"
"""What to do about a version that a stream cannot read."""


class StreamColumns:
    """The columns that a stream and its filter read.

    Field ids identify columns. Only a cast gives a column a new id, in one commit, and an overwrite numbers
    all columns anew, so versions in between are read where ids differ.

    Parameters
    ----------
    source
        The version that defines the columns.
    """

    def __init__(self, source: Source, schema: StructType, filter_text: str | None) -> None:
        self._nullable = {field.name: field.nullable for field in schema}
        self._filter = filter_text
        self._version = source.version
        self._source = source  # or a later version, which has the same columns
        self._older: dict[str, Field] = {}  # the fields of the last older version, which has them too

    def check(self, source: Source) -> None:
        """Check that a version has the columns, or is older than them and may have nulls in their place.

        Raises
        ------
        ColumnNotFoundError
            A column is missing, has another name, or its name is that of another column.
        """
        ours, theirs = _fields(self._source), _fields(source)
        if theirs in (ours, self._older):
            return
        names = [name for name in ours if name in self._nullable or name in self._of_filter]
        problem = self._problem([ours[name] for name in names], source)
        if problem is not None:
            raise ColumnNotFoundError(
                f"{source.uri}: version {source.version}, which is read as a stream, differs from version "
                f"{self._source.version}: {problem}. {ADVICE}"
            )
        lacking = [name for name in names if name not in theirs]
        is_older = source.version < self._version and len(lacking) < len(self._nullable)
        wrong = [
            name
            for name in lacking
            if not (is_older and self._nullable.get(name, True)) or name in self._of_filter
        ]
        if wrong:
            raise ColumnNotFoundError(
                f"{source.uri}: version {source.version}, which is read as a stream, has no column "
                f"{wrong[0]!r}; the columns are {', '.join(theirs)}. {ADVICE}"
            )
        if source.version > self._source.version:
            self._source = source
        else:
            self._older = theirs

    def _problem(self, ours: Sequence[Field], source: Source) -> str | None:
        """Say which column has another name in a version, or is another column; None if all are the same."""
        theirs = [*_fields(source).values()]
        known, given = _ids(_fields(self._source).values()), _ids(theirs)
        may_be_renamed = not given <= known  # by a cast, then a rename
        paths = [
            path
            for path, field in _unequal(ours, theirs)
            if may_be_renamed or field.id in given or _at(path, theirs) is not None
        ]
        try:
            traced = _traced(paths, self._source, source)
        except VersionNotFoundError as err:
            return (
                f"column {'.'.join(paths[0])!r} cannot be identified, because a version was removed ({err})"
            )
        for path, other in traced.items():
            name = ".".join(path)
            if other is not None and other != path:
                return f"column {name!r} is named {'.'.join(other)!r}"
            if other is None and _at(path, theirs) is not None:
                return f"column {name!r} is another one, because it was dropped and added again"
        return next(_unknown_fields(ours, theirs), None)

    @cached_property
    def _of_filter(self) -> frozenset[str]:
        schema = self._source.arrow_schema
        condition = Filter.parse(self._filter, schema)
        if condition.predicate is not None:
            from lance_df.expr.walk import columns

            return frozenset(path[0] for path in columns(condition.predicate))
        if condition.sql is None:
            return frozenset()
        from lance_df.engine.query import columns_computed_from

        return frozenset(columns_computed_from(schema, {"filter": condition.sql}))


def _fields(source: Source) -> dict[str, Field]:
    namespace = source.namespace
    schema = source.committed_table.schema if namespace is None else namespace.manifest.schema.columns
    return {field.name: field for field in schema.fields}


def _unequal(
    ours: Sequence[Field], theirs: Sequence[Field], parent: Path = ()
) -> Iterator[tuple[Path, Field]]:
    """Yield the fields, at all levels, that are missing in another version or have another id there."""
    by_name = {field.name: field for field in theirs}
    for field in ours:
        path, given = (*parent, field.name), by_name.get(field.name)
        if given is None or given.id != field.id:
            yield path, field
        if given is not None:
            yield from _unequal(field.children, given.children, path)


def _unknown_fields(ours: Sequence[Field], theirs: Sequence[Field], parent: Path = ()) -> Iterator[str]:
    """Yield texts about structs that have more fields in another version, which cannot be left out."""
    by_name = {field.name: field for field in theirs}
    for field in ours:
        given = by_name.get(field.name)
        if given is None:
            continue
        path = (*parent, field.name)
        names, others = ([child.name for child in each.children] for each in (field, given))
        if field.is_struct and given.is_struct and not set(others) <= set(names):
            fields, wanted = ", ".join(others), ", ".join(names)
            yield f"the fields of column {'.'.join(path)!r} are {fields}, not {wanted}"
        yield from _unknown_fields(field.children, given.children, path)


def _traced(paths: Sequence[Path], start: Source, end: Source) -> dict[Path, Path | None]:
    """Return where the fields of one version are in another one, by the versions in between.

    Raises
    ------
    VersionNotFoundError
        A version in between was removed.
    """
    traced: dict[Path, Path | None] = {path: path for path in paths}
    if not paths:
        return traced
    step = 1 if start.version < end.version else -1
    numbers = range(start.version + step, end.version, step)
    versions: Iterator[Source] = chain((start,), (start.checkout(number) for number in numbers), (end,))
    for former, later in pairwise(versions):
        old, new = ([*_fields(each).values()] for each in (former, later))
        if old == new:
            continue
        operation = _operation(later if step > 0 else former)
        # changes of the columns of a namespace publish a detached version
        if isinstance(operation, Restore) and not operation.version & DETACHED:
            # its columns have the ids of the restored version, which an overwrite may have numbered anew
            restored = start.checkout(operation.version)
            ends = (former, restored) if step > 0 else (restored, later)
            locations = _traced([now for now in traced.values() if now is not None], *ends)
            traced = {path: None if now is None else locations[now] for path, now in traced.items()}
            continue
        by_name = isinstance(operation, Overwrite)
        for path, now in traced.items():
            traced[path] = now if now is None else _next(now, old, new, by_name=by_name)
    return traced


def _next(path: Path, old: Sequence[Field], new: Sequence[Field], *, by_name: bool) -> Path | None:
    """Return where a field of a version is in the version before or after it; None if it is missing."""
    field, same = _at(path, old), _at(path, new)
    if field is None or by_name:
        return None if same is None else path
    for other, each in _walk(new):
        if each.id == field.id:
            return other
    # a cast replaces a field in one commit
    return None if same is None or same.id in _ids(old) else path


def _operation(source: Source) -> Operation | None:
    """Return the operation that made a version; None if its transaction is unknown."""
    transaction = source.committed_table.transaction()
    return None if transaction is None else transaction.operation


def _walk(fields: Iterable[Field], parent: Path = ()) -> Iterator[tuple[Path, Field]]:
    for field in fields:
        path = (*parent, field.name)
        yield path, field
        yield from _walk(field.children, path)


def _at(path: Path, fields: Iterable[Field]) -> Field | None:
    return next((field for other, field in _walk(fields) if other == path), None)


def _ids(fields: Iterable[Field]) -> set[int]:
    return {field.id for _, field in _walk(fields)}
