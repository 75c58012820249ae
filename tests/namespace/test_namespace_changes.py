"""Delete, overwrite and transactions over partitions: all or nothing, and one after the other."""

import threading
from functools import lru_cache
from pathlib import Path
from random import Random

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.compute.calculator import evaluator
from lance_df.errors import ColumnNotFoundError, InvalidInputError, RetryableConflictError
from lance_df.namespace.changes import publish
from lance_df.namespace.changes.draft import Draft
from lance_df.namespace.manifest_table import NamespaceManifest
from tools.leftover_files import leftovers

pytestmark = pytest.mark.engine

COUNTRIES = ["US", "DE", None, "héllo"]


def events(start=0, count=40, country=None):
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([None if i % 7 == 3 else i / 2 for i in numbers], pa.float64()),
            "country": pa.array([country or COUNTRIES[i % 4] for i in numbers], pa.string()),
        }
    )


def in_order(rows):
    return sorted(rows, key=lambda row: (row["id"], str(row["country"])))


def rows_of(table):
    return in_order(table.to_pylist())


def where(table, condition):
    context = datafusion.SessionContext()
    context.from_arrow(table, name="t")
    return context.sql(f"SELECT * FROM t WHERE {condition}").to_arrow_table().cast(table.schema)


def stored(namespace):
    """The rows of the newest version, as pylance finds them in the members."""
    found = [namespace.schema.empty_table()]
    for row in lance_df.PartitionedNamespace.open(namespace.uri).partitions().to_pylist():
        member = lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        member.validate()
        found.append(member.to_table())
    return rows_of(pa.concat_tables(found))


def partition_of(row):
    return row["country"], bucket_of(row["id"])


@lru_cache
def bucket_of(number):
    (bucket,) = evaluator().evaluate("abs(murmur3(col0)) % 2", [pa.array([number], pa.int64())]).to_pylist()
    return bucket


def value_of(row, spec):
    return {"country": row["country"], "bucket": partition_of(row)[1], "both": partition_of(row)}[spec]


def versions(namespace):
    return dict(
        zip(*namespace.partitions().select(["object_id", "read_version"]).to_pydict().values(), strict=True)
    )


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", events().schema, ["country", "bucket(id, 2)"])
    made.append(events())
    return made


def test_delete_is_sql_over_plain_memory(namespace):
    left = events()
    for predicate in (
        "country = 'US' AND id < 30",
        "country IS NULL OR id = 1",
        "x > 18",
        "x IS NULL AND country <> 'DE'",
        "upper(country) = 'HÉLLO' AND id % 2 = 1",
        "true",
    ):
        before, at, old = versions(namespace), namespace.version, rows_of(left)
        gone = rows_of(where(left, predicate))
        assert namespace.delete(predicate) == {"num_deleted_rows": len(gone)}
        left = where(left, f"({predicate}) IS NOT TRUE")
        assert rows_of(namespace.to_table()) == rows_of(left)
        assert namespace.version == at + 1
        assert rows_of(namespace.at(at).to_table()) == old
        changed = {name for name, version in versions(namespace).items() if version != before[name]}
        assert len(changed) == len({partition_of(row) for row in gone})
        if predicate == "x > 18":
            assert stored(namespace) == rows_of(left)
    namespace.append(events(100, 8))
    assert stored(namespace) == rows_of(events(100, 8))


def test_members_that_cannot_match_are_not_opened(namespace, monkeypatch):
    candidates = []
    original = Draft.members_that_may_match

    def members(self, predicate):
        candidates.append(original(self, predicate))
        return candidates[-1]

    monkeypatch.setattr(Draft, "members_that_may_match", members)
    namespace.delete("country = 'DE' AND x > 3")
    namespace.delete("id = 7")
    namespace.delete("country IN ('US', 'DE') AND id = 8 AND upper(country) = 'US'")
    assert [len(found) for found in candidates] == [2, 4, 1]


def test_delete_by_the_partition_expression(namespace):
    predicate = "abs(murmur3(id)) % 2 = 1"
    namespace.delete(predicate)
    left = [row for row in events().to_pylist() if partition_of(row)[1] == 0]
    assert stored(namespace) == left


def test_nothing_to_delete_is_no_version(namespace):
    at = namespace.version
    for predicate in ("id = 1000", "country = 'nowhere'", "false", "x = NULL"):
        assert namespace.delete(predicate) == {"num_deleted_rows": 0}
    assert namespace.version == at == lance_df.PartitionedNamespace.open(namespace.uri).version


def test_wrong_predicates_change_nothing(namespace):
    for predicate, error in (
        ("nope = 1", ColumnNotFoundError),
        ("id +", InvalidInputError),
        (5, InvalidInputError),
    ):
        with pytest.raises(error):
            namespace.delete(predicate)
    assert namespace.version == 2


def test_deleting_what_others_append_meanwhile(namespace):
    """Each deletion stands on what is published by then: nothing that it means is left."""
    failures = []

    def run(work):
        try:
            work(lance_df.PartitionedNamespace.open(namespace.uri))
        except BaseException as err:  # noqa: BLE001 - reported by the test
            failures.append(err)

    def append(mine):
        for step in range(3):
            mine.append(events(1000 + 8 * step, 8))

    deleted = []

    def delete(condition):
        return lambda mine: deleted.append(mine.delete(condition)["num_deleted_rows"])

    jobs = [append, delete("id < 20"), delete("country = 'US' AND id < 1000"), delete("id = 39")]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(deleted) == 20 + 5 + 1
    left = where(events(), "NOT (id < 20) AND coalesce(country, '') <> 'US' AND id <> 39")
    assert stored(namespace) == rows_of(left) + rows_of(events(1000, 24))


def test_overwrite_replaces_the_partitions_that_occur(namespace):
    fresh = pa.concat_tables([events(200, 3, "US"), events(300, 2, "FR"), events(400, 1)])
    namespace.overwrite_partitions(fresh)
    replaced = {partition_of(row) for row in fresh.to_pylist()}
    kept = [row for row in events().to_pylist() if partition_of(row) not in replaced]
    expected = pa.concat_tables([pa.Table.from_pylist(kept, fresh.schema), fresh])
    assert 0 < len(kept) < 40
    assert stored(namespace) == rows_of(expected)
    for row in namespace.partitions().to_pylist():
        member = lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        assert [field.id() for field in member.lance_schema.fields()] == [0, 1, 2]
    assert rows_of(namespace.at(2).to_table()) == rows_of(events())


def test_overwrite_replaces_what_earlier_specs_stored(namespace):
    namespace.update_partition_spec([partition.identity("country")])
    namespace.append(events(40, 8))
    namespace.overwrite_partitions(pa.concat_tables([events(500, 2, "US"), events(502, 1)]))
    fresh = pa.concat_tables([events(500, 2, "US"), events(502, 1)])
    left = where(events(0, 48), "country <> 'US'")
    assert stored(namespace) == rows_of(pa.concat_tables([left, fresh]))
    assert namespace.count_rows("country IS NULL") == 1


def test_overwriting_with_nothing_is_no_version(namespace):
    namespace.overwrite_partitions(events().slice(0, 0))
    assert (namespace.version, namespace.count_rows()) == (2, 40)


def test_a_transaction_is_one_version_and_its_changes_follow_each_other(namespace):
    with namespace.transaction() as tx:
        tx.append(events(100, 8))
        tx.append(events(100, 2, "FR"))
        tx.append(events(110, 2, "FR"))
        tx.delete("id IN (0, 1, 101, 110)")
        tx.append(events(110, 1, "FR"))
        tx.overwrite_partitions(events(200, 1, "DE"))
        tx.delete("id = 107")
        assert stored(namespace) == rows_of(events())
        assert namespace.count_rows() == 40
    parts = [events(), events(100, 8), events(100, 2, "FR"), events(110, 2, "FR")]
    expected = where(pa.concat_tables(parts), "id NOT IN (0, 1, 101, 110)").to_pylist()
    expected += events(110, 1, "FR").to_pylist()
    replaced = partition_of({"id": 200, "country": "DE"})
    expected = [row for row in expected if partition_of(row) != replaced]
    expected += events(200, 1, "DE").to_pylist()
    expected = [row for row in expected if row["id"] != 107]
    assert stored(namespace) == rows_of(pa.Table.from_pylist(expected, namespace.schema))
    assert namespace.version == 3
    assert rows_of(namespace.to_table()) == stored(namespace)
    with pytest.raises(InvalidInputError, match="has ended"):
        tx.append(events())


def test_a_transaction_that_raises_leaves_nothing(namespace):
    def files():
        return sorted(path for path in Path(namespace.uri).rglob("*") if path.is_file())

    before = files()
    with pytest.raises(ZeroDivisionError), namespace.transaction() as tx:  # noqa: PT012
        tx.append(events(100, 8))
        tx.delete("true")
        tx.overwrite_partitions(events(200, 2, "XX"))
        raise ZeroDivisionError
    with pytest.raises(ColumnNotFoundError), namespace.transaction() as tx:  # noqa: PT012
        tx.append(events(100, 8))
        tx.delete("nope")
    assert files() == before
    assert namespace.version == 2
    with pytest.raises(InvalidInputError, match="has ended"):
        tx.delete("true")


def test_t64_write_skew_is_made_again_or_fails(namespace):
    """A changes one partition, B that and another, both from one version."""
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with other.transaction() as b:
        b.append(events(200, 1, "US"))
        b.delete("country IN ('US', 'DE') AND id < 100")
        with namespace.transaction() as a:
            a.append(events(50, 4, "US"))
            a.append(events(60, 2, "ZZ"))
    left = where(events(), "country IS NULL OR country = 'héllo'")
    expected = pa.concat_tables([left, events(60, 2, "ZZ"), events(200, 1, "US")])
    assert stored(namespace) == rows_of(expected)
    # of no rows in the version that is read there, in the other case
    for condition in ("country = 'ZZ'", "id = 200"):
        with pytest.raises(RetryableConflictError), namespace.transaction(rebase=False) as stale:
            stale.delete(condition)
    assert stored(namespace) == rows_of(expected)
    namespace.checkout_latest()
    with namespace.transaction(rebase=False) as now:
        now.delete("country = 'ZZ'")
    assert namespace.count_rows("country = 'ZZ'") == 0


def test_t63_two_transactions_make_one_partition(namespace):
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with other.transaction() as b:
        b.append(events(300, 4, "NEW"))
        b.delete("id = 301")
        b.append(events(310, 4, "NEW"))
        with namespace.transaction() as a:
            a.append(events(320, 4, "NEW"))
            a.append(events(330, 4, "NEW"))
    added = [events(start, 4, "NEW") for start in (300, 310, 320, 330)]
    expected = where(pa.concat_tables([events(), *added]), "id <> 301")
    assert stored(namespace) == rows_of(expected)
    values = [(row["country"], row["id_bucket"]) for row in other.partitions().to_pylist()]
    assert len(values) == len(set(values)) == 10
    folders = {path.name for path in Path(namespace.uri).iterdir()} - {"__manifest"}
    assert folders == set(other.partitions()["location"].to_pylist())


def test_t65_dying_before_the_commit_to_the_manifest_shows_nothing(namespace, monkeypatch):
    def die(self, added, moved, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NamespaceManifest, "changed", die)
        with pytest.raises(KeyboardInterrupt), namespace.transaction() as tx:  # noqa: PT012
            tx.delete("id < 30")
            tx.append(events(100, 4))
            tx.append(events(100, 4, "NEW"))
            tx.overwrite_partitions(events(200, 1, "DE"))
    assert stored(namespace) == rows_of(events())
    with namespace.transaction() as tx:
        tx.delete("id < 30")
        tx.append(events(100, 4, "NEW"))
    assert stored(namespace) == rows_of(pa.concat_tables([events(30, 10), events(100, 4, "NEW")]))


REFUSED = {
    "append": lambda tx: tx.append(events(300, 4, "NEW")),
    "overwrite": lambda tx: tx.overwrite_partitions(events(300, 4, "NEW")),
    "upsert": lambda tx: tx.upsert(events(0, 4, "NEW"), on="id"),
    "partial upsert": lambda tx: tx.upsert(events(0, 4, "NEW").drop_columns(["x"]), on="id"),
    "update": lambda tx: tx.update({"country": "'NEW'"}, where="id < 4"),
    "columns": lambda tx: (tx.append(events(300, 4, "NEW")), tx.drop_columns(["x"])),
}


def test_an_update_that_starts_again_leaves_nothing_behind(namespace, monkeypatch):
    """Others give the same partitions rows twice, just before the update is published."""
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    changed, added = NamespaceManifest.changed, [events(start, 4, "US") for start in (100, 200)]
    left = list(added)

    def late(self, *arguments, **options):
        if left:
            rows = left.pop()
            monkeypatch.setattr(NamespaceManifest, "changed", changed)
            other.append(rows)
            monkeypatch.setattr(NamespaceManifest, "changed", late)
        return changed(self, *arguments, **options)

    monkeypatch.setattr(NamespaceManifest, "changed", late)
    # as in another process, nothing waits for this one
    monkeypatch.setattr(publish, "line_of", lambda _: publish.PublishingLine())
    namespace.update({"country": "'NEW'"}, where="country = 'US'")
    assert not left
    before = pa.concat_tables([events(), *added])
    expected = where(before, "country IS NULL OR country <> 'US'").to_pylist()
    expected += [row | {"country": "NEW"} for row in where(before, "country = 'US'").to_pylist()]
    assert stored(namespace) == in_order(expected)
    assert leftovers(Path(namespace.uri)) == []


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_no_folder(namespace, change):
    before = {path.name for path in Path(namespace.uri).iterdir()}
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with pytest.raises(RetryableConflictError), namespace.transaction(rebase=False) as tx:  # noqa: PT012
        change(tx)
        other.append(events(100, 1, "US"))
    assert {path.name for path in Path(namespace.uri).iterdir()} == before
    assert stored(namespace) == rows_of(pa.concat_tables([events(), events(100, 1, "US")]))


def test_readers_see_all_of_a_transaction_or_nothing(namespace):
    """Rows move between partitions; whoever looks finds each exactly once."""
    failures, seen, done = [], set(), threading.Event()

    def read():
        mine = lance_df.PartitionedNamespace.open(namespace.uri)
        while not done.is_set():
            mine.checkout_latest()
            seen.add(tuple(sorted(mine.to_table(["id"])["id"].to_pylist())))

    def move(country):
        try:
            mine = lance_df.PartitionedNamespace.open(namespace.uri)
            with mine.transaction() as tx:
                tx.delete("id < 10")
                tx.append(events(0, 10, country))
        except BaseException as err:  # noqa: BLE001 - reported by the test
            failures.append(err)

    reader = threading.Thread(target=read)
    reader.start()
    movers = [threading.Thread(target=move, args=(country,)) for country in ("A", "US")]
    for thread in movers:
        thread.start()
    for thread in movers:
        thread.join()
    done.set()
    reader.join()
    assert failures == []
    assert seen == {tuple(range(40))}
    assert len({row["country"] for row in stored(namespace) if row["id"] < 10}) == 1


PREDICATES = (
    "id % 3 = 0",
    "country = 'US'",
    "country IS NULL AND x > 4",
    "x < 2 OR x IS NULL",
    "country > 'F'",
)


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_are_those_of_plain_memory(namespace, seed):
    random, rows, spec = Random(seed), events().to_pylist(), "both"
    for step in range(4):
        if random.random() < 0.4:
            spec = random.choice(["country", "bucket", "both"])
            namespace.update_partition_spec(
                {"country": ["country"], "bucket": ["bucket(id, 2)"], "both": ["country", "bucket(id, 2)"]}[
                    spec
                ]
            )
        with namespace.transaction(rebase=random.random() < 0.5) as tx:
            for change in random.choices(["append", "delete", "overwrite"], k=random.randint(1, 4)):
                new = events(random.randrange(40), random.randint(1, 5), random.choice([None, "US", "new"]))
                table = pa.Table.from_pylist(rows, namespace.schema)
                if change == "append":
                    tx.append(new)
                    rows = rows + new.to_pylist()
                elif change == "delete":
                    predicate = random.choice(PREDICATES)
                    tx.delete(predicate)
                    rows = where(table, f"({predicate}) IS NOT TRUE").to_pylist()
                else:
                    tx.overwrite_partitions(new)
                    replaced = {value_of(row, spec) for row in new.to_pylist()}
                    rows = [row for row in rows if value_of(row, spec) not in replaced] + new.to_pylist()
        found = namespace.to_table()
        assert in_order(found.to_pylist()) == in_order(rows), (seed, step)
        predicate = random.choice(PREDICATES)
        expected = where(pa.Table.from_pylist(rows, namespace.schema), predicate)
        assert in_order(namespace.to_table(filter=predicate).to_pylist()) == in_order(expected.to_pylist())


def test_lists_of_blobs(tmp_path):
    values = [b"tiny", b"b" * 70_000, None, b"", b"z" * 300_000, b"q"]
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 6]), lance.blob_array(values))
    rows = pa.table({"k": [0, 1, 1, 0], "b": lists})
    root = tmp_path / "blobs"
    namespace = lance_df.PartitionedNamespace.create(root, rows.schema, ["k"])
    for _ in range(2):
        namespace.append(rows)
    assert namespace.verify(deep=True).ok
    found = [
        lance.dataset(str(table)).to_table(columns=["b"], blob_handling="all_binary")["b"].to_pylist()
        for table in root.glob("*$dataset")
    ]
    assert sorted(found, key=str) == sorted([2 * [values[:2], None], 2 * [[], values[2:]]], key=str)
    for other in (pa.array([[1]]), pa.array([[b"tiny"]])):
        with pytest.raises(InvalidInputError, match=r"'b\.item' has type struct"):
            namespace.append(pa.table({"k": [1], "b": other}))
    assert namespace.count_rows() == 8
