"""Convert the exceptions that DataFusion raises to `LanceError`.

DataFusion keeps only the text of an exception that a callback raises. Providers and statements remember their
exceptions, so that the text identifies the exception to raise again.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from lance_df.compute.calls import PANICS, engine_call
from lance_df.compute.compat import PlainSessionContext
from lance_df.engine.statement import Statement
from lance_df.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    ResourcesExhaustedError,
    UnsupportedFeatureError,
)
from lance_df.forks import Origin
from lance_df.interrupts import apart, raised_at_the_end

_MAX_STATEMENT = 200
# an error message; DataFusion 51 also gives the name of an error inside another error
_EXHAUSTED: Final = ("Resources exhausted", "ResourcesExhausted(", "Not enough memory to continue")
_MORE_MEMORY: Final = (
    "Raise the limit, such as SET datafusion.runtime.memory_limit = '4G'. Sorts and groups spill to disk, "
    "but the smaller side of a hash join must fit in memory"
)

R = TypeVar("R")
Session = TypeVar("Session")

NamesIn: TypeAlias = Callable[[str], tuple[str, Iterable[str]]]


@contextmanager
def planning_errors(statement: Statement, names_in: NamesIn | None = None) -> Iterator[None]:
    """Convert errors that occur while a statement is planned to a `LanceError` that names the statement.

    Parameters
    ----------
    names_in
        See `lance_df.engine.messages.with_similar_table`. Without it, no table is suggested.
    """
    with raised_at_the_end():  # a user's SIGINT handler may raise an Exception, too
        try:
            with engine_call():
                yield
        except LanceError:
            raise
        except Exception as err:  # DataFusion raises plain Exception and ValueError
            remembered = _remembered(err, [statement])
            if remembered is not None:
                raise remembered from err
            raise _planning_error(err, statement, names_in) from err


@contextmanager
def execution_errors(statements: Sequence[Statement]) -> Iterator[None]:
    """Raise the `LanceError` of a scan unchanged, and convert DataFusion's errors to a `LanceError`."""
    with raised_at_the_end():
        try:
            with engine_call():
                yield
        except LanceError:
            raise
        except Exception as err:
            remembered = _remembered(err, statements)
            if remembered is not None:
                raise remembered from err
            if type(err) is Exception:  # DataFusion's; Python's errors for wrong arguments stay
                raise _planning_error(err, next(iter(statements), None)) from err
            raise


@contextmanager
def raised_by_catalog() -> Iterator[None]:
    """Raise the `LanceError` of a catalog unchanged where no statement remembers it."""
    try:
        yield
    except LanceError:
        raise
    except Exception as err:
        from lance_df.engine.messages import raised_by_function

        raised = raised_by_function(str(err)) or raised_by_function(_unescaped(err))
        if raised is not None:
            raise raised from err
        raise


# methods that register other data under a name; some releases of DataFusion lack some of them
_NAMING: Final = (
    *("register_arrow", "register_avro", "register_batch", "register_csv", "register_json"),
    *("register_listing_table", "register_parquet", "register_record_batches", "register_view"),
    *("create_dataframe", "from_arrow", "from_pandas", "from_polars", "from_pydict", "from_pylist"),
)


def with_errors_of_catalogs(session: type[Session]) -> type[Session]:
    """Wrap the registration methods of a session class so that they raise the `LanceError` of a catalog."""
    for name in _NAMING:
        if (method := getattr(PlainSessionContext, name, None)) is not None:
            setattr(session, name, _raising(method))
    return session


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def raising(*arguments: Any, **options: Any) -> Any:
        with raised_by_catalog():
            return method(*arguments, **options)

    return raising


def run_apart(statements: Sequence[Statement], work: Callable[[], R]) -> R:
    """Run ``work``, which executes statements, and return its result; errors as in `execution_errors`.

    DataFusion checks for signals once a second, so an interrupt normally stops the computation. If DataFusion
    may compute for much longer without a check, the interrupt is raised anyway, and the computation ends
    later.
    """
    late = [statement for statement in statements if statement.stops_late]
    with execution_errors(statements):
        if not late:
            return work()

        def abandoned() -> None:
            for statement in late:
                statement.abandon()

        return apart(work, abandoned)


def streamed_batches(
    begin: Callable[[], Iterable[Any]], statements: Sequence[Statement]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a DataFusion stream; raises errors as `execution_errors` does.

    Parameters
    ----------
    begin
        The function that starts the execution of a frame.

    Raises
    ------
    ForkedProcessError
        The stream was started in the parent of this process.
    """
    stream = run_apart(statements, lambda: iter(begin()))
    origin = Origin()
    while True:
        origin.check()
        batch = run_apart(statements, lambda: next(stream, None))
        if batch is None:
            return
        yield batch.to_pyarrow()


def _remembered(error: Exception, statements: Sequence[Statement]) -> LanceError | None:
    """Return a copy of the error that a statement raised and remembers, with its traceback."""
    known = _matching(error, statements)
    raised = None if known is None else copy.copy(known).with_traceback(known.__traceback__)
    for statement in statements:
        statement.release_frames()
    return raised


def _matching(error: Exception, statements: Iterable[Statement]) -> LanceError | None:
    # Rust includes the text that Python produced for an error
    texts = (str(error), once := _unescaped(error), _unescaped(once))
    for statement in statements:
        for known in reversed(statement.all_errors()):
            message = str(known)
            if message and any(message in text for text in texts):
                return known
    return None


def _unescaped(error: Exception | str) -> str:
    """Return a message without the escapes that DataFusion 51 adds, as Rust does for nested text."""
    return str(error).replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")


def _planning_error(
    error: Exception, statement: Statement | None, names_in: NamesIn | None = None
) -> LanceError:
    from lance_df.engine.messages import (
        missing_table,
        of_expression,
        raised_by_function,
        readable,
        unsupported,
        with_columns,
        with_similar_table,
    )

    if (raised := raised_by_function(str(error))) is not None:
        return raised
    message = readable(str(error))
    misses_table = missing_table(message) is not None
    instead = message if message.startswith(PANICS) else unsupported(message)
    message = instead or message
    written, around = ("", None) if statement is None else (statement.shown, statement.around)
    if around is not None:
        message = of_expression(message, written, around)
    message = with_columns(message)
    if names_in is not None:
        message = with_similar_table(message, names_in)
    shown = " ".join(written.split())
    if len(shown) > _MAX_STATEMENT:
        shown = shown[: _MAX_STATEMENT - 1] + "…"
    where = "statement" if around is None else "expression"
    text = f"{message} (in the {where}: {shown})"
    if instead is not None:
        return UnsupportedFeatureError(text)
    if any(words in message for words in _EXHAUSTED):
        return ResourcesExhaustedError(f"{text}. {_MORE_MEMORY}")
    if "No field named" in message or "FieldNotFound" in message:
        return ColumnNotFoundError(text)
    if misses_table:
        return DatasetNotFoundError(text)
    return InvalidInputError(text if around is None else f"Invalid user input: {text}")
