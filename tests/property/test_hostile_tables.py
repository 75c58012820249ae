"""Tables whose files are well formed, and lie: paths, counts, types and sizes that no writer writes."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from mutations import mutate_columns, mutate_descriptor, mutate_indices, mutate_manifest, mutate_page
from table_cases import build, rows

import lance_df
from lance_df._pb import rowids_pb2
from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.file import LanceFileReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Edit = Callable[[Any], None]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name in ("plain_2.1", "plain_2.0", "stable_ids", "indexed", "compressed_2.1"):
        build(name, folder)
    return folder


@pytest.fixture
def table(tables: Path, tmp_path: Path) -> Path:
    return copied(tables, tmp_path, "plain_2.1")


def copied(tables: Path, folder: Path, name: str) -> Path:
    shutil.copytree(tables / f"{name}.lance", folder / "t.lance")
    return folder / "t.lance"


def newest_manifest(path: Path) -> Path:
    return min((path / "_versions").glob("*.manifest"))


def edit(path: Path, alter: Edit) -> Path:
    manifest = newest_manifest(path)
    manifest.write_bytes(mutate_manifest(manifest.read_bytes(), alter))
    return manifest


def count_and_sum(path: Path) -> Any:
    ctx = lance_df.SessionContext()
    lance_df.register(ctx, "t", path)
    return ctx.sql("SELECT count(*), max(id) FROM t WHERE id > 3").to_pylist()


def refused_everywhere(path: Path, kind: type[LanceError], *parts: str) -> None:
    """Check that tables, single rows and SQL fail alike, with all ``parts`` in the message."""
    for read in (
        lambda: lance_df.dataset(path).to_table(),
        lambda: lance_df.dataset(path).take([0]),
        lambda: count_and_sum(path),
    ):
        with pytest.raises(kind) as caught:
            read()
        for part in parts:
            assert part in str(caught.value)


# -- paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../x.lance",
        "/etc/passwd",
        "%2e%2e/x.lance",
        "..%2Fx.lance",
        "..\\x.lance",
        "\\x.lance",
        "a\0b",
        "C:\\x.lance",
        "file:///etc/passwd",
        "%2Fetc/passwd",
        "a//b",
        "",
    ],
)
def test_data_files_elsewhere(table: Path, name: str):
    def climb(manifest: Any) -> None:
        manifest.fragments[0].files[0].path = name

    edit(table, climb)
    refused_everywhere(table, CorruptDataError, str(table), repr(name))


def test_transaction_files_elsewhere(table: Path):
    def climb(manifest: Any) -> None:
        manifest.transaction_file = "../../secret.txn"
        manifest.ClearField("transaction_section")

    edit(table, climb)
    with pytest.raises(CorruptDataError, match="is not a path within this folder"):
        lance_df.dataset(table).read_transaction(3)


def test_indices_elsewhere(tables: Path, tmp_path: Path):
    path = copied(tables, tmp_path, "indexed")
    manifest = newest_manifest(path)

    def climb(section: Any) -> None:
        section.indices[0].uuid.uuid = b"../../../../etc/"

    manifest.write_bytes(mutate_indices(manifest.read_bytes(), climb))
    lance_df.dataset(path).to_table()
    with pytest.raises(CorruptDataError, match="missing"):
        lance_df.dataset(path).to_table(filter="id = 5")


def test_base_paths_that_are_not_there(table: Path):
    def refer(manifest: Any) -> None:
        manifest.fragments[0].files[0].base_id = 77

    manifest = edit(table, refer)
    refused_everywhere(table, CorruptDataError, str(manifest), "77", "none")


@pytest.mark.parametrize("base", ["/nowhere/at/all", "file:///nowhere", "../up"])
def test_base_paths_may_be_anywhere(table: Path, base: str):
    def refer(manifest: Any) -> None:
        manifest.base_paths.add(id=5, path=base, is_dataset_root=True)
        manifest.fragments[0].files[0].base_id = 5

    edit(table, refer)
    refused_everywhere(table, CorruptDataError, "this data file is missing")


# -- counts -------------------------------------------------------------------------------------------------


def test_rows_beyond_all_bounds(table: Path):
    def enlarge(manifest: Any) -> None:
        manifest.fragments[0].physical_rows = 2**60

    manifest = edit(table, enlarge)
    refused_everywhere(table, CorruptDataError, str(manifest), str(2**60))
    with pytest.raises(CorruptDataError, match=str(2**60)):
        lance_df.dataset(table).count_rows()


def test_more_rows_than_the_file_has(table: Path):
    def enlarge(manifest: Any) -> None:
        manifest.fragments[0].physical_rows = 2**32 - 1

    edit(table, enlarge)
    refused_everywhere(table, CorruptDataError, "150 rows", str(2**32 - 1))


def test_billions_of_rows_with_ids_in_a_small_file(tmp_path: Path):
    path, num_rows = tmp_path / "t.lance", 2**32 - 2
    nulls = pa.table({"id": pa.nulls(1000, pa.int32())})
    lance_df.write_dataset(nulls, path, data_storage_version="2.1", enable_stable_row_ids=True)
    (file,) = (path / "data").iterdir()

    def enlarge_pages(_: int, column: Any) -> None:
        for page in column.pages:
            page.length = num_rows

    content = mutate_columns(file.read_bytes(), enlarge_pages)
    file.write_bytes(mutate_descriptor(content, lambda descriptor: setattr(descriptor, "length", num_rows)))
    ids = rowids_pb2.RowIdSequence()
    ids.segments.add().range.end = num_rows
    versions = rowids_pb2.RowDatasetVersionSequence()
    versions.runs.add(version=1).span.CopyFrom(ids.segments[0])

    def enlarge(manifest: Any) -> None:
        fragment, manifest.next_row_id = manifest.fragments[0], num_rows
        fragment.physical_rows, fragment.files[0].file_size_bytes = num_rows, 0
        fragment.inline_row_ids = ids.SerializeToString()
        fragment.inline_created_at_versions = versions.SerializeToString()
        fragment.inline_last_updated_at_versions = versions.SerializeToString()

    edit(path, enlarge)
    lance_df.dataset(path).validate()
    edit(path, lambda manifest: setattr(manifest, "next_row_id", num_rows - 1))
    with pytest.raises(CorruptDataError, match=f"row id {num_rows - 1} is in use"):
        lance_df.dataset(path).validate()


def test_truncated_data_files(table: Path):
    file = max((table / "data").iterdir(), key=lambda each: each.stat().st_size)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] + content[-4000:])  # the tail is as it was
    refused_everywhere(table, CorruptDataError, str(file), str(len(content)))


def test_row_ids_beyond_all_bounds(tables: Path, tmp_path: Path):
    path = copied(tables, tmp_path, "stable_ids")
    sequence = rowids_pb2.RowIdSequence()
    segment = sequence.segments.add()
    segment.range.start, segment.range.end = 0, 2**60

    def enlarge(manifest: Any) -> None:
        manifest.fragments[0].inline_row_ids = sequence.SerializeToString()

    manifest = edit(path, enlarge)
    for read in (
        lambda: lance_df.dataset(path).to_table(with_row_id=True),
        lambda: lance_df.dataset(path)._take_rows([5]),
    ):
        with pytest.raises(CorruptDataError, match=str(2**60)) as caught:
            read()
        assert str(manifest) in str(caught.value)


@pytest.mark.parametrize("count", [2**32 - 1, 2**62])
def test_deletions_that_are_miscounted(table: Path, count: int):
    def enlarge(manifest: Any) -> None:
        manifest.fragments[0].deletion_file.num_deleted_rows = count

    manifest = edit(table, enlarge)
    with pytest.raises(CorruptDataError, match=f"the manifest says {count}"):
        lance_df.dataset(table).to_table()
    with pytest.raises(CorruptDataError, match=str(manifest)):
        lance_df.dataset(table).count_rows()


def test_a_bitmap_of_four_billion_deletions(tables: Path, tmp_path: Path):
    path = copied(tables, tmp_path, "plain_2.1")
    container = struct.pack("<HHH", 1, 0, 0xFFFF)
    header = struct.pack("<I", 12347 | 0xFFFF << 16) + b"\xff" * 8192
    header += b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(65536))
    start = len(header) + 4 * 65536
    offsets = b"".join(struct.pack("<I", start + 6 * key) for key in range(65536))

    def point(manifest: Any) -> None:
        deletion = manifest.fragments[0].deletion_file
        deletion.file_type, deletion.num_deleted_rows = 1, 0
        name = f"{manifest.fragments[0].id}-{deletion.read_version}-{deletion.id}.bin"
        (path / "_deletions" / name).write_bytes(header + offsets + container * 65536)

    edit(path, point)
    refused_everywhere(path, CorruptDataError, "_deletions", ".bin")


# -- schemas ------------------------------------------------------------------------------------------------


def test_cyclic_parents(table: Path):
    def tie(manifest: Any) -> None:
        first, second = manifest.fields[0], manifest.fields[1]
        first.parent_id, second.parent_id = second.id, first.id

    manifest = edit(table, tie)
    refused_everywhere(table, CorruptDataError, str(manifest), "'id'")


@pytest.mark.parametrize("depth", [63, 300, 20_000])
def test_schemas_of_many_levels(table: Path, depth: int):
    def nest(manifest: Any) -> None:
        for level in range(depth + 1):
            kind = "struct" if level < depth else "int32"
            parent = 999 + level if level else -1
            manifest.fields.add(id=1000 + level, parent_id=parent, name="n", logical_type=kind, nullable=True)

    manifest = edit(table, nest)
    refused_everywhere(table, CorruptDataError, str(manifest), "nested deeper than")


def test_schemas_of_as_many_levels_as_arrow_knows(tmp_path: Path):
    kind: pa.DataType = pa.int32()
    for _ in range(62):
        kind = pa.struct([("n", kind)])
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": pa.nulls(3, kind)}), path, data_storage_version="2.1")
    assert lance_df.dataset(path).to_table() == lance.dataset(str(path)).to_table()


@pytest.mark.parametrize(
    "logical_type",
    [
        "fixed_size_list:" * 100_000 + "int32:3",
        "fixed_size_list:" * 20 + "int32:3",
        "dict:" * 100_000 + "int8:int8:false",
        "dict:string:string:false",
        "decimal:128:50:2",
        "decimal:128:999999999999999999999999:2",
        "fixed_size_binary:-1",
        "fixed_size_list:int64:99999999999",
        "timestamp:fortnight:-",
        "map",
        "list",
        "no such type",
        "",
    ],
    ids=lambda text: f"{text[:30]}-{len(text)}",
)
def test_impossible_types(table: Path, logical_type: str):
    def retype(manifest: Any) -> None:
        manifest.fields[0].logical_type = logical_type

    edit(table, retype)
    with pytest.raises((CorruptDataError, UnsupportedFeatureError), match="'id'"):
        lance_df.dataset(table).to_table()
    with pytest.raises((CorruptDataError, UnsupportedFeatureError), match="'id'") as caught:
        count_and_sum(table)
    assert str(table) in str(caught.value)
    assert len(str(caught.value)) < 2500


def test_a_dictionary_of_a_column_of_another_type(tmp_path: Path):
    build("plain_legacy", tmp_path)
    table = tmp_path / "plain_legacy.lance"
    before = lance_df.dataset(table).to_table(columns=["id", "kind"])
    assert pa.types.is_dictionary(before["kind"].type)

    def refer(manifest: Any) -> None:
        manifest.fields[0].dictionary.offset = 10**9

    edit(table, refer)
    for _ in range(2):
        for opened in (lance_df.dataset(table), lance.dataset(str(table))):
            assert opened.to_table(columns=["id", "kind"]).equals(before)
        lance_df.dataset(table).delete("id < 0")


@pytest.mark.parametrize("width", ["fixed_size_binary:2147483647", "fixed_size_list:int64:2147483647"])
def test_values_of_gigabytes(table: Path, width: str):
    def widen(manifest: Any) -> None:
        manifest.fields[0].logical_type = width

    edit(table, widen)
    with pytest.raises(CorruptDataError, match=r"data.*'id'"):
        lance_df.dataset(table).to_table()


@pytest.mark.parametrize("name", ["x" * 10**6, "", "a.b", "_rowid", "'; DROP TABLE t; --"])
def test_strange_names(table: Path, name: str):
    def rename(manifest: Any) -> None:
        manifest.fields[1].name = name

    expected = count_and_sum(table)
    edit(table, rename)
    assert count_and_sum(table) == expected
    assert lance_df.dataset(table).to_table().column_names[1] == name


def test_names_that_c_cannot_hold(table: Path):
    def rename(manifest: Any) -> None:
        manifest.fields[1].name = "x\0y"

    manifest = edit(table, rename)
    refused_everywhere(table, CorruptDataError, str(manifest), "NUL")


def test_two_columns_of_one_name(table: Path):
    def rename(manifest: Any) -> None:
        manifest.fields[1].name = "id"

    manifest = edit(table, rename)
    refused_everywhere(table, CorruptDataError, str(manifest), "'id'")


def test_nulls_where_none_may_be(table: Path):
    def forbid(manifest: Any) -> None:
        manifest.fields[1].nullable = False

    edit(table, forbid)
    for read in (lambda: lance_df.dataset(table).to_table(), lambda: lance_df.dataset(table).take([3])):
        with pytest.raises(CorruptDataError, match="'small' is not nullable"):
            read()


def test_metadata_that_is_not_text(table: Path):
    def scramble(manifest: Any) -> None:
        manifest.fields[0].metadata["key"] = b"\xff\xfe"
        manifest.schema_metadata["key"] = b"\xff"

    edit(table, scramble)
    assert lance_df.dataset(table).schema.field("id").metadata[b"key"].decode() == "\ufffd\ufffd"
    assert lance_df.dataset(table).to_table(filter="id = 5").num_rows == 1
    assert len(count_and_sum(table)) == 1


# -- what is newer ------------------------------------------------------------------------------------------


def test_unknown_reader_flags(table: Path):
    def flag(manifest: Any) -> None:
        manifest.reader_feature_flags = 1 << 40

    manifest = edit(table, flag)
    refused_everywhere(table, UnsupportedFeatureError, str(manifest), str(1 << 40))


def test_the_unstable_file_version(tmp_path: Path):
    path = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 10).select(["id"]), path, data_storage_version="next")
    refused_everywhere(path, UnsupportedFeatureError, str(path), "2.3")
    (file,) = (path / "data").iterdir()
    with pytest.raises(UnsupportedFeatureError, match=r"2\.3, which is unstable") as caught:
        LanceFileReader(str(file))
    assert str(file) in str(caught.value)


def test_unknown_deletion_files(table: Path):
    def retype(manifest: Any) -> None:
        manifest.fragments[0].deletion_file.file_type = 9

    manifest = edit(table, retype)
    refused_everywhere(table, UnsupportedFeatureError, str(manifest), "9")


# -- files that are gone, or something else -----------------------------------------------------------------


@pytest.mark.parametrize("folder", ["data", "_deletions"])
def test_missing_files(table: Path, folder: str):
    for file in (table / folder).iterdir():
        file.unlink()
    refused_everywhere(table, CorruptDataError, str(table / folder), "is missing")


def test_missing_index_files(tables: Path, tmp_path: Path):
    path = copied(tables, tmp_path, "indexed")
    shutil.rmtree(path / "_indices")
    lance_df.dataset(path).to_table()
    with pytest.raises(CorruptDataError, match=r"_indices/.*missing"):
        lance_df.dataset(path).to_table(filter="id = 5")
    assert lance_df.dataset(path).to_table(filter="id = 5", use_scalar_index=False).num_rows == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"version": "x"}', b"[" * 100_000, b'{"a":1}']
)
def test_tags_that_are_garbage(table: Path, content: bytes):
    tags = table / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "bad.json").write_bytes(content)
    for read in (
        lambda: lance_df.dataset(table, version="bad"),
        lambda: lance_df.dataset(table).tags.list(),
        lambda: lance_df.dataset(table).checkout_version("bad"),
    ):
        with pytest.raises(CorruptDataError, match=r"tags/bad\.json"):
            read()


# -- pages --------------------------------------------------------------------------------------------------


def test_a_constant_page_of_endless_rows(table: Path):
    reader_column = lance_df.dataset(table).schema.names.index("constant")
    file = max((table / "data").iterdir(), key=lambda each: each.stat().st_size)

    def lengthen(number: int, message: Any) -> None:
        if number == reader_column:
            message.pages[0].length = 2**60

    content = mutate_columns(file.read_bytes(), lengthen)

    def claim(descriptor: Any) -> None:
        descriptor.length = 2**60

    other = table / "data" / "other.lance"
    other.write_bytes(mutate_descriptor(content, claim))
    reader = LanceFileReader(str(other), columns=["constant"])
    assert reader.num_rows() == 2**60
    with pytest.raises(CorruptDataError, match=r"other\.lance: column 'id'"):
        LanceFileReader(str(other), columns=["id"]).take_rows([3]).to_table()


@pytest.mark.parametrize("length", [2**62 + 1, 2**63, 2**64 - 1])
def test_pages_of_structs_without_fields_that_claim_impossible_rows(tmp_path: Path, length: int) -> None:
    table = pa.table({"e": pa.StructArray.from_buffers(pa.struct([]), 50, [None])})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.1")
    (file,) = (tmp_path / "t" / "data").iterdir()

    def lengthen(number: int, message: Any) -> None:
        for page in message.pages:
            page.length = length

    content = mutate_columns(file.read_bytes(), lengthen)

    def claim(descriptor: Any) -> None:
        descriptor.length = length

    file.write_bytes(mutate_descriptor(content, claim))
    with pytest.raises(LanceError, match=f"{file.stem}.*column 'e'"):
        LanceFileReader(str(file)).read_all().to_table()


_PAGES: dict[str, tuple[str, Edit]] = {
    "items": ("id", lambda layout: setattr(layout.mini_block_layout, "num_items", 2**60)),
    "buffers": ("id", lambda layout: setattr(layout.mini_block_layout, "num_buffers", 2**40)),
    "no layers": ("id", lambda layout: layout.mini_block_layout.ClearField("layers")),
    "unknown layers": ("id", lambda layout: layout.mini_block_layout.layers.extend([77] * 3)),
    "many layers": ("id", lambda layout: layout.mini_block_layout.layers.extend([4] * 1000)),
    "repetition index": (
        "id",
        lambda layout: setattr(layout.mini_block_layout, "repetition_index_depth", 2**32 - 1),
    ),
    "dictionary items": (
        "few",
        lambda layout: setattr(layout.mini_block_layout, "num_dictionary_items", 2**63),
    ),
    "no layout": ("id", lambda layout: layout.Clear()),
    "no compression": ("id", lambda layout: layout.mini_block_layout.ClearField("value_compression")),
    "width of an offset": (
        "zipped",
        lambda layout: setattr(layout.full_zip_layout, "bits_per_offset", 2**31),
    ),
    "width of a value": ("wide", lambda layout: setattr(layout.full_zip_layout, "bits_per_value", 2**31)),
    "levels": ("wide", lambda layout: setattr(layout.full_zip_layout, "bits_rep", 2**31)),
    "definition": ("wide", lambda layout: setattr(layout.full_zip_layout, "bits_def", 64)),
}


@pytest.mark.parametrize("case", list(_PAGES))
def test_pages_that_lie(tables: Path, tmp_path: Path, case: str):
    column, alter = _PAGES[case]
    (source,) = (tables / "compressed_2.1.lance" / "data").iterdir()
    names = lance_df.dataset(tables / "compressed_2.1.lance").schema.names
    file = tmp_path / "lying.lance"
    file.write_bytes(mutate_page(source.read_bytes(), alter, column=names.index(column)))
    with pytest.raises((CorruptDataError, UnsupportedFeatureError)) as caught:
        LanceFileReader(str(file), columns=[column]).read_all().to_table()
    assert str(file) in str(caught.value)
    assert column in str(caught.value)


@pytest.mark.parametrize("column", ["lz4", "zstd"])
def test_compressed_pages_that_claim_to_be_vast(tables: Path, tmp_path: Path, column: str):
    (source,) = (tables / "compressed_2.1.lance" / "data").iterdir()
    names = lance_df.dataset(tables / "compressed_2.1.lance").schema.names
    content = bytearray(source.read_bytes())
    places: list[tuple[int, int]] = []

    def look(number: int, message: Any) -> None:
        if number == names.index(column):
            for page in message.pages:
                places.extend(zip(page.buffer_offsets, page.buffer_sizes, strict=True))

    mutate_columns(bytes(content), look)
    for start, size in places:
        for at in range(start, start + min(size, 40), 2):
            content[at : at + 8] = struct.pack("<Q", 2**60)
    file = tmp_path / "bomb.lance"
    file.write_bytes(content)
    with pytest.raises((CorruptDataError, UnsupportedFeatureError, InvalidInputError), match=column):
        LanceFileReader(str(file), columns=[column]).read_all().to_table()
