"""What readers of pages with dictionaries point to lives as long as they do, whoever made it."""

import gc
import threading
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.encodings.dictionary import coded_values
from lance_df.encodings.dictionary.coded_values import CodedValues, LookupTable
from lance_df.encodings.loaded_page import Form
from lance_df.table.open import open_table

ROWS = 20_000
THREADS = 8


def together(work):
    """Return what the calls of a function by many threads return, which begin at once."""
    barrier, found = threading.Barrier(THREADS), []

    def run():
        barrier.wait()
        found.append(work())

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def made_slowly(monkeypatch):
    """Let all threads that ask for a table at once make one."""
    make = LookupTable.of

    def of(values):
        time.sleep(0.02)
        return make(values)

    monkeypatch.setattr(coded_values.LookupTable, "of", staticmethod(of))


def test_threads_get_the_same_table(monkeypatch):
    made_slowly(monkeypatch)
    coded = CodedValues(pa.array(["MAIL", "TRUCK", "AIR"]), null_first=False)
    assert len({id(table) for table in together(lambda: coded.table(Form.VIEWS))}) == 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("nulls", [False, True])
def test_readers_keep_what_they_read_from(version, nulls, tmp_path, monkeypatch):
    words = pa.array([f"word {number:05}" for number in range(97)])
    indices = pa.array(np.arange(ROWS) % 97, mask=np.arange(ROWS) % 50 == 1 if nulls else None)
    lance_df.write_dataset(pa.table({"word": words.take(indices)}), tmp_path, data_storage_version=version)
    table = open_table(tmp_path)
    field = table.schema.field("word")
    kept = []

    def make(coded, form):
        """Return a table that nobody else keeps, as when another thread's takes its place."""
        made = LookupTable.of(coded.values.cast(pa.string_view()))
        kept.append(weakref.ref(made.data))
        return made

    monkeypatch.setattr(CodedValues, "table", make)
    read = table.fragment_reader(0).resident_column(field).reader(Form.VIEWS)
    assert read(0, ROWS).cast(pa.string()).equals(words.take(indices))
    gc.collect()
    assert kept
    assert all(reference() is not None for reference in kept)
