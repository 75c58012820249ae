"""Manifest names and finding versions, on every kind of store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.storage import open_location
from lance_df.table.metadata.versions import DETACHED, NamingScheme, list_versions, parse_manifest_name
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator

V1, V2 = NamingScheme.V1, NamingScheme.V2


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("18446744073709551614.manifest", (1, V2)),
        ("00000000000000000000.manifest", (2**64 - 1, V2)),
        ("1.manifest", (1, V1)),
        ("0012.manifest", (12, V1)),
        (f"d{DETACHED + 5}.manifest", (DETACHED + 5, V2)),
        ("99999999999999999999.manifest", None),
        (f"{10**25}.manifest", None),
        ("d5.manifest", None),
        ("18446744073709551614.manifest-0b5c1f6e", None),
        (".tmp_1.manifest", None),
        ("1.manifest.tmp", None),
        ("-1.manifest", None),
        ("+1.manifest", None),
        ("1_0.manifest", None),
        ("\u0663.manifest", None),
        ("latest_version_hint.json", None),
        (".manifest", None),
        ("1.manifest\n", None),
    ],
)
def test_names(name, parsed):
    assert parse_manifest_name(name) == parsed


@given(st.integers(1, DETACHED - 1), st.sampled_from(NamingScheme))
def test_names_are_what_is_parsed(version, scheme):
    # V1 names of 20 digits would be V2 names; no table has so many versions
    if scheme is V1 and version >= 10**19:
        version //= 10
    assert parse_manifest_name(scheme.file_name(version)) == (version, scheme)


@given(st.integers(DETACHED, 2**64 - 1), st.sampled_from(NamingScheme))
def test_detached_names_are_the_same_in_both_schemes(version, scheme):
    assert parse_manifest_name(scheme.file_name(version)) == (version, V2)


def rows(number: int) -> pa.Table:
    return pa.table({"a": range(number)})


def write(path: Path, versions: int = 3, **options: Any) -> Path:
    for number in range(1, versions + 1):
        lance.write_dataset(rows(number), path, mode="overwrite", **options)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "t.lance")


def names(table: Path) -> list[Path]:
    return sorted((table / "_versions").glob("*.manifest"))


def test_other_files_are_ignored(table: Path):
    folder = table / "_versions"
    for name in (".tmp_x", "foo.txt", "18446744073709551600.manifest-uuid", "x.manifest"):
        (folder / name).write_bytes(b"junk")
    (folder / "18446744073709551500.manifest").mkdir()
    (folder / "latest_version_hint.json").write_text('{"version":99}')
    assert open_table(table).version == 3


@pytest.mark.parametrize("hint", [None, "", '{"version":1}', '{"version":88}', "garbage"])
def test_the_hint_does_not_matter(table: Path, hint: str | None):
    file = table / "_versions" / "latest_version_hint.json"
    file.unlink()
    if hint is not None:
        file.write_text(hint)
    assert open_table(table).version == 3
    assert file.exists() is (hint is not None)


def test_holes_are_normal(table: Path):
    names(table)[1].unlink()
    ours = open_table(table)
    assert [each["version"] for each in ours.versions()] == [1, 3]
    with pytest.raises(VersionNotFoundError, match="version 2 does not exist; the versions are 1, 3"):
        ours.checkout(2)


def test_mixed_names_are_refused(table: Path):
    shutil.copy(names(table)[0], table / "_versions" / "1.manifest")
    with pytest.raises(CorruptDataError, match="both schemes"):
        open_table(table)


def test_the_version_inside_wins(table: Path):
    file = names(table)[0]  # the newest comes first
    file.rename(file.with_name(V2.file_name(77)))
    assert open_table(table).version == 3
    assert open_table(table, version=77).version == 3


def test_v1_names(tmp_path: Path):
    table = write(tmp_path / "t.lance", 12, enable_v2_manifest_paths=False)
    assert list_versions(open_location(table)).scheme is V1
    assert open_table(table).version == 12
    assert open_table(table, version=9).count_rows() == 9


@pytest.mark.parametrize("version", [0, 4, 2**63 + 1, 2**64 - 1])
def test_versions_that_are_not_there(table: Path, version: int):
    with pytest.raises(
        VersionNotFoundError, match=rf"version {version} does not exist; the versions are 1 to 3"
    ):
        open_table(table, version=version)


@pytest.mark.parametrize("version", [-1, 2**64, True, 1.5, ("main", 1, 2), (1, 1), ("main", "t")])
def test_impossible_versions(table: Path, version: Any):
    with pytest.raises(InvalidInputError):
        open_table(table, version=version)


def test_places_without_a_table(tmp_path: Path):
    (tmp_path / "empty" / "_versions").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"x")
    for version in (None, 1, "tag", ("branch", None)):
        with pytest.raises(DatasetNotFoundError, match="does not exist"):
            open_table(tmp_path / "none", version=version)
        for name in ("empty", "file"):
            with pytest.raises(DatasetNotFoundError, match="not a Lance table"):
                open_table(tmp_path / name, version=version)


def test_a_table_of_a_later_release_is_refused(table: Path):
    file = names(table)[0]
    data = file.read_bytes()
    # reader_feature_flags (field 9) = 64, at the end of the manifest, with its length and position set right
    position = int.from_bytes(data[-16:-8], "little")
    length = int.from_bytes(data[position : position + 4], "little") + 2
    block = length.to_bytes(4, "little") + data[position + 4 : -16] + b"\x48\x40"
    file.write_bytes(data[:position] + block + data[-16:])
    with pytest.raises(UnsupportedFeatureError, match=r"64 \(DATA_OVERLAYS\)"):
        open_table(table)
    assert len(open_table(table, version=2).versions()) == 3


@pytest.fixture
def memory(table: Path) -> Iterator[str]:
    fs = fsspec.filesystem("memory")
    fs.put(str(table), "/versions-test/t.lance", recursive=True)
    yield "memory://versions-test/t.lance"
    fs.rm("/versions-test", recursive=True)


def test_memory(memory: str):
    ours = open_table(memory)
    assert (ours.version, ours.count_rows(), ours.latest() is ours) == (3, 3, True)
    assert [each["version"] for each in ours.versions()] == [1, 2, 3]
    assert ours.checkout(1).count_rows() == 1
    assert ours.checkout(2).transaction().read_version == 1
    with pytest.raises(DatasetNotFoundError):
        open_table("memory://versions-test/none")


def test_s3(table: Path, bucket: str, s3_options: dict[str, Any]):
    fs = fsspec.filesystem("s3", **s3_options)
    fs.put(str(table), f"{bucket}/t.lance", recursive=True)
    data = lance.dataset(table)
    data.tags.create("gold", 2)
    fs.put(str(table / "_refs"), f"{bucket}/t.lance/_refs", recursive=True)
    ours = open_table(f"{bucket}/t.lance", storage_options=s3_options)
    assert (ours.version, ours.count_rows(), ours.latest() is ours) == (3, 3, True)
    assert [each["metadata"] for each in ours.versions()] == [each["metadata"] for each in data.versions()]
    assert ours.checkout("gold").version == 2
    (fragment,) = ours.fragments
    assert ours.open_data_file(fragment, fragment.files[0]).num_rows == 3
    with pytest.raises(VersionNotFoundError) as caught:
        ours.checkout(9)
    shown = f"{caught.value} {ours!r} {ours.location!r} {ours.shared!r}"
    assert s3_options["secret"] not in shown
    assert s3_options["key"] not in shown


def test_a_read_writes_nothing(table: Path):
    data = lance.dataset(table)
    data.delete("a = 1")
    data.tags.create("t", 1)
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    folders = [path for path in (table, *before) if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    try:
        ours = open_table(table)
        ours.versions()
        ours.tags()
        ours.branches()
        ours.row_id_index()
        ours.latest()
        assert [ours.live_rows(fragment) for fragment in ours.fragments] == [2]
        assert ours.checkout("t").transaction() is not None
    finally:
        for path in folders:
            path.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before
