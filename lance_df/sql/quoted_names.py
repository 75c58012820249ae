"""Names in quotes, which mean what has exactly that name."""

from __future__ import annotations


class QuotedName(str):
    """A part of a name that SQL does not lower-case, so that it means nothing of another case.

    >>> QuotedName("t") == "t"
    True
    """

    __slots__ = ()


class StringName(QuotedName):
    """A string in single quotes where a name belongs; DataFusion takes it for one."""

    __slots__ = ()
