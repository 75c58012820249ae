"""Write the tables and files of `conformance/` with pylance.

Usage: python -m tools.conformance_corpus [--files] [FOLDER]

Arrow files are the same in every run, and so are single files, but for the symbols of FSST and the order of
metadata. Tables are not: pylance names their files by chance, and their manifests have the time. `--files`
writes the single files only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.corpus.files import write_files
from tools.corpus.namespaces import write_namespaces

_CORPUS = Path(__file__).resolve().parents[1] / "conformance"


def main() -> None:
    """Write everything that is not written by hand."""
    parser = argparse.ArgumentParser(description="Write the tables and files of the corpus with pylance.")
    parser.add_argument("--files", action="store_true", help="the single files only")
    parser.add_argument("folder", type=Path, nargs="?", default=_CORPUS)
    options = parser.parse_args()
    write_files(options.folder)
    if not options.files:
        write_namespaces(options.folder)


if __name__ == "__main__":
    main()
