"""Vectors of words in kernels: LLVM makes the widest instructions of the processor of them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_LINE_BYTES = 128
_REPEATS = 8


def _line(word: Any) -> Any:
    """Return the type of as many words as make up a line."""
    return ir.VectorType(word, _LINE_BYTES * 8 // word.width)


def _repeat(builder: Any, vector: Any, word: Any) -> Any:
    """Return a vector of one word again and again."""
    index = ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), word, index(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(index, vector.count), None))


def _load(builder: Any, vector: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1)


def _store(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


@intrinsic  # type: ignore[untyped-decorator]
def shift_line(typing_context: Any, to: Any, source: Any, down: Any, mask: Any, like: Any) -> Any:  # noqa: ARG001
    """Store ``(word >> down) & mask`` of the words of 128 bytes, which are of the type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        target, origin, shift, bits, _ = arguments
        line = _line(bits.type)
        moved = builder.lshr(_load(builder, line, origin), _repeat(builder, line, shift))
        _store(builder, target, builder.and_(moved, _repeat(builder, line, bits)))
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, like, like, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def join_lines(typing_context: Any, to: Any, source: Any, down: Any, up: Any, mask: Any, like: Any) -> Any:  # noqa: ARG001
    """Store ``(word >> down | other << up) & mask``, the others being those of the next 128 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        target, origin, right, left, bits, _ = arguments
        line = _line(bits.type)
        after = builder.add(origin, origin.type(_LINE_BYTES))
        low = builder.lshr(_load(builder, line, origin), _repeat(builder, line, right))
        high = builder.shl(_load(builder, line, after), _repeat(builder, line, left))
        _store(builder, target, builder.and_(builder.or_(low, high), _repeat(builder, line, bits)))
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, like, like, like, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_repeated(typing_context: Any, address: Any, word: Any) -> Any:  # noqa: ARG001
    """Store a word eight times from any address on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        to, value = arguments
        _store(builder, to, _repeat(builder, ir.VectorType(value.type, _REPEATS), value))
        return context.get_dummy_value()

    return types.void(types.uintp, word), generate
