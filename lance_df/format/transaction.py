"""Transactions: the intent of a commit, stored for later writers.

Spec: table format, transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Self

from lance_df._pb import transaction_pb2
from lance_df.errors import InvalidInputError
from lance_df.format.messages import parse_message
from lance_df.format.operation_messages import operation_from_proto, operation_to_proto
from lance_df.format.operations import OpaqueOperation, Operation
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One commit.

    Attributes
    ----------
    read_version
        The version that the operation was computed from; 0 for a new table.
    uuid
        Text, unique for each attempt to change a table.
    properties
        Free form; ``__lance_commit_message`` is the commit message.
    origin
        The message that the transaction was read from; it preserves unknown fields.
    """

    read_version: int
    uuid: str
    operation: Operation
    properties: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    origin: transaction_pb2.Transaction | None = field(default=None, repr=False, compare=False)

    @property
    def file_name(self) -> str:
        """The name of the transaction's file in the folder of transactions."""
        return f"{self.read_version}-{self.uuid}.txn"

    @classmethod
    def parse(cls, data: bytes | pa.Buffer, *, source: str) -> Self:
        """Parse a transaction file, or the transaction section of a manifest file.

        Raises
        ------
        CorruptDataError
            The bytes are not a transaction.
        """
        message = parse_message(transaction_pb2.Transaction, data, source=source, what="the transaction")
        return cls(
            read_version=message.read_version,
            uuid=message.uuid,
            operation=operation_from_proto(message, source=source),
            properties=dict(message.transaction_properties),
            tag=message.tag,
            origin=message,
        )

    def serialize(self) -> bytes:
        """Serialize the transaction, without framing."""
        return self.to_proto().SerializeToString()

    def to_proto(self) -> transaction_pb2.Transaction:
        message = transaction_pb2.Transaction()
        if isinstance(self.operation, OpaqueOperation):
            if self.origin is None:
                raise InvalidInputError(
                    f"operation {self.operation.name!r} can be copied from a transaction, but not created"
                )
            message.CopyFrom(self.origin)
        else:
            operation_to_proto(self.operation, message)
        message.read_version = self.read_version
        message.uuid = self.uuid
        message.tag = self.tag
        message.transaction_properties.clear()
        message.transaction_properties.update(self.properties)
        return message
