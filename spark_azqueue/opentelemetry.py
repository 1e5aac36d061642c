"""A listener's figures for OpenTelemetry. Needs `pip install "spark-azqueue[opentelemetry]"`.

    export(AzQueueListener.attach(spark))

The names, labels and meanings are those of Prometheus (docs/metrics.md). Figures are read from the
listener at each collection; nothing is kept here. Where they go is for the reader and exporter of
your MeterProvider to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from .metrics.figures import Figures
from .metrics.listener import AzQueueListener
from .metrics.names import ACTIVE, BY_QUEUE, COUNTERS, GAUGES, PROGRESS
from .metrics.report import Counters
from .version import __version__

Observe = Callable[[CallbackOptions], Iterator[Observation]]


def export(listener: AzQueueListener, meter: Meter | None = None) -> None:
    """Observe the listener's figures with a meter (default: one of the global MeterProvider).

    Call it once for a meter: OpenTelemetry has no way to undo it.
    """
    meter = meter or get_meter("spark_azqueue", __version__)
    meanings = Figures.meanings()
    meter.create_observable_gauge(ACTIVE, [_active(listener)], description="1 while it runs.")
    meter.create_observable_gauge(PROGRESS, [_of_running(listener, attrgetter("began"))], unit="s")
    for figure, name in GAUGES.items():
        observe = _of_running(listener, attrgetter(figure))
        meter.create_observable_gauge(name, [observe], description=meanings[figure])
    for figure, name in BY_QUEUE.items():
        meter.create_observable_gauge(
            name, [_by_queue(listener, figure)], description=meanings[figure]
        )
    for event, meaning in Counters.meanings().items():
        meter.create_observable_counter(
            COUNTERS[event], [_counter(listener, event)], description=meaning
        )


def _active(listener: AzQueueListener) -> Observe:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for query, is_active in listener.activity().items():
            yield Observation(int(is_active), {"query": query})

    return observe


def _of_running(listener: AzQueueListener, value: Callable[[Figures], Any]) -> Observe:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for query, figures in _newest(listener, running=True):
            found = value(figures)
            if found is not None:
                yield Observation(found, {"query": query})

    return observe


def _by_queue(listener: AzQueueListener, figure: str) -> Observe:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for query, figures in _newest(listener, running=True):
            for queue, count in (getattr(figures, figure) or {}).items():
                yield Observation(count, {"query": query, "queue": queue})

    return observe


def _counter(listener: AzQueueListener, event: str) -> Observe:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for query, figures in _newest(listener, running=False):
            if figures.counters:
                yield Observation(getattr(figures.counters, event), {"query": query})

    return observe


def _newest(listener: AzQueueListener, *, running: bool) -> Iterator[tuple[str, Figures]]:
    for query in listener.queries(active=running):
        figures = listener.latest(query)
        if figures:
            yield query, figures
