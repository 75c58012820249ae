"""Manifest files: where the sections are, and every way in which a file can lie about it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_df._pb import table_pb2, transaction_pb2
from lance_df.errors import CorruptDataError, LanceError
from lance_df.storage import open_location
from lance_df.table.metadata.manifest_io import read_manifest
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from pathlib import Path


def block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def manifest(**values: object) -> bytes:
    message = table_pb2.Manifest(version=7, **values)  # type: ignore[arg-type]
    message.fields.add(name="a", id=0, parent_id=-1, logical_type="int64")
    return message.SerializeToString()


def footer(position: int, version: tuple[int, int] = (0, 2)) -> bytes:
    return struct.pack("<qHH4s", position, *version, b"LANC")


INDICES = table_pb2.IndexSection(indices=[table_pb2.IndexMetadata(name="i", uuid={"uuid": b"u" * 16})])
TRANSACTION = transaction_pb2.Transaction(uuid="u", restore={"version": 3})


def read(tmp_path: Path, data: bytes):
    file = tmp_path / "1.manifest"
    file.write_bytes(data)
    return read_manifest(open_location(file).open())


def test_sections_at_the_start_of_the_file(tmp_path: Path):
    first = block(INDICES.SerializeToString())
    second = block(TRANSACTION.SerializeToString())
    third = block(manifest(index_section=0, transaction_section=len(first)))
    file = read(tmp_path, first + second + third + footer(len(first + second)))
    assert file.manifest.version == 7
    assert [index.name for index in file.read_indices()] == ["i"]
    assert file.read_transaction().uuid == "u"


def test_a_transaction_at_the_start_of_the_file_in_the_field_of_older_releases(tmp_path: Path):
    first = block(TRANSACTION.SerializeToString())
    data = first + block(manifest(transaction_section_deprecated=0)) + footer(len(first), (9, 9))
    file = read(tmp_path, data)
    assert file.read_transaction().operation.version == 3
    assert file.read_indices() == ()


def test_no_sections(tmp_path: Path):
    file = read(tmp_path, block(manifest()) + footer(0))
    assert (file.read_indices(), file.read_transaction()) == ((), None)


def test_an_empty_index_section_as_of_release_0_5_9(tmp_path: Path):
    file = read(tmp_path, block(b"") + block(manifest(index_section=0)) + footer(4))
    assert file.read_indices() == ()


def test_bytes_before_the_footer_are_tolerated(tmp_path: Path):
    assert read(tmp_path, block(manifest()) + b"extra" + footer(0)).manifest.version == 7


def test_manifests_longer_than_the_tail_that_is_read_first(tmp_path: Path):
    config = {f"key {i}": "x" * 100 for i in range(2000)}
    first = block(INDICES.SerializeToString())
    data = first + block(manifest(config=config, index_section=0)) + footer(len(first))
    assert len(data) > 200_000
    file = read(tmp_path, data)
    assert file.manifest.config == config
    assert len(file.read_indices()) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"LANC",
        footer(0),
        footer(-1),
        footer(2**62),
        block(manifest()) + footer(1),
        block(manifest()) + footer(-4),
        block(manifest()) + footer(0)[:-4] + b"LANX",
        struct.pack("<I", 2**32 - 1) + manifest() + footer(0),
        struct.pack("<I", len(manifest()) + 1) + manifest() + footer(0),
        struct.pack("<I", len(manifest()) - 1) + manifest() + footer(0),
    ],
)
def test_damaged_files_are_reported(tmp_path: Path, data: bytes):
    with pytest.raises(CorruptDataError, match=r"1\.manifest"):
        read(tmp_path, data)


@pytest.mark.parametrize("position", [1, 10**6, 2**63, 2**64 - 1])
def test_sections_outside_of_the_file_are_reported(tmp_path: Path, position: int):
    both = {"index_section": position, "transaction_section": position}
    file = read(tmp_path, block(manifest(**both)) + footer(0))
    with pytest.raises(CorruptDataError, match="index section"):
        file.read_indices()
    with pytest.raises(CorruptDataError, match="transaction"):
        file.read_transaction()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "t.lance"
    rows = pa.table({"a": range(30), "b": [{"x": str(i)} for i in range(30)]})
    data = lance.write_dataset(rows, path, max_rows_per_file=10, enable_stable_row_ids=True)
    data.delete("a % 4 = 1")
    data.create_scalar_index("a", "BTREE")
    data.update({"a": "a + 1"}, where="a > 25")
    return path


def damaged(data: bytes, draw) -> bytes:
    """Flip, cut, insert or zero."""
    start = draw(st.integers(0, len(data) - 1))
    match draw(st.sampled_from(["flip", "cut", "insert", "zero", "truncate"])):
        case "flip":
            return data[:start] + bytes([data[start] ^ draw(st.integers(1, 255))]) + data[start + 1 :]
        case "cut":
            return data[:start] + data[start + draw(st.integers(1, 20)) :]
        case "insert":
            return data[:start] + draw(st.binary(min_size=1, max_size=10)) + data[start:]
        case "zero":
            stop = min(len(data), start + draw(st.integers(1, 20)))
            return data[:start] + bytes(stop - start) + data[stop:]
        case _:
            return data[:start]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draws=st.data())
def test_damaged_manifests_open_or_say_so(table: Path, draws):
    """Whatever is wrong with a manifest, all that can be asked of the table is answered or refused."""
    file = sorted((table / "_versions").glob("*.manifest"))[0]
    whole = file.read_bytes()
    file.write_bytes(damaged(whole, draws.draw))
    try:
        ask_everything(table)
    except LanceError as err:
        assert str(err)  # noqa: PT017 - either outcome is right
    finally:
        file.write_bytes(whole)


def ask_everything(table: Path) -> None:
    ours = open_table(table)
    assert ours.count_rows() >= 0
    ours.versions()
    assert ours.arrow_schema is not None
    assert all(index.covered_fragments() is None or index.name is not None for index in ours.indices)
    ours.transaction()
    for fragment in ours.fragments:
        ours.deletion_vector(fragment)
        ours.row_ids(fragment)
        ours.row_version_sequences(fragment)
        for data_file in fragment.files:
            ours.open_data_file(fragment, data_file)
    ours.row_id_index()
