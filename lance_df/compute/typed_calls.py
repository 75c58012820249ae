"""Replace calls of `murmur3` and `murmur3_multi` by UDFs for the types of their arguments.

``murmur3(s)`` becomes ``murmur3__0_utf8(s)`` in the text of the statement, which is otherwise unchanged. The
names of output columns are restored afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lance_df.compute.typed_functions import HASHES, TypedFunctions
from lance_df.errors import InvalidInputError
from lance_df.sql.calls import Call, find_calls
from lance_df.sql.splice import Edit, splice


def with_typed_calls(text: str, functions: TypedFunctions, plan: Callable[[str], Any]) -> str:
    """Return the statement with typed UDFs in place of the plain functions.

    Parameters
    ----------
    plan
        Plans and optimizes a statement.

    Raises
    ------
    InvalidInputError
        A hash function has no argument, or one of a nested type.
    """
    calls = find_calls(text, HASHES)
    if not calls:
        return text
    for call in calls:
        _check_arguments(call)
    edits: list[Edit] = []
    while calls:
        probing, count = _with_probes(text, calls, edits)
        try:
            types = iter(functions.learn(lambda: plan(probing), count))  # noqa: B023 - called at once
        except Exception:  # noqa: BLE001 - the statement is wrong; planning it as it stands raises the error
            return text
        learnt = [(call, tuple(next(types) for _ in call.arguments)) for call in calls]
        edits += _typed_names(learnt, functions)
        # a call within another's argument is folded away with it, and is seen once the outer call is settled
        unseen = [call for call, names in learnt if None in names]
        if len(unseen) == len(calls):
            break  # the calls are in a part of the statement that is optimized away
        calls = unseen
    return splice(text, edits)


def _check_arguments(call: Call) -> None:
    if not call.arguments or (call.function == "murmur3" and len(call.arguments) > 1):
        wanted = "one argument" if call.function == "murmur3" else "at least one argument"
        raise InvalidInputError(f"{call.function} takes {wanted}, got {len(call.arguments)}")


def _typed_names(
    learnt: list[tuple[Call, tuple[str | None, ...]]], functions: TypedFunctions
) -> Iterator[Edit]:
    for call, names in learnt:
        known = tuple(name for name in names if name is not None)
        is_plain_form = call.function == "murmur3_multi" and known and known[0].startswith("List(")
        if len(known) < len(names) or is_plain_form:
            continue
        typed = functions.name_for(call.function, known)
        if typed is not None:
            yield Edit(call.name.start, call.name.stop, typed)


def _with_probes(text: str, calls: list[Call], known: list[Edit]) -> tuple[str, int]:
    """Apply known edits, and replace each of ``calls`` by the sum of probes of its arguments."""
    edits = list(known)
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
