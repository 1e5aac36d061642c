"""Exports a listener's metrics to OpenTelemetry. Needs `pip install opentelemetry-api`.

    export_to_opentelemetry(AzQueueListener.attach(spark))

If OpenTelemetry's conventions for messaging have a name for a metric, this name is used
(`messaging.…`). All other metrics have the same names, labels and meanings as in Prometheus
(docs/metrics.md). Gauges and counters are read from the listener at each collection. Histograms are
recorded when a query reports. The reader and exporter of your MeterProvider decide where the
metrics are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
from opentelemetry.metrics import Histogram as Instrument

from spark_azqueue.version import __version__

from .exported import METRICS, Metric, Snapshot
from .latency import AGES, BATCH, BATCHES, COMMIT, DELIVERY, REQUESTS, Latencies
from .listener import QUERIES_AT_MOST, AzQueueListener
from .query_metrics import QueryMetrics
from .report import OTHERS

SYSTEM = "azure_storage_queue"
"""Value of `messaging.system`. The conventions have no value for Azure Storage Queues."""

_OPERATION_TYPES = {"dequeue": "receive", "delete": "settle", "put": "send"}

Attributes = dict[str, str]


def export_to_opentelemetry(listener: AzQueueListener, meter: Meter | None = None) -> None:
    """Observe the listener's metrics with a meter (default: the global MeterProvider's).

    Call this function once per meter, because OpenTelemetry cannot undo the call.
    """
    meter = meter or get_meter("spark_azqueue", __version__)
    for metric in METRICS:
        make = (
            meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
        )
        observe = partial(_observed, listener, metric)
        make(metric.name, [observe], unit=metric.unit, description=metric.meaning)
    meter.create_observable_counter(
        "messaging.client.consumed.messages",
        [partial(_consumed, listener)],
        unit="{message}",
        description="Number of messages that were delivered to the application.",
    )
    listener.follow(_Recording(meter, listener.sends).record)


def _observed(
    listener: AzQueueListener, metric: Metric, _: CallbackOptions
) -> Iterator[Observation]:
    for labels, value in metric.samples(Snapshot.of(listener)):
        yield Observation(value, dict(zip(metric.labels, labels, strict=True)))


def _consumed(listener: AzQueueListener, _: CallbackOptions) -> Iterator[Observation]:
    for query in listener.queries():
        total = listener.totals(query)
        if total is None or total.counters is None:
            continue
        counts = total.delivered_by_queue or {}
        if total.template or not counts:
            counts = {OTHERS: total.counters.delivered}
        for queue, count in counts.items():
            found = _attributes(query, "deliver", destination=queue, template=total.template)
            yield Observation(count, found)


def _attributes(
    query: str, operation: str, error: str = "", destination: str = OTHERS, template: str = ""
) -> Attributes:
    """Return the attributes of an observation. template: patterns of queues; used in place of the
    names of queues, which may be many.
    """
    found = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": _OPERATION_TYPES.get(operation, ""),
        "messaging.destination.name": "" if destination == OTHERS or template else destination,
        "messaging.destination.template": template,
        "error.type": error,
        "query": query,
    }
    return {name: value for name, value in found.items() if value}


class _Recording:
    """Records the new values of each query's histograms, and the number of rows that sinks
    wrote."""

    def __init__(self, meter: Meter, sends: Callable[[str], bool]) -> None:
        """sends: returns True for a query whose sink is a queue."""
        self._sends = sends
        self._known: dict[str, Latencies] = {}
        self._sent_at: dict[str, str] = {}
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer.",
            explicit_bucket_boundaries_advisory=REQUESTS,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BATCHES,
        )
        self._ages = {
            name: meter.create_histogram(
                f"azqueue_{name}_age_seconds",
                unit="s",
                description=meaning,
                explicit_bucket_boundaries_advisory=AGES,
            )
            for name, meaning in (
                (DELIVERY, "Age of messages when they are put into a batch."),
                (COMMIT, "Age of messages when their batch is known as committed."),
            )
        }

    def record(self, total: QueryMetrics) -> None:
        """Record the new values in these metrics."""
        query, latencies = total.query, total.latencies or {}
        known = self._known.pop(query, {})
        self._known[query] = latencies
        while len(self._known) > QUERIES_AT_MOST:
            self._known.pop(next(iter(self._known)))
        queues = list(total.delivered_by_queue or {})
        destination = queues[0] if len(queues) == 1 else OTHERS
        for name, found in latencies.items():
            new = found.since(known.get(name))
            if new.count:
                instrument, attributes = self._of(query, name, destination, total.template)
                for value, times in new.values():
                    _record(instrument, value, times, attributes)
        if total.sink_rows and self._sent_at.get(query) != total.timestamp and self._sends(query):
            self._sent_at[query] = total.timestamp
            self._sent.add(total.sink_rows, _attributes(query, "put"))

    def _of(
        self, query: str, name: str, destination: str, template: str
    ) -> tuple[Instrument, Attributes]:
        if name in self._ages:
            return self._ages[name], {"query": query}
        if name == BATCH:
            attributes = _attributes(query, "process", "", destination, template)
            return self._process, attributes | {"messaging.operation.type": "process"}
        operation, _, error = name.partition(" ")
        return self._operation, _attributes(query, operation, error, destination, template)


def _record(instrument: Instrument, value: float, times: int, attributes: Attributes) -> None:
    """Record a value several times, because OpenTelemetry accepts only single values."""
    for _ in range(times):
        instrument.record(value, attributes)
