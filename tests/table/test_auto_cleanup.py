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
        ({"interval": "3", "older_than": "0s"}, [6, 7, 8]),
        ({"interval": "4", "retain_versions": "2"}, [7, 8]),
        ({"interval": "0", "older_than": "0s"}, [8]),
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
    with pytest.warns(RuntimeWarning, match="is committed, but old versions were not removed"):
        assert len(grown(str(tmp_path / "t.lance"), **config)) == 8


def test_tagged_versions_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": [1]}), uri)
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    dataset.tags.create("first", 1)
    lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    assert [each["version"] for each in lance_df.dataset(uri).versions()] == [1, 3]


def test_it_is_turned_on_and_off(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    ours = lance_df.write_dataset(pa.table({"a": [1]}), uri)
    ours.optimize.enable_auto_cleanup({"interval": 3, "older_than_seconds": 0})
    theirs = lance.dataset(uri)
    expected = {"lance.auto_cleanup.interval": "3", "lance.auto_cleanup.older_than": "0s"}
    assert theirs.config() == expected
    ours.delete("a = 2 or a = 1")
    assert [each["version"] for each in ours.versions()] == [3]
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
    with pytest.raises(InvalidInputError, match="no duration"):
        parse_duration(text)


def test_a_very_long_time_is_for_ever() -> None:
    assert parse_duration("9" * 30 + "y") == dt.timedelta.max
