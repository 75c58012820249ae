"""The manifest model: absent fields, unknown fields, lazy fragments."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid

import numpy as np
import pyarrow as pa
import pyroaring
import pytest

from lance_df._pb import table_pb2 as pb
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import (
    DataFile,
    DeletionFile,
    DeletionFileType,
    Fragment,
    Spilled,
)
from lance_df.format.manifest import (
    BasePath,
    IndexMetadata,
    Manifest,
    WriterVersion,
    parse_indices,
    serialize_indices,
)
from lance_df.format.schema import Schema, schema_from_arrow

UNKNOWN = b"\xfa\x7f\x03abc"  # field 2047, 3 bytes


def manifest(**values: object) -> pb.Manifest:
    message = pb.Manifest(version=1, **values)  # type: ignore[arg-type]
    message.fields.add(name="a", id=0, parent_id=-1, logical_type="int64", nullable=True)
    return message


def read(message: pb.Manifest) -> Manifest:
    return Manifest.parse(message.SerializeToString(), source="file")


def test_absent_is_not_zero():
    bare = read(manifest())
    assert (bare.timestamp, bare.max_fragment_id, bare.writer_version, bare.data_format) == (None,) * 4
    assert (bare.index_section, bare.transaction_section, bare.branch) == (None,) * 3
    zeros = manifest(max_fragment_id=0, index_section=0, transaction_section=0, branch="")
    zeros.timestamp.SetInParent()
    full = read(zeros)
    assert (full.max_fragment_id, full.index_section, full.transaction_section, full.branch) == (0, 0, 0, "")
    assert full.timestamp == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_the_old_place_of_the_transaction_is_used_when_the_new_one_is_absent():
    assert read(manifest(transaction_section_deprecated=0)).transaction_section == 0
    both = manifest(transaction_section_deprecated=5, transaction_section=0)
    assert read(both).transaction_section == 0


def test_the_highest_fragment_id_is_computed_when_it_is_not_recorded():
    message = manifest()
    for fragment_id in (3, 9, 4):
        message.fragments.add(id=fragment_id)
    assert read(message).max_fragment_id == 9


def test_a_rewrite_keeps_what_the_model_does_not_know():
    message = manifest(max_fragment_id=1, config={"k": "v"}, table_metadata={"t": "m"})
    message.fragments.add(id=0, physical_rows=3).files.add(path="x.lance", fields=[0], base_id=0)
    message.writer_version.library, message.writer_version.version = "lance", "14.0.2"
    message.writer_version.build_metadata = "abc"
    data = message.SerializeToString() + UNKNOWN
    parsed = Manifest.parse(data, source="file")
    changed = dataclasses.replace(parsed, version=2)
    out = pb.Manifest.FromString(changed.serialized(index_section=None, transaction_section=None)[0])
    message.version = 2
    assert UNKNOWN in out.SerializeToString()
    out.DiscardUnknownFields()
    assert out == message


@pytest.mark.parametrize("member", ["fields", "fragments", "base_paths"])
def test_a_rewrite_keeps_unknown_fields_of_parts(member):
    message = manifest()
    if member == "fragments":
        message.fragments.add(id=1)
    if member == "base_paths":
        message.base_paths.add(id=1, path="/x")
    part = getattr(message, member)[0]
    part.MergeFromString(UNKNOWN)
    again = pb.Manifest.FromString(read(message).serialized(index_section=None, transaction_section=None)[0])
    assert UNKNOWN in getattr(again, member)[0].SerializeToString()


def test_a_changed_fragment_keeps_its_unknown_fields_but_not_its_deletions():
    message = pb.DataFragment(id=4, physical_rows=9, inline_row_ids=b"r")
    message.deletion_file.num_deleted_rows = 2
    message.files.add(path="a", fields=[1], column_indices=[0]).MergeFromString(UNKNOWN)
    message.MergeFromString(UNKNOWN)
    changed = dataclasses.replace(Fragment.from_proto(message), deletion_file=None, row_ids=Spilled.COLUMN)
    out = changed.to_proto()
    assert not out.HasField("deletion_file")
    assert out.WhichOneof("row_id_sequence") == "column_row_ids"
    assert out.files[0] == message.files[0]
    assert out.SerializeToString().endswith(UNKNOWN)


def test_fragments_are_arrays_and_objects():
    files = (DataFile(path="a", fields=(0,), column_indices=(0,), size_bytes=10),)
    gone = DeletionFile(file_type=DeletionFileType.BITMAP, read_version=1, id=2, num_deleted_rows=3)
    fragments = FragmentList.of(
        [
            Fragment(id=7, files=files, physical_rows=10),
            Fragment(id=2, files=files * 2, physical_rows=5, deletion_file=gone),
        ]
    )
    assert fragments.ids.tolist() == [7, 2]
    assert fragments.physical_rows.tolist() == [10, 5]
    assert fragments.num_deleted.tolist() == [0, 3]
    assert fragments.has_deletions.tolist() == [False, True]
    assert (fragments.num_files.tolist(), fragments.file_bytes.tolist()) == ([1, 2], [10, 20])
    assert fragments.positions(np.array([2, 3, 7, -1])).tolist() == [1, -1, 0, -1]
    assert fragments.position(99) is None
    assert fragments[1].deletion_file == gone
    assert fragments[1].deletion_file.name(2) == "2-1-2.bin"
    assert [fragment.id for fragment in fragments] == [7, 2]
    assert fragments[-1:] == (fragments[1],)


def test_fragment_lists_are_edited_by_id():
    fragments = FragmentList.of([Fragment(id=i, files=(), physical_rows=1) for i in range(5)])
    edited = fragments.edited(
        replaced={3: Fragment(id=3, files=(), physical_rows=9)},
        removed=[0, 4],
        added=[Fragment(id=8, files=(), physical_rows=2)],
    )
    assert edited.ids.tolist() == [1, 2, 3, 8]
    assert edited.physical_rows.tolist() == [1, 1, 9, 2]
    assert fragments.physical_rows.tolist() == [1] * 5


def test_duplicate_fragment_ids_can_be_read_but_not_changed():
    fragments = FragmentList.of([Fragment(id=i, files=(), physical_rows=1) for i in (0, 1, 1)])
    assert len(fragments) == 3
    with pytest.raises(CorruptDataError, match="two fragments have id 1"):
        fragments.edited(removed=[0])


def test_no_fragments():
    fragments = FragmentList.of([])
    assert len(fragments) == 0
    assert fragments.positions(np.array([0])).tolist() == [-1]
    assert fragments.physical_rows.tolist() == []


@pytest.mark.parametrize(
    ("fragment", "read_array"),
    [
        (pb.DataFragment(id=2**32), lambda fragments: fragments.ids),
        (pb.DataFragment(physical_rows=2**64 - 1), lambda fragments: fragments.physical_rows),
        (
            pb.DataFragment(deletion_file=pb.DeletionFile(num_deleted_rows=2**63)),
            lambda fragments: fragments.num_deleted,
        ),
    ],
    ids=["id", "rows", "deleted"],
)
def test_impossible_numbers_are_refused(fragment, read_array):
    with pytest.raises(CorruptDataError, match="file"):
        read_array(FragmentList([fragment], source="file"))


def test_file_versions():
    versions = [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (2, 2)]
    found = [
        DataFile(path="x", fields=(), major_version=major, minor_version=minor).version
        for major, minor in versions
    ]
    assert found == ["0.1"] * 3 + ["2.0"] * 2 + ["2.1", "2.2"]
    with pytest.raises(UnsupportedFeatureError, match=r"2\.3"):
        assert DataFile(path="x", fields=(), major_version=2, minor_version=3).version


def test_columns_of_a_data_file():
    file = DataFile(path="x", fields=(4, -2, -3, 9, 4), column_indices=(0, 1, 2, -1, 3))
    assert file.column_of() == {4: 0, -3: 2}
    with pytest.raises(CorruptDataError, match="2 fields"):
        DataFile(path="x", fields=(1, 2), column_indices=(0,)).column_of()


def test_an_unknown_kind_of_deletion_file_is_not_guessed():
    message = pb.DataFragment(id=3)
    message.deletion_file.MergeFromString(b"\x08\x07")
    with pytest.raises(UnsupportedFeatureError, match="fragment 3: deletion file type 7"):
        FragmentList([message], source="file")[0]


@pytest.mark.parametrize("version", ["2.3", "9.9", "stable"])
def test_unknown_data_formats_are_refused(version):
    message = manifest()
    message.data_format.version = version
    with pytest.raises(UnsupportedFeatureError, match=version):
        read(message)


def test_base_paths_have_ids():
    message = manifest()
    message.base_paths.add(id=0, path="s3://b/x", is_dataset_root=True)
    message.base_paths.add(id=5, path="/y", name="n")
    assert read(message).base_paths == (
        BasePath(id=0, path="s3://b/x", is_dataset_root=True),
        BasePath(id=5, path="/y", name="n"),
    )
    message.base_paths.add(id=5, path="/z")
    with pytest.raises(CorruptDataError, match="have the same id"):
        read(message)


def test_indices_survive_writing_and_reading():
    index = IndexMetadata(
        uuid=uuid.UUID(int=5),
        fields=(3,),
        name="a_idx",
        dataset_version=4,
        fragment_bitmap=pyroaring.BitMap([0, 7]).serialize(),
        details_type_url="/lance.index.pb.ZoneMapIndexDetails",
        details=b"\x08\x01",
        index_version=0,
        created_at_ms=0,
        base_id=0,
        files=(("zonemap.lance", 100),),
        covering_fields=(1,),
    )
    (again,) = parse_indices(serialize_indices([index]), source="file")
    assert again == index
    assert again.kind == "zonemapindexdetails"
    assert list(again.covered_fragments()) == [0, 7]
    assert dataclasses.replace(again, files=(), base_id=None).to_proto().base_id == 0
    assert parse_indices(serialize_indices([again]), source="file") == (again,)


def test_an_index_without_coverage_or_details():
    bare = IndexMetadata(uuid=uuid.UUID(int=1), fields=(), name="i", dataset_version=1)
    (again,) = parse_indices(serialize_indices([bare]), source="file")
    assert (again.covered_fragments(), again.kind, again.index_version) == (None, None, None)
    assert again == bare


def test_a_time_beyond_the_calendar_is_none():
    index = IndexMetadata(uuid=uuid.UUID(int=1), fields=(), name="i", dataset_version=1)
    made = [dataclasses.replace(index, created_at_ms=each).created_at for each in (None, 1_500, 2**64 - 1)]
    assert made == [None, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC), None]


def test_row_ids_end():
    message = manifest(next_row_id=2**64 - 1)
    data, _ = read(message).serialized(index_section=None, transaction_section=None)
    assert pb.Manifest.FromString(data).next_row_id == 2**64 - 1
    with pytest.raises(CorruptDataError, match="next row id of version 1 would be 18446744073709551616"):
        dataclasses.replace(read(message), next_row_id=2**64).serialized(
            index_section=None, transaction_section=None
        )


def test_damaged_indices_are_reported():
    section = pb.IndexSection()
    section.indices.add(name="i", uuid=pb.UUID(uuid=b"short"))
    with pytest.raises(CorruptDataError, match="5 bytes"):
        parse_indices(section.SerializeToString(), source="file")
    index = IndexMetadata(
        uuid=uuid.UUID(int=1), fields=(), name="i", dataset_version=1, fragment_bitmap=b"zz"
    )
    with pytest.raises(CorruptDataError, match="'i'"):
        index.covered_fragments()


@pytest.mark.parametrize(
    ("writer", "trusted"),
    [
        (None, False),
        (WriterVersion("lance", "0.8.14"), False),
        (WriterVersion("lance", "0.8.15"), True),
        (WriterVersion("lance", "14.0.2"), True),
        (WriterVersion("lance", "odd"), False),
        (WriterVersion("other", "0.1.0"), True),
    ],
)
def test_old_releases_did_not_know_what_their_indices_cover(writer, trusted):
    assert dataclasses.replace(read(manifest()), writer_version=writer).trusts_index_coverage is trusted


def test_noise_is_no_manifest():
    with pytest.raises(CorruptDataError, match="file"):
        Manifest.parse(b"\x0a\xff\xff\xff\xff\x0f", source="file")


@pytest.mark.parametrize("with_deletions", [[], [0], [70], [3, 99]])
def test_deletions_among_many_fragments(with_deletions):
    message = manifest()
    for fragment_id in range(100):
        fragment = message.fragments.add(id=fragment_id, physical_rows=9)
        if fragment_id in with_deletions:
            fragment.deletion_file.SetInParent()  # says nothing, and is there
    found = read(message).fragments
    assert np.flatnonzero(found.has_deletions).tolist() == with_deletions
    assert found.num_deleted.tolist() == [0] * 100
    with pytest.raises(ValueError, match="read-only"):
        found.has_deletions[0] = True


def test_metadata_is_in_the_order_of_its_keys():
    keys = [f"key {n:02}" for n in range(40)]
    field = pa.field("a", pa.int64(), metadata=dict.fromkeys(reversed(keys), "x"))
    schema = schema_from_arrow(pa.schema([field], metadata=dict.fromkeys(reversed(keys), "y")))
    # as it is written, and as it is read
    for each in (schema, Schema.from_proto(schema.to_proto(), schema.metadata, source="x")):
        arrow = each.to_arrow()
        assert [key.decode() for key in arrow.field("a").metadata] == keys
        assert [key.decode() for key in arrow.metadata] == keys
