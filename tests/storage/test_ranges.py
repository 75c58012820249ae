"""Nearby byte ranges are read with one request."""

from hypothesis import given
from hypothesis import strategies as st

from lance_df.storage import ByteRange, coalesce

RANGES = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 500)).map(lambda t: ByteRange(t[0], t[0] + t[1])),
    max_size=30,
)


def merged(ranges, gap=0, size=1 << 30):
    return [
        (request.start, request.stop, members)
        for request, members in coalesce(ranges, max_gap_bytes=gap, max_request_bytes=size)
    ]


def test_nothing():
    assert merged([]) == []


def test_near_ranges_share_a_request():
    assert merged([ByteRange(0, 10), ByteRange(15, 20)], gap=5) == [(0, 20, [0, 1])]
    assert merged([ByteRange(0, 10), ByteRange(15, 20)], gap=4) == [(0, 10, [0]), (15, 20, [1])]


def test_order_is_by_offset_and_members_name_the_input():
    assert merged([ByteRange(50, 60), ByteRange(0, 10), ByteRange(5, 8)]) == [(0, 10, [1, 2]), (50, 60, [0])]


def test_a_request_is_not_extended_beyond_its_limit():
    touching = [ByteRange(0, 60), ByteRange(60, 100), ByteRange(100, 130)]
    assert merged(touching, size=100) == [(0, 100, [0, 1]), (100, 130, [2])]
    assert merged([ByteRange(0, 500), ByteRange(10, 20)], size=100) == [(0, 500, [0, 1])]


@given(RANGES, st.integers(0, 300), st.integers(1, 2_000))
def test_every_range_lies_in_exactly_one_request(ranges, gap, size):
    requests = coalesce(ranges, max_gap_bytes=gap, max_request_bytes=size)
    assert sorted(index for _, members in requests for index in members) == list(range(len(ranges)))
    longest = max((wanted.num_bytes for wanted in ranges), default=0)
    for request, members in requests:
        assert request.start == min(ranges[i].start for i in members)
        assert request.stop == max(ranges[i].stop for i in members)
        assert request.num_bytes <= max(size, longest)
    starts = [request.start for request, _ in requests]
    assert starts == sorted(starts)
