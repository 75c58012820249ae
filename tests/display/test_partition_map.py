"""Maps of partitions: areas by bytes, of bounded size."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from lance_df.display.partition_map import Tile, partition_map

NUMBERS = re.compile(r'x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"')


def boxes(svg: str) -> list[tuple[float, ...]]:
    return [tuple(map(float, match)) for match in NUMBERS.findall(svg)]


@pytest.mark.parametrize(
    "sizes", [[1], [5, 3, 2], [100, 1, 1, 1], list(range(1, 180)), [0, 0, 0], [10**12, 0]]
)
def test_areas_are_the_bytes(sizes: list[int]) -> None:
    svg = partition_map([Tile(f"{size}", f"p = {size}", size, size) for size in sizes])
    found = boxes(svg)
    assert len(found) == len(sizes)
    total = sum(max(1, size) for size in sizes)
    for (x, y, width, height), size in zip(found, sorted(sizes, reverse=True), strict=True):
        assert width * height == pytest.approx(max(1, size) / total * 640 * 240, rel=0.2, abs=30)
        assert x + width <= 640.2
        assert y + height <= 240.2


def test_more_rows_are_a_stronger_colour() -> None:
    few, many = re.findall(
        r'fill-opacity="([\d.]+)"', partition_map([Tile("a", "p = a", 9, 1), Tile("b", "p = b", 5, 100)])
    )
    assert float(few) < float(many)


def test_thousands_of_partitions_share_a_tile() -> None:
    svg = partition_map([Tile(f"{number}", f"p = {number}", number, 1) for number in range(20_000)])
    assert len(boxes(svg)) == 200
    assert "19,801 smaller ones" in svg
    assert len(svg) < 100_000


def test_labels_are_escaped_and_cut() -> None:
    svg = partition_map([Tile('<b>"&' + "x" * 10_000, 'p = <b>"&', 1, 1)])
    assert "<b>" not in svg
    assert len(svg) < 2_000
    ET.fromstring(svg)
    assert partition_map([]) == ""
