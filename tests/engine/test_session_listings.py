"""What a session's listings show: owners of schemas, definitions of views, functions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import datafusion
import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.engine

LISTINGS = (
    "SELECT * FROM information_schema.schemata",
    "SHOW CREATE TABLE v",
    "SELECT table_name, definition FROM information_schema.views ORDER BY table_name",
    "SELECT table_name, table_type FROM information_schema.tables WHERE table_name = 'v'",
    "SELECT * FROM information_schema.columns WHERE table_name = 'v'",
)


@pytest.fixture(params=["connected", "enabled"])
def session(request: pytest.FixtureRequest) -> Any:
    if request.param == "connected":
        return lance_df.connect()
    return lance_df.enable(plain())


def plain() -> datafusion.SessionContext:
    return datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))


@pytest.mark.parametrize("listing", LISTINGS)
def test_listings_are_those_of_datafusion(session: Any, listing: str) -> None:
    memory = plain()
    for ctx in (session, memory):
        ctx.sql("CREATE VIEW v AS SELECT 1 AS a, 'x' AS b")
    assert session.sql(listing).to_arrow_table() == memory.sql(listing).to_arrow_table()


def test_the_definition_of_a_view_of_a_stored_table(tmp_path: Any) -> None:
    lance_df.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t.lance")
    session = lance_df.connect(tmp_path)
    session.sql("CREATE VIEW v AS SELECT * FROM t")
    definition = "CREATE VIEW v AS SELECT * FROM t"
    (row,) = session.sql("SHOW CREATE TABLE v").to_pylist()
    assert row["definition"] == definition

    # listings show the columns that the view has now
    dataset = lance_df.dataset(tmp_path / "t.lance")
    dataset.add_columns({"b": "a * 2"})
    columns = session.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'v'")
    assert columns.to_pydict()["column_name"] == ["a", "b"]


def names_of_functions(ctx: Any) -> set[str]:
    return set(ctx.sql("SHOW FUNCTIONS").to_pydict()["function_name"])


LISTS = [
    "SELECT * FROM information_schema.routines ORDER BY specific_name DESC LIMIT 1000000",
    "SELECT DISTINCT r.specific_name AS name, p.ordinal_position FROM information_schema.routines r"
    " JOIN information_schema.parameters p ON r.specific_name = p.specific_name ORDER BY name",
    "SELECT specific_name, count(*) AS n FROM information_schema.parameters"
    " WHERE parameter_mode = 'IN' GROUP BY specific_name HAVING count(*) > 0",
    "WITH f AS (SELECT routine_name AS upper FROM information_schema.routines)"
    " SELECT upper FROM f UNION ALL SELECT upper FROM f",
]


@pytest.mark.parametrize("query", LISTS)
def test_lists_of_functions_stay_as_they_are_while_hashes_are_used(session: Any, query: str) -> None:
    before = session.sql(query).to_arrow_table()
    assert "'murmur3'" in str(before.to_pylist())
    session.sql("SELECT murmur3('iceberg') AS a, murmur3_multi(1.5, 'x') AS b").collect()
    after = session.sql(query).to_arrow_table()
    assert after.schema == before.schema
    assert Counter(map(repr, after.to_pylist())) == Counter(map(repr, before.to_pylist()))


def test_functions_are_those_of_datafusion_and_the_public_ones(session: Any) -> None:
    public = {"murmur3", "murmur3_multi", "json_get", "json_extract", "json_exists"}
    public |= {f"json_get_{kind}" for kind in ("string", "int", "float", "bool")}
    public |= {"json_array_contains", "json_array_length"}
    wanted = names_of_functions(plain()) | public
    assert names_of_functions(session) - {"lance_scan"} == wanted
    query = "SELECT murmur3('iceberg') AS a, murmur3_multi(1.5, 'x') AS b"
    first = session.sql(query).to_pylist()
    assert names_of_functions(session) - {"lance_scan"} == wanted
    few = session.sql("  show functions LIKE 'murmur3%'").to_pydict()["function_name"]
    assert set(few) == {"murmur3", "murmur3_multi"}
    assert session.sql(query).to_pylist() == first


@pytest.mark.parametrize(
    "drop", ["DROP VIEW v", "-- away\n drop view if exists v", "CREATE OR REPLACE VIEW v AS SELECT 2 AS b"]
)
def test_a_view_whose_table_is_gone_can_be_listed_and_dropped(session: Any, drop: str) -> None:
    session.sql("CREATE TABLE t AS SELECT 1 AS a")
    session.sql("CREATE VIEW v AS SELECT a FROM t")
    session.sql("DROP TABLE t")
    listed = session.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'v'")
    assert listed.to_pydict()["column_name"] == ["a"]
    (row,) = session.sql("SHOW CREATE TABLE v").to_pylist()
    assert row["definition"] == "CREATE VIEW v AS SELECT a FROM t"
    with pytest.raises(lance_df.errors.LanceError, match=r"not found"):
        session.sql("SELECT * FROM v")

    session.sql(drop)
    names = session.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    assert names.to_pydict()["table_name"] == (["v"] if "CREATE" in drop else [])
    if "CREATE" in drop:
        assert session.sql("SELECT * FROM v").to_pydict() == {"b": [2]}
