"""Names of new files that identify the job, possibly of many processes, that writes them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

_JOB_BYTES: Final = 6
_DELETION_ID_BYTES: Final = 8
_job: ContextVar[bytes] = ContextVar("lance_df_job", default=b"")


@contextmanager
def files_named_for(job: uuid.UUID) -> Iterator[None]:
    """Put a part of the job's id into the names of new data files and deletion files."""
    token = _job.set(job.bytes[:_JOB_BYTES])
    try:
        yield
    finally:
        _job.reset(token)


def part_of_job() -> bytes:
    """Return the part of the job's id for names of data files; empty outside of a job."""
    return _job.get()


def deletion_id() -> int:
    """Return a new number for a deletion file: random, except for the part of the job's id."""
    job = _job.get()
    return int.from_bytes(job + os.urandom(_DELETION_ID_BYTES - len(job)), "little")


def is_of_job(job: uuid.UUID, number: int) -> bool:
    """Whether a deletion file with this number is of a job."""
    return number.to_bytes(_DELETION_ID_BYTES, "little")[:_JOB_BYTES] == job.bytes[:_JOB_BYTES]


def names_start_with(job: uuid.UUID) -> str:
    """Return the text that follows the first 24 characters in the names of a job's data files."""
    return job.bytes[:_JOB_BYTES].hex()
