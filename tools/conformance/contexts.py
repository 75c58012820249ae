"""A session over Lance tables and a context over the same rows in memory, side by side."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import datafusion
import pyarrow as pa

import lance_df
from tools.conformance.answers import Answer, answer, difference
from tools.conformance.documented import documented_difference
from tools.conformance.statements import (
    KEYWORDS,
    Kind,
    created_view,
    dropped_name,
    kind_of,
    ordering_of,
    reason_to_exclude,
    short_name,
    without_comments,
)
from tools.conformance.stored_tables import StoredNamespaces, StoredTables

ContextKind = Literal["session", "plain", "own"]
Change = Callable[[Any, "Layout"], None]


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie in memory: a result that depends on it is no result of the statement."""

    partitions: int
    batch_rows: int | None = None
    is_reversed: bool = False

    def config(self, batch_rows: int | None) -> datafusion.SessionConfig:
        config = datafusion.SessionConfig().with_information_schema(True)
        config = config.with_target_partitions(self.partitions)
        return config if batch_rows is None else config.with_batch_size(batch_rows)

    def parts(self, rows: pa.Table) -> list[list[pa.RecordBatch]]:
        """Return the rows as the batches of partitions."""
        if self.is_reversed and rows.num_rows:
            rows = rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))
        batches = rows.combine_chunks().to_batches(self.batch_rows)
        batches = batches or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        return [
            part for part in (batches[index :: self.partitions] for index in range(self.partitions)) if part
        ]


MEMORY: Final = Layout(4)
# what does not depend on the order of rows is the same in all of these
LAYOUTS: Final = (Layout(1), Layout(4, 7, is_reversed=True), Layout(2, 3), Layout(1, is_reversed=True))


@dataclass(frozen=True, slots=True)
class Difference:
    """A statement with a result that is not the one in memory."""

    position: str
    sql: str
    what: str
    before: tuple[str, ...]

    def __str__(self) -> str:
        text = "".join(f"{each.rstrip().rstrip(';')};\n" for each in (*self.before, self.sql))
        return f"{self.position}\n{textwrap.indent(text, '    ')}  {self.what}\n"


class Conformance:
    """Runs statements one after the other, and compares what they return.

    Parameters
    ----------
    folder
        Where Lance tables are written.
    kind
        What reads the tables: a session of `lance_df.connect`, or a plain context that has them registered.
        With ``"own"`` a session makes its own tables in memory, none of Lance.
    batch_rows
        The rows of a batch in all contexts; None for DataFusion's default.
    namespaces
        Whether tables that have a column to partition by are partitioned namespaces.
    options
        Of the session: arguments of `lance_df.connect`. Of these, a plain context has only ``scan_options``,
        with which its tables are registered.
    """

    def __init__(
        self,
        folder: Path,
        kind: ContextKind = "session",
        batch_rows: int | None = None,
        *,
        namespaces: bool = False,
        **options: Any,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self._tables = (StoredNamespaces if namespaces else StoredTables)(folder)
        self._batch_rows = batch_rows
        self._kind = kind
        self._views: dict[str, str] = {}
        self._uris: dict[str, str] = {}
        self._changes: list[Change] = []
        self._texts: list[str] = []
        config = MEMORY.config(batch_rows)
        self._source = datafusion.SessionContext(MEMORY.config(batch_rows))
        # what they compare structs with loses rows that have NULL in a field
        exact = MEMORY.config(batch_rows).set("datafusion.optimizer.enable_dynamic_filter_pushdown", "false")
        self._memory = datafusion.SessionContext(exact)
        self._registering = options if kind == "plain" else {}
        self._ours = (
            datafusion.SessionContext(config)
            if kind == "plain"
            else lance_df.connect(config=config, **options)
        )

    def run(self, sql: str, position: str = "") -> None:
        """Run a statement in every context that it is for, and compare the answers."""
        if (reason := reason_to_exclude(sql)) is not None:
            self.counts[f"excluded: {reason}"] += 1
            return
        kind, table = kind_of(sql)
        if kind is Kind.TABLE and self._kind == "own":
            kind = Kind.STATE
        if kind in (Kind.TABLE, Kind.DATA):
            self._texts.append(sql)
            self.counts["statements that make or change data"] += 1
            if answer(self._source, sql).error is not None:
                self.counts["statements that make or change data, and fail"] += 1
            elif table is not None:
                self._mirror(table)
        else:
            self._compare(sql, position, is_state=kind is Kind.STATE)

    def add_table(self, name: str, rows: pa.Table) -> None:
        """Make a table of these rows in all contexts; one that is there gets them as a new version."""
        stored, what = self._tables.write(rows, self._uris.get(short_name(name)))
        if what is not None:
            self._note(f"table {name}", f"SELECT * FROM {name}", what)
        if stored is None:
            self.counts["tables that Lance cannot store"] += 1
            self._uris.pop(short_name(name), None)
            _register(self._ours, name, rows, MEMORY)
            self._change(lambda ctx, layout: _register(ctx, name, rows, layout))
            return
        self.counts[f"tables: {type(stored).__name__}"] += 1
        if self._uris.get(short_name(name)) != stored.uri:
            answer(self._ours, f"DROP TABLE IF EXISTS {name}")
            lance_df.register(self._ours, name, stored.uri, **self._registering)
            self._uris[short_name(name)] = stored.uri
        same = stored.to_table()
        self._change(lambda ctx, layout: _register(ctx, name, same, layout))
        for view in self._views.values():  # those of DataFusion stay at the rows that were there before
            self._change(lambda ctx, _, view=view: answer(ctx, view))
            if self._kind == "plain":
                answer(self._ours, view)

    def _mirror(self, name: str) -> None:
        read = answer(self._source, f"SELECT * FROM {name}")
        if read.error is not None or len(set(read.schema.names)) < len(read.schema):
            self.counts["tables that cannot be mirrored"] += 1
            return
        # batches of some plans say that columns are not null where the table does not
        batches = [pa.RecordBatch.from_arrays(each.columns, schema=read.schema) for each in read.batches]
        self.add_table(name, pa.Table.from_batches(batches, read.schema))

    def _change(self, change: Change) -> None:
        """Change what the memory has, and remember how."""
        self._changes.append(change)
        change(self._memory, MEMORY)

    def _compare(self, sql: str, position: str, *, is_state: bool) -> None:
        theirs, ours = answer(self._memory, sql), answer(self._ours, self._as_ours_takes(sql))
        self.counts["statements compared"] += 1
        if is_state:
            self._texts.append(sql)
            answer(self._source, sql)
            self._changes.append(lambda ctx, _: answer(ctx, sql))
            if (view := created_view(sql)) is not None and theirs.error is None:
                name, again = view
                self._views[name] = again
            elif (dropped := dropped_name(sql)) is not None:
                self._views.pop(dropped, None)
                self._uris.pop(dropped, None)
        if theirs.error is not None and ours.error is not None:
            self.counts["statements compared that fail in both"] += 1
            return
        if theirs.error is not None and theirs.is_planned:  # where ours has no need of the row that fails
            self.counts["statements compared of which a row fails in memory alone"] += 1
            return
        ordering = ordering_of(sql, theirs.schema.names)
        what = difference(ours, theirs, ordering)
        if what is None:
            self.counts["results of many batches"] += len(theirs.batches) > 1
            self.counts["results without rows"] += not any(batch.num_rows for batch in theirs.batches)
            return
        if (documented := documented_difference(sql, ours, theirs, ordering)) is not None:
            self.counts[f"documented: {documented}"] += 1
            return
        if not is_state and self._depends_on_layout(sql, theirs, ours):
            self.counts["results that depend on the order of rows"] += 1
            return
        self._note(position, sql, what)

    def _as_ours_takes(self, sql: str) -> str:
        """Return a statement for our context: registered tables are views of plain contexts."""
        if self._kind != "plain" or dropped_name(sql) not in self._uris:
            return sql
        return re.sub(r"\btable\b", "VIEW", sql, count=1, flags=re.IGNORECASE)

    def _note(self, position: str, sql: str, what: str) -> None:
        self.counts["differences"] += 1
        self.differences.append(Difference(position, sql, what, self._needed(sql)))

    def _needed(self, sql: str) -> tuple[str, ...]:
        """Return the statements that one may need: settings, and what makes or changes what it names."""
        words = set(re.findall(r"\w+", sql.lower()))
        needed: list[str] = []
        for text in reversed(self._texts):
            head = re.findall(r"\w+", without_comments(text).lower())[:8]
            if head[:1] == ["set"] or not words.isdisjoint(set(head) - KEYWORDS):
                needed.append(text)
                words.update(re.findall(r"\w+", text.lower()) if head[1:2] == ["view"] else ())
        return tuple(reversed(needed))

    def _depends_on_layout(self, sql: str, theirs: Answer, ours: Answer) -> bool:
        """Whether DataFusion gives other rows, or ours, where rows lie otherwise in memory."""
        for layout in LAYOUTS:
            ctx = datafusion.SessionContext(layout.config(self._batch_rows))
            for change in self._changes:
                change(ctx, layout)
            other = answer(ctx, sql)
            ordering = ordering_of(sql, other.schema.names)
            if difference(other, theirs, ordering) is not None or difference(ours, other, ordering) is None:
                return True
        return False


def _register(ctx: Any, name: str, rows: pa.Table, layout: Layout) -> None:
    answer(ctx, f"DROP TABLE IF EXISTS {name}")
    ctx.register_record_batches(name, layout.parts(rows))


# at which sizes of tables and members the optimizer's rules begin to apply
_THRESHOLDS: Final = {
    "WORTH_ROWS": 0,
    "_WORTH_ROWS": 0,
    "_WORTH_MEMBER_ROWS": 0,
    "_WORTH_RUN_ROWS": 0.0,
    "_WORTH_JOINED_ROWS": 0,
    "_WORTH_GROUPED_ROWS": 0,
    "_LEAST_ROWS": 0,
    "_MOST_OF_ROWS": float("inf"),
    "_MAX_SELECTED": float("inf"),
    "_LONG_RUN": 0,
    "_WORTH_NODES": 0,
}


@contextmanager
def low_thresholds() -> Iterator[None]:
    """Let every rule of the optimizer apply to tables of a few rows."""
    import importlib
    import pkgutil

    import lance_df.engine

    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(lance_df.engine.__path__, "lance_df.engine.")
    ]
    changed = [
        (module, name, getattr(module, name))
        for module in modules
        for name in _THRESHOLDS
        if hasattr(module, name)
    ]
    missing = _THRESHOLDS.keys() - {name for _, name, _ in changed}
    if missing:
        raise LookupError(f"no threshold is called {', '.join(sorted(missing))} any more")
    for module, name, _ in changed:
        setattr(module, name, _THRESHOLDS[name])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)
