"""What Spark reports of a task or a commit that failed, as the error that was raised there."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from lance_df import errors
from lance_df.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last line of a Python traceback, as it stands in the messages of Spark.
_RAISED: Final = re.compile(r"^\s*lance_df\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise errors of this package as what they were in a task, with Spark's report as the cause."""
    try:
        yield
    except PySparkException as err:
        cause = cause_of(err)
        if cause is None:
            raise
        raise cause from err


def cause_of(error: BaseException) -> LanceError | None:
    """Return the error of this package that an error of Spark tells of, None if it tells of none."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LanceError)):
        return None
    return kind(message)
