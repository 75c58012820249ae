"""Parameters of extension types, of pyarrow's own and of others."""

from __future__ import annotations

import json

import pyarrow as pa

from lance_df.format.extension_types import extension_metadata
from lance_df.format.schema import schema_from_arrow


class Unit(pa.ExtensionType):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(pa.float64(), "tests.unit")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Unit:
        return cls(serialized.decode())


def test_types_without_parameters() -> None:
    assert extension_metadata(pa.uuid()) == b""


def test_types_with_parameters() -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), (2, 3), dim_names=["a", "b"])
    assert json.loads(extension_metadata(tensor))["shape"] == [2, 3]
    assert extension_metadata(Unit("km")) == b"km"


def test_schemas_keep_them() -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), (2,))
    (field,) = schema_from_arrow(pa.schema({"t": tensor})).fields
    assert field.logical_type == "fixed_size_list:float:2"
    assert field.metadata["ARROW:extension:name"] == b"arrow.fixed_shape_tensor"
    assert json.loads(field.metadata["ARROW:extension:metadata"])["shape"] == [2]
