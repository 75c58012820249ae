"""A map of partitions, in which areas show bytes and the strength of colours shows rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.display.elements import FILL, escaped
from lance_df.display.numbers import number_text, size_text
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH: Final = 640.0
_HEIGHT: Final = 240.0
_MAX_TILES: Final = 200
_CHARACTER_WIDTH: Final = 6.5
_LINE_HEIGHT: Final = 14
_LEAST_OPACITY: Final = 0.12
_MOST_OPACITY: Final = 0.55


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile for one partition or several.

    Attributes
    ----------
    label
        The partition values, as short text.
    title
        The partition values with field names, shown when the pointer is over the tile.
    """

    label: str
    title: str
    num_bytes: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float


def partition_map(tiles: Sequence[Tile]) -> str:
    """Return a map as SVG. The largest partitions have their own tiles; all others share one."""
    ordered = sorted(tiles, key=lambda tile: tile.num_bytes, reverse=True)
    if len(ordered) > _MAX_TILES:
        rest = ordered[_MAX_TILES - 1 :]
        label = f"{len(rest):,} smaller ones"
        joined = Tile(label, label, sum(tile.num_bytes for tile in rest), sum(tile.num_rows for tile in rest))
        ordered = sorted([*ordered[: _MAX_TILES - 1], joined], key=lambda tile: tile.num_bytes, reverse=True)
    if not ordered:
        return ""
    # the most rows of the partitions with their own tile
    most = max(1, *sorted(tile.num_rows for tile in tiles)[-_MAX_TILES:])
    # a partition without bytes also has a tile
    sizes = [float(max(1, tile.num_bytes)) for tile in ordered]
    total = sum(sizes)
    areas = [size / total * _WIDTH * _HEIGHT for size in sizes]
    shapes = [
        _shape(tile, box, min(1.0, tile.num_rows / most))
        for tile, box in zip(ordered, _boxes(areas, _Box(0, 0, _WIDTH, _HEIGHT)), strict=True)
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" style="max-width: 100%" role="img" '
        f'aria-label="Partitions by bytes and rows" font-size="11" font-family="sans-serif">'
        f"{''.join(shapes)}</svg>"
    )


def _shape(tile: Tile, box: _Box, share: float) -> str:
    opacity = _LEAST_OPACITY + (_MOST_OPACITY - _LEAST_OPACITY) * share**0.5
    title = escaped(f"{tile.title}: {number_text(tile.num_rows, 'row')}, {size_text(tile.num_bytes)}")
    shape = (
        f'<g><title>{title}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" fill-opacity="{opacity:.2f}" stroke="currentColor" stroke-width="0.5" '
        f"{FILL}/>"
    )
    length = int((box.width - 6) / _CHARACTER_WIDTH)
    if length >= 3 and box.height >= _LINE_HEIGHT:
        label = escaped(tile.label, length - 1 if len(tile.label) > length else length)
        shape += f'<text x="{box.x + 3:.1f}" y="{box.y + 11:.1f}" fill="currentColor">{label}</text>'
    return f"{shape}</g>"


def _boxes(areas: Sequence[float], box: _Box) -> Iterator[_Box]:
    """Yield boxes with some areas, the largest first, that fill a box and are as square as possible."""
    start = 0
    while start < len(areas):
        side = max(min(box.width, box.height), 1e-9)
        stop = start + 1
        while stop < len(areas) and _worst(areas[start : stop + 1], side) <= _worst(areas[start:stop], side):
            stop += 1
        row = areas[start:stop]
        depth = sum(row) / side
        offset = 0.0
        for area in row:
            length = area / depth if depth else 0.0
            if box.width >= box.height:
                yield _Box(box.x, box.y + offset, depth, length)
            else:
                yield _Box(box.x + offset, box.y, length, depth)
            offset += length
        if box.width >= box.height:
            box = _Box(box.x + depth, box.y, max(0.0, box.width - depth), box.height)
        else:
            box = _Box(box.x, box.y + depth, box.width, max(0.0, box.height - depth))
        start = stop


def _worst(row: Sequence[float], side: float) -> float:
    """Return the largest aspect ratio of boxes in a row along a side."""
    total = sum(row)
    return max(side**2 * max(row) / total**2, total**2 / (side**2 * min(row)))
