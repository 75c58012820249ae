"""Manifests that differ in nothing that readers of rows would notice are told from others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_df._pb import table_pb2 as pb
from lance_df.errors import CorruptDataError
from lance_df.format.manifest import Manifest
from lance_df.format.manifest_template import ManifestTemplate


def _message(**changes: Any) -> pb.Manifest:
    message = pb.Manifest(version=3, max_fragment_id=1, transaction_file="a", transaction_section=7)
    message.fields.add(name="x", id=0, parent_id=-1, logical_type="int64", nullable=True)
    message.fragments.add(id=0, physical_rows=5)
    message.writer_version.library, message.writer_version.version = "lance", "1.2.3"
    message.data_format.file_format, message.data_format.version = "lance", "2.1"
    message.table_metadata["a"] = "b"
    for name, value in changes.items():
        if isinstance(value, dict):
            getattr(message, name).update(value)
        else:
            setattr(message, name, value)
    return message


def _fragments(message: pb.Manifest) -> list[int] | None:
    alike = ManifestTemplate(Manifest.parse(_message().SerializeToString(), source="first"))
    found = alike.fragments(pa.py_buffer(message.SerializeToString()), source="second")
    return None if found is None else [fragment.physical_rows for fragment in found]


def test_what_versions_differ_in() -> None:
    other = _message(version=9, max_fragment_id=8, transaction_file="b", transaction_section=1)
    other.timestamp.seconds = 77
    other.fragments.add(id=8, physical_rows=6)
    assert _fragments(other) == [5, 6]
    del other.fragments[:]
    assert _fragments(other) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"reader_feature_flags": 2, "writer_feature_flags": 2},
        {"reader_feature_flags": 1 << 40},
        {"index_section": 4},
        {"config": {"c": "d"}},
        {"table_metadata": {"a": "c"}},
        {"schema_metadata": {"a": b"c"}},
        {"branch": "b"},
        {"next_row_id": 5},
        {"max_allocated_field_id": 5},
    ],
)
def test_what_else_makes_another_kind(changes: dict[str, Any]) -> None:
    assert _fragments(_message(**changes)) is None


def test_other_columns_bases_and_formats() -> None:
    assert _fragments(_message()) == [5]
    nullable, base, version = _message(), _message(), _message()
    nullable.fields[0].nullable = False
    base.base_paths.add(id=1, path="/elsewhere")
    version.data_format.version = "2.0"
    assert [_fragments(each) for each in (nullable, base, version)] == [None] * 3


def test_no_manifest() -> None:
    alike = ManifestTemplate(Manifest.parse(_message().SerializeToString(), source="first"))
    with pytest.raises(CorruptDataError, match="second"):
        alike.fragments(pa.py_buffer(b"\xff\xff\xff"), source="second")
