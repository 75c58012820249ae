"""Directories of namespaces and tables: alone, in races, and in turn with pylance."""

import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import lance
import lance_namespace as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace

import lance_df
from lance_df import DirectoryNamespace
from lance_df.errors import (
    AlreadyExistsError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", None, "é"]})
THEIR_NOT_FOUND = requests.TableNotFoundError


def as_stream(rows):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def manifest_rows(root):
    rows = lance.dataset(root / "__manifest").to_table().to_pylist()
    assert len({row["object_id"] for row in rows}) == len(rows)
    return {row["object_id"]: row for row in rows}


def folder_names(root):
    return sorted(path.name for path in root.iterdir())


def rows_while(happens):
    """Return rows to write, on whose way something happens."""

    def batches():
        happens()
        yield from ROWS.to_batches()

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


def test_both_answer_the_same_requests_alike(tmp_path):
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    theirs.create_namespace(requests.CreateNamespaceRequest(id=["a"], properties={"owner": "mé", "n": "1"}))
    ours.create_namespace(requests.CreateNamespaceRequest(id=["a", "b"]))
    theirs.create_table(requests.CreateTableRequest(id=["t"]), as_stream(ROWS))
    ours.create_table(requests.CreateTableRequest(id=["a", "u"], properties={"k": "v"}), as_stream(ROWS))
    theirs.create_table(
        requests.CreateTableRequest(id=["a", "b", "w"], properties={"k": ""}), as_stream(ROWS)
    )
    ours.declare_table(requests.DeclareTableRequest(id=["a", "d"], properties={"p": "q"}))
    theirs.declare_table(requests.DeclareTableRequest(id=["e"]))

    for parts in ([], ["a"], ["a", "b"]):
        for name, request in [
            ("list_tables", requests.ListTablesRequest(id=parts)),
            ("list_namespaces", requests.ListNamespacesRequest(id=parts)),
        ]:
            their_answer, our_answer = getattr(theirs, name)(request), getattr(ours, name)(request)
            attribute = name.removeprefix("list_")
            assert getattr(our_answer, attribute) == getattr(their_answer, attribute)
        request = requests.DescribeNamespaceRequest(id=parts)
        assert ours.describe_namespace(request).properties == theirs.describe_namespace(request).properties
    assert ours.list_tables(["a"]).tables == ["d", "u"]
    assert ours.list_all_tables().tables == ["a$b$w", "a$d", "a$u", "e", "t"]

    for parts in (["t"], ["a", "u"], ["a", "b", "w"]):
        request = requests.DescribeTableRequest(id=parts, load_detailed_metadata=True)
        their_answer, our_answer = theirs.describe_table(request), ours.describe_table(request)
        for name in ("table", "namespace", "version", "is_only_declared"):
            assert getattr(our_answer, name) == getattr(their_answer, name)
        assert our_answer.location == their_answer.location.removeprefix("file://")
        assert [field["name"] for field in our_answer.var_schema["fields"]] == ["a", "b"]
        assert lance.dataset(our_answer.location).to_table() == ROWS
    assert ours.describe_table("a$b$w").properties == {"k": ""}
    assert theirs.describe_table(requests.DescribeTableRequest(id=["a", "u"])).version is None


def test_what_one_makes_the_other_drops(tmp_path):
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    ours.create_namespace("ours")
    theirs.create_namespace(requests.CreateNamespaceRequest(id=["theirs"]))
    ours.create_table("ours$t", ROWS)
    ours.create_table("plain", ROWS)
    ours.declare_table("ours$later")
    theirs.create_table(requests.CreateTableRequest(id=["ours", "later"]), as_stream(ROWS))
    theirs.create_table(requests.CreateTableRequest(id=["theirs", "t"]), as_stream(ROWS))
    theirs.declare_table(requests.DeclareTableRequest(id=["theirs", "later"]))
    ours.create_table("theirs$later", ROWS, {"since": "now"})
    assert ours.describe_table("theirs$later").properties == {"since": "now"}

    with pytest.raises(AlreadyExistsError):
        ours.create_namespace("theirs")
    with pytest.raises(requests.NamespaceAlreadyExistsError):
        theirs.create_namespace(requests.CreateNamespaceRequest(id=["ours"]))
    with pytest.raises(InvalidInputError, match="not empty"):
        ours.drop_namespace("theirs")
    with pytest.raises(requests.NamespaceNotEmptyError):
        theirs.drop_namespace(requests.DropNamespaceRequest(id=["ours"]))
    assert {row["object_type"] for row in manifest_rows(tmp_path).values()} == {"namespace", "table"}

    for parts in (["ours", "t"], ["ours", "later"], ["plain"]):
        theirs.drop_table(requests.DropTableRequest(id=parts))
    for name in ("t", "later"):
        dropped = ours.drop_table(["theirs", name])
        assert dropped.id == ["theirs", name]
    ours.drop_namespace("theirs")
    theirs.drop_namespace(requests.DropNamespaceRequest(id=["ours"]))
    assert manifest_rows(tmp_path) == {}
    assert folder_names(tmp_path) == ["__manifest"]


def test_first_version_is_as_pylance_makes_it(tmp_path):
    DirectoryNamespace(tmp_path / "ours").create_namespace("a", {"k": "v"})
    request = requests.CreateNamespaceRequest(id=["a"], properties={"k": "v"})
    TheirNamespace(root=str(tmp_path / "theirs")).create_namespace(request)
    ours, theirs = (lance.dataset(tmp_path / name / "__manifest") for name in ("ours", "theirs"))
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.data_storage_version == theirs.data_storage_version
    assert ours.to_table() == theirs.to_table()
    assert [str(field) for field in ours.lance_schema.fields()] == [
        str(field) for field in theirs.lance_schema.fields()
    ]


def test_tables_of_the_root_need_no_row(tmp_path):
    lance.write_dataset(ROWS, tmp_path / "old.lance")
    lance.write_dataset(ROWS, tmp_path / "other")
    ours = DirectoryNamespace(tmp_path)
    assert ours.list_tables().tables == ["old"]
    assert folder_names(tmp_path) == ["old.lance", "other"]
    ours.create_table("new", ROWS, {"k": "v"})
    assert (tmp_path / "new.lance").is_dir()
    assert ours.list_tables().tables == ["new", "old"]
    assert ours.describe_table("old", load_detailed_metadata=True).version == 1
    with pytest.raises(AlreadyExistsError):
        ours.create_table("old", ROWS)
    assert ours.create_table("old", ROWS.slice(0, 1), mode="exist_ok").version is None
    assert ours.create_table("old", ROWS.slice(0, 2), {"k": "w"}, mode="Overwrite").version == 2
    assert lance_df.dataset(tmp_path / "old.lance").count_rows() == 2
    assert manifest_rows(tmp_path)["old"]["metadata"] == '{"k":"w"}'
    ours.create_table("old", ROWS, mode="overwrite")
    assert manifest_rows(tmp_path)["old"]["metadata"] is None

    unlisted = DirectoryNamespace(tmp_path, dir_listing_enabled=False)
    lance.write_dataset(ROWS, tmp_path / "late.lance")
    assert unlisted.list_tables().tables == ["new", "old"]
    location = unlisted.create_table("late", ROWS).location
    assert location.endswith("_late")
    assert len(location.rsplit("/", 1)[1]) == len("01234567_late")
    assert ours.describe_table("late").location == location


def test_deregistered_tables_stay_as_folders(tmp_path):
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    ours.create_namespace("a")
    nested = ours.create_table("a$t", ROWS, {"k": "v"})
    ours.create_table("plain", ROWS)
    gone = ours.deregister_table("a$t")
    assert (gone.id, gone.location, gone.properties) == (["a", "t"], nested.location, {"k": "v"})
    ours.deregister_table("plain")
    assert ours.list_all_tables().tables == []
    for parts in (["a", "t"], ["plain"]):
        with pytest.raises(DatasetNotFoundError):
            ours.table_exists(parts)
        with pytest.raises(THEIR_NOT_FOUND):
            theirs.table_exists(requests.TableExistsRequest(id=parts))
    with pytest.raises(AlreadyExistsError, match="register it again"):
        ours.create_table("plain", ROWS)
    folder = nested.location.rsplit("/", 1)[1]
    assert ours.register_table("a$again", folder).location == folder
    ours.register_table(requests.RegisterTableRequest(id=["plain"], location="plain.lance"))
    for parts in (["a", "again"], ["plain"]):
        theirs.table_exists(requests.TableExistsRequest(id=parts))
        assert lance.dataset(ours.describe_table(parts).location).to_table() == ROWS


def test_without_manifest_there_are_tables_of_the_root_alone(tmp_path):
    theirs = TheirNamespace(root=str(tmp_path), manifest_enabled="false")
    ours = DirectoryNamespace(tmp_path, manifest_enabled=False)
    ours.create_table("ours", ROWS)
    theirs.create_table(requests.CreateTableRequest(id=["theirs"]), as_stream(ROWS))
    ours.declare_table("later")
    everything = ["later", "ours", "theirs"]
    assert ours.list_tables().tables == everything
    assert theirs.list_tables(requests.ListTablesRequest(id=[])).tables == everything
    assert ours.list_tables(include_declared=False).tables == ["ours", "theirs"]
    assert ours.describe_table("later", check_declared=True).is_only_declared is True
    assert ours.list_namespaces().namespaces == []
    ours.deregister_table("theirs")
    theirs.deregister_table(requests.DeregisterTableRequest(id=["ours"]))
    assert ours.list_tables().tables == ["later"]
    assert theirs.list_tables(requests.ListTablesRequest(id=[])).tables == ["later"]
    for refused in (
        lambda: ours.create_namespace("a"),
        lambda: ours.create_table("a$t", ROWS),
        lambda: ours.create_table("t", ROWS, {"k": "v"}),
        lambda: ours.create_table("later", ROWS, {"k": "v"}),
        lambda: ours.register_table("t", "ours.lance"),
    ):
        with pytest.raises(InvalidInputError, match="manifest_enabled"):
            refused()
    ours.drop_table("later")
    assert folder_names(tmp_path) == ["ours.lance", "theirs.lance"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a$",
        "$a",
        "..",
        ".",
        "a/b",
        "../a",
        "a\\b",
        "a\0b",
        "\ud800",
        ["a$b"],
        ["a", ""],
        ["a", 1],
        [],
        None,
        7,
        b"a",
    ],
)
def test_names_that_are_none_are_refused(tmp_path, name):
    ours = DirectoryNamespace(tmp_path)
    for call in (
        lambda: ours.create_table(name, ROWS),
        lambda: ours.drop_table(name),
        lambda: ours.register_table(name, "t"),
        lambda: ours.drop_namespace(SimpleNamespace(id=name)),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert folder_names(tmp_path) == []


def test_errors_say_what_is_there_and_what_is_not(tmp_path):
    ours = DirectoryNamespace(tmp_path)
    ours.create_namespace("a", {"k": "v"})
    ours.create_table("a$t", ROWS)
    ours.create_table("t", ROWS)
    with pytest.raises(AlreadyExistsError, match="root"):
        ours.create_namespace([])
    with pytest.raises(AlreadyExistsError, match="table 'a\\$t' already exists"):
        ours.create_namespace("a$t")
    with pytest.raises(AlreadyExistsError, match="namespace 'a' already exists"):
        ours.create_table("a", ROWS)
    for parent in ("no", "t", "a$t"):
        for call in (ours.create_namespace, ours.declare_table, lambda name: ours.create_table(name, ROWS)):
            with pytest.raises(NotFoundError, match=r"namespace .* does not exist"):
                call(f"{parent}$x")
    for call in (ours.describe_namespace, ours.namespace_exists, ours.drop_namespace, ours.list_tables):
        for name in ("no", "t", "a$t"):
            with pytest.raises(NotFoundError, match=r"namespace .* does not exist"):
                call(name)
    for call in (ours.describe_table, ours.table_exists, ours.drop_table, ours.deregister_table):
        for name in ("no", "a", "a$no", "no$t"):
            with pytest.raises(DatasetNotFoundError, match="not found"):
                call(name)
    with pytest.raises(InvalidInputError, match="root"):
        ours.drop_namespace([])
    with pytest.raises(VersionNotFoundError):
        ours.describe_table("t", version=9)
    with pytest.raises(InvalidInputError, match="properties"):
        ours.create_namespace("x", {"k": 1})
    with pytest.raises(InvalidInputError, match="cascade"):
        ours.drop_namespace("a", behavior="cascade")
    with pytest.raises(InvalidInputError, match="location"):
        ours.declare_table("x", location="/elsewhere")
    with pytest.raises(InvalidInputError, match="limit"):
        ours.list_tables(limit=0)
    assert ours.create_namespace("a", {"k": "w"}, mode="exist_ok").properties == {"k": "v"}
    assert ours.drop_namespace("no", mode="Skip").properties is None
    assert ours.describe_namespace("a").properties == {"k": "v"}


def test_lists_come_in_pages(tmp_path):
    ours = DirectoryNamespace(tmp_path)
    for name in "cab":
        ours.create_namespace(name)
    for name in "cab":
        ours.declare_table(f"a${name}")
    found, token = [], None
    while True:
        page = ours.list_namespaces(limit=2, page_token=token)
        found.append(page.namespaces)
        token = page.page_token
        if token is None:
            break
    assert found == [["a", "b"], ["c"]]
    page = ours.list_tables(requests.ListTablesRequest(id=["a"], limit=3))
    assert (page.tables, page.page_token) == (["a", "b", "c"], None)
    assert ours.list_tables("a", include_declared=False).tables == []


@pytest.mark.parametrize(
    "location",
    [
        "",
        "/etc",
        "../t",
        "a/../t",
        ".",
        "./t",
        "%2e%2e/t",
        "file:///t",
        "s3://bucket/t",
        "__manifest",
        "__manifest/x",
    ],
)
def test_only_folders_of_the_root_are_registered(tmp_path, location):
    ours = DirectoryNamespace(tmp_path)
    with pytest.raises(InvalidInputError, match="location"):
        ours.register_table("t", location)
    assert ours.list_all_tables().tables == []


def test_folders_are_of_one_table_alone(tmp_path):
    theirs, ours = TheirNamespace(root=str(tmp_path)), DirectoryNamespace(tmp_path)
    lance.write_dataset(ROWS, tmp_path / "deep" / "t")
    ours.create_table("t", ROWS)
    ours.create_namespace("a")
    assert ours.register_table("a$deep", "deep/t/").location == "deep/t"
    for location in ("t.lance", "deep/t"):
        with pytest.raises(AlreadyExistsError):
            ours.register_table("a$x", location)
    with pytest.raises(DatasetNotFoundError):
        ours.register_table("a$x", "nothing")
    with pytest.raises(AlreadyExistsError):
        ours.register_table("t", "deep/t")
    theirs.register_table(requests.RegisterTableRequest(id=["a", "same"], location="t.lance"))
    with pytest.raises(InvalidInputError, match="also belongs"):
        ours.drop_table("t")
    assert lance.dataset(tmp_path / "t.lance").to_table() == ROWS
    ours.deregister_table("a$same")
    ours.drop_table("t")
    ours.drop_table("a$deep")
    assert not (tmp_path / "deep" / "t").exists()


def test_rows_that_lead_elsewhere_are_not_followed(tmp_path):
    root = tmp_path / "root"
    ours = DirectoryNamespace(root)
    ours.create_namespace("a")
    lance.write_dataset(ROWS, tmp_path / "outside")
    manifest = lance.dataset(root / "__manifest")
    row = {"object_type": "table", "location": "../outside", "metadata": None, "base_objects": None}
    places = ("../outside", None, ".", "./a", "__manifest", "__manifest/x", "/", "", "%2e%2e/outside")
    rows = [{**row, "object_id": f"t{number}", "location": place} for number, place in enumerate(places)]
    rows += [{**row, "object_id": "twice", "location": "x"}] * 2
    texts = ("[", "[]", '{"k":1}')
    rows += [{**row, "object_id": f"m{number}", "metadata": text} for number, text in enumerate(texts)]
    manifest.insert(pa.Table.from_pylist(rows, manifest.schema))
    ids = {each["object_id"] for each in rows}
    for name in ids:
        for call in (ours.describe_table, ours.drop_table):
            with pytest.raises(CorruptDataError):
                call(name)
    assert set(ours.list_tables().tables) == ids
    assert lance.dataset(tmp_path / "outside").to_table() == ROWS


def test_folders_that_a_link_leads_to_are_not_removed(tmp_path):
    (tmp_path / "home" / "Documents").mkdir(parents=True)
    (tmp_path / "home" / "Documents" / "letter").touch()
    (tmp_path / "real").mkdir()
    root = tmp_path / "root"
    root.symlink_to("real")
    ours = DirectoryNamespace(root)
    ours.create_table("t", ROWS)
    ours.create_namespace("a")
    (root / "out").symlink_to("../home")
    (root / "in").symlink_to(".")
    manifest = lance.dataset(root / "__manifest")
    row = {"object_type": "table", "metadata": None, "base_objects": None}
    places = ("out/Documents", "in/t.lance", "in/__manifest", "out/Documents/none")
    rows = [{**row, "object_id": f"a$t{number}", "location": place} for number, place in enumerate(places)]
    manifest.insert(pa.Table.from_pylist(rows, manifest.schema))
    for each in rows:
        with pytest.raises(InvalidInputError, match="symbolic link"):
            ours.drop_table(each["object_id"])
    assert (tmp_path / "home" / "Documents" / "letter").exists()
    assert len(ours.list_tables(["a"]).tables) == len(rows)
    ours.deregister_table("a$t0")
    ours.drop_table("t")
    assert not (root / "t.lance").exists()


def test_a_table_in_the_working_directory_is_dropped(tmp_path, monkeypatch):
    ours = DirectoryNamespace(tmp_path)
    ours.create_table("t", ROWS)
    monkeypatch.chdir(tmp_path / "t.lance")
    ours.drop_table("t")
    assert ours.list_tables().tables == []
    assert not (tmp_path / "t.lance").exists()


@pytest.mark.parametrize("name", ["t", "a$t"])
def test_nothing_is_left_of_tables_that_cannot_be_made(tmp_path, name):
    ours = DirectoryNamespace(tmp_path)
    ours.create_namespace("a")

    def failing():
        raise OSError("the source is gone")

    for data in (
        rows_while(failing),
        b"no stream",
        5,
        pa.table({"d": pa.array([], pa.month_day_nano_interval())}),
    ):
        with pytest.raises(Exception, match=r"."):
            ours.create_table(name, data)
    assert ours.list_all_tables().tables == []
    assert folder_names(tmp_path) == ["__manifest"]
    ours.create_table(name, ROWS)


def test_what_others_do_while_a_table_is_written(tmp_path):
    ours, other = DirectoryNamespace(tmp_path), DirectoryNamespace(tmp_path)
    ours.create_namespace("a")
    with pytest.raises(NotFoundError, match=r"namespace .* does not exist"):
        ours.create_table("a$t", rows_while(lambda: other.drop_namespace("a")))
    with pytest.raises(AlreadyExistsError, match="namespace 'n'"):
        ours.create_table("n", rows_while(lambda: other.create_namespace("n")))
    assert folder_names(tmp_path) == ["__manifest"]
    with pytest.raises(AlreadyExistsError):
        ours.create_table("n$t", rows_while(lambda: other.create_table("n$t", ROWS.slice(0, 1))))
    assert len(folder_names(tmp_path)) == 2
    assert lance.dataset(ours.describe_table("n$t").location).count_rows() == 1
    with pytest.raises(AlreadyExistsError):
        ours.create_table("t", rows_while(lambda: other.create_table("t", ROWS.slice(0, 1))))
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 1
    ours.create_table("early", rows_while(lambda: other.declare_table("early", {"k": "v"})))
    assert lance.dataset(tmp_path / "early.lance").to_table() == ROWS
    assert ours.describe_table("early").properties == {"k": "v"}
    assert manifest_rows(tmp_path).keys() == {"n", "n$t", "t", "early"}


def test_races_leave_one_row_for_each_id(tmp_path):
    DirectoryNamespace(tmp_path).create_namespace("all")
    num_threads = 6
    start = threading.Barrier(num_threads)

    def work(number):
        ours = DirectoryNamespace(tmp_path)
        start.wait()
        won = []
        for name, make in [
            ("all$shared", ours.create_namespace),
            ("shared", lambda name: ours.create_table(name, ROWS)),
            ("all$table", lambda name: ours.create_table(name, ROWS)),
            ("later", ours.declare_table),
            (f"all$own{number}", ours.create_namespace),
        ]:
            try:
                make(name)
            except AlreadyExistsError:
                continue
            won.append(name)
        ours.drop_namespace(f"all$own{number}") if number % 2 else None
        return won

    with ThreadPoolExecutor(num_threads) as pool:
        won = sorted(name for names in pool.map(work, range(num_threads)) for name in names)
    own = {f"all$own{number}" for number in range(num_threads)}
    assert won == sorted({"all$shared", "shared", "all$table", "later"} | own)
    rows = manifest_rows(tmp_path)
    assert rows.keys() == {
        "all",
        "all$own0",
        "all$own2",
        "all$own4",
        "all$shared",
        "all$table",
        "later",
        "shared",
    }
    locations = sorted(row["location"] for row in rows.values() if row["location"])
    assert folder_names(tmp_path) == sorted(["__manifest", *locations])
    assert lance.dataset(tmp_path / "shared.lance").to_table() == ROWS


def test_no_child_without_its_namespace(tmp_path):
    ours = DirectoryNamespace(tmp_path)
    for number in range(4):
        ours.create_namespace(f"n{number}")
    start = threading.Barrier(2)

    def each(call):
        start.wait()
        return [_succeeds(call, f"n{number}") for number in range(4)]

    with ThreadPoolExecutor(2) as pool:
        dropped = pool.submit(each, DirectoryNamespace(tmp_path).drop_namespace)
        child = pool.submit(each, lambda name: DirectoryNamespace(tmp_path).create_namespace(f"{name}$child"))
    assert all(a != b for a, b in zip(dropped.result(), child.result(), strict=True))
    rows = manifest_rows(tmp_path)
    assert all(name.split("$")[0] in rows for name in rows)


def _succeeds(call, name):
    try:
        call(name)
    except (InvalidInputError, NotFoundError):
        return False
    return True


def test_many_changes_leave_few_fragments_and_all_rows(tmp_path):
    ours = DirectoryNamespace(tmp_path)
    for number in range(40):
        ours.create_namespace(f"n{number:02}", {"n": str(number)})
    assert len(lance.dataset(tmp_path / "__manifest").get_fragments()) < 20
    for number in range(0, 40, 7):
        ours.drop_namespace(f"n{number:02}")
    left = [number for number in range(40) if number % 7]
    rows = manifest_rows(tmp_path)
    assert {name: row["metadata"] for name, row in rows.items()} == {
        f"n{number:02}": f'{{"n":"{number}"}}' for number in left
    }
    theirs = TheirNamespace(root=str(tmp_path))
    theirs.drop_namespace(requests.DropNamespaceRequest(id=["n01"]))
    assert ours.list_namespaces().namespaces == [f"n{number:02}" for number in left[1:]]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("reader_feature_flags", "0", None),
        ("reader_feature_flags", "4", UnsupportedFeatureError),
        ("reader_feature_flags", "9" * 5000, UnsupportedFeatureError),
        ("reader_feature_flags", "-1", CorruptDataError),
        ("writer_feature_flags", "", CorruptDataError),
        ("writer_feature_flags", "1", UnsupportedFeatureError),
    ],
)
def test_feature_flags_are_honoured(tmp_path, key, value, error):
    ours = DirectoryNamespace(tmp_path)
    ours.create_namespace("a")
    table = ours.create_table("a$t", ROWS)
    lance.dataset(tmp_path / "__manifest").update_metadata({f"lance.namespace.manifest.{key}": value})
    if error is None:
        ours.create_namespace("b")
        assert ours.describe_namespace([]).properties == {}
        return
    if key.startswith("reader"):
        for call in (lambda: DirectoryNamespace(tmp_path), ours.list_namespaces):
            with pytest.raises(error):
                call()
    else:
        assert DirectoryNamespace(tmp_path).list_tables("a").tables == ["t"]
    for call in (
        lambda: ours.create_namespace("b"),
        lambda: ours.create_table("a$u", ROWS),
        lambda: ours.create_table("a$t", ROWS.slice(0, 1), mode="overwrite"),
        lambda: ours.drop_table("a$t"),
        lambda: ours.deregister_table("a$t"),
    ):
        with pytest.raises(error):
            call()
    assert lance.dataset(table.location).to_table() == ROWS
    assert len(folder_names(tmp_path)) == 2


def test_partitioned_namespaces_are_left_as_they_are(tmp_path):
    rows = pa.table({"id": pa.array(range(8), pa.int64()), "kind": ["a", "b"] * 4})
    partitioned = lance_df.PartitionedNamespace.create(tmp_path, rows.schema, ["identity(kind)"])
    partitioned.append(rows)
    before = manifest_rows(tmp_path)
    metadata = lance.dataset(tmp_path / "__manifest").metadata
    ours = DirectoryNamespace(tmp_path)
    ours.create_namespace("docs", {"k": "v"})
    ours.create_table("docs$t", ROWS)
    ours.create_table("t", ROWS, {"k": "v"})
    for number in range(20):
        ours.create_namespace(f"docs$n{number}")
    ours.create_table("t", ROWS, {"k": "w"}, mode="overwrite")
    after = manifest_rows(tmp_path)
    assert {name: row for name, row in after.items() if name.startswith("v1")} == before
    assert after["t"]["metadata"] == '{"k":"w"}'
    assert lance.dataset(tmp_path / "__manifest").metadata == metadata
    assert ours.describe_namespace([]).properties == metadata
    again = lance_df.PartitionedNamespace.open(tmp_path)
    again.append(rows)
    assert again.count_rows() == 16
    assert again.to_table(filter="kind = 'a'").num_rows == 8
    assert ours.list_tables().tables == ["t"]
    (partition, _) = ours.list_namespaces("v1").namespaces
    for call in (
        lambda: ours.drop_table(["v1", partition, "dataset"]),
        lambda: ours.deregister_table(["v1", partition, "dataset"]),
        lambda: ours.create_namespace("v1$x"),
        lambda: ours.create_table("v2", ROWS),
        lambda: ours.drop_namespace("v1"),
    ):
        with pytest.raises(InvalidInputError, match="partitioned"):
            call()
    assert again.count_rows() == 16


def test_remote_stores(bucket, s3_options):
    root = f"{bucket}/warehouse"
    ours = DirectoryNamespace(root, storage_options=s3_options)
    other = DirectoryNamespace(root, storage_options=s3_options)
    ours.create_namespace("a")
    location = ours.create_table("a$t", ROWS).location
    assert location.startswith(f"{root}/")
    assert other.list_all_tables().tables == ["a$t"]
    assert lance_df.dataset(location, storage_options=s3_options).to_table() == ROWS
    other.drop_table("a$t")
    with pytest.raises(DatasetNotFoundError, match="not found"):
        ours.describe_table("a$t")
    assert s3_options["secret"] not in repr(ours)


def test_lost_roots(tmp_path):
    local = DirectoryNamespace(tmp_path / "root")
    local.create_namespace("a")
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    assert local.list_namespaces().namespaces == []
    local.create_namespace("b")
    assert local.list_namespaces().namespaces == ["b"]
    table = DirectoryNamespace(tmp_path / "elsewhere").create_table("a$t", ROWS).location
    lance_df.dataset(table)
    (tmp_path / "elsewhere" / table.rsplit("/", 1)[1]).rename(tmp_path / "moved")
    with pytest.raises(DatasetNotFoundError, match="does not exist"):
        DirectoryNamespace(tmp_path / "elsewhere").describe_table("a$t")
    DirectoryNamespace(tmp_path / "elsewhere").drop_table("a$t")


def test_it_travels_to_other_processes(tmp_path):
    directory = lance_df.DirectoryNamespace(tmp_path, dir_listing_enabled=False)
    directory.create_namespace(["a"])
    other = pickle.loads(pickle.dumps(directory))
    assert other.list_namespaces([]).namespaces == ["a"]
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    assert other.list_tables([]).tables == directory.list_tables([]).tables == []


def test_namespaces_are_opened():
    with pytest.raises(lance_df.InvalidInputError, match=r"PartitionedNamespace\.open"):
        lance_df.PartitionedNamespace("somewhere")
    with pytest.raises(lance_df.InvalidInputError, match="namespace_client"):
        lance_df.dataset("somewhere", table_id=["x"])
