"""Tables whose versions DynamoDB decides, shared with pylance: in turn, at once, half-done by either."""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    CommitStateUnknownError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    StorageError,
    VersionNotFoundError,
)
from lance_df.storage import Location
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.external_store_dynamodb import DynamoDBManifestStore, parse_dynamodb_url

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = [
    {"AttributeName": "base_uri", "KeyType": "HASH"},
    {"AttributeName": "version", "KeyType": "RANGE"},
]
TYPES = [
    {"AttributeName": "base_uri", "AttributeType": "S"},
    {"AttributeName": "version", "AttributeType": "N"},
]


@pytest.fixture(scope="module")
def client(s3_options: dict[str, Any]) -> Iterator[Any]:
    made = boto3.client(
        "dynamodb",
        endpoint_url=s3_options["endpoint_url"],
        aws_access_key_id=s3_options["key"],
        aws_secret_access_key=s3_options["secret"],
        region_name="us-east-1",
    )
    yield made
    made.close()


@dataclass
class Shared:
    """A place for a table, and how each library gets there."""

    client: Any
    name: str
    uri: str
    key: str
    ours: dict[str, Any]
    theirs: dict[str, str]

    def write(self, *values: int) -> lance_df.LanceDataset:
        return lance_df.write_dataset(
            pa.table({"a": values}), self.uri, mode="append", storage_options=self.ours
        )

    def write_theirs(self, *values: int) -> lance.LanceDataset:
        rows = pa.table({"a": values})
        return lance.write_dataset(rows, self.uri, mode="append", storage_options=self.theirs)

    def open(self, version: Any = None) -> lance_df.LanceDataset:
        return lance_df.dataset(self.uri, version, storage_options=self.ours)

    def open_theirs(self) -> lance.LanceDataset:
        return lance.dataset(self.uri, storage_options=self.theirs)

    def items(self) -> dict[int, dict[str, Any]]:
        found = self.client.scan(TableName=self.name)["Items"]
        return {int(item["version"]["N"]): item for item in found if item["base_uri"]["S"] == self.key}

    @property
    def store(self) -> DynamoDBManifestStore:
        return DynamoDBManifestStore(self.name, self.ours)

    @property
    def table(self) -> str:
        return self.uri.replace("s3+ddb://", "s3://").partition("?")[0]


@pytest.fixture
def shared(client: Any, bucket: str, s3_options: dict[str, Any]) -> Shared:
    name = f"versions-{uuid.uuid4().hex}"
    client.create_table(
        TableName=name, KeySchema=KEYS, AttributeDefinitions=TYPES, BillingMode="PAY_PER_REQUEST"
    )
    endpoint = s3_options["endpoint_url"]
    theirs = {
        "aws_access_key_id": s3_options["key"],
        "aws_secret_access_key": s3_options["secret"],
        "aws_endpoint": endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
        "dynamodb_endpoint": endpoint,
    }
    uri = f"{bucket}/path/t.lance?ddbTableName={name}".replace("s3://", "s3+ddb://")
    return Shared(client, name, uri, "path/t.lance", {**s3_options, "dynamodb_endpoint": endpoint}, theirs)


def rows(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def test_the_contract(shared: Shared):
    store, table = shared.store, "s3://bucket/path/u.lance"
    first, second = StoredManifest(1, "1.manifest-x", 10), StoredManifest(2, "2.manifest-x")
    assert store.get(table, 1) is None
    assert store.get_latest(table) is None
    assert store.put_if_absent(table, first)
    assert not store.put_if_absent(table, StoredManifest(1, "1.manifest-y", 11))
    assert store.put_if_absent(table, second)
    assert store.get(table, 1) == first
    assert store.get_latest(table) == second
    assert not store.put_if_exists(table, StoredManifest(3, "3.manifest", 5))
    assert store.put_if_exists(table, first.finished())
    assert store.get(table, 1) == StoredManifest(1, "1.manifest", 10)
    store.delete(table, 2)
    store.delete(table, 99)
    assert store.get_latest(table) == first.finished()
    store.delete(table)
    assert store.get_latest(table) is None
    assert pickle.loads(pickle.dumps(store)).get_latest(table) is None
    assert shared.ours["secret"] not in repr(store)


def test_a_dropped_table_is_forgotten(shared: Shared):
    shared.write(1, 2).create_branch("b", storage_options=shared.ours)
    lance_df.LanceDataset.drop(shared.uri, shared.ours)
    assert shared.client.scan(TableName=shared.name)["Items"] == []
    assert shared.write(3).version == 1
    lance_df.LanceDataset.drop(shared.table, shared.ours)
    with pytest.raises(VersionNotFoundError):
        shared.open()
    lance_df.LanceDataset.drop(shared.table, shared.ours, external_store=shared.store)
    assert (shared.write(4).version, rows(shared.open_theirs())) == (1, [4])


def test_endpoints_are_named(shared: Shared, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between requests that are sent again
    options = {**shared.ours, "dynamodb_endpoint": "http://user:secret@127.0.0.1:1"}
    with pytest.raises(StorageError, match=r"endpoint http://127\.0\.0\.1:1 cannot be used") as caught:
        lance_df.dataset(shared.uri, storage_options=options)
    assert "secret" not in str(caught.value)


def test_an_endpoint_that_is_no_url(shared: Shared):
    options = {**shared.ours, "dynamodb_endpoint": "http://[bad"}
    with pytest.raises(StorageError, match="the endpoint cannot be used: check the storage option"):
        lance_df.dataset(shared.uri, storage_options=options)


def test_a_dropped_table_of_which_only_the_folder_is_used(shared: Shared):
    """The folder has another table now; only the entries of the former one go."""
    shared.write(1)
    lance_df.LanceDataset.drop(shared.table, shared.ours)
    inner = lance_df.write_dataset(
        pa.table({"a": [5]}), f"{shared.table}/i.lance", storage_options=shared.ours
    )
    lance_df.LanceDataset.drop(shared.uri, shared.ours)
    assert shared.client.scan(TableName=shared.name)["Items"] == []
    assert lance_df.dataset(inner.uri, storage_options=shared.ours).count_rows() == 1


def test_in_turn(shared: Shared):
    assert shared.write(1, 2).version == 1
    assert shared.write_theirs(3).version == 2
    assert shared.write(4).version == 3
    shared.open_theirs().delete("a = 1")
    ours = shared.open()
    ours.delete("a = 2")
    assert (ours.version, rows(ours)) == (5, [3, 4])
    theirs = shared.open_theirs()
    theirs.validate()
    assert (theirs.version, rows(theirs)) == (5, [3, 4])
    items = shared.items()
    assert sorted(items) == [1, 2, 3, 4, 5]
    assert [items[n]["committer"]["S"] for n in items if n % 2] == ["lance_df"] * 3
    for ours_item, theirs_item in ((items[1], items[2]), (items[3], items[4])):
        assert ours_item.keys() == theirs_item.keys()
    names = {int(n): item["path"]["S"] for n, item in items.items()}
    assert names[5] == "path/t.lance/_versions/18446744073709551610.manifest"
    assert rows(shared.open(2)) == [1, 2, 3]
    assert [each["version"] for each in ours.versions()] == [1, 2, 3, 4, 5]
    assert rows(pickle.loads(pickle.dumps(ours))) == [3, 4]


def test_at_once(shared: Shared):
    shared.write(0)

    def append(writer: int) -> None:
        for number in range(4):
            value = 10 * writer + number
            write = shared.write if writer % 2 else shared.write_theirs
            while True:
                try:
                    write(value)
                    break
                except (ConflictError, OSError):
                    continue  # pylance tells conflicts as OSError

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, (1, 2, 3, 4)))
    expected = [0, *(10 * writer + number for writer in (1, 2, 3, 4) for number in range(4))]
    ours, theirs = shared.open(), shared.open_theirs()
    assert rows(ours) == rows(theirs) == expected
    assert ours.version == theirs.version == 17
    theirs.validate()


def test_branches(shared: Shared):
    shared.write(1)
    branch = shared.open().create_branch("b/c")
    lance_df.write_dataset(pa.table({"a": [2]}), branch, mode="append")
    theirs = shared.open_theirs().checkout_version(("b/c", None))
    assert rows(theirs) == [1, 2]
    lance.write_dataset(pa.table({"a": [3]}), theirs, mode="append")
    assert rows(shared.open(("b/c", None))) == [1, 2, 3]
    assert rows(shared.open()) == [1]
    keys = {item["base_uri"]["S"] for item in shared.client.scan(TableName=shared.name)["Items"]}
    assert keys == {"path/t.lance", "path/t.lance/tree/b/c"}


class Killed(BaseException):
    """Stands for the end of the process: nothing after it runs."""


@pytest.mark.parametrize("step", ["stage", "record", "place", "finish"])
@pytest.mark.parametrize("next_writer", ["ours", "theirs"])
def test_a_writer_that_dies(shared: Shared, monkeypatch: pytest.MonkeyPatch, step: str, next_writer: str):
    shared.write(1)
    put, remove = Location.put, Location.remove
    is_dead = False

    def die(*args: Any) -> None:
        nonlocal is_dead
        is_dead = True
        raise Killed

    def dying_put(self: Location, data: bytes, **options: Any) -> None:
        is_manifest = ".manifest" in self.name
        if is_dead or (step == "place" and is_manifest and self.name.endswith(".manifest")):
            die()
        put(self, data, **options)
        if step == "stage" and is_manifest:
            die()

    def dying_record(self: DynamoDBManifestStore, table: str, manifest: StoredManifest) -> bool:
        won = record(self, table, manifest)
        die()
        return won

    record = DynamoDBManifestStore.put_if_absent
    with monkeypatch.context() as patch:
        patch.setattr(Location, "put", dying_put)
        patch.setattr(Location, "remove", lambda self: die() if is_dead else remove(self))
        if step == "record":
            patch.setattr(DynamoDBManifestStore, "put_if_absent", dying_record)
        if step == "finish":
            patch.setattr(DynamoDBManifestStore, "put_if_exists", die)
        with pytest.raises(Killed):
            shared.write(2)
    happened = step != "stage"
    expected = [1, 2] if happened else [1]
    items = shared.items()
    assert rows(shared.open()) == expected
    assert shared.items() == items  # reading has finished nothing
    next_version = shared.write(3).version if next_writer == "ours" else shared.write_theirs(3).version
    assert next_version == len(expected) + 1
    assert rows(shared.open()) == rows(shared.open_theirs()) == [*expected, 3]
    assert all(item["path"]["S"].endswith(".manifest") for item in shared.items().values())


def test_a_half_done_commit_of_pylance(shared: Shared, s3_options: dict[str, Any]):
    shared.write_theirs(1)
    shared.write_theirs(2)
    # as if it had died after the second step
    place = shared.open()._table.location
    name = "18446744073709551613.manifest"
    (place / f"_versions/{name}-x").put((place / f"_versions/{name}").read())
    (place / f"_versions/{name}").remove()
    shared.store.put_if_exists(shared.table, StoredManifest(2, f"{name}-x"))
    assert rows(shared.open()) == [1, 2]
    assert shared.write(3).version == 3
    assert shared.store.get(shared.table, 2).name == name
    assert rows(shared.open_theirs()) == [1, 2, 3]


def test_an_answer_that_got_lost(shared: Shared, monkeypatch: pytest.MonkeyPatch):
    shared.write(1)
    record = DynamoDBManifestStore.put_if_absent

    def lost(self: DynamoDBManifestStore, table: str, manifest: StoredManifest) -> bool:
        record(self, table, manifest)
        raise CommitStateUnknownError("a time-out")

    monkeypatch.setattr(DynamoDBManifestStore, "put_if_absent", lost)
    assert shared.write(2).version == 2
    assert rows(shared.open_theirs()) == [1, 2]


def test_versions_that_are_gone(shared: Shared):
    for value in (1, 2, 3):
        shared.write(value)
    shared.store.delete(shared.table, 1)
    (shared.open()._table.location / "_versions/18446744073709551614.manifest").remove()
    (shared.open()._table.location / "_versions/18446744073709551613.manifest").remove()
    for version in (1, 2):
        with pytest.raises(VersionNotFoundError):
            shared.open(version)
    assert shared.write(4).version == 4


def test_urls():
    assert parse_dynamodb_url("s3+ddb://b/p?ddbTableName=T") == ("s3://b/p", "T")
    for url in (
        "s3+ddb://b/p",
        "s3+ddb://b/p?ddbTableName=",
        "s3+ddb://b/p?ddbTableName=T&x=secret",
        "s3+ddb://b/p?ddbTableName=T&ddbTableName=U",
    ):
        with pytest.raises(InvalidInputError, match="ddbTableName=") as caught:
            lance_df.dataset(url)
        assert "secret" not in str(caught.value)


def test_tables_that_are_none(shared: Shared, client: Any):
    missing = shared.uri.replace(shared.name, "no-such-table")
    with pytest.raises(StorageError, match="no-such-table: ResourceNotFoundException") as caught:
        lance_df.dataset(missing, storage_options=shared.ours)
    assert shared.ours["secret"] not in repr(caught.getrepr(chain=True, style="short"))
    other = f"other-{uuid.uuid4().hex}"
    client.create_table(
        TableName=other, KeySchema=KEYS[:1], AttributeDefinitions=TYPES[:1], BillingMode="PAY_PER_REQUEST"
    )
    with pytest.raises(StorageError, match="key schema must be base_uri"):
        lance_df.write_dataset(
            pa.table({"a": [1]}), shared.uri.replace(shared.name, other), storage_options=shared.ours
        )
    with pytest.raises(InvalidInputError, match="name of a DynamoDB table"):
        DynamoDBManifestStore("")


def test_an_endpoint_that_does_not_answer(shared: Shared, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    unreachable = {**shared.ours, "dynamodb_endpoint": "http://127.0.0.1:9"}
    with pytest.raises(StorageError, match="EndpointConnectionError"):
        lance_df.dataset(shared.uri, storage_options=unreachable)


@pytest.mark.parametrize("path", ["elsewhere/_versions/1.manifest", "path/t.lance/_versions/../../x", ""])
def test_items_that_lead_elsewhere(shared: Shared, path: str):
    shared.client.put_item(
        TableName=shared.name,
        Item={"base_uri": {"S": shared.key}, "version": {"N": "1"}, "path": {"S": path}},
    )
    with pytest.raises(CorruptDataError):
        shared.open()


def test_damaged_items(shared: Shared):
    shared.client.put_item(TableName=shared.name, Item={"base_uri": {"S": shared.key}, "version": {"N": "1"}})
    with pytest.raises(CorruptDataError, match="corrupt"):
        shared.open()
