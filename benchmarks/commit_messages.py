"""The memory that a driver needs to commit what 10,000 tasks wrote into 100,000 new partitions.

Usage: python benchmarks/commit_messages.py [TASKS] [PARTITIONS_OF_A_TASK]

The messages are those of tasks that wrote one file for each of their partitions; nothing else is simulated:
the tables of all partitions are made, and one commit of the namespace shows them. Each size runs in a process
of its own.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = ((1_000, 10), (10_000, 1), (10_000, 10))


def main() -> None:
    sizes = [tuple(map(int, sys.argv[1:3]))] if len(sys.argv) > 2 else SIZES
    print("| tasks | partitions | messages | memory before | memory at most | processor |")
    print("|---:|---:|---:|---:|---:|---:|")
    for tasks, partitions in sizes:
        command = [sys.executable, __file__, "--worker", str(tasks), str(partitions)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)


def work(num_tasks: int, num_partitions: int) -> None:
    import pyarrow as pa
    from pyspark.sql.types import LongType, StructField, StructType

    import lance_df
    from lance_df.spark.options import SourceOptions
    from lance_df.spark.writing import writer_for

    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(folder) / "ns")
        columns = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        lance_df.PartitionedNamespace.create(root, columns, ["identity(k)"])
        schema = StructType([StructField("k", LongType()), StructField("v", LongType())])
        writer = writer_for(SourceOptions.parse({"path": root}), schema, overwrite=False)
        pickled = list(messages(writer, columns, num_tasks, num_partitions))
        before, start = peak_bytes(), time.process_time()
        writer.commit([pickle.loads(message) for message in pickled])
        used, peak = time.process_time() - start, peak_bytes()
        found = len(lance_df.PartitionedNamespace.open(root).partitions())
        if found != num_tasks * num_partitions:
            raise RuntimeError(f"there are {found} partitions")
    size = sum(map(len, pickled))
    numbers = [f"{number / 2**20:,.0f} MiB" for number in (size, before, peak)]
    print(f"| {num_tasks:,} | {found:,} | {' | '.join(numbers)} | {used:.0f} s |")


def messages(writer, columns, num_tasks, num_partitions):  # type: ignore[no-untyped-def]
    """Yield the pickled messages of tasks: the first one writes, the others say that they had."""
    import dataclasses

    import numpy as np
    import pyarrow as pa

    from lance_df.namespace.names import JobNames
    from lance_df.spark.writing import Written

    rows = pa.record_batch([pa.array(range(num_partitions)), pa.array(range(num_partitions))], schema=columns)
    staged = writer.write(iter([rows])).staged
    names, name = JobNames(writer._job), staged.values.schema.names[0]
    for task in range(num_tasks):
        keys = np.arange(num_partitions, dtype=np.int64) + task * num_partitions
        segments = names.segments(1, [int(key).to_bytes(8, "little") for key in keys])
        folders = [names.folder(f"v1${segment}$dataset") for segment in segments]
        fragments = tuple(
            tuple(
                dataclasses.replace(
                    fragment,
                    files=tuple(
                        dataclasses.replace(file, path=f"{key}-{file.path}") for file in fragment.files
                    ),
                )
                for fragment in of_partition
            )
            for key, of_partition in zip(keys, staged.fragments, strict=True)
        )
        yield pickle.dumps(
            Written.of(
                dataclasses.replace(
                    staged,
                    values=pa.record_batch([pa.array(keys)], [name]),
                    folders=tuple(folders),
                    paths=tuple((segment,) for segment in segments),
                    fragments=fragments,
                )
            )
        )


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
