"""Kernels as kept machine code do what numba's do, and only whole files of this installation are run."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from lance_df.encodings import kernels
from lance_df.encodings.kernels import calls, compare, fsst, gather, kept_code, keys, object_fields
from lance_df.encodings.kernels.jit import kernel
from lance_df.encodings.kernels.kept_code import KeptCode
from lance_df.encodings.kernels.loaded_code import load_all
from lance_df.encodings.kernels.machine_code import codes_from


def _compiled(dispatcher, *arguments):
    """Return what kept code for these arguments is called by, and the code."""
    dispatcher(*arguments)
    for code in codes_from(dispatcher, 0):
        (call,) = load_all([code])
        if call(*arguments) is not NotImplemented:
            return call, code
    raise AssertionError("not kept")


def _masks(random):
    mask = random.random(1000) < random.random()
    return (mask, bool(random.integers(2)), np.zeros(1001, np.int64))


def _numbers(random):
    numbers = random.integers(-100, 100, 777, np.int32)
    numbers.flags.writeable = False
    bounds = np.sort(random.integers(-100, 100, 2, np.int32))
    bounds.flags.writeable = False
    return (numbers, bounds, bool(random.integers(2)), np.zeros(777, np.uint8))


def _pairs(random):
    words = random.integers(0, 1 << 63, (50, 2), np.uint64)
    return (words, random.integers(0, 50, 99, np.int64), np.zeros((99, 2), np.uint64))


def _mixed(random):
    hashed = random.integers(0, 1 << 63, 60, np.uint64)
    words = random.integers(0, 1 << 63, 60, np.uint64)
    return (hashed, words, np.uint64(0x9E3779B97F4A7C15))


def _codes(random):
    symbols = random.integers(0, 1 << 63, 256, np.uint64)
    lengths = random.integers(1, 9, 256).astype(np.uint8)
    stream = random.integers(0, 255, 300).astype(np.uint8)
    return (stream, symbols, lengths, np.zeros(301, np.int64), np.zeros(300 * 8 + 32, np.uint8))


@pytest.mark.parametrize(
    ("dispatcher", "make"),
    [
        (gather.rare_positions, _masks),
        (compare.numbers_within, _numbers),
        (gather.gather_pairs, _pairs),
        (keys.mix_words, _mixed),
        (fsst.expand_fsst, _codes),
    ],
    ids=["numbers", "read-only", "two dimensions", "uint64", "tuple"],
)
def test_kept_code_does_what_numba_does(dispatcher, make):
    caller, _ = _compiled(dispatcher, *make(np.random.default_rng(0)))
    for seed in range(1, 30):
        arguments, others = make(np.random.default_rng(seed)), make(np.random.default_rng(seed))
        returned, wanted = caller(*arguments), dispatcher(*others)
        assert returned == wanted
        assert type(returned) is type(wanted)
        for mine, other in zip(arguments, others, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_other_arrays_and_numbers_are_not_taken():
    words, positions, out = np.arange(20, dtype=np.int32), np.arange(5), np.zeros(5, np.int32)
    call, _ = _compiled(gather.gather_words, words, positions, out)
    assert call(words, positions, out) is None
    frozen, moved = out.view(), np.zeros(21, np.uint8)[1:].view(np.int32)
    frozen.flags.writeable = False
    swapped = out.astype(np.dtype(np.int32).newbyteorder())
    others = [out.view(np.uint32), out.view(np.float32), out.reshape(1, 5), frozen, moved, swapped]
    for other in (*others, np.zeros(10, np.int32)[::2]):
        assert call(words, positions, other) is NotImplemented

    for other in (out.tolist(), np.int32(3), np.zeros((), np.int32), np.memmap, None, out.view(np.recarray)):
        assert call(words, positions, other) is NotImplemented
    assert call(words, positions) is call(words, positions, out, out) is call() is NotImplemented
    with pytest.raises(TypeError):
        call(words, positions, out=out)

    mask, found = np.zeros(8, bool), np.zeros(9, np.int64)
    call, _ = _compiled(gather.rare_positions, mask, False, found)
    assert [call(mask, flag, found) for flag in (True, False, np.True_, np.False_)] == [0, 8, 0, 8]
    for flag in (1, 0, 1.0, None, np.int64(1), "True"):
        assert call(mask, flag, found) is NotImplemented

    call, _ = _compiled(keys.mix_words, *_mixed(np.random.default_rng(0)))
    hashed, words, multiplier = _mixed(np.random.default_rng(0))
    for other in (int(multiplier), np.int64(3), np.uint32(3), True):
        assert call(hashed, words, other) is NotImplemented

    data, dropped, room = np.arange(16, dtype=np.uint8), np.array([1]), np.zeros(16, np.uint8)
    call, _ = _compiled(gather.copy_between, data, 4, dropped, room)
    for other in (1 << 63, -(1 << 63) - 1, 1 << 100, True, np.int32(4), np.uint64(4), 4.0, None):
        assert call(data, other, dropped, room) is NotImplemented
    assert not room[12:].any()
    assert call(data, np.int64(4), dropped, room) is None


def test_contiguous_arrays_come_first():
    words, out = np.arange(40, dtype=np.int16), np.zeros(5, np.int16)
    for positions in (np.arange(10)[::2], np.arange(5)):
        gather.gather_words(words, positions, out)
    codes = [code for code in codes_from(gather.gather_words, 0) if code.taken[0].kind == "int16"]
    assert {code.taken[1].contiguous for code in codes} == {True, False}
    strided = next(load_all([code])[0] for code in codes if not code.taken[1].contiguous)
    for given in (codes, codes[::-1]):
        loaded = load_all(given)
        taking = [call(words, np.arange(10)[::2], out) is None for call in loaded]
        assert taking == sorted(taking)
    assert strided(words, np.arange(5), out) is None


def test_code_is_kept_for_each_signature(tmp_path, monkeypatch):
    """And what there is none for is compiled, and kept."""
    kept = KeptCode([tmp_path])
    monkeypatch.setattr(calls, "kept_code", lambda: kept)
    positions = np.arange(5)
    for dtypes in ([np.int16], [np.int16, np.uint64], [np.int16, np.uint64, np.uint8]):
        pick = calls.caller("gather_words", "gather")
        for dtype in dtypes:
            for strided in (False, True):
                words, out = np.arange(20, dtype=dtype)[:: 2 if strided else 1], np.zeros(5, dtype)
                words.flags.writeable = False
                pick(words, positions, out)
                np.testing.assert_array_equal(out, words[:5])
        found = {(code.taken[0].kind, code.taken[0].contiguous) for code in kept.load("gather_words")}
        assert {(np.dtype(dtype).name, True) for dtype in dtypes} <= found


def test_fields_of_objects_are_checked(monkeypatch):
    assert object_fields.are_as_expected()
    names = ["TYPE", "SCALAR", "DATA", "NUM_DIMENSIONS", "DIMENSIONS", "STRIDES", "DTYPE", "BYTES"]
    for name in names:
        with monkeypatch.context() as patch:
            patch.setattr(object_fields, name, getattr(object_fields, name) ^ 8)
            assert not object_fields.are_as_expected()


def test_calls_keep_no_references():
    mask, out = np.ones(500, bool), np.zeros(501, np.int64)
    call, _ = _compiled(gather.rare_positions, mask, True, out)
    copy, _ = _compiled(gather.copy_between, np.zeros(8, np.uint8), 1, np.array([1]), np.zeros(8, np.uint8))
    kept = (mask, out, None, NotImplemented, True, False)
    copied = (np.zeros(8, np.uint8), 1, np.array([1]), np.zeros(8, np.uint8))
    before = [sys.getrefcount(value) for value in kept]
    for _ in range(1000):
        assert call(mask, True, out) == 500
        assert call(mask, 1, out) is NotImplemented
        assert copy(*copied) is None
    after = [sys.getrefcount(value) for value in kept]
    assert all(abs(one - other) < 100 for one, other in zip(before, after, strict=True))


def test_other_threads_run_meanwhile():
    data, positions = np.zeros(8, np.uint64), np.zeros(20_000_000, np.int64)
    arguments = (data, positions, np.zeros(len(positions), np.uint64))
    call, _ = _compiled(gather.gather_words, *arguments)
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.2:
        call(*arguments)
    counted = ticks[0] - before
    done.set()
    thread.join()
    assert counted > 1000


@pytest.fixture
def code():
    return _compiled(gather.mask_positions, np.zeros(4, bool), np.zeros(4, np.int64))[1]


def _loaded(folder):
    return KeptCode([folder]).load("mask_positions")


def test_what_is_kept_is_found_in_any_folder(tmp_path, code):
    one, two = tmp_path / "one" / "deep", tmp_path / "two"
    kept = KeptCode([one, two])
    assert not kept.has_any()
    kept.keep("mask_positions", code)
    kept.keep("mask_positions", code)
    assert kept.has_any()
    assert kept.load("mask_positions") == [code]
    assert kept.load("mask") == []
    assert len(list(one.iterdir())) == 1
    assert not two.exists()
    assert KeptCode([two, one]).load("mask_positions") == [code]


def test_broken_files_are_not_run_and_written_again(tmp_path, code):
    kept = KeptCode([tmp_path])
    kept.keep("mask_positions", code)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    broken = [whole[: random.integers(len(whole))] for _ in range(50)]
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        broken.append(bytes(damaged))
    for content in (*broken, b"", whole + b"x"):
        path.write_bytes(content)
        assert _loaded(tmp_path) == []
    path.unlink()
    path.mkdir()
    assert _loaded(tmp_path) == []
    path.rmdir()
    kept.keep("mask_positions", code)
    assert _loaded(tmp_path) == [code]


def test_code_of_another_origin_is_not_run(tmp_path, monkeypatch, code):
    kept = KeptCode([tmp_path])
    kept._origin = [kept._environment, "other sources"]
    kept.keep("mask_positions", code)
    assert kept.has_any()
    assert _loaded(tmp_path) == []
    kept._origin = "another release", "that tells more"
    kept.keep("mask_positions", code)
    assert _loaded(tmp_path) == []
    with monkeypatch.context() as patch:
        patch.setattr(kept_code.json, "dumps", lambda told: '["another release", 1, 2, 3]')
        kept.keep("mask_positions", code)
    assert _loaded(tmp_path) == []
    other = KeptCode([tmp_path])
    other.keep("mask_positions", code)
    assert _loaded(tmp_path) == [code]
    assert len(list(tmp_path.iterdir())) == 1
    (path,) = tmp_path.iterdir()
    monkeypatch.setattr(kept_code, "_environment", lambda: iter([b"other libraries"]))
    kept = KeptCode([tmp_path])
    assert not kept.has_any()
    path.rename(tmp_path / path.name.replace(other._environment, kept._environment))
    assert kept.has_any()
    assert kept.load("mask_positions") == []


@pytest.mark.parametrize("variable", ["NUMBA_OPT", "NUMBA_DISABLE_JIT", "NUMBA_CPU_NAME"])
def test_settings_of_numba_are_part_of_the_origin(tmp_path, monkeypatch, code, variable):
    KeptCode([tmp_path]).keep("mask_positions", code)
    monkeypatch.setenv(variable, "1")
    assert not KeptCode([tmp_path]).has_any()


def test_nothing_is_kept_of_sources_that_changed(tmp_path, monkeypatch, code):
    kept = KeptCode([tmp_path])
    monkeypatch.setattr(kept_code, "_read_sources", lambda: iter([b"other"]))
    kept.keep("mask_positions", code)
    assert not kept.may_be_written
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_that_others_may_write_are_not_run(tmp_path, code):
    kept = KeptCode([tmp_path])
    kept.keep("mask_positions", code)
    (path,) = tmp_path.iterdir()
    mode = path.stat().st_mode
    path.chmod(0o666)
    assert kept.load("mask_positions") == []
    path.chmod(mode)
    assert kept.load("mask_positions") == [code]
    for wrong in (0o620, 0o602):
        path.chmod(wrong)
        assert kept.load("mask_positions") == []
    path.chmod(mode)
    for wrong in (0o770, 0o707, 0o1777):
        tmp_path.chmod(wrong)
        assert kept.load("mask_positions") == []
        assert not kept.has_any()
    tmp_path.chmod(0o700)
    assert kept.load("mask_positions") == [code]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_of_other_users_are_not_run(tmp_path, monkeypatch, code):
    kept = KeptCode([tmp_path])
    kept.keep("mask_positions", code)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert kept.load("mask_positions") == []
    kept.keep("mask_positions", code)
    assert not kept.may_be_written


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_files_behind_links_and_of_other_kinds_are_not_run(tmp_path, code):
    real, link = tmp_path / "real", tmp_path / "link"
    KeptCode([real]).keep("mask_positions", code)
    link.symlink_to(real)
    assert _loaded(link) == []
    assert _loaded(link / ".." / "real") == []
    (path,) = real.iterdir()
    moved = path.rename(tmp_path / "elsewhere")
    path.symlink_to(moved)
    assert _loaded(real) == []
    path.unlink()
    os.mkfifo(path)
    assert _loaded(real) == []
    path.unlink()
    moved.rename(path)
    assert _loaded(real) == [code]


def test_code_of_another_kernel_is_not_run(tmp_path, code):
    kept = KeptCode([tmp_path])
    kept.keep("mask_positions", code)
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / path.name.replace("mask_positions", "other_kernel"))
    assert kept.load("other_kernel") == []


@pytest.mark.parametrize("described", [b"", b"{", b"[" * 100_000, b"[1, 2, [3]]", b"null", b'[1, 2, "\xff"]'])
def test_descriptions_that_are_none_are_not_run(tmp_path, code, described):
    kept = KeptCode([tmp_path])
    kept.keep("mask_positions", code)
    (path,) = tmp_path.iterdir()
    content = described + b"\n" + code.object_file
    path.write_bytes(b"lance_df kernel\n" + hashlib.sha256(content).digest() + content)
    assert kept.load("mask_positions") == []


def test_folders_that_refuse(tmp_path, code):
    (tmp_path / "file").touch()
    kept = KeptCode([tmp_path / "file", tmp_path / "file" / "below"])
    kept.keep("mask_positions", code)
    assert not kept.may_be_written
    assert kept.load("mask_positions") == []
    kept = KeptCode([tmp_path / "file", tmp_path / "other"])
    kept.keep("mask_positions", code)
    assert kept.may_be_written
    assert _loaded(tmp_path / "other") == [code]


class _Raising:
    def __init__(self):
        self.overloads = {1: None}

    def __call__(self, value):
        return value + 1


def test_kernels_work_where_nothing_can_be_kept(tmp_path, monkeypatch):
    """Also where numba works in other ways inside."""
    for kept in (None, KeptCode([tmp_path])):
        monkeypatch.setattr(calls, "kept_code", lambda kept=kept: kept)
        kernel = calls._Kernel("mask_positions", "gather")
        kernel._dispatcher = _Raising()
        assert kernel.load() == []
        assert [kernel.compiled(1), kernel.compiled(2)] == [2, 3]
        assert kept is None or not kept.may_be_written


def test_a_kernel_that_raises_is_called_again_by_numba():
    @kernel
    def divide(number):
        return 7 // number

    divide(1)
    (code,) = codes_from(divide, 0)
    (call,) = load_all([code])
    assert call(2) == 3
    assert call(0) is NotImplemented


def test_every_kernel_is_one_whose_code_can_be_kept():
    for name, module in kernels._MODULES.items():
        dispatcher = getattr(importlib.import_module(f"{kernels.__name__}.{module}"), name)
        assert hasattr(dispatcher, "overloads"), name


def test_kernels_that_need_numba_are_not_kept():
    @kernel
    def allocate(count):
        return np.zeros(count).sum() > 0

    @kernel
    def whole(number):
        return number * 1.0

    allocate(3)
    whole(3)
    assert list(codes_from(allocate, 0)) == list(codes_from(whole, 0)) == []


_FIRST_CALL = """
import os, sys, threading
import numpy as np
from lance_df.encodings import kernels
found = []
def call():
    mask, out = np.array([False, True, True]), np.zeros(3, np.int64)
    assert kernels.mask_positions(mask, out) == 2
    found.append(out[:2].tolist())
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        call()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert found == [[1, 2]] * 8
print("numba" in sys.modules)
"""


def _start(folder, **environment):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FIRST_CALL],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def _says_numba(process):
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    return said.strip() == "True"


def test_processes_share_code(tmp_path):
    """Two begin at once; a third runs their code; answers are the same where it is broken, and without."""
    assert all(map(_says_numba, [_start(tmp_path), _start(tmp_path)]))
    (folder,) = tmp_path.glob("lance_df_*")
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    assert not _says_numba(_start(tmp_path))
    path.write_bytes(whole[:-1])
    assert _says_numba(_start(tmp_path))
    assert path.read_bytes() == whole
    assert _says_numba(_start(tmp_path, NUMBA_DISABLE_JIT="1"))
