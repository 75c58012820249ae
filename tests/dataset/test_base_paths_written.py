"""Tables with data in several places: registered, written to, changed and moved, beside pylance."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import DatasetBasePath
from lance_df.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    RetryableConflictError,
)

if TYPE_CHECKING:
    from pathlib import Path


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop)})


def values(data: Any) -> list[int]:
    found: list[int] = data.to_table()["a"].to_pylist()
    return sorted(found)


def places(data: lance_df.LanceDataset) -> list[int | None]:
    """Return the base path of the first file of each fragment."""
    data.checkout_latest()
    return [fragment.files[0].base_id for fragment in data._table.fragments]


def hot_and_cold(folder: Path) -> list[DatasetBasePath]:
    return [
        DatasetBasePath(str(folder / "hot"), name="hot"),
        DatasetBasePath(str(folder / "cold"), name="cold", is_dataset_root=True),
    ]


def as_theirs(bases: list[DatasetBasePath]) -> list[lance.DatasetBasePath]:
    return [lance.DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id) for base in bases]


@pytest.fixture
def ours(tmp_path: Path) -> lance_df.LanceDataset:
    """Ten rows in four fragments, in turn in the hot and in the cold place."""
    return lance_df.write_dataset(
        rows(0, 10),
        tmp_path / "t",
        initial_bases=hot_and_cold(tmp_path),
        target_bases=["hot", str(tmp_path / "cold")],
        max_rows_per_file=3,
    )


def test_tables_as_pylance_makes_them(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    theirs = lance.write_dataset(
        rows(0, 10),
        tmp_path / "theirs",
        initial_bases=as_theirs(hot_and_cold(tmp_path)),
        target_bases=["hot", str(tmp_path / "cold")],
        max_rows_per_file=3,
    )
    made = lance_df.dataset(tmp_path / "theirs")
    assert places(ours) == places(made) == [1, 2, 1, 2]
    assert ours.base_paths() == made.base_paths()
    assert {key: (base.path, base.name) for key, base in theirs.base_paths().items()} == {
        key: (base.path, base.name) for key, base in ours.base_paths().items()
    }
    mine, other = ours._table.transaction(), made._table.transaction()
    assert mine is not None
    assert other is not None
    assert mine.operation.initial_bases == other.operation.initial_bases  # type: ignore[union-attr]
    assert len(list((tmp_path / "hot").iterdir())) == len(list((tmp_path / "cold/data").iterdir())) == 4
    found = lance.dataset(ours.uri)
    found.validate()
    assert values(found) == values(ours) == list(range(10))


def test_both_change_such_a_table(ours: lance_df.LanceDataset) -> None:
    theirs = lance.dataset(ours.uri)
    theirs = lance.write_dataset(rows(10, 12), theirs, mode="append", target_bases=["cold"])
    lance_df.write_dataset(rows(12, 14), ours, mode="append", target_bases=["cold"])
    lance_df.write_dataset(rows(14, 16), ours, mode="append")
    assert places(ours) == [1, 2, 1, 2, 2, 2, None]
    ours.delete("a < 2")
    theirs.checkout_latest()
    theirs.delete("a in (13, 15)")
    expected = [*range(2, 13), 14]
    assert values(lance.dataset(ours.uri)) == expected
    ours.checkout_latest()
    assert values(ours) == expected
    ours.optimize.compact_files(target_rows_per_fragment=100)
    assert places(ours) == [None]
    theirs = lance.dataset(ours.uri)
    theirs.validate()
    assert values(theirs) == values(ours) == expected
    lance_df.write_dataset(rows(0, 2), ours, mode="overwrite", target_bases=["hot"])
    assert places(ours) == [1]
    assert values(lance.dataset(ours.uri)) == [0, 1]
    assert len(ours.base_paths()) == 2


@pytest.mark.parametrize(("include_own", "expected"), [(True, [None, 1, 2, None]), (False, [1, 2, 1, 2])])
def test_all_bases_in_turn(
    ours: lance_df.LanceDataset, include_own: bool, expected: list[int | None]
) -> None:
    arguments: dict[str, Any] = {"target_all_bases": include_own, "max_rows_per_file": 3, "mode": "append"}
    lance_df.write_dataset(rows(10, 20), ours, **arguments)
    lance.write_dataset(rows(20, 30), ours.uri, **arguments)
    assert places(ours)[4:] == expected * 2
    assert values(lance.dataset(ours.uri)) == values(ours) == list(range(30))


def test_bases_are_registered_later(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    theirs = lance.dataset(ours.uri)
    theirs.add_bases([lance.DatasetBasePath(str(tmp_path / "third"), name="third")])
    ours.checkout_latest()
    more = [DatasetBasePath(str(tmp_path / "fourth")), DatasetBasePath("file:///x", "fifth", id=9)]
    assert ours.add_bases(more, {"why": "test"}) is ours
    assert ours.version == 3
    theirs.checkout_latest()
    assert sorted(theirs.base_paths()) == sorted(ours.base_paths()) == [1, 2, 3, 4, 9]
    assert ours.base_paths()[4] == DatasetBasePath(str(tmp_path / "fourth"), id=4)
    transaction = ours._table.transaction()
    assert transaction is not None
    assert transaction.properties == {"why": "test"}
    lance_df.write_dataset(rows(10, 11), ours, mode="append", target_bases=["third"])
    lance.write_dataset(rows(11, 12), ours.uri, mode="append", target_bases=[str(tmp_path / "fourth")])
    assert values(lance.dataset(ours.uri)) == list(range(12))


def test_what_bases_are_refused(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    def refused(message: str, *bases: DatasetBasePath) -> None:
        with pytest.raises(InvalidInputError, match=message):
            ours.add_bases(bases)
        with pytest.raises(InvalidInputError, match=message):
            lance_df.write_dataset(
                rows(0, 1), tmp_path / "new", initial_bases=[*hot_and_cold(tmp_path), *bases]
            )

    refused("cannot have the same name 'hot'", DatasetBasePath("/x", "hot"))
    refused("cannot have the same path '/x'", DatasetBasePath("/x"), DatasetBasePath("/x"))
    refused("cannot have the same path", DatasetBasePath(str(tmp_path / "hot")))
    refused("beyond|already in use", DatasetBasePath("/x", id=-1))
    refused("the id 4 is invalid or already in use", DatasetBasePath("/x", id=4), DatasetBasePath("/y", id=4))
    with pytest.raises(
        InvalidInputError, match="the id 1 is invalid or already in use; the ids in use are \\[1, 2\\]"
    ):
        ours.add_bases([DatasetBasePath("/x", id=1)])
    for path in ("", "a\0b", None):
        with pytest.raises(InvalidInputError, match="a base path must be a path or a URL"):
            DatasetBasePath(path)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected a DatasetBasePath, got str"):
        lance_df.write_dataset(rows(0, 1), tmp_path / "new", initial_bases=["/x"])  # type: ignore[list-item]
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match="Cannot register new bases in"):
            lance_df.write_dataset(rows(0, 1), ours, mode=mode, initial_bases=[DatasetBasePath("/x")])  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    assert ours.latest_version == 1


def test_what_targets_are_refused(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="base path 'warm' does not exist; the base paths are: 'hot', 'cold'"
    ):
        lance_df.write_dataset(rows(0, 1), ours, mode="append", target_bases=["warm"])
    with pytest.raises(InvalidInputError, match="base path 'hot' does not exist; the base paths are: none"):
        lance_df.write_dataset(rows(0, 1), tmp_path / "new", target_bases=["hot"])
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        lance_df.write_dataset(rows(0, 1), ours, mode="append", target_bases=["hot"], target_all_bases=True)
    with pytest.raises(InvalidInputError, match="at least one registered base path"):
        lance_df.write_dataset(rows(0, 1), tmp_path / "new", target_all_bases=False)
    assert not (tmp_path / "new").exists()
    assert ours.latest_version == 1


def test_a_write_that_fails_leaves_nothing_in_any_place(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    def batches() -> Any:
        yield from rows(0, 100).to_batches()
        raise RuntimeError("lost")

    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RuntimeError, match="lost"):
        lance_df.write_dataset(
            batches(),
            ours,
            rows(0, 1).schema,
            mode="append",
            target_all_bases=True,
            max_rows_per_file=9,
        )
    with pytest.raises(AlreadyExistsError):
        lance_df.write_dataset(rows(0, 1), ours.uri, initial_bases=hot_and_cold(tmp_path / "other"))
    assert sorted(tmp_path.rglob("*")) == before


def test_paths_move(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    lance.dataset(ours.uri).create_scalar_index("a", "BTREE")
    ours.checkout_latest()
    (tmp_path / "new").mkdir()
    shutil.move(tmp_path / "hot", tmp_path / "new/hot")
    shutil.move(tmp_path / "cold", tmp_path / "freezer")
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.lance")}
    moves = {str(tmp_path): f"{tmp_path}/new", f"file://{tmp_path}/cold/": str(tmp_path / "freezer")}
    assert ours.rebase_paths(moves) is ours
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.lance")} == files
    assert ours.base_paths() == {
        1: DatasetBasePath(f"{tmp_path}/new/hot", "hot", id=1),
        2: DatasetBasePath(str(tmp_path / "freezer"), "cold", is_dataset_root=True, id=2),
    }
    theirs = lance.dataset(ours.uri)
    theirs.validate()
    assert values(theirs) == values(ours) == list(range(10))
    assert theirs.to_table(filter="a = 5").num_rows == 1
    lance.write_dataset(rows(10, 11), ours.uri, mode="append", target_bases=["hot"])
    assert len(list((tmp_path / "new/hot").iterdir())) == 3
    # two that change places
    ours.checkout_latest()
    ours.rebase_paths({f"{tmp_path}/new": "/elsewhere", f"{tmp_path}/freezer": f"{tmp_path}/new/hot"})
    assert [base.path for _, base in sorted(ours.base_paths().items())] == [
        "/elsewhere/hot",
        f"{tmp_path}/new/hot",
    ]


def test_what_moves_are_refused(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    for moves, message in (
        ({}, "no base path to move"),
        ({"/nowhere": "/x"}, "no base path begins with '/nowhere'"),
        # a beginning ends where a name ends
        ({f"{tmp_path}/ho": "/x"}, "no base path begins with"),
        ({f"{tmp_path}/hot": f"{tmp_path}/cold"}, "cannot have the same path"),
        ({f"{tmp_path}/hot": ""}, "cannot be moved to ''"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ours.rebase_paths(moves)
    assert ours.latest_version == 1


def test_writers_and_movers_find_out_about_each_other(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    def at_first_version() -> lance_df.LanceDataset:
        return ours.checkout_version(1)

    hot = {str(tmp_path / "hot"): str(tmp_path / "hotter")}
    lance.write_dataset(rows(10, 11), ours.uri, mode="append", target_bases=["hot"])
    with pytest.raises(RetryableConflictError):
        at_first_version().rebase_paths(hot)
    # files in other places are no matter
    at_first_version().rebase_paths({str(tmp_path / "cold"): str(tmp_path / "colder")})
    for change in (
        lambda: at_first_version().rebase_paths({str(tmp_path / "cold"): "/x"}),
        lambda: lance.dataset(ours.uri, version=2).add_bases([lance.DatasetBasePath("/x", name="cold")]),
    ):
        with pytest.raises((ConflictError, ValueError, OSError), match=r"(?i)conflict|committed before"):
            change()
    with pytest.raises(IncompatibleConflictError):
        at_first_version().add_bases([DatasetBasePath(str(tmp_path / "colder"), "other")])
    at_first_version().delete("a = 0")
    assert ours.checkout_version((None, None)).base_paths()[2].path == str(tmp_path / "colder")


def test_an_append_to_a_path_that_moved_meanwhile(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    def batches() -> Any:
        yield from rows(10, 12).to_batches()
        ours.rebase_paths({str(tmp_path / "hot"): str(tmp_path / "hotter")})

    before = sorted((tmp_path / "hot").iterdir())
    with pytest.raises(RetryableConflictError):
        lance_df.write_dataset(batches(), ours.uri, rows(0, 1).schema, mode="append", target_bases=["hot"])
    assert sorted((tmp_path / "hot").iterdir()) == before


def test_bases_in_s3(bucket: str, s3_options: dict[str, Any], tmp_path: Path) -> None:
    options = {
        "aws_access_key_id": s3_options["key"],
        "aws_secret_access_key": s3_options["secret"],
        "aws_endpoint": s3_options["endpoint_url"],
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    ours = lance_df.write_dataset(
        rows(0, 4),
        f"{bucket}/t",
        storage_options=s3_options,
        initial_bases=[DatasetBasePath(f"{bucket}/base", "base")],
        target_bases=["base"],
        max_rows_per_file=2,
    )
    theirs = lance.dataset(ours.uri, storage_options=options)
    assert values(theirs) == values(ours) == [0, 1, 2, 3]
    lance.write_dataset(rows(4, 5), ours.uri, mode="append", storage_options=options, target_bases=["base"])
    ours.checkout_latest()
    ours.delete("a = 1")
    assert places(ours) == [1, 1, 1]
    assert values(lance.dataset(ours.uri, storage_options=options)) == values(ours) == [0, 2, 3, 4]
    ours.rebase_paths({bucket: f"{bucket}/moved"})
    assert ours.base_paths()[1].path == f"{bucket}/moved/base"


@pytest.mark.parametrize("kind", ["by path", "by id"])
def test_bases_with_options_of_their_own(
    bucket: str, s3_options: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    """The table is local, its base path in a store that needs an endpoint and keys."""
    base = f"{bucket}/base"
    options: dict[str, Any] = {"base_store_params": {f"{base}/": s3_options}}
    if kind == "by id":
        options = {"storage_options": {f"base_1.{key}": value for key, value in s3_options.items()}}
        options["allowed_base_schemes"] = ["s3"]
    ours = lance_df.write_dataset(
        rows(0, 3), tmp_path / "t", initial_bases=[DatasetBasePath(base)], target_bases=[base], **options
    )
    assert places(ours) == [1]
    ours = lance_df.write_dataset(rows(3, 4), ours, mode="append", target_bases=[base])
    ours.delete("a = 0")
    again = lance_df.dataset(ours.uri, **options)
    for data in (ours, again, pickle.loads(pickle.dumps(again)), ours.checkout_version((None, 3))):
        assert values(data) == [1, 2, 3]
    secret = s3_options["secret"]
    assert secret not in f"{again!r} {again._table!r} {again._table.location!r} {again._table.shared!r}"
    clone = again.shallow_clone(tmp_path / "clone")
    assert values(clone) == [1, 2, 3]
    remote = again.deep_clone(f"{bucket}/deep", storage_options=s3_options)
    local = remote.shallow_clone(tmp_path / "of remote", storage_options={})
    assert local.base_paths()[0].path == f"{bucket}/deep"
    assert values(local) == values(remote) == [1, 2, 3]
