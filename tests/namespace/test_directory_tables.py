"""Methods of `DirectoryNamespace` for single tables: the same requests to both libraries, and one folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import lance_namespace_urllib3_client.models as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace

import lance_df
from lance_df import DirectoryNamespace
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", None, "é"]})
# what differs from one table to the next
VARIES = {
    *("location", "transaction_id", "manifest_path", "manifest_size", "e_tag", "timestamp_millis"),
    *("index_uuid", "created_at", "create_at", "size_bytes", "total_bytes", "index_details", "context"),
    *("uuid", "row_id", "index_version"),
}
NO_VECTOR = requests.QueryTableRequestVector()


def as_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def request(method: str, **members: Any) -> Any:
    name = {"create_table_scalar_index": "create_table_index"}.get(method, method)
    kind = "".join(word.capitalize() for word in name.split("_")) + "Request"
    return getattr(requests, kind)(**{"id": ["t"], **members})


def as_data(response: Any) -> Any:
    """Return a response as plain data, without what varies and what is None."""
    if hasattr(response, "model_dump"):
        response = response.model_dump()
    elif dataclasses.is_dataclass(response) and not isinstance(response, type):
        response = {each.name: getattr(response, each.name) for each in dataclasses.fields(response)}
    if isinstance(response, dict):
        pairs = ((name, as_data(value)) for name, value in response.items() if name not in VARIES)
        return {name: value for name, value in pairs if value is not None}
    if isinstance(response, list | tuple):
        return [as_data(each) for each in response]
    if isinstance(response, bytes):
        return pa.ipc.open_file(response).read_all().to_pydict()
    return response


@pytest.fixture
def both(tmp_path: Path) -> tuple[Any, DirectoryNamespace]:
    """Both libraries, each with a table of its own."""
    namespaces = (TheirNamespace(root=str(tmp_path / "theirs")), DirectoryNamespace(tmp_path / "ours"))
    for namespace in namespaces:
        namespace.create_table(request("create_table"), as_stream(ROWS))
    return namespaces


def check_alike(namespaces: tuple[Any, Any], method: str, *data: bytes, **members: Any) -> Any:
    """Send a request to both, compare the responses, and return ours."""
    asked = request(method, **members)
    theirs, ours = (getattr(each, method)(asked, *data) for each in namespaces)
    expected, answered = as_data(theirs), as_data(ours)
    if isinstance(expected, dict):
        answered = {name: value for name, value in answered.items() if name in expected}
    assert answered == expected, method
    return ours


def test_rows(both: tuple[Any, Any]) -> None:
    more = as_stream(pa.table({"a": [3, 4], "b": ["merged", "inserted"]}))
    check_alike(both, "insert_into_table", more)
    check_alike(both, "insert_into_table", more, mode="Overwrite")
    check_alike(both, "insert_into_table", as_stream(ROWS), mode="append")
    check_alike(both, "insert_into_table", as_stream(ROWS.slice(0, 0)))
    check_alike(
        both,
        *("merge_insert_into_table", as_stream(pa.table({"a": [2, 9], "b": ["m", "i"]}))),
        on=["a"],
        when_matched_update_all=True,
        when_not_matched_insert_all=True,
    )
    check_alike(
        both,
        *("merge_insert_into_table", as_stream(pa.table({"a": [2, 9], "b": ["m2", "i2"]}))),
        on=["a"],
        when_matched_update_all=True,
        when_matched_update_all_filt="source.a > 5",
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt="a = 1",
        timeout="30s",
    )
    check_alike(both, "update_table", updates=[["b", "upper(b)"]], predicate="a > 2")
    check_alike(both, "update_table", updates=[["b", "'all'"], ["a", "a + 1"]])
    check_alike(both, "count_table_rows")
    check_alike(both, "count_table_rows", predicate="a = 4")
    check_alike(both, "count_table_rows", version=1)
    both[1].delete_from_table(request("delete_from_table", predicate="a = 4"))
    both[0].delete_from_table(request("delete_from_table", predicate="a = 4"))
    check_alike(both, "count_table_rows")


def test_queries(both: tuple[Any, Any]) -> None:
    columns = requests.QueryTableRequestColumns
    for members in (
        {"k": 10},
        {"k": 0},
        {"k": 1, "offset": 1},
        {"k": 5, "filter": "a >= 2"},
        {"k": 5, "columns": columns(column_names=["b"])},
        {"k": 5, "columns": columns(column_names=[])},
        {"k": 5, "columns": columns(column_aliases={"twice": "a * 2"})},
        {"k": 5, "version": 1},
    ):
        check_alike(both, "query_table", vector=NO_VECTOR, **members)
    answers = [each.query_table({"id": ["t"], "k": 2, "vector": {}}) for each in both]
    assert as_data(answers[0]) == as_data(answers[1])
    ours = both[1]
    assert as_data(ours.query_table("t", columns=["a"], filter="a > 2")) == {"data": {"a": [3]}}
    assert as_data(ours.query_table("t", columns={"c": "a + 1"}, k=1)) == {"data": {"c": [2]}}
    query = request("query_table", vector=NO_VECTOR, k=1, filter="a > 2")
    assert "a > 2" in ours.explain_table_query_plan(request("explain_table_query_plan", query=query))
    assert "output_rows=1," in ours.analyze_table_query_plan(query)
    searches = (
        {"vector": requests.QueryTableRequestVector(single_vector=[1.0])},
        {
            "vector": NO_VECTOR,
            "full_text_query": requests.QueryTableRequestFullTextQuery(
                string_query=requests.StringFtsQuery(query="x")
            ),
        },
    )
    for search in searches:
        with pytest.raises(UnsupportedFeatureError, match="vector and text search are not available"):
            ours.query_table(request("query_table", k=1, **search))


def test_versions(both: tuple[Any, Any]) -> None:
    for _ in range(4):
        check_alike(both, "insert_into_table", as_stream(ROWS))
    check_alike(both, "list_table_versions")
    check_alike(both, "list_table_versions", descending=True)
    for members in ({"id": ["t"]}, {"id": ["t"], "version": 2}):
        theirs, ours = (each.describe_table_version(members) for each in both)
        assert as_data(ours) == as_data(theirs)
        assert Path(f"/{ours['version']['manifest_path']}").stat().st_size == ours["version"]["manifest_size"]
        assert abs(ours["version"]["timestamp_millis"] - theirs["version"]["timestamp_millis"]) < 60_000
    first = both[1].list_table_versions("t", limit=2)
    assert [each.version for each in first.versions] == [1, 2]
    rest = both[1].list_table_versions("t", page_token=first.page_token)
    assert [each.version for each in rest.versions] == [3, 4, 5]
    newest = both[1].list_table_versions("t", limit=2, descending=True)
    assert [each.version for each in newest.versions] == [5, 4]
    rest = both[1].list_table_versions("t", page_token=newest.page_token, descending=True)
    assert [each.version for each in rest.versions] == [3, 2, 1]

    restored = check_alike(both, "restore_table", version=1)
    check_alike(both, "count_table_rows")
    described = both[1].describe_transaction(["t", restored.transaction_id])
    assert described.properties == both[1].describe_transaction(["t", "6"]).properties
    assert described.properties["operation"] == "Restore"
    check_alike(both, "describe_transaction", id=["t", "3"])

    ranges = {"id": ["t"], "ranges": [{"start_version": 2, "end_version": 4}]}
    assert as_data(both[1].batch_delete_table_versions(ranges)) == {"deleted_count": 2}
    assert both[0].batch_delete_table_versions(ranges)["deleted_count"] == 2
    check_alike(both, "list_table_versions")
    # pylance would remove the newest version with the others
    assert both[1].batch_delete_table_versions("t", [(0, -1)]).deleted_count == 3
    assert [each.version for each in both[1].list_table_versions("t").versions] == [6]


def test_tags_and_branches(both: tuple[Any, Any]) -> None:
    check_alike(both, "insert_into_table", as_stream(ROWS))
    for members in ({"tag": "first", "version": 1}, {"tag": "second", "version": 2}):
        check_alike(both, "create_table_tag", **members)
    check_alike(both, "update_table_tag", tag="first", version=2)
    check_alike(both, "get_table_tag_version", tag="first")
    check_alike(both, "list_table_tags")
    check_alike(both, "delete_table_tag", tag="first")
    check_alike(both, "create_table_branch", name="dev")
    check_alike(both, "create_table_branch", name="old", from_version=1)
    check_alike(both, "create_table_branch", name="dev/more", from_branch="dev")
    check_alike(both, "list_table_branches")
    for members in ({"branch": "dev"}, {"branch": "old"}, {"branch": "main"}, {}):
        check_alike(both, "count_table_rows", **members)
    check_alike(both, "delete_table_branch", name="old")
    check_alike(both, "list_table_branches")
    theirs, ours = both
    for namespace, branch in ((ours, "dev"), (theirs, None)):  # pylance changes main whatever is asked for
        before = namespace.count_table_rows(request("count_table_rows")).count
        namespace.insert_into_table(request("insert_into_table", branch="dev"), as_stream(ROWS))
        changed = namespace.count_table_rows(request("count_table_rows", branch=branch)).count
        assert changed == before + 3
    assert ours.count_table_rows("t").count == 6
    assert ours.update_table("t", {"b": "'w'"}, branch="dev").updated_rows == 9
    ours.delete_from_table("t", "a = 1", branch="dev")
    assert ours.count_table_rows("t", branch="dev").count == 6
    merged = ours.merge_insert_into_table("t", ROWS, on="a", when_not_matched_insert_all=True, branch="dev")
    assert merged.num_inserted_rows == 1
    assert ours.list_table_versions("t", branch="dev").versions[-1].version == merged.version
    assert ours.count_table_rows("t", predicate="b = 'w'").count == 0
    ours.create_table_tag("t", "on_dev", 3, branch="dev")
    assert ours.get_table_tag_version("t", "on_dev").branch == "dev"
    page = ours.list_table_tags("t", limit=1)
    assert list(page.tags) == ["on_dev"]
    assert list(ours.list_table_tags("t", page_token=page.page_token).tags) == ["second"]


def test_columns(both: tuple[Any, Any]) -> None:
    check_alike(
        both,
        "alter_table_add_columns",
        new_columns=[requests.AddColumnsEntry(name="c", expression="a * 2")],
    )
    for alteration in ({"rename": "d"}, {"nullable": True}, {}):
        path = "c" if "rename" in alteration else "d"
        entry = requests.AlterColumnsEntry(path=path, **alteration)
        both[0].alter_table_alter_columns(request("alter_table_alter_columns", alterations=[entry]))
        both[1].alter_table_alter_columns(request("alter_table_alter_columns", alterations=[entry]))
    ours = both[1]
    ours.alter_table_alter_columns("t", [{"path": "d", "data_type": {"type": "int32"}}])
    ours.alter_table_alter_columns("t", [{"path": "a", "data_type": pa.int16()}])
    opened = lance_df.dataset(ours.describe_table("t").location)
    assert opened.schema.types == [pa.int16(), pa.string(), pa.int32()]
    assert opened.to_table().column("d").to_pylist() == [2, 4, 6]
    ours.alter_table_drop_columns(request("alter_table_drop_columns", columns=["d"]))
    ours.alter_table_add_columns("t", {"e": "a + 1"})
    assert lance_df.dataset(opened.uri).schema.names == ["a", "b", "e"]
    check_alike(both, "update_table_schema_metadata", metadata={"k": "v"})
    check_alike(both, "update_table_schema_metadata", metadata={"l": "w"})


def test_indices_and_statistics(both: tuple[Any, Any]) -> None:
    check_alike(both, "create_table_scalar_index", column="a", index_type="ZONEMAP", name="z")
    check_alike(both, "create_table_index", column="b", index_type="zone_map")
    check_alike(both, "list_table_indices")
    check_alike(both, "list_table_indices", limit=1)
    check_alike(both, "insert_into_table", as_stream(ROWS.slice(1)))
    check_alike(both, "insert_into_table", as_stream(ROWS.slice(2)))
    check_alike(both, "list_table_indices")
    check_alike(both, "describe_table_index_stats", index_name="z")
    check_alike(both, "get_table_stats")
    check_alike(both, "drop_table_index", index_name="z")
    check_alike(both, "list_table_indices")
    ours = both[1]
    assert ours.create_table_index("t", "a", "ZONEMAP").transaction_id
    with pytest.raises(AlreadyExistsError):
        ours.create_table_index("t", "a", "ZONEMAP")
    with pytest.raises(UnsupportedFeatureError):
        ours.create_table_index("t", "a", "IVF_PQ")


def test_tables_that_are_declared_only(both: tuple[Any, Any]) -> None:
    for method, members in (
        ("insert_into_table", {}),
        ("merge_insert_into_table", {"on": ["a"], "when_not_matched_insert_all": True}),
    ):
        for namespace in both:
            namespace.declare_table(requests.DeclareTableRequest(id=[method]))
        check_alike(both, method, as_stream(ROWS), id=[method], **members)
        check_alike(both, "count_table_rows", id=[method])
    both[1].declare_table("later")
    with pytest.raises(DatasetNotFoundError):
        both[1].count_table_rows("later")


def test_each_changes_what_the_other_made(tmp_path: Path) -> None:
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    ours.create_namespace("n")
    ours.create_table("n$u", ROWS)
    theirs.create_table(request("create_table", id=["n", "v"]), as_stream(ROWS))
    for parts in (["n", "u"], ["n", "v"]):
        ours.insert_into_table(parts, ROWS)
        theirs.insert_into_table(request("insert_into_table", id=parts), as_stream(ROWS))
        theirs.update_table(request("update_table", id=parts, updates=[["b", "'t'"]], predicate="a = 1"))
        ours.update_table(parts, {"b": "b || 'o'"}, predicate="a = 1")
        theirs.create_table_tag(request("create_table_tag", id=parts, tag="theirs", version=2))
        ours.create_table_tag(parts, "ours", 3)
        theirs.create_table_branch(request("create_table_branch", id=parts, name="dev"))
        ours.insert_into_table(parts, ROWS, branch="dev")
        ours.delete_from_table(parts, "a = 3", branch="dev")
        check_alike((theirs, ours), "list_table_tags", id=parts)
        check_alike((theirs, ours), "list_table_branches", id=parts)
        check_alike((theirs, ours), "list_table_versions", id=parts)
        # pylance counts deleted rows, too
        stats = [each.get_table_stats(request("get_table_stats", id=parts)) for each in (theirs, ours)]
        assert [each.num_rows for each in stats] == [12, 9]
        assert [each.fragment_stats.num_fragments for each in stats] == [4, 4]
        for members in ({}, {"branch": "dev"}, {"version": 2}):
            check_alike((theirs, ours), "count_table_rows", id=parts, **members)
        check_alike((theirs, ours), "query_table", id=parts, vector=NO_VECTOR, k=100)
        described = ours.describe_table(parts)
        assert lance.dataset(described.location).count_rows("b = 'to'") == 3
        lance_df.dataset(described.location).validate()


def test_errors(tmp_path: Path) -> None:
    ours = DirectoryNamespace(tmp_path)
    ours.create_table("t", ROWS)
    for call in (
        lambda: ours.insert_into_table("no", ROWS),
        lambda: ours.count_table_rows("no"),
        lambda: ours.query_table("no"),
        lambda: ours.get_table_stats("no"),
        lambda: ours.list_table_versions("no"),
        lambda: ours.describe_transaction(["no", "1"]),
    ):
        with pytest.raises(DatasetNotFoundError):
            call()
    for call in (
        lambda: ours.count_table_rows("t", version=9),
        lambda: ours.count_table_rows("t", branch="no"),
        lambda: ours.get_table_tag_version("t", "no"),
        lambda: ours.delete_table_tag("t", "no"),
        lambda: ours.create_table_tag("t", "x", 9),
        lambda: ours.delete_table_branch("t", "no"),
        lambda: ours.restore_table("t", 9),
    ):
        with pytest.raises(VersionNotFoundError):
            call()
    for call in (
        lambda: ours.insert_into_table("t", b"junk"),
        lambda: ours.insert_into_table("t", ROWS, mode="create"),
        lambda: ours.insert_into_table("t"),
        lambda: ours.merge_insert_into_table("t", ROWS, when_matched_update_all=True),
        lambda: ours.merge_insert_into_table("t", ROWS, on="a"),
        lambda: ours.merge_insert_into_table("t", ROWS, on="a", when_matched_update_all=True, timeout="soon"),
        lambda: ours.update_table("t", {}),
        lambda: ours.delete_from_table("t"),
        lambda: ours.delete_from_table("t", "a = = 1"),
        lambda: ours.list_table_versions("t", limit=0),
        lambda: ours.list_table_versions("t", page_token="x"),
        lambda: ours.batch_delete_table_versions("t", [(1, "x")]),
        lambda: ours.alter_table_add_columns("t", [{"name": "c"}]),
        lambda: ours.alter_table_alter_columns("t", [{"rename": "c"}]),
        lambda: ours.alter_table_alter_columns("t", [{"path": "a", "data_type": 3}]),
        lambda: ours.describe_transaction("t"),
    ):
        with pytest.raises(InvalidInputError):
            call()
    with pytest.raises(NotFoundError):
        ours.describe_transaction(["t", "no"])
    with pytest.raises(IndexNotFoundError):
        ours.drop_table_index("t", "no")
    with pytest.raises(ColumnNotFoundError):
        ours.alter_table_drop_columns("t", ["no"])
    ours.create_table_tag("t", "x", 1)
    with pytest.raises(AlreadyExistsError):
        ours.create_table_tag("t", "x", 1)
    with pytest.raises(UnsupportedFeatureError, match="column 'v' cannot be computed"):
        ours.alter_table_add_columns("t", [{"name": "v", "computed": "x"}])


def test_what_neither_supports(tmp_path: Path) -> None:
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    ours.create_table("t", ROWS)
    for method, members in (
        ("rename_table", {"new_table_name": "u"}),
        ("alter_table_backfill_columns", {"column": "b"}),
        ("refresh_materialized_view", {}),
        ("update_field_metadata", {"updates": []}),
    ):
        asked = request(method, **members)
        with pytest.raises((NotImplementedError, lance_namespace.UnsupportedOperationError)):
            getattr(theirs, method)(asked)
        with pytest.raises(UnsupportedFeatureError, match=f"{method} is not supported; use "):
            getattr(ours, method)(asked)
    for method in (
        *("create_materialized_view", "alter_transaction", "create_table_version"),
        *("batch_create_table_versions", "batch_commit_tables"),
    ):
        with pytest.raises(NotImplementedError):
            getattr(ours, method)({"id": ["t"]})


def test_members_of_partitioned_namespaces_are_not_changed(tmp_path: Path) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path, ROWS.schema, ["identity(a)"])
    namespace.append(ROWS)
    ours = DirectoryNamespace(tmp_path)
    (member, *_) = ours.list_all_tables().tables
    assert ours.count_table_rows(member).count == 1
    for call in (
        lambda: ours.insert_into_table(member, ROWS),
        lambda: ours.delete_from_table(member, "a = 1"),
        lambda: ours.update_table(member, {"b": "'x'"}),
        lambda: ours.restore_table(member, 1),
        lambda: ours.create_table_branch(member, "dev"),
    ):
        with pytest.raises(InvalidInputError, match="belongs to a partitioned namespace"):
            call()


def test_all_methods_are_there() -> None:
    theirs = {name for name in dir(TheirNamespace) if not name.startswith("_")}
    assert theirs <= {name for name in dir(DirectoryNamespace) if not name.startswith("_")}
