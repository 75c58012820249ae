"""Make machine code that calls a kernel with objects of Python, and needs no numba to run.

It has one function, `ENTRY`, as CPython calls those of C extensions: of an object, the arguments and how many
they are. The object is bytes with the addresses of what the code needs of the process (`loaded_code`). It
returns NotImplemented where the arguments are none that the kernel was compiled for, or the kernel has
raised; other threads of Python run while the kernel does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.core.compiler_lock import global_compiler_lock
from numba.np.arrayobj import populate_array

from lance_df.encodings.kernels import object_fields as fields
from lance_df.encodings.kernels.kept_code import Code, Taken
from lance_df.encodings.kernels.loaded_code import ENTRY, FUNCTIONS, OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

types: Any = numba_types
_POINTER: Final = ir.IntType(8).as_pointer()
_INT: Final = ir.IntType(32)
_WORD: Final = ir.IntType(64)


def codes_from(dispatcher: Any, first: int) -> Iterator[Code]:
    """Yield code for what numba has compiled for a kernel, from a number on, where it can be kept."""
    with global_compiler_lock:
        for compiled in list(dispatcher.overloads.values())[first:]:
            described = compiled.fndesc
            taken = [_taken(kind) for kind in described.argtypes]
            returned = described.restype
            parts = returned if isinstance(returned, types.BaseTuple) else [returned]
            if None in taken or not (returned == types.none or all(map(_is_number, parts))):
                continue
            object_file = _object_file(compiled)
            if object_file is not None:
                yield Code(tuple(filter(None, taken)), object_file)


def _taken(kind: Any) -> Taken | None:
    """Return how an argument is described, None where none such is passed."""
    if not isinstance(kind, types.Array):
        return Taken(str(kind)) if kind in (types.int64, types.uint64, types.boolean) else None
    if not isinstance(kind.dtype, types.Integer | types.Boolean) or not kind.aligned or not kind.ndim:
        return None
    if kind.layout not in ("C", "A"):
        return None
    return Taken(str(kind.dtype), kind.ndim, kind.layout == "C", kind.mutable)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, types.Boolean) or (
        isinstance(kind, types.Integer) and kind.bitwidth <= _WORD.width
    )


def _object_file(compiled: Any) -> bytes | None:
    """Return the code, None where it would need functions of numba."""
    described, context = compiled.fndesc, compiled.target_context
    module = context.create_module(ENTRY)
    _write_entry(context, module, described)
    library = context.codegen().create_library(f"{ENTRY} of {described.unique_name}")
    library.enable_object_caching()
    library.add_linking_library(compiled.library)
    library.add_ir_module(module)
    library.finalize()
    functions = library._final_module.functions
    if any(function.is_declaration and not function.name.startswith("llvm.") for function in functions):
        return None
    return library._get_compiled_object()


def _write_entry(context: Any, module: Any, described: Any) -> None:
    entry = ir.Function(module, ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _WORD]), ENTRY)
    writer = _Writer(context, entry)
    builder = writer.builder
    kinds = described.argtypes
    writer.go_on_if(builder.icmp_unsigned("==", entry.args[2], _WORD(len(kinds))))
    values, num_arrays = [], 0
    for number, kind in enumerate(kinds):
        argument = builder.load(builder.gep(entry.args[1], [_WORD(number)]))
        if isinstance(kind, types.Array):
            values.append(writer.array(kind, argument, num_arrays))
            num_arrays += 1
        elif kind == types.boolean:
            values.append(writer.truth(argument))
        else:
            values.append(writer.number(argument, signed=kind.signed))
    convention = context.call_conv
    kernel_type = convention.get_function_type(described.restype, kinds)
    kernel = ir.Function(module, kernel_type, described.llvm_func_name)
    thread = writer.call("PyEval_SaveThread", _POINTER)
    # inlined, it is seen that nobody owns the arrays, and that nothing is left to count
    status, returned = convention.call_function(
        builder, kernel, described.restype, kinds, values, attrs=("alwaysinline",)
    )
    writer.call("PyEval_RestoreThread", ir.VoidType(), thread)
    writer.go_on_if(builder.icmp_unsigned("==", status.code, _INT(0)))
    builder.ret(writer.result(described.restype, returned))


class _Writer:
    """Writes the body of an entry, from its beginning on."""

    def __init__(self, context: Any, entry: Any) -> None:
        self._context = context
        self._table = entry.args[0]
        self._entry = entry
        self.builder = ir.IRBuilder(entry.append_basic_block())
        self._other, self._failed = entry.append_basic_block(), entry.append_basic_block()
        with self.builder.goto_block(self._other):
            self.builder.ret(self._owned(NotImplemented))
        with self.builder.goto_block(self._failed):
            self.builder.ret(_POINTER(None))

    def go_on_if(self, condition: Any) -> None:
        """Go on if a condition holds, or else return NotImplemented."""
        after = self._entry.append_basic_block()
        self.builder.cbranch(condition, after, self._other)
        self.builder.position_at_end(after)

    def call(self, name: str, kind: Any, *arguments: Any) -> Any:
        """Call a function of CPython."""
        function = ir.FunctionType(kind, [argument.type for argument in arguments]).as_pointer()
        address = self._entry_of_table(len(OBJECTS) + FUNCTIONS.index(name))
        return self.builder.call(self.builder.inttoptr(address, function), arguments)

    def array(self, kind: Any, array: Any, number: int) -> Any:
        """Return an array as numba's code takes it."""
        builder = self.builder
        flags = fields.ALIGNED
        flags |= fields.CONTIGUOUS if kind.layout == "C" else 0
        flags |= fields.WRITABLE if kind.mutable else 0
        self.go_on_if(self._is_of(array, np.ndarray))
        dtype = self._entry_of_table(len(OBJECTS) + len(FUNCTIONS) + number)
        for value, wanted in (
            (self._field(array, fields.DTYPE, _WORD), dtype),
            (self._field(array, fields.NUM_DIMENSIONS, _INT), _INT(kind.ndim)),
            (builder.and_(self._field(array, fields.FLAGS, _INT), _INT(flags)), _INT(flags)),
        ):
            self.go_on_if(builder.icmp_unsigned("==", value, wanted))
        item = self._context.get_data_type(kind.dtype)
        lengths, strides = (
            self._field(array, place, _WORD.as_pointer()) for place in (fields.DIMENSIONS, fields.STRIDES)
        )
        made = self._context.make_array(kind)(self._context, builder)
        populate_array(
            made,
            data=self._field(array, fields.DATA, item.as_pointer()),
            shape=[builder.load(builder.gep(lengths, [_WORD(axis)])) for axis in range(kind.ndim)],
            strides=[builder.load(builder.gep(strides, [_WORD(axis)])) for axis in range(kind.ndim)],
            itemsize=_WORD(self._context.get_abi_sizeof(item)),
            meminfo=None,
        )
        return made._getvalue()

    def truth(self, value: Any) -> Any:
        """Return a bool or one of numpy's."""
        builder = self.builder
        address = builder.ptrtoint(value, _WORD)
        true, false = (
            builder.or_(
                builder.icmp_unsigned("==", address, self._object(plain)),
                builder.icmp_unsigned("==", address, self._object(of_numpy)),
            )
            for plain, of_numpy in ((True, np.True_), (False, np.False_))
        )
        self.go_on_if(builder.or_(true, false))
        return true

    def number(self, value: Any, *, signed: bool) -> Any:
        """Return a number of 64 bits: an int, where it is signed, or a scalar of numpy."""
        builder = self.builder
        room = cgutils.alloca_once(builder, _WORD)
        scalar = np.int64 if signed else np.uint64
        is_scalar = self._is_of(value, scalar)
        if not signed:
            self.go_on_if(is_scalar)
            return self._field(value, fields.SCALAR, _WORD)
        self.go_on_if(builder.or_(is_scalar, self._is_of(value, int)))
        beyond = cgutils.alloca_once_value(builder, _INT(0))
        with builder.if_else(is_scalar) as (then, otherwise):
            with then:
                builder.store(self._field(value, fields.SCALAR, _WORD), room)
            with otherwise:
                builder.store(self.call("PyLong_AsLongLongAndOverflow", _WORD, value, beyond), room)
        self.go_on_if(builder.icmp_unsigned("==", builder.load(beyond), _INT(0)))
        return builder.load(room)

    def result(self, kind: Any, returned: Any) -> Any:
        """Return what a kernel returns as an object."""
        builder = self.builder
        if kind == types.none:
            return self._owned(None)
        if not isinstance(kind, types.BaseTuple):
            return self._made(kind, returned)
        made = self._present(self.call("PyTuple_New", _POINTER, _WORD(len(kind))))
        for number, (part, value) in enumerate(
            zip(kind, cgutils.unpack_tuple(builder, returned), strict=True)
        ):
            self.call("PyTuple_SetItem", _INT, made, _WORD(number), self._made(part, value))
        return made

    def _made(self, kind: Any, value: Any) -> Any:
        signed = isinstance(kind, types.Integer) and kind.signed
        widen = self.builder.sext if signed else self.builder.zext
        word = value if value.type == _WORD else widen(value, _WORD)
        is_bool = isinstance(kind, types.Boolean)
        name = (
            "PyBool_FromLong"
            if is_bool
            else "PyLong_FromLongLong"
            if signed
            else "PyLong_FromUnsignedLongLong"
        )
        return self._present(self.call(name, _POINTER, word))

    def _present(self, made: Any) -> Any:
        """Return an object, or let the entry say that there was no memory for it."""
        after = self._entry.append_basic_block()
        self.builder.cbranch(cgutils.is_not_null(self.builder, made), after, self._failed)
        self.builder.position_at_end(after)
        return made

    def _is_of(self, value: Any, kind: type) -> Any:
        return self.builder.icmp_unsigned("==", self._field(value, fields.TYPE, _WORD), self._object(kind))

    def _field(self, value: Any, place: int, kind: Any) -> Any:
        at = self.builder.gep(value, [_WORD(place)])
        return self.builder.load(self.builder.bitcast(at, kind.as_pointer()))

    def _object(self, value: Any) -> Any:
        """Return the address of an object."""
        return self._entry_of_table(next(place for place, known in enumerate(OBJECTS) if known is value))

    def _owned(self, value: Any) -> Any:
        address = self.builder.inttoptr(self._object(value), _POINTER)
        self.call("Py_IncRef", ir.VoidType(), address)
        return address

    def _entry_of_table(self, number: int) -> Any:
        return self._field(self._table, fields.BYTES + 8 * number, _WORD)
