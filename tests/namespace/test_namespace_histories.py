"""Random changes of rows, columns and specs: the answers are those of plain memory."""

import datetime as dt
from pathlib import Path

import datafusion
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from older_engines import NEGATIVE_ZERO

import lance_df
from lance_df.namespace.pruning.spec_members import members_by_spec

pytestmark = pytest.mark.engine

SCHEMA = pa.schema(
    [("k", pa.int16()), ("c", pa.string()), ("d", pa.date32()), ("f", pa.float32()), ("u", pa.uint8())]
)
WIDER = {
    pa.int16(): pa.int64(),
    pa.string(): pa.large_string(),
    pa.date32(): pa.date64(),
    pa.float32(): pa.float64(),
    pa.uint8(): pa.int32(),
}
VALUES = {
    "int": [None, 0, 1, -7, 7, 100, -32768],
    "text": [None, "", "a", "ab", "ü", "zzz"],
    "date": [None, dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 11, 1), dt.date(2025, 2, 1)],
    "float": [None, 0.0, NEGATIVE_ZERO, 0.5, float("nan"), -1.25, float("inf")],
    "small": [None, 0, 1, 255],
}
LITERALS = {
    "int": ["0", "1", "7", "-7", "100", "65543"],
    "text": ["''", "'a'", "'ab'", "'ü'"],
    "date": ["DATE '2024-02-29'", "DATE '2024-11-01'", "DATE '1969-12-31'"],
    "float": ["0.0", "0.5", "-1.25"],
    "small": ["0", "1", "255", "256"],
}
KINDS = {"i": "int", "s": "text", "l": "text", "d": "date", "f": "float", "u": "small"}


def kind_of(data_type):
    """What values a column has; uint8 widens to int32, the only type of that name."""
    types = pa.types
    if types.is_uint8(data_type) or types.is_int32(data_type):
        return "small"
    if types.is_integer(data_type):
        return "int"
    if types.is_floating(data_type):
        return "float"
    return "date" if types.is_date(data_type) else "text"


def quoted(name, mark):
    return f"{mark}{name}{mark}"


def sql(table, text):
    context = datafusion.SessionContext()
    context.from_arrow(table, name="t")
    return context.sql(text).to_arrow_table()


def in_order(table):
    return sorted(str(row) for row in table.to_pylist())


class History:
    """A namespace, and what it should hold in memory."""

    def __init__(self, root, data):
        self.data = data
        self.rows = SCHEMA.empty_table()
        self.namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, self.fields())
        self.past = {}
        self.names = 0

    def draw(self, options):
        return self.data.draw(st.sampled_from(list(options)))

    def column(self, *kinds):
        found = [f.name for f in self.rows.schema if not kinds or kind_of(f.type) in kinds]
        return self.draw(found) if found else None

    def new_name(self):
        self.names += 1
        return self.draw([f"n{self.names}", f"ü {self.names}", "k", "c", "partition_field_c"])

    def fields(self):
        made = []
        for name in self.rows.schema.names:
            choices = {
                "int": ["", "bucket({}, 2)", "truncate({}, 50)"],
                "small": ["", "bucket({}, 2)"],
                "text": ["", "truncate({}, 1)", "bucket({}, 2)"],
                "date": ["year({})", "month({})"],
                "float": ["bucket({}, 2)"],
            }[kind_of(self.rows.schema.field(name).type)]
            made.append(self.draw(choices).format(name) or name)
        return self.data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=2, unique=True))

    def new_rows(self, least=0):
        count = self.data.draw(st.integers(least, 5))
        columns = {
            field.name: pa.array([self.draw(VALUES[kind_of(field.type)]) for _ in range(count)], field.type)
            for field in self.rows.schema
        }
        return pa.table(columns, self.rows.schema)

    def condition(self, mark):
        """A condition in SQL, and in the same words with other quotes."""
        parts = []
        for _ in range(self.data.draw(st.integers(1, 2))):
            name = self.column()
            literals = LITERALS[kind_of(self.rows.schema.field(name).type)]
            form = self.draw(["{} = {}", "{} IN ({}, {})", "{} < {}", "{} >= {}", "{} <> {}", "{} IS NULL"])
            parts.append((name, form, [self.draw(literals) for _ in range(form.count("{}") - 1)]))
        joined = self.draw([" AND ", " OR "])
        return [
            joined.join(form.format(quoted(name, each), *values) for name, form, values in parts)
            for each in mark
        ]

    # -- changes --------------------------------------------------------------------------------------------

    def append(self):
        new = self.new_rows()
        self.namespace.append(new)
        self.rows = pa.concat_tables([self.rows, new])

    def delete(self):
        ours, plain = self.condition('`"')
        gone = sql(self.rows, f"SELECT count(*) AS n FROM t WHERE {plain}")["n"][0].as_py()
        assert self.namespace.delete(ours) == {"num_deleted_rows": gone}
        self.rows = sql(self.rows, f"SELECT * FROM t WHERE ({plain}) IS NOT TRUE").cast(self.rows.schema)

    def upsert(self):
        key = self.column()
        new = self.new_rows(1)
        found = self.namespace.upsert(new, on=key, duplicates="last")
        keep, seen = [], set()
        for row in reversed(new.to_pylist()):
            value = row[key]
            text = str(0.0 if value == 0 and isinstance(value, float) else value)
            if value is None or text not in seen:
                keep.append(row)
                seen.add(text)
        seen.discard("None")
        texts = [str(0.0 if v == 0 and isinstance(v, float) else v) for v in self.rows[key].to_pylist()]
        is_old = pa.array([text in seen for text in texts], pa.bool_())
        replaced = len({text for text, old in zip(texts, is_old.to_pylist(), strict=True) if old})
        assert found["num_updated_rows"] == replaced
        assert found["num_inserted_rows"] == len(keep) - replaced
        kept = self.rows.filter(pc.invert(is_old))
        self.rows = pa.concat_tables([kept, pa.Table.from_pylist(keep, new.schema)])

    def update(self):
        name, (ours, plain) = self.column(), self.condition('`"')
        value = self.draw(["NULL", *LITERALS[kind_of(self.rows.schema.field(name).type)][:3]])
        self.namespace.update({name: value}, ours)
        columns = [
            f"CASE WHEN {plain} THEN {value} ELSE {quoted(each, chr(34))} END AS {quoted(each, chr(34))}"
            if each == name
            else quoted(each, '"')
            for each in self.rows.schema.names
        ]
        self.rows = sql(self.rows, f"SELECT {', '.join(columns)} FROM t").cast(self.rows.schema)

    def add(self):
        name, source = self.new_name(), self.column()
        if name in self.rows.schema.names:
            return
        if self.data.draw(st.booleans()):
            field = pa.field(name, self.draw(WIDER))
            self.namespace.add_columns(field)
            self.rows = self.rows.append_column(field, pa.nulls(len(self.rows), field.type))
        else:
            self.namespace.add_columns({name: quoted(source, "`")})
            self.rows = self.rows.append_column(
                self.rows.schema.field(source).with_name(name), self.rows[source]
            )

    def drop(self):
        if self.rows.num_columns > 2:
            name = self.column()
            self.namespace.drop_columns([name])
            self.rows = self.rows.drop_columns([name])

    def rename(self):
        old, new = self.column(), self.new_name()
        if new in self.rows.schema.names:
            other = self.column()
            if other == old:
                return
            self.namespace.alter_columns({"path": old, "name": other}, {"path": other, "name": old})
            swap = {old: other, other: old}
        else:
            self.namespace.rename_column(old, new)
            swap = {old: new}
        self.rows = self.rows.rename_columns([swap.get(name, name) for name in self.rows.schema.names])

    def promote(self):
        found = [field for field in self.rows.schema if field.type in WIDER]
        if found:
            field = self.draw(found)
            self.namespace.alter_columns({"path": field.name, "data_type": WIDER[field.type]})
            place = self.rows.schema.get_field_index(field.name)
            wide = field.with_type(WIDER[field.type])
            self.rows = self.rows.set_column(place, wide, self.rows[field.name].cast(wide.type))

    def spec(self):
        fields = [f for f in self.fields() if "ü" not in f]
        if fields:
            self.namespace.update_partition_spec(fields)

    def compact(self):
        self.namespace.compact()

    # -- answers --------------------------------------------------------------------------------------------

    def check(self):
        assert self.namespace.schema.equals(self.rows.schema)
        assert in_order(self.namespace.to_table()) == in_order(self.rows)
        assert self.namespace.count_rows() == len(self.rows)
        self.past[self.namespace.version] = in_order(self.rows)
        ctx = lance_df.SessionContext()
        lance_df.register(ctx, "t", self.namespace.uri)
        for _ in range(2):
            ours, plain = self.condition('`"')
            expected = in_order(sql(self.rows, f"SELECT * FROM t WHERE {plain}").cast(self.rows.schema))
            assert in_order(self.namespace.to_table(filter=ours)) == expected, ours
            found = ctx.sql(f"SELECT * FROM t WHERE {plain}").to_arrow_table().cast(self.rows.schema)
            assert in_order(found) == expected, plain

    def check_end(self):
        for version, expected in self.past.items():
            assert in_order(self.namespace.at(version).to_table()) == expected
        manifest = lance_df.PartitionedNamespace.open(self.namespace.uri)._table.manifest
        ids = [field.id for field in manifest.schema.columns.walk()]
        found = []
        for row in self.namespace.partitions().to_pylist():
            member = lance.dataset(Path(self.namespace.uri) / row["location"], version=row["read_version"])
            member.validate()
            assert [field.id() for field in member.lance_schema.fields()] == ids
            found.append(member.to_table())
        assert in_order(pa.concat_tables([self.rows.slice(0, 0), *found])) == in_order(self.rows)
        assert sum(len(members) for members in members_by_spec(manifest)) == len(found)


CHANGES = [
    "append",
    "append",
    "delete",
    "upsert",
    "update",
    "add",
    "drop",
    "rename",
    "promote",
    "spec",
    "compact",
]


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_histories_are_those_of_plain_memory(tmp_path_factory, data):
    history = History(tmp_path_factory.mktemp("histories") / "n", data)
    history.append()
    for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=5, max_size=9)):
        getattr(history, change)()
        history.check()
    history.check_end()
