"""Clean-ups that the configuration of a table asks for."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.table.maintenance.auto_cleanup import parse_duration

if TYPE_CHECKING:
    from pathlib import Path


def grown(uri: str, **config: str) -> list[int]:
    """Configure a table at version 2, make six more versions by various means, and return what is left."""
    lance.write_dataset(pa.table({"a": range(10)}), uri).update_config(
        {f"lance.auto_cleanup.{key}": text for key, text in config.items()}
    )
    lance_df.write_dataset(pa.table({"a": [1]}), uri, mode="append")
    ours = lance_df.dataset(uri)
    ours.delete("a = 2")
    ours.update({"a": "77"}, where="a = 3")
    ours.create_scalar_index("a", "ZONEMAP")
    ours.drop_index("a_idx")
    lance_df.write_dataset(pa.table({"a": [1]}), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 11
    return [each["version"] for each in lance_df.dataset(uri).versions()]


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ({"older_than": "0s"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        # the version before the commit stays: somebody may be reading it
        ({"interval": "3", "older_than": "0s"}, [5, 6, 7, 8]),
        ({"interval": "4", "retain_versions": "1"}, [7, 8]),
        ({"interval": "4", "retain_versions": "2"}, [7, 8]),
        ({"interval": "4", "retain_versions": "3"}, [6, 7, 8]),
        ({"interval": "0", "older_than": "0s"}, [7, 8]),
        ({"interval": "3", "older_than": "1h"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"interval": "3", "retain_versions": "1", "older_than": "14days"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        # pylance removes everything then; two weeks are the default of clean-ups
        ({"interval": "3"}, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_old_versions_go_as_the_table_says(tmp_path: Path, config: dict[str, str], left: list[int]) -> None:
    assert grown(str(tmp_path / "t.lance"), **config) == left


@pytest.mark.parametrize(
    "config",
    [
        {"interval": "x", "older_than": "0s"},
        {"interval": "1", "older_than": "soon"},
        {"interval": "1", "retain_versions": "0"},
        {"interval": "1", "retain_versions": "-1"},
    ],
)
def test_a_wrong_configuration_fails_no_commit(tmp_path: Path, config: dict[str, str]) -> None:
    with pytest.warns(RuntimeWarning, match="was committed, but removing old versions failed"):
        assert len(grown(str(tmp_path / "t.lance"), **config)) == 8


@pytest.mark.parametrize(
    ("key", "value"),
    [("interval", "-1"), ("interval", "x"), ("older_than", "soon"), ("retain_versions", "0")],
)
def test_a_wrong_configuration_is_not_stored(tmp_path: Path, key: str, value: str) -> None:
    made = lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match=f"{key}|duration"):
        made.update_config({f"lance.auto_cleanup.{key}": value})
    assert (made.config(), made.latest_version) == ({}, 1)
    made.update_config({f"lance.auto_cleanup.{key}": None, "other": value})


def test_tagged_versions_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": [1]}), uri)
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    dataset.tags.create("first", 1)
    lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    lance_df.write_dataset(pa.table({"a": [3]}), uri, mode="append")
    assert versions_of(uri) == [1, 3, 4]


def versions_of(uri: str) -> list[int]:
    return [each["version"] for each in lance_df.dataset(uri).versions()]


CONFIGS = [
    {"interval": "1", "older_than": "0s"},
    {"interval": "0", "older_than": "0s"},
    {"interval": "3", "older_than": "0s"},
    {"interval": "2", "older_than": "1h"},
    {"interval": "1", "retain_versions": "1"},
    {"interval": "1", "retain_versions": "2"},
    {"interval": "1", "retain_versions": "3"},
    {"interval": "3", "retain_versions": "2"},
    {"interval": "2", "retain_versions": "2", "older_than": "0s"},
    {"interval": "1", "retain_versions": "1", "older_than": "14days"},
    {"older_than": "0s"},
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_same_versions_stay_as_with_pylance(tmp_path: Path, config: dict[str, str]) -> None:
    left: dict[str, list[list[int]]] = {}
    for name, library in (("theirs", lance), ("ours", lance_df)):
        uri = str(tmp_path / name)
        library.write_dataset(pa.table({"a": [0]}), uri)
        library.dataset(uri).update_config({f"lance.auto_cleanup.{key}": config[key] for key in config})
        left[name] = [versions_of(uri)]
        for number in range(4):
            stale = library.dataset(uri)
            library.write_dataset(pa.table({"a": [number]}), uri, mode="append")
            left[name].append(versions_of(uri))
        stale.delete("a = 1")  # a handle of an older version
        left[name].append(versions_of(uri))
        library.dataset(uri).update({"a": "7"}, where="a = 2")
        left[name].append(versions_of(uri))
        if library is lance:
            made = lance.LanceOperation.Append(
                [lance.fragment.LanceFragment.create(uri, pa.table({"a": [9]}))]
            )
            lance.LanceDataset.commit(uri, made, read_version=lance.dataset(uri).version)
        else:
            ours = lance_df.LanceOperation.Append(
                [lance_df.fragment.LanceFragment.create(uri, pa.table({"a": [9]}))]
            )
            lance_df.LanceDataset.commit(uri, ours, read_version=lance_df.dataset(uri).version)
        left[name].append(versions_of(uri))
    assert left["ours"] == left["theirs"]


@pytest.mark.parametrize(
    "config", [{"interval": "1", "older_than": "0s"}, {"interval": "1", "retain_versions": "1"}], ids=str
)
def test_a_reader_of_the_version_before_a_commit_reads_on(tmp_path: Path, config: dict[str, str]) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": range(1000)}), uri)
    lance_df.dataset(uri).update_config({f"lance.auto_cleanup.{key}": config[key] for key in config})
    changes = (
        lambda: lance_df.dataset(uri).delete("a % 2 = 0"),
        lambda: lance_df.dataset(uri).update({"a": "a + 1"}),
        lambda: lance_df.write_dataset(pa.table({"a": [1]}), uri, mode="overwrite"),
        lambda: lance_df.dataset(uri).update_config({"lance.auto_cleanup.interval": "0"}),
    )
    for change in changes:
        expected = lance_df.dataset(uri).to_table()
        reader = lance_df.dataset(uri)  # opened, and nothing of it is read yet
        change()
        assert reader.to_table().equals(expected)
        assert reader.to_table(filter="a >= 0").equals(expected)
        assert lance_df.dataset(uri, version=reader.version).to_table().equals(expected)


def test_a_detached_version_cleans_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    config = {"lance.auto_cleanup.interval": "0", "lance.auto_cleanup.older_than": "0s"}
    lance_df.dataset(uri).update_config(config)
    fragment = lance_df.fragment.LanceFragment.create(uri, pa.table({"a": [2]}))
    operation = lance_df.LanceOperation.Append([fragment])
    lance_df.LanceDataset.commit(uri, operation, read_version=2, detached=True)
    assert versions_of(uri) == [1, 2]


def test_it_is_turned_on_and_off(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    ours = lance_df.write_dataset(pa.table({"a": [1]}), uri)
    ours.optimize.enable_auto_cleanup({"interval": 3, "older_than_seconds": 0})
    theirs = lance.dataset(uri)
    expected = {"lance.auto_cleanup.interval": "3", "lance.auto_cleanup.older_than": "0s"}
    assert theirs.config() == expected
    ours.delete("a = 2 or a = 1")
    assert [each["version"] for each in ours.versions()] == [2, 3]
    ours.optimize.disable_auto_cleanup()
    assert ours.config() == {}
    for wrong in ({}, {"interval": 1}, {"interval": -1, "older_than_seconds": 0}):
        with pytest.raises(InvalidInputError):
            ours.optimize.enable_auto_cleanup(wrong)
    assert ours.latest_version == 4


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("14days", 14 * 86400),
        ("1m", 60),
        ("1h 30m", 5400),
        ("2weeks 1day", 15 * 86400),
        ("1500ms", 1.5),
        ("1M", 30.44 * 86400),
        ("1y", 365.25 * 86400),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "days", "1 fortnight", "-1s", "1s,", "1.5h"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(InvalidInputError, match="invalid duration"):
        parse_duration(text)


@pytest.mark.parametrize("digits", [30, 400, 5000])
def test_a_very_long_time_is_for_ever(digits: int) -> None:
    assert parse_duration("9" * digits + "y") == dt.timedelta.max
