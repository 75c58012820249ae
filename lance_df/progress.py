"""Listeners of writes, with pylance's names: called when a data file begins and when it is complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from lance_df.api.fragment_metadata import FragmentMetadata

if TYPE_CHECKING:
    from lance_df.format.fragments import Fragment

__all__ = ["FragmentWriteProgress", "NoopFragmentWriteProgress"]


class FragmentWriteProgress(ABC):
    """What ``progress`` of `lance_df.write_dataset` may be; any object with these methods will do."""

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Take note of a fragment that is about to be written; it has no id yet."""

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Take note of a fragment whose data file is complete."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Takes note of nothing."""

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""


class ReportedProgress:
    """Shows a caller's listener the fragments of a write as what it knows."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def begin(self, fragment: Fragment) -> None:
        """Report a fragment that is about to be written."""
        self._listener.begin(FragmentMetadata._of(fragment))

    def complete(self, fragment: Fragment) -> None:
        """Report a fragment whose data file is complete."""
        self._listener.complete(FragmentMetadata._of(fragment))
