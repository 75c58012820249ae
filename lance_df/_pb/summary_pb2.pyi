from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ManifestSummary(_message.Message):
    __slots__ = ("fragments",)
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    fragments: FragmentsSummary
    def __init__(self, fragments: _Optional[_Union[FragmentsSummary, _Mapping]] = ...) -> None: ...

class FragmentsSummary(_message.Message):
    __slots__ = ("ids", "deletion_files", "physical_rows")
    IDS_FIELD_NUMBER: _ClassVar[int]
    DELETION_FILES_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_ROWS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    deletion_files: _containers.RepeatedScalarFieldContainer[bytes]
    physical_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., deletion_files: _Optional[_Iterable[bytes]] = ..., physical_rows: _Optional[_Iterable[int]] = ...) -> None: ...
