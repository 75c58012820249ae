"""Base classes that make other programs take datasets, scanners and fragments for those of pyarrow.

pyarrow's C++ functions take a C++ pointer from every instance of its classes, and crash if there is none. So
a dataset has one, which raises an error when it is read. Scanners and fragments pass only `isinstance`
checks; C++ functions check the type itself, and raise `TypeError`.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self

import pyarrow as pa
import pyarrow.dataset

from lance_df.exits import busy

if TYPE_CHECKING:
    from collections.abc import Callable

_MESSAGE: Final = "pyarrow cannot read a Lance table by itself; use the method scanner() of the dataset"


def _face_of(cls: type, base: type) -> type:
    members = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("__")}
    return type(cls.__name__, (base,), {**members, "__module__": cls.__module__, "__new__": _maker(cls)})


def _maker(cls: Callable[..., object]) -> Callable[..., object]:
    def make(_: type, *args: Any, **options: Any) -> object:
        return cls(*args, **options)

    return make


class _Seen:
    """Makes `isinstance` accept an object as one of the pyarrow class ``_base``."""

    _base: ClassVar[type] = object
    _face: ClassVar[type] = object

    def __init_subclass__(cls) -> None:
        cls._face = _face_of(cls, cls._base)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """A class derived from pyarrow's with the methods of this one, where DuckDB finds them."""
        return type(self)._face


class ArrowDataset(pyarrow.dataset.UnionDataset):  # type: ignore[misc]
    """A `pyarrow.dataset.Dataset` that raises an error when pyarrow itself reads it."""

    def __new__(cls, *_: object, **__: object) -> Self:
        self: Self = super().__new__(cls)
        pyarrow.dataset.UnionDataset.__init__(self, *_unreadable())
        return self


@cache
def _unreadable() -> tuple[pa.Schema, list[pyarrow.dataset.Dataset]]:
    """Return schema and parts of an unreadable dataset; the name of its column also gives the reason."""
    from pyarrow.fs import FileSystemHandler, PyFileSystem

    class Unreadable(FileSystemHandler):  # type: ignore[misc]
        def _refuse(self, *_: object, **__: object) -> NoReturn:
            with busy():  # Arrow's threads release the error some time after it was raised
                raise NotImplementedError(_MESSAGE)

        copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
        delete_root_dir_contents = get_file_info = get_file_info_selector = move = _refuse
        open_append_stream = open_input_file = open_input_stream = open_output_stream = _refuse

        def get_type_name(self) -> str:
            return "lance"

        def normalize_path(self, path: str) -> str:
            return path

    schema = pa.schema([(_MESSAGE, pa.null())])
    filesystem, file_format = PyFileSystem(Unreadable()), pyarrow.dataset.IpcFileFormat()
    fragment = file_format.make_fragment("lance", filesystem)
    part = pyarrow.dataset.FileSystemDataset([fragment], schema, file_format, filesystem)
    return schema, [part]


class ArrowScanner(_Seen):
    """Passes `isinstance` checks for `pyarrow.dataset.Scanner`."""

    _base = pyarrow.dataset.Scanner


class ArrowFragment(_Seen):
    """Passes `isinstance` checks for `pyarrow.dataset.Fragment`."""

    _base = pyarrow.dataset.Fragment
