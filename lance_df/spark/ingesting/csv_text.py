"""Check the text of CSV files for what Spark reads as other rows or values without an error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F

from lance_df.errors import InvalidInputError
from lance_df.spark.pipeline.tasks import map_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

_QUOTE: Final = b'"'
# options of which files are read, which the text source shares
_OF_FILES: Final = (
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath"),
    *("ignorecorruptfiles", "ignoremissingfiles", "linesep"),
)
# whoever sets one of these decides what a quote means
_OF_QUOTES: Final = frozenset(
    [
        *("quote", "escape", "chartoescapequoteescaping", "unescapedquotehandling", "comment"),
        "ignoreleadingwhitespace",
    ]
)
_SPLITS: Final = "start long, number long, outside boolean, inside boolean, line string"
_SHOWN: Final = 60


def check_text(
    spark: SparkSession, paths: Sequence[str], given: Mapping[str, str], *, multi_line: bool
) -> None:
    """Check that the text of CSV files is UTF-8, and that their quoted fields end.

    Spark would replace other bytes by U+FFFD, and take a field that does not end as a value.

    Parameters
    ----------
    given
        The options of the user, in lower case. An encoding, or an option of quotes, turns off its check.
    multi_line
        Whether quoted fields may have line breaks; otherwise they end in their line.

    Raises
    ------
    InvalidInputError
        A file is not UTF-8, or has a quoted field that does not end, or UTF-16 is to be read by lines.
    """
    encoding = given.get("encoding", given.get("charset"))
    checks_quotes = not _OF_QUOTES.intersection(given)
    if encoding is not None and encoding.lower().startswith(("utf-16", "utf-32")):
        if not multi_line:  # Spark would divide the bytes of its line breaks
            raise InvalidInputError(f"{paths[0]}: text in {encoding} needs the option multiLine = true")
        return
    if encoding is not None and not checks_quotes:
        return
    options = {name: given[name] for name in _OF_FILES if name in given}
    lines = spark.read.options(**options).text(list(paths))
    value = F.col("value")
    num_quotes = F.octet_length(value) - F.octet_length(F.replace(value, F.lit('"'), F.lit("")))
    lines = lines.select(
        value.cast("binary").alias("line"),
        F.is_valid_utf8(value).alias("is_text"),
        (num_quotes % 2).alias("odd"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("start"),
    )
    # other lines have their quotes in pairs, so that they end as they begin
    files = lines.groupBy("file").agg(F.min("is_text").alias("is_text"), F.max("odd").alias("odd"))
    suspects = files.where(~F.col("is_text") | (F.col("odd") == 1)).sort("file").collect()
    for file in suspects:
        if encoding is None and not file["is_text"]:
            raise InvalidInputError(
                f"{unquote(file['file'])}: the text is not UTF-8; set its encoding, such as options = "
                "{ encoding = 'ISO-8859-1' }; with encoding = 'UTF-8', invalid bytes become U+FFFD"
            )
        if checks_quotes and file["odd"]:
            of_file = lines.where(F.col("file") == file["file"])
            separator = given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t")
            _check_quotes(of_file, unquote(file["file"]), separator.encode(), multi_line=multi_line)


def _check_quotes(lines: DataFrame, file: str, separator: bytes, *, multi_line: bool) -> None:
    """Check that the quoted fields of one file end."""
    quoted = lines.where(F.contains("line", F.lit(_QUOTE))).select("line", "start")
    splits = map_batches(quoted, partial(_splits, separator), _SPLITS).sort("start", "number").collect()
    if not multi_line:
        line = next((split["line"] for split in splits if split["line"] is not None), None)
        if line is not None:
            raise InvalidInputError(
                f"{file}: a quoted field does not end in its line, {line!r}; set multiLine = true, or "
                "quote = '' if quotes are text"
            )
        return
    is_inside = False
    for split in splits:
        is_inside = split["inside"] if is_inside else split["outside"]
    if is_inside:
        raise InvalidInputError(
            f"{file}: the file ends within a quoted field; close it, or set quote = '' if quotes are text"
        )


def _splits(separator: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield for consecutive lines whether they end within a quoted field, if they begin outside or inside.

    The third column is the first line that begins outside and ends inside.
    """
    for number, batch in enumerate(batches):
        states: dict[int, list[bool]] = {}
        first: dict[int, str] = {}
        for line, start in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            ends = [ends_inside(line, separator, begins_inside=inside) for inside in (False, True)]
            states[start] = [ends[state] for state in states.get(start, (False, True))]
            if ends[0]:
                first.setdefault(start, line.decode(errors="replace")[:_SHOWN])
        yield pa.RecordBatch.from_pydict(
            {
                "start": pa.array(states, pa.int64()),
                "number": pa.repeat(pa.scalar(number, pa.int64()), len(states)),
                "outside": pa.array([each[0] for each in states.values()], pa.bool_()),
                "inside": pa.array([each[1] for each in states.values()], pa.bool_()),
                "line": pa.array([first.get(start) for start in states], pa.string()),
            }
        )


def ends_inside(line: bytes, separator: bytes, *, begins_inside: bool) -> bool:
    """Return whether a line of CSV ends within a quoted field.

    >>> ends_inside(b'1,"a,""b"","c"', b",", begins_inside=False)
    True
    >>> ends_inside(b'1,55" TV', b",", begins_inside=False)
    False
    """
    position, is_inside = 0, begins_inside
    while True:
        if not is_inside and line.startswith(_QUOTE, position):
            position, is_inside = position + 1, True
        if is_inside:
            position = _after_quoted(line, position)
            if position < 0:
                return True
            is_inside = False
        position = line.find(separator, position)
        if position < 0:
            return False
        position += len(separator)


def _after_quoted(line: bytes, position: int) -> int:
    """Return the position after the quote that ends a field, or -1. Two quotes are one of the value."""
    while (position := line.find(_QUOTE, position)) >= 0:
        if not line.startswith(_QUOTE * 2, position):
            return position + 1
        position += 2
    return -1
