"""Generate lance_df/_pb from protos/, or check that it is fresh.

Usage: python tools/gen_protos.py [--check]

Needs grpcio-tools==1.71.2: its output runs with every protobuf runtime from 5.29 on; a newer
generator would demand a newer runtime.
"""

import argparse
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATOR = "1.71.2"


def generate(out: Path) -> None:
    from grpc_tools import protoc

    found = version("grpcio-tools")
    if found != GENERATOR:
        sys.exit(f"gen_protos: needs grpcio-tools=={GENERATOR}, found {found}")
    sources = sorted((ROOT / "protos").glob("*.proto"))
    arguments = [
        "protoc",
        f"-Ilance_df/_pb={ROOT / 'protos'}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={out}",
        f"--pyi_out={out}",
        *(f"lance_df/_pb/{source.name}" for source in sources),
    ]
    if protoc.main(arguments) != 0:
        sys.exit("gen_protos: protoc failed")


def stale(fresh: Path) -> list[str]:
    made = {p.name: p.read_bytes() for p in (fresh / "lance_df/_pb").iterdir()}
    kept = {p.name: p.read_bytes() for p in (ROOT / "lance_df/_pb").glob("*_pb2.py*")}
    return sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as folder:
            generate(Path(folder))
            if names := stale(Path(folder)):
                sys.exit(f"gen_protos: not what protos/ gives: {', '.join(names)}")
    else:
        generate(ROOT)


if __name__ == "__main__":
    main()
