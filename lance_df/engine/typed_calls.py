"""Give calls of `murmur3` and `murmur3_multi` the UDFs that fit the types of their arguments.

``murmur3(s)`` becomes ``murmur3__0_utf8(s)`` in the text of the statement, which is otherwise left alone. The
names of output columns are given back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot.errors import TokenError

from lance_df.engine.functions import HASHES, TypedFunctions
from lance_df.errors import InvalidInputError
from lance_df.sql.calls import Call, find_calls
from lance_df.sql.splice import Edit, splice


def with_typed_calls(text: str, functions: TypedFunctions, plan: Callable[[str], Any]) -> str:
    """Return the statement with typed UDFs in place of the plain names.

    Parameters
    ----------
    plan
        Plans and optimizes a text.

    Raises
    ------
    InvalidInputError
        A hash of nothing, or of a nested type.
    """
    try:
        calls = find_calls(text, HASHES)
    except TokenError:
        return text
    if not calls:
        return text
    for call in calls:
        if not call.arguments or (call.function == "murmur3" and len(call.arguments) > 1):
            wanted = "one argument" if call.function == "murmur3" else "at least one argument"
            raise InvalidInputError(f"{call.function} takes {wanted}, got {len(call.arguments)}")
    probing, count = _with_probes(text, calls)
    try:
        types = iter(functions.learn(lambda: plan(probing), count))
    except Exception:  # noqa: BLE001 - the statement is wrong; planning it as it stands tells how
        return text
    edits = []
    for call in calls:
        names = tuple(next(types) for _ in call.arguments)
        known = tuple(name for name in names if name is not None)
        if len(known) < len(names) or (call.function == "murmur3_multi" and known[0].startswith("List(")):
            continue  # optimized away, or made for the plain signature
        typed = functions.name_for(call.function, known)
        edits += [] if typed is None else [Edit(call.name.start, call.name.stop, typed)]
    return splice(text, edits)


def _with_probes(text: str, calls: list[Call]) -> tuple[str, int]:
    """Replace each call by probes of its arguments, added up."""
    edits: list[Edit] = []
    number = 0
    for call in calls:
        position = call.name.start
        for index, argument in enumerate(call.arguments):
            before, after = TypedFunctions.probe(number)
            opening = "(" if index == 0 else " + "
            edits += [
                Edit(position, argument.start, opening + before),
                Edit(argument.stop, argument.stop, after),
            ]
            position, number = argument.stop, number + 1
        edits.append(Edit(position, call.whole.stop, ")"))
    return splice(text, edits), number
