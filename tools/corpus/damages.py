"""What is wrong with the damaged files: their containers, or one bit of a page."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import lance

from lance_df.errors import LanceError
from lance_df.file import LanceFileReader
from lance_df.file.v2.container import Container
from lance_df.storage import open_location
from tools.corpus.columns import SINCE_2_1

_READER = """
import sys, lance, lance.file
for line in sys.stdin:
    kind, path = line.rstrip("\\n").split(" ", 1)
    try:
        (lance.dataset(path) if kind == "table" else lance.file.LanceFileReader(path).read_all()).to_table()
    except BaseException:  # also a panic
        print("refused", flush=True)
    else:
        print("read", flush=True)
"""

# what is done to the bytes of a file, whose last 16 are position, versions and magic in all versions
CONTAINER_DAMAGES: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "empty": ("a file of no bytes", lambda _: b""),
    "cut": ("a file without its last bytes", lambda content: content[:-5]),
    "magic": ("a file that does not end with LANC", lambda content: content[:-4] + b"LANX"),
    "version": ("a file of a version that is not known", lambda content: content[:-8] + b"\t\0\t\0LANC"),
    "position": (
        "a footer that points behind the file",
        lambda content: content[:-40] + b"\xff\xff\xff\x7f\0\0\0\0" * 4 + content[-8:],
    ),
}


@dataclasses.dataclass(frozen=True)
class PageDamage:
    """One bit of the first page of a file. ``buffer`` is None in 0.1: ``byte`` is one of the file."""

    name: str
    file: str
    versions: tuple[str, ...]
    buffer: int | None
    byte: int
    bit: int
    sentence: str


PAGE_DAMAGES = (
    PageDamage("plain", "type_int32", ("0.1",), None, 81, 6, "a page that begins behind the file"),
    PageDamage("var_binary", "type_utf8", ("0.1",), None, 376, 6, "an end of a text behind the texts"),
    PageDamage("dictionary", "type_dictionary", ("0.1",), None, 0, 6, "an index behind the dictionary"),
    PageDamage("list", "type_list", ("0.1",), None, 81, 6, "an end of a list behind the items"),
    PageDamage("binary", "type_utf8", ("2.0",), 0, 153, 4, "an end of a text behind the texts"),
    PageDamage("dictionary", "few_texts", ("2.0",), 0, 0, 6, "an index behind the dictionary"),
    PageDamage("dictionary_texts", "few_texts", ("2.0",), 1, 49, 6, "a dictionary of texts that are absent"),
    PageDamage("list", "type_list", ("2.0",), 0, 153, 4, "an end of a list behind the items"),
    PageDamage("zstd", "zstd_texts", ("2.0",), 1, 8, 0, "compressed texts without the magic of zstd"),
    PageDamage("blob", "blobs", ("2.0",), 0, 83, 6, "a value behind the file"),
    PageDamage("mini_block", "type_int32", SINCE_2_1, 0, 1, 4, "a chunk that ends behind the page"),
    PageDamage("full_zip", "texts_full_zip", SINCE_2_1, 0, 1, 6, "a record that ends behind the page"),
    PageDamage("constant_levels", "only_empty_lists", SINCE_2_1, 1, 0, 2, "a level above the highest one"),
    PageDamage("constant", "constant_text", ("2.2",), 0, 4, 7, "a value that ends behind its page"),
    PageDamage("blob", "blobs", SINCE_2_1, 1, 91, 6, "a value behind the file"),
    PageDamage("bitpacking", "bitpacked", SINCE_2_1, 1, 8, 6, "32-bit values that are packed to 69 bits"),
    PageDamage("variable", "type_utf8", SINCE_2_1, 1, 9, 6, "ends of texts that do not ascend"),
    PageDamage("fsst", "fsst", SINCE_2_1, 1, 9, 4, "ends of encoded texts that do not ascend"),
    PageDamage("rle", "rle", ("2.1",), 1, 40, 6, "runs with fewer values than the chunk"),
    PageDamage("rle", "rle", ("2.2",), 1, 48, 6, "runs with fewer values than the chunk"),
    PageDamage("general", "zstd_numbers", SINCE_2_1, 1, 20, 0, "compressed numbers that do not decompress"),
)


class PylanceProcess:
    """pylance in a process of its own, which damage may end: another one is started then."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def reads(self, kind: str, path: Path) -> bool:
        """Return whether pylance reads a "file" or a "table"."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _READER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind} {path}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.communicate()
            self._process = None
        return answer == "read\n"


def flip_bit(folder: Path, version: str, damage: PageDamage, pylance: PylanceProcess) -> bytes:
    """Return a file of a corpus with one other bit.

    Raises
    ------
    SystemExit
        lance_df or pylance reads it.
    """
    path = folder / version / f"{damage.file}.lance"
    content, position = bytearray(path.read_bytes()), damage.byte
    if damage.buffer is not None:
        container = Container(open_location(str(path)).open())
        container.load_columns([0])
        position += container.column(0).pages[0].buffers[damage.buffer].start
    content[position] ^= 1 << damage.bit
    _check_refused(path, version, bytes(content), pylance)
    return bytes(content)


def _check_refused(path: Path, version: str, content: bytes, pylance: PylanceProcess) -> None:
    """Read a damaged file with both libraries."""
    with tempfile.TemporaryDirectory() as scratch:
        table, damaged = Path(scratch, "t"), Path(scratch, "damaged.lance")
        damaged.write_bytes(content)
        kind, place = "file", damaged
        if version == "0.1":  # pylance reads no single files of 0.1
            sound = LanceFileReader(str(path)).read_all().to_table()
            lance.write_dataset(sound, table, data_storage_version="legacy")
            (written,) = (table / "data").iterdir()
            if written.read_bytes() != path.read_bytes():
                raise SystemExit(f"{path}: another file is written for the same rows")
            written.write_bytes(content)
            kind, place = "table", table
        if pylance.reads(kind, place):
            raise SystemExit(f"{path}: pylance reads the damaged page")
        try:
            LanceFileReader(str(damaged)).read_all().to_table()
        except LanceError:
            return
        raise SystemExit(f"{path}: lance_df reads the damaged page")
