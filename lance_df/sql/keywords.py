"""The keywords of SQL."""

from __future__ import annotations

from lance_df.sql.dialect import DataFusion


def keywords() -> frozenset[str]:
    """Return the keywords in upper case, as single words."""
    words = (word for phrase in DataFusion.Tokenizer.KEYWORDS for word in phrase.split())
    return frozenset(word for word in words if word.isascii() and word.isalpha() and len(word) > 1)
