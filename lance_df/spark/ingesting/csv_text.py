"""Check the text of CSV files for what Spark reads as other rows or values without an error."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from lance_df.errors import InvalidInputError
from lance_df.spark.pipeline.tasks import map_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

_QUOTE: Final = b'"'
_LINE: Final = "__lance_df_line"  # not "value", which a folder may give to all files as `value=1/`
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
_OF_BYTES: Final = ("utf-8", "iso-8859-1", "us-ascii")  # others are not known to Spark, or have wider units
_LF, _CRLF, _CR = 1, 2, 4
_ENDS: Final = {_LF: "\\n", _CRLF: "\\r\\n", _CR: "\\r"}
_SCANS: Final = (
    "file string, start long, number long, inside array<boolean>, breaks array<boolean>, ends array<int>, "
    "first int, last int, line string"
)
_SCANS_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("start", pa.int64()),
        ("number", pa.int64()),
        ("inside", pa.list_(pa.bool_())),
        ("breaks", pa.list_(pa.bool_())),
        ("ends", pa.list_(pa.int32())),
        ("first", pa.int32()),
        ("last", pa.int32()),
        ("line", pa.string()),
    ]
)
_SHOWN: Final = 60
PATTERN: Final = re.compile(r"[\\\[\]{}*?]")


def check_text(spark: SparkSession, paths: Sequence[str], given: Mapping[str, str]) -> bool:
    """Check that the text of CSV files is UTF-8, and that Spark finds the ends of their fields and lines.

    Spark would replace other bytes by U+FFFD, take a field that does not end as a value, and with
    ``multiLine`` find lines by the first line break of a file alone.

    Parameters
    ----------
    given
        The options of the user, in lower case. An encoding, or an option of quotes, turns off its check.

    Returns
    -------
    bool
        Whether quoted fields have line breaks, as far as ``given`` does not say it.

    Raises
    ------
    InvalidInputError
        A file is not UTF-8, has a quoted field that does not end or, with line breaks in fields, different
        line ends; or UTF-16 is to be read by lines.
    """
    encoding = given.get("encoding", given.get("charset"))
    multi_line = given["multiline"].lower() == "true" if "multiline" in given else None
    if encoding is not None and encoding.lower().startswith(("utf-16", "utf-32")):
        if multi_line is False:  # Spark would divide the bytes of its line breaks
            raise InvalidInputError(f"{paths[0]}: text in {encoding} needs the option multiLine = true")
        return True
    if encoding is not None and encoding.lower() not in _OF_BYTES:
        return bool(multi_line)
    checks_quotes = not _OF_QUOTES.intersection(given)
    if encoding is not None and not checks_quotes and multi_line is not None:
        return multi_line
    lines = _lines(spark, paths, given)
    value = F.col(_LINE)
    lines = lines.select("file", F.is_valid_utf8(value).alias("is_text"), _is_odd(value, given).alias("odd"))
    # other lines have their quotes in pairs, so that they end as they begin
    files = lines.groupBy("file").agg(F.min("is_text").alias("is_text"), F.max("odd").alias("odd"))
    suspects = files.where(~F.col("is_text") | F.col("odd")).sort("file").collect()
    for file in suspects if encoding is None else ():
        if not file["is_text"]:
            raise InvalidInputError(
                f"{shown(file['file'])}: the text is not UTF-8; set its encoding, such as options = "
                "{ encoding = 'ISO-8859-1' }; with encoding = 'UTF-8', invalid bytes become U+FFFD"
            )
    odd = [file["file"] for file in suspects if file["odd"]]
    if not checks_quotes:
        return bool(odd) if multi_line is None else multi_line
    if not odd and not multi_line:
        return False
    has_breaks = _check_ends(spark, paths, given, odd, multi_line=multi_line)
    return has_breaks if multi_line is None else multi_line


def headers(
    spark: SparkSession, paths: Sequence[str], given: Mapping[str, str], *, multi_line: bool
) -> dict[str, bytes]:
    """Return the text of the header of each file, which is the first line that is not blank."""
    lines = _lines(spark, paths, given).where((F.col("start") == 0) & (F.trim(_LINE) != ""))
    if given.get("comment"):
        lines = lines.where(~F.startswith(F.col(_LINE), F.lit(given["comment"])))
    lines = lines.select("file", F.col(_LINE).cast("binary").alias("line"))
    first = partial(_first_records, _separator(given) if multi_line else None)
    records = map_batches(lines, first, "file string, record binary").sort("file").collect()
    return {each["file"]: bytes(each["record"]) for each in records}


def check_names(spark: SparkSession, paths: Sequence[str], given: Mapping[str, str]) -> None:
    """Check that no name of a file is a pattern, by which Spark fails to infer columns with ``multiLine``."""
    for file in _lines(spark, paths, given).inputFiles():
        if PATTERN.search(unquote(file)):
            raise InvalidInputError(
                f"{shown(file)}: Spark cannot infer the columns of CSV with line breaks in fields if the "
                "path of a file has any of [ ] { } * ?; set the schema of the source, or rename the file"
            )


def shown(file: str) -> str:
    """Return the path of a file of Spark for a message."""
    return re.sub("^file:/+", "file:///", unquote(file))


def _lines(
    spark: SparkSession, paths: Sequence[str], given: Mapping[str, str], line_end: str | None = None
) -> DataFrame:
    options = {name: given[name] for name in _OF_FILES if name in given}
    if line_end is not None:
        options.setdefault("linesep", line_end)
    lines = spark.read.options(**options).schema(f"`{_LINE}` string").text(list(paths))
    return lines.select(
        F.col(_LINE),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("start"),
    )


def _separator(given: Mapping[str, str]) -> bytes:
    return given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t").encode()


def _is_odd(line: Column, given: Mapping[str, str]) -> Column:
    """Whether a line has a quote without a pair."""
    quote, escape = given.get("quote", '"'), given.get("escape", '"')
    if not quote:
        return F.lit(False)
    if escape not in ("", quote):
        line = F.replace(line, F.lit(escape + quote), F.lit(""))
    without = F.replace(line, F.lit(quote), F.lit(""))
    return ((F.octet_length(line) - F.octet_length(without)) / len(quote.encode())) % 2 == 1


def _check_ends(
    spark: SparkSession,
    paths: Sequence[str],
    given: Mapping[str, str],
    odd: Sequence[str],
    *,
    multi_line: bool | None,
) -> bool:
    """Check how fields and lines end, and return whether fields have line breaks.

    Parameters
    ----------
    odd
        The files in which a line has a quote without a pair.
    """
    lines = _lines(spark, paths, given, "\n")
    splits_ends = "linesep" not in given
    mixed = _mixed(lines) if splits_ends and multi_line is not False else []
    in_mixed = F.col("file").isin(mixed)
    in_odd = F.col("file").isin(list(odd))
    lines = lines.where(in_mixed | (in_odd & F.contains(_LINE, F.lit('"'))))
    lines = lines.select("file", "start", F.col(_LINE).cast("binary").alias("line"))
    scan = partial(_scanned, _separator(given), splits_ends)
    scans = map_batches(lines, scan, _SCANS).sort("file", "start", "number").collect()
    of_files = {
        file: _joined(_Scan(*row[3:]) for row in rows) for file, rows in groupby(scans, itemgetter("file"))
    }
    has_breaks = any(each.breaks[0] for each in of_files.values())
    for file, each in of_files.items():
        if multi_line is False and each.line is not None:
            raise InvalidInputError(
                f"{shown(file)}: a quoted field does not end in its line, {each.line!r}; set multiLine = "
                "true, or quote = '' if quotes are text"
            )
        if multi_line is not False and each.inside[0]:
            raise InvalidInputError(
                f"{shown(file)}: the file ends within a quoted field; close it, or set quote = '' if quotes "
                "are text"
            )
        if file in mixed and (multi_line or has_breaks):
            _check_line_ends(file, each)
    return has_breaks


def _mixed(lines: DataFrame) -> list[str]:
    """Return the files that may have several kinds of line ends, of which Spark with multiLine knows one."""
    has_crlf = F.endswith(_LINE, F.lit("\r"))
    num_cr = F.octet_length(_LINE) - F.octet_length(F.replace(_LINE, F.lit("\r"), F.lit("")))
    ends = [~has_crlf, has_crlf, num_cr > has_crlf.cast("int")]
    kinds = [F.max(each.cast("int")) for each in ends]
    files = lines.groupBy("file").agg((kinds[0] + kinds[1] + kinds[2]).alias("num_kinds"))
    return [row["file"] for row in files.where("num_kinds > 1").collect()]


def _check_line_ends(file: str, scan: _Scan) -> None:
    """Check that all lines of a file end as its first line break, from which Spark takes the kind."""
    names = [text for kind, text in _ENDS.items() if kind & scan.ends[0]]
    if len(names) > 1:
        other = "" if scan.breaks[0] else ", or read it as a source of its own, without the option multiLine"
        raise InvalidInputError(
            f"{shown(file)}: the lines end with {' and '.join(names)}, but must end in the same way if "
            f"fields have line breaks; convert the file{other}"
        )
    if names and scan.first != scan.ends[0]:
        raise InvalidInputError(
            f"{shown(file)}: the first line break is {_ENDS[scan.first]} within a field, but the lines end "
            f'with {names[0]}; set lineSep = "{names[0]}"'
        )


@dataclass(slots=True)
class _Scan:
    """What consecutive lines have, if they begin outside of a quoted field, and if they begin inside.

    Attributes
    ----------
    inside
        Whether they end inside.
    breaks
        Whether a field has a line break.
    ends
        The kinds of line ends outside.
    first, last
        The kinds of the first line end and of the last one, which the end of the file may replace. ``first``,
        ``breaks`` and ``ends`` do not have the last one.
    line
        The first line that begins outside and ends inside.
    """

    inside: list[bool] = field(default_factory=lambda: [False, True])
    breaks: list[bool] = field(default_factory=lambda: [False, False])
    ends: list[int] = field(default_factory=lambda: [0, 0])
    first: int = 0
    last: int = 0
    line: str | None = None

    def end_line(self) -> None:
        """Note that text follows the last line end."""
        for begin, is_inside in enumerate(self.inside):
            if is_inside:
                self.breaks[begin] = True
            else:
                self.ends[begin] |= self.last
        self.first = self.first or self.last

    def add(self, text: bytes, end: int, separator: bytes) -> None:
        """Add a line."""
        if self.last:
            self.end_line()
        self.last = end
        if _QUOTE not in text:
            return
        inside = [ends_inside(text, separator, begins_inside=each) for each in (False, True)]
        self.inside = [inside[each] for each in self.inside]
        if inside[0] and self.line is None:
            self.line = text.decode(errors="replace")[:_SHOWN]


def _joined(scans: Iterator[_Scan]) -> _Scan:
    """Return what all lines of a file have."""
    whole = _Scan()
    for scan in scans:
        if whole.last:
            whole.end_line()
        whole.breaks = [
            has or scan.breaks[each] for has, each in zip(whole.breaks, whole.inside, strict=True)
        ]
        whole.ends = [ends | scan.ends[each] for ends, each in zip(whole.ends, whole.inside, strict=True)]
        whole.inside = [scan.inside[each] for each in whole.inside]
        whole.first = whole.first or scan.first
        whole.last = scan.last
        whole.line = whole.line or scan.line
    if whole.last == _CRLF and whole.ends[0] != _CR:  # a last line without "\r" may have no end
        whole.end_line()
    return whole


def _scanned(
    separator: bytes, splits_ends: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield a row with a `_Scan` for the lines of each file in a batch."""
    for number, batch in enumerate(batches):
        file = batch.column("file").dictionary_encode()
        files, starts = file.indices.to_numpy(), batch.column("start").to_numpy()
        changes = (np.diff(files, prepend=-1) != 0) | (np.diff(starts, prepend=-1) != 0)
        bounds = [*np.flatnonzero(changes).tolist(), batch.num_rows]
        rows = []
        for begin, stop in pairwise(bounds):
            scan = _Scan()
            for line in batch.column("line")[begin:stop].to_pylist():
                for text, end in _lines_within(line) if splits_ends else [(line, _LF)]:
                    scan.add(text, end, separator)
            key = {"file": file[begin].as_py(), "start": int(starts[begin]), "number": number}
            rows.append(key | asdict(scan))
        yield pa.RecordBatch.from_pylist(rows, _SCANS_SCHEMA)


def _lines_within(line: bytes) -> Iterator[tuple[bytes, int]]:
    r"""Yield the lines within text that ends at ``\n``, with the kinds of their ends."""
    end = _CRLF if line.endswith(b"\r") else _LF
    *others, last = (line[:-1] if end == _CRLF else line).split(b"\r")
    for other in others:
        yield other, _CR
    yield last, end


def _first_records(separator: bytes | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the first line of each file, or with a separator its first lines until all fields end."""
    records: dict[str, bytes] = {}
    is_open: dict[str, bool] = {}
    for batch in batches:
        for file, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            begins_inside = is_open.get(file)
            if begins_inside is False:
                continue
            records[file] = records[file] + b"\n" + line if begins_inside else line
            is_open[file] = separator is not None and ends_inside(
                line, separator, begins_inside=bool(begins_inside)
            )
    yield pa.RecordBatch.from_pydict(
        {"file": pa.array(records, pa.string()), "record": pa.array(records.values(), pa.binary())}
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
