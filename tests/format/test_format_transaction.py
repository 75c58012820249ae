"""Transactions: every operation both ways, what old releases wrote, what is not known."""

from __future__ import annotations

import dataclasses
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df._pb import transaction_pb2 as pb
from lance_df.errors import InvalidInputError, LanceError
from lance_df.format import operations as ops
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.manifest import BasePath, IndexMetadata
from lance_df.format.schema import Field, Schema
from lance_df.format.transaction import Transaction

FILE = DataFile(path="x.lance", fields=(0,), column_indices=(0,))
FRAGMENTS = (Fragment(id=3, files=(FILE,), physical_rows=5), Fragment(id=4, files=()))
SCHEMA = Schema(fields=(Field(id=0, name="a", logical_type="int64"),), metadata={"k": b"v"})
INDEX = IndexMetadata(uuid=uuid.UUID(int=9), fields=(0,), name="a_idx", dataset_version=1)
BASES = (BasePath(id=1, path="/x", is_dataset_root=True, name="b"),)
CHANGE = ops.MapUpdate((("a", "1"), ("b", None)), replace=True)

OPERATIONS = [
    ops.Append(FRAGMENTS),
    ops.Append(()),
    ops.Delete(FRAGMENTS, (7, 8), "a > 1"),
    ops.Overwrite(FRAGMENTS, SCHEMA, {"c": "d"}, BASES),
    ops.CreateIndex((INDEX,), (INDEX,)),
    ops.Rewrite(
        (ops.RewriteGroup(FRAGMENTS, FRAGMENTS[:1]),),
        (ops.RewrittenIndex(uuid.UUID(int=1), uuid.UUID(int=2), "/t", b"d", 1, (("f", 2),)),),
    ),
    ops.Merge(FRAGMENTS, SCHEMA, preserves_nullability=True),
    ops.Restore(5),
    ops.ReserveFragments(2),
    ops.Update((1,), FRAGMENTS, FRAGMENTS, (0,), (1,), ops.UpdateMode.REWRITE_COLUMNS),
    ops.Project(dataclasses.replace(SCHEMA, metadata={}), preserves_nullability=True),
    ops.UpdateConfig(CHANGE, CHANGE, CHANGE, {4: CHANGE}),
    ops.UpdateConfig(),
    ops.DataReplacement(((3, FILE),)),
    ops.Clone(is_shallow=True, ref_name="t", ref_version=3, ref_path="/y", branch_name="b"),
    ops.Clone(is_shallow=False, ref_name=None, ref_version=0, ref_path="", branch_name=None),
    ops.UpdateBases(BASES),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: repr(operation)[:40])
def test_operations_survive_writing_and_reading(operation):
    transaction = Transaction(read_version=4, uuid="u-1", operation=operation, properties={"p": "q"})
    again = Transaction.parse(transaction.serialize(), source="file")
    assert again == transaction
    assert again.file_name == "4-u-1.txn"


def test_every_operation_is_here():
    known = {type(operation).__name__.lower() for operation in OPERATIONS}
    messages = pb.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
    opaque = {field.name for field in messages if field.message_type.name == "Opaque"}
    assert {field.name.replace("_", "") for field in messages if field.name not in opaque} == known
    assert opaque == {"update_mem_wal_state", "data_overlay"}


def test_an_unknown_operation_is_passed_on_as_it_is():
    # field 140, a message of 3 bytes
    message = pb.Transaction(read_version=2, uuid="u")
    data = message.SerializeToString() + b"\xe2\x08\x03\x0a\x01x"
    transaction = Transaction.parse(data, source="file")
    assert transaction.operation == ops.OpaqueOperation(None)
    assert transaction.serialize() == data
    with pytest.raises(InvalidInputError, match="but not created"):
        dataclasses.replace(transaction, origin=None).serialize()


def test_an_operation_known_by_name_keeps_its_payload():
    message = pb.Transaction(uuid="u")
    message.update_mem_wal_state.MergeFromString(b"\x0a\x01x")
    transaction = Transaction.parse(message.SerializeToString(), source="file")
    assert transaction.operation == ops.OpaqueOperation("update_mem_wal_state")
    assert transaction.serialize() == message.SerializeToString()


def test_fields_of_old_releases():
    old = pb.Transaction.UpdateConfig(upsert_values={"a": "1"}, delete_keys=["b"])
    old.schema_metadata["s"] = "t"
    old.field_metadata[4].metadata["f"] = "g"
    transaction = Transaction.parse(pb.Transaction(update_config=old).SerializeToString(), source="file")
    assert transaction.operation == ops.UpdateConfig(
        config=ops.MapUpdate((("a", "1"), ("b", None))),
        schema_metadata=ops.MapUpdate((("s", "t"),), replace=True),
        field_metadata={4: ops.MapUpdate((("f", "g"),), replace=True)},
    )
    rewrite = pb.Transaction.Rewrite()
    rewrite.old_fragments.add(id=1)
    rewrite.new_fragments.add(id=2)
    (group,) = Transaction.parse(
        pb.Transaction(rewrite=rewrite).SerializeToString(), source="file"
    ).operation.groups
    assert [fragment.id for fragment in (*group.old_fragments, *group.new_fragments)] == [1, 2]


@given(st.binary(max_size=60))
def test_noise_is_a_transaction_or_an_error(data):
    try:
        transaction = Transaction.parse(data, source="file")
    except LanceError:
        return
    assert Transaction.parse(transaction.serialize(), source="file") == transaction
