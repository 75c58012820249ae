"""A forked child reads and writes, or fails at once where DataFusion's threads are needed; it never hangs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from process_programs import output_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

FORKED = """
def forked(work):
    '''Return what some work gives in a forked child, or the error that it raises there.'''
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            found = repr(work())
        except BaseException as err:
            found = type(err).__name__
            assert "spawn" in str(err) or "started before" in str(err), err
        os.write(writer, found.encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()

path = f"{folder}/small.lance"
dataset = lance_df.dataset(path)
"""

WITHOUT_DATAFUSION = {
    "rows": "dataset.to_table().num_rows",
    "large": "lance_df.dataset(f'{folder}/large.lance').to_table().num_rows",
    "expression": "dataset.to_table(filter=pc.field('a') < 5).num_rows",
    "count": "dataset.count_rows()",
    "take": "dataset.take([1, 999])['a'].to_pylist()",
    "batches": "sum(batch.num_rows for batch in dataset.to_batches())",
}
WITH_DATAFUSION = {
    "filter": "dataset.to_table(filter='a < 5').num_rows",
    "count": "dataset.count_rows('a < 5')",
    "connect": "lance_df.connect(folder).sql('SELECT count(*) FROM small').to_pylist()",
    "session": "context.sql('SELECT count(*) FROM small').to_pylist()",
    "stream": "[batch for batch in context.table('small').execute_stream()]",
    "frame": "frame.collect()",
    "plain": "plain.sql('SELECT count(*) FROM small').to_pylist()",
}
STATEMENTS = """
import datafusion
context = lance_df.connect(folder)
frame = context.sql('SELECT a FROM small')
plain = datafusion.SessionContext()
lance_df.register(plain, 'small', path)
"""


def test_what_needs_no_datafusion_works_after_statements(tables: Path) -> None:
    works = "".join(f"print(forked(lambda: {work}))\n" for work in WITHOUT_DATAFUSION.values())
    printed = output_of(FORKED + STATEMENTS + "dataset.to_table(filter='a < 5')\n" + works, tables)
    assert printed.split("\n") == ["1000", "1000000", "5", "1000", "[1, 999]", "1000", ""]


def test_what_needs_datafusion_fails_at_once_after_statements(tables: Path) -> None:
    works = "".join(f"print(forked(lambda: {work}))\n" for work in WITH_DATAFUSION.values())
    began = "began = time.monotonic()\n"
    took = "assert time.monotonic() - began < 15\nprint(dataset.count_rows('a < 5'))"
    printed = output_of(
        FORKED + STATEMENTS + "dataset.to_table(filter='a < 5')\n" + began + works + took, tables
    )
    found = printed.split()
    assert found[:-2] == ["ForkedProcessError"] * (len(WITH_DATAFUSION) - 1)
    # a context of DataFusion's own makes an Exception of it, which names the error
    assert found[-2:] == ["Exception", "5"]


def test_a_child_runs_the_first_statements_itself(tables: Path) -> None:
    works = "".join(f"print(forked(lambda: {work}))\n" for work in list(WITH_DATAFUSION.values())[:3])
    twice = (
        "print(forked(lambda: (dataset.count_rows('a < 5'), forked(lambda: dataset.count_rows('a < 5')))))\n"
    )
    printed = output_of(FORKED + works + twice, tables)
    assert printed.split("\n") == ["5", "5", "[{'count(*)': 1000}]", "(5, 'ForkedProcessError')", ""]


def test_statements_that_others_ran_are_noticed(tables: Path) -> None:
    program = "import datafusion\ndatafusion.SessionContext().sql('SELECT 1').collect()\n"
    program += "print(forked(lambda: dataset.count_rows('a < 5')))"
    assert output_of(FORKED + program, tables) == "ForkedProcessError\n"


def test_batches_that_were_begun_before_a_fork_are_refused(tables: Path) -> None:
    program = """
batches = lance_df.dataset(f'{folder}/large.lance').to_batches()
stream = lance_df.connect(folder).sql('SELECT * FROM large').execute_stream()
next(batches), next(stream)
print(forked(lambda: list(batches)), forked(lambda: list(stream)))
print(sum(batch.num_rows for batch in batches) > 0, len(list(stream)) > 0)
"""
    assert output_of(FORKED + program, tables) == "ForkedProcessError ForkedProcessError\nTrue True\n"


def test_writes_and_namespaces_work(tables: Path, tmp_path: Path) -> None:
    program = """
target = sys.argv[2]
rows = pa.table({'a': range(300)})
written = lance_df.write_dataset(rows, f'{target}/t.lance', max_rows_per_file=10)
fields = [lance_df.partition.bucket('a', 4)]
namespace = lance_df.PartitionedNamespace.create(f'{target}/n', rows.schema, fields)
namespace.append(rows)
forked(lambda: lance_df.write_dataset(rows, f'{target}/t.lance', mode='append'))
forked(lambda: lance_df.dataset(f'{target}/t.lance').optimize.compact_files())
forked(lambda: namespace.append(rows))
forked(lambda: namespace.compact())
opened = lance_df.dataset(f'{target}/t.lance')
joined = lance_df.PartitionedNamespace.open(f'{target}/n')
print(opened.count_rows(), len(opened.get_fragments()), joined.count_rows())
"""
    assert output_of(FORKED + program, tables, tmp_path) == "600 1 600\n"


def test_locks_that_other_threads_hold_are_free_in_a_child(tables: Path) -> None:
    program = """
from lance_df.forks import new_lock

class Slow:
    lock = new_lock()

    @__import__('functools').cached_property
    def held(self):
        time.sleep(1)

sys.modules['lance_df.slow'] = type(sys)('lance_df.slow')
sys.modules['lance_df.slow'].Slow = Slow
def hold():
    with Slow.lock:
        Slow().held
threading.Thread(target=hold).start()
time.sleep(0.2)
print(forked(lambda: Slow.lock.acquire(timeout=0.1)), Slow.lock.acquire(timeout=0.1))
print(forked(lambda: Slow().held))
"""
    assert output_of(FORKED + program, tables) == "True False\nNone\n"


def test_children_read_while_threads_of_the_parent_do(tables: Path, tmp_path: Path) -> None:
    program = """
large = lance_df.dataset(f'{folder}/large.lance')
rows = pa.table({'a': range(3)})
fields = [lance_df.partition.identity('a')]
namespace = lance_df.PartitionedNamespace.create(sys.argv[2], rows.schema, fields)
def read():
    other = lance_df.dataset(path)
    other.to_table(), other.take([5]), large.take([5, 500_000]), large.to_table(columns=['a'])
    time.sleep(0.01)
def read_on():
    while True:
        read()
# what is imported and compiled for it is
read(), namespace.append(rows), large.take([9]), large.to_table()
for _ in range(2):
    threading.Thread(target=read_on, daemon=True).start()
until = time.monotonic() + 3
while time.monotonic() < until:
    number = int(forked(lambda: (namespace.append(rows), large.take([9]), large.to_table().num_rows)[-1]))
    assert number == 1_000_000
os._exit(0)
"""
    output_of(FORKED + program, tables, tmp_path / "n")


def test_processes_of_multiprocessing(tables: Path) -> None:
    program = """
import multiprocessing

large = lance_df.dataset(f'{folder}/large.lance')
def picked(number):
    return large.take(list(range(number, 1_000_000, 10_000)))['a'].to_pylist()[0]
with multiprocessing.get_context('fork').Pool(3) as pool:
    print(pool.map(picked, range(12)))
"""
    assert output_of(FORKED + program, tables) == f"{list(range(12))}\n"


def test_a_table_in_s3_is_read_and_written_in_a_child(
    tables: Path, bucket: str, s3_options: dict[str, str]
) -> None:
    program = """
import json
place, options = sys.argv[2], json.loads(sys.argv[3])
rows = pa.table({'a': range(3000)})
far = lance_df.write_dataset(rows, place, storage_options=options, max_rows_per_file=1000)
far.to_table()
print(forked(lambda: far.to_table().num_rows))
print(forked(lambda: lance_df.write_dataset(rows, far, mode='append').count_rows()))
print(far.count_rows(), lance_df.dataset(place, storage_options=options).count_rows())
"""
    printed = output_of(FORKED + program, tables, f"{bucket}/t.lance", json.dumps(s3_options))
    assert printed == "3000\n6000\n3000 6000\n"
