"""Progress listeners of writes, with the names of pylance.

They are called when a data file begins and when it is complete.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lance_df.api.fragment_metadata import FragmentMetadata
from lance_df.errors import InvalidInputError
from lance_df.storage import open_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.fragments import Fragment
    from lance_df.storage import Location

__all__ = ["FileSystemFragmentWriteProgress", "FragmentWriteProgress", "NoopFragmentWriteProgress"]


class FragmentWriteProgress(ABC):
    """The interface of the ``progress`` argument of `lance_df.write_dataset`.

    Any object with these methods can be used.
    """

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Handle a fragment that is about to be written. It has no id yet."""

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Handle a fragment whose data file is complete."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """A listener that does nothing."""

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """A listener that writes two files for each fragment.

    One has the description of the fragment. The other exists only while the fragment is written.

    Parameters
    ----------
    base_uri
        The folder of the files, which need not exist.
    metadata
        Additional content of the second file besides the id of the fragment, such as the name of the writer.
    """

    PROGRESS_EXT: ClassVar = ".in_progress"

    def __init__(self, base_uri: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        self._folder = open_location(base_uri)
        self._metadata = dict(metadata or {})

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:  # noqa: ARG002 - its base has it
        """Write both files."""
        state = {"fragment_id": fragment.id, "metadata": self._metadata}
        self._file(fragment, self.PROGRESS_EXT).put(json.dumps(state).encode())
        self._file(fragment, ".json").put(json.dumps(fragment.to_json()).encode())

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:  # noqa: ARG002 - its base has it
        """Write the description of the fragment with its files, and remove the second file."""
        self._file(fragment, ".json").put(json.dumps(fragment.to_json()).encode())
        self._file(fragment, self.PROGRESS_EXT).remove()

    def _file(self, fragment: FragmentMetadata, suffix: str) -> Location:
        return self._folder / f"fragment_{fragment.id}{suffix}"


class NumberedFragments(FragmentWriteProgress):
    """Hands on to another listener what it is called with, with an id that the writer of a fragment chose."""

    def __init__(self, listener: Any, fragment_id: int) -> None:
        self._listener = _checked(listener)
        self._fragment_id = fragment_id

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Hand on a fragment that is about to be written."""
        fragment.id = self._fragment_id
        self._listener.begin(fragment, **kwargs)

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Hand on a fragment whose data file is complete."""
        fragment.id = self._fragment_id
        self._listener.complete(fragment, **kwargs)


class ReportedProgress:
    """Shows a caller's listener the fragments of a write as what it knows.

    Raises
    ------
    InvalidInputError
        It is no listener.
    """

    def __init__(self, listener: Any) -> None:
        self._listener = _checked(listener)

    def begin(self, fragment: Fragment) -> None:
        """Report a fragment that is about to be written."""
        self._listener.begin(FragmentMetadata._of(fragment))

    def complete(self, fragment: Fragment) -> None:
        """Report a fragment whose data file is complete."""
        self._listener.complete(FragmentMetadata._of(fragment))


def _checked(listener: Any) -> Any:
    if not all(callable(getattr(listener, name, None)) for name in ("begin", "complete")):
        raise InvalidInputError(
            f"progress must be an object with the methods begin and complete, got {listener!r:.60}"
        )
    return listener
