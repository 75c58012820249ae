"""A bar chart of ratios as SVG, for the README."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from measures import Ratio

_COLOURS = ("#3b6ea5", "#d98032", "#6b9e4b", "#8f6bb3", "#b34f5e")
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 250, 470, 12, 10, 56
_TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


def speed_chart(ratios: Sequence[Ratio], title: str) -> str:
    """Return a chart of how many times as fast as its peers ours is; on a logarithmic axis from 1.

    One group of bars for each suite and engine of ours, one colour for each peer.
    """
    peers = list(dict.fromkeys(each.peer.partition("-")[0] for each in ratios))
    colours = {peer: _COLOURS[number % len(_COLOURS)] for number, peer in enumerate(peers)}
    groups: dict[str, list[Ratio]] = {}
    for each in ratios:
        groups.setdefault(f"{each.suite}{each.engine.removeprefix('ours').replace('-', ', ')}", []).append(
            each
        )
    least = min([0.5, *(each.times for each in ratios)])
    most = max([2.0, *(each.times for each in ratios)])

    def place(times: float) -> float:
        return _LEFT + _WIDTH * math.log(times / least) / math.log(most / least)

    parts, top = [], _TOP
    for name, own in groups.items():
        middle = top + len(own) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        for each in own:
            start, stop = sorted((place(1), place(each.times)))
            parts.append(
                f'<rect x="{start:.1f}" y="{top}" width="{max(1.0, stop - start):.1f}" height="{_BAR - 2}" '
                f'fill="{colours[each.peer.partition("-")[0]]}"/>'
                f'<text x="{stop + 4:.1f}" y="{top + 9}" font-size="10">{each.times:.1f}</text>'
            )
            top += _BAR
        top += _GAP
    ticks = [tick for tick in _TICKS if least <= tick <= most]
    grid = [
        f'<line x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="{_TOP - 6}" y2="{top}" '
        f'stroke="{"#444" if tick == 1 else "#ddd"}"/>'
        f'<text x="{place(tick):.1f}" y="{top + 14}" text-anchor="middle" font-size="10">{tick:g}</text>'
        for tick in ticks
    ]
    legend = [
        f'<rect x="{_LEFT + 110 * number}" y="30" width="10" height="10" fill="{colour}"/>'
        f'<text x="{_LEFT + 110 * number + 14}" y="39">{escape(peer)}</text>'
        for number, (peer, colour) in enumerate(colours.items())
    ]
    width, height = _LEFT + _WIDTH + 50, top + 24
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
            *legend,
            *grid,
            *parts,
            "</svg>\n",
        ]
    )
