"""The picture: how many messages the queue held, and how fast they came and went.

It is SVG, written here: a drawing library would take longer to install than the demo to run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

_BIN_S = 2.0
_INK = "#33415c"
_GRID = "#e7e9ee"
_QUEUE = "#5b8bd0"
_SENT = "#e08e45"
_RECEIVED = "#3a9d7a"

_WIDTH, _HEIGHT = 900, 560
_LEFT, _RIGHT = 58, 882
_PANEL_HEIGHT = 180


@dataclass(frozen=True)
class Sample:
    """One look: seconds since the start, messages sent and received by then, and held."""

    at: float
    sent: int
    received: int
    held: int


def picture(samples: Sequence[Sample], title: str, subtitle: str) -> str:
    """Backlog and throughput over time, as the text of an SVG file."""
    edges = [_BIN_S * number for number in range(int(samples[-1].at / _BIN_S) + 2)]
    sent = _per_second(samples, [sample.sent for sample in samples], edges)
    received = _per_second(samples, [sample.received for sample in samples], edges)
    backlog = _Panel(100, edges[-1], max(sample.held for sample in samples))
    rates = _Panel(330, edges[-1], max(*sent, *received))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' font-family="sans-serif" font-size="12" fill="{_INK}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 32, title, 'font-size="18" font-weight="bold"'),
        _text(_LEFT, 54, subtitle, 'opacity="0.75"'),
        *backlog.frame("messages in the queue (waiting, delayed, or leased)"),
        *_backlog(backlog, samples),
        *rates.frame("messages per second"),
        *_rates(rates, edges, sent, received),
        *_legend(rates.top - 10),
        _text(_RIGHT, rates.bottom + 38, "seconds", 'text-anchor="end"'),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


class _Panel:
    """One of the two charts: from seconds and a value to a place in the picture."""

    def __init__(self, top: float, seconds: float, highest: float) -> None:
        self.top, self.bottom = top, top + _PANEL_HEIGHT
        self._steps = _steps(highest)
        self._seconds = _steps(seconds)
        self._across = (_RIGHT - _LEFT) / seconds
        self._up = _PANEL_HEIGHT / self._steps[-1]

    def x(self, seconds: float) -> float:
        return round(_LEFT + seconds * self._across, 1)

    def y(self, value: float) -> float:
        return round(self.bottom - value * self._up, 1)

    def points(self, places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(seconds)},{self.y(value)}" for seconds, value in places)

    def frame(self, title: str) -> Iterator[str]:
        """The title, and what is written beside and under the panel."""
        yield _text(_LEFT, self.top - 12, title)
        for value in self._steps:
            y = self.y(value)
            yield f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="{_GRID}"/>'
            yield _text(_LEFT - 8, y + 4, f"{value:g}", 'text-anchor="end"')
        for seconds in self._seconds:
            if self.x(seconds) <= _RIGHT:
                yield _text(
                    self.x(seconds), self.bottom + 18, f"{seconds:g}", 'text-anchor="middle"'
                )


def _backlog(panel: _Panel, samples: Sequence[Sample]) -> Iterator[str]:
    held = [(sample.at, float(sample.held)) for sample in samples]
    area = [(held[0][0], 0.0), *held, (held[-1][0], 0.0)]
    yield f'<polygon points="{panel.points(area)}" fill="{_QUEUE}" opacity="0.28"/>'
    yield _line(panel.points(held), _QUEUE)


def _rates(
    panel: _Panel, edges: Sequence[float], sent: Sequence[float], received: Sequence[float]
) -> Iterator[str]:
    width = round(panel.x(_BIN_S) * 0.86 - panel.x(0) * 0.86, 1)
    for edge, rate in zip(edges, received, strict=False):
        x, y = panel.x(edge + _BIN_S * 0.07), panel.y(rate)
        height = round(panel.bottom - y, 1)
        yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{_RECEIVED}"/>'
    middles = [(edge + _BIN_S / 2, rate) for edge, rate in zip(edges, sent, strict=False)]
    yield _line(panel.points(middles), _SENT)


def _legend(y: float) -> Iterator[str]:
    for x, colour, name in ((_RIGHT - 150, _SENT, "sent"), (_RIGHT - 85, _RECEIVED, "received")):
        yield f'<rect x="{x}" y="{y - 10}" width="14" height="10" fill="{colour}"/>'
        yield _text(x + 20, y, name)


def _line(points: str, colour: str) -> str:
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>'


def _per_second(
    samples: Sequence[Sample], totals: Sequence[int], edges: Sequence[float]
) -> list[float]:
    """Growth of `totals` within each bin, per second."""
    at = [sample.at for sample in samples]
    reached = [totals[max(0, bisect_right(at, edge) - 1)] for edge in edges]
    return [(after - before) / _BIN_S for before, after in pairwise(reached)]


def _steps(highest: float) -> list[float]:
    """Four to ten round numbers from 0 up to `highest` or just above."""
    rough = max(highest, 1.0) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return [step * number for number in range(math.ceil(max(highest, 1.0) / step) + 1)]
