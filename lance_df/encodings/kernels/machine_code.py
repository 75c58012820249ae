"""Make machine code that calls a kernel with arrays and numbers, and needs no numba to run.

It has one function, `ENTRY`: of the arguments, arrays as CPython's objects; the addresses of the dtypes that
the arrays must have; and where to write what the kernel returns. It returns 0, or something else where the
arrays are none that the kernel was compiled for, or the kernel has raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.core.compiler_lock import global_compiler_lock
from numba.np.arrayobj import populate_array

from lance_df.encodings.kernels import array_fields as fields
from lance_df.encodings.kernels.kept_code import Code, Taken
from lance_df.encodings.kernels.loaded_code import ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

types: Any = numba_types
_POINTER: Final = ir.IntType(8).as_pointer()
_INT: Final = ir.IntType(32)
_WORD: Final = ir.IntType(64)
_OTHER_ARRAYS: Final = 1


def codes_from(dispatcher: Any, first: int) -> Iterator[Code]:
    """Yield code for what numba has compiled for a kernel, from a number on, where it can be kept."""
    with global_compiler_lock:
        for compiled in list(dispatcher.overloads.values())[first:]:
            described = compiled.fndesc
            taken = [_taken(kind) for kind in described.argtypes]
            is_tuple = isinstance(described.restype, types.BaseTuple)
            results = list(described.restype) if is_tuple else [described.restype]
            returned = [] if results == [types.none] else [_number(kind) for kind in results]
            if None in taken or None in returned:
                continue
            object_file = _object_file(compiled)
            if object_file is not None:
                yield Code(tuple(filter(None, taken)), tuple(filter(None, returned)), is_tuple, object_file)


def _taken(kind: Any) -> Taken | None:
    """Return how an argument is described, None where none such is passed."""
    if not isinstance(kind, types.Array):
        return Taken(str(kind)) if kind in (types.int64, types.uint64, types.boolean) else None
    if not isinstance(kind.dtype, types.Integer | types.Boolean) or not kind.aligned or not kind.ndim:
        return None
    if kind.layout not in ("C", "A"):
        return None
    return Taken(str(kind.dtype), kind.ndim, kind.layout == "C", kind.mutable)


def _number(kind: Any) -> str | None:
    if isinstance(kind, types.Boolean):
        return "bool"
    if isinstance(kind, types.Integer):
        return "int64" if kind.signed else "uint64"
    return None


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
    kinds = described.argtypes
    words = [_POINTER if isinstance(kind, types.Array) else _WORD for kind in kinds]
    entry = ir.Function(module, ir.FunctionType(_INT, [*words, *[_WORD.as_pointer()] * 2]), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    *arguments, dtypes, results = entry.args
    values = []
    num_arrays = 0
    for kind, argument in zip(kinds, arguments, strict=True):
        if isinstance(kind, types.Array):
            _check_array(builder, kind, argument, builder.load(builder.gep(dtypes, [_WORD(num_arrays)])))
            values.append(_array(context, builder, kind, argument))
            num_arrays += 1
        else:
            is_bool = kind == types.boolean
            values.append(builder.icmp_unsigned("!=", argument, _WORD(0)) if is_bool else argument)
    convention = context.call_conv
    kernel_type = convention.get_function_type(described.restype, kinds)
    kernel = ir.Function(module, kernel_type, described.llvm_func_name)
    # inlined, it is seen that nobody owns the arrays, and that nothing is left to count
    status, returned = convention.call_function(
        builder, kernel, described.restype, kinds, values, attrs=("alwaysinline",)
    )
    _write_results(builder, described.restype, returned, results)
    builder.ret(status.code)


def _field(builder: Any, array: Any, place: int, kind: Any) -> Any:
    at = builder.gep(array, [_WORD(fields.HEADER_BYTES + place)])
    return builder.load(builder.bitcast(at, kind.as_pointer()))


def _check_array(builder: Any, kind: Any, array: Any, dtype: Any) -> None:
    flags = fields.ALIGNED
    flags |= fields.CONTIGUOUS if kind.layout == "C" else 0
    flags |= fields.WRITABLE if kind.mutable else 0
    found = (
        (_field(builder, array, fields.DTYPE, _WORD), dtype),
        (_field(builder, array, fields.NUM_DIMENSIONS, _INT), _INT(kind.ndim)),
        (builder.and_(_field(builder, array, fields.FLAGS, _INT), _INT(flags)), _INT(flags)),
    )
    for value, wanted in found:
        with builder.if_then(builder.icmp_unsigned("!=", value, wanted), likely=False):
            builder.ret(_INT(_OTHER_ARRAYS))


def _array(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return an array as numba's code takes it."""
    item = context.get_data_type(kind.dtype)
    lengths, strides = (
        _field(builder, array, place, _WORD.as_pointer()) for place in (fields.DIMENSIONS, fields.STRIDES)
    )
    made = context.make_array(kind)(context, builder)
    populate_array(
        made,
        data=_field(builder, array, fields.DATA, item.as_pointer()),
        shape=[builder.load(builder.gep(lengths, [_WORD(axis)])) for axis in range(kind.ndim)],
        strides=[builder.load(builder.gep(strides, [_WORD(axis)])) for axis in range(kind.ndim)],
        itemsize=_WORD(context.get_abi_sizeof(item)),
        meminfo=None,
    )
    return made._getvalue()


def _write_results(builder: Any, kind: Any, returned: Any, results: Any) -> None:
    is_tuple = isinstance(kind, types.BaseTuple)
    values = cgutils.unpack_tuple(builder, returned) if is_tuple else [returned]
    for number, (part, value) in enumerate(zip(kind if is_tuple else [kind], values, strict=True)):
        if part == types.none:
            return
        widen = builder.sext if isinstance(part, types.Integer) and part.signed else builder.zext
        word = value if value.type == _WORD else widen(value, _WORD)
        builder.store(word, builder.gep(results, [_WORD(number)]))
