"""A listener's metrics for OpenTelemetry. Needs `pip install "spark-azqueue[opentelemetry]"`.

    export(AzQueueListener.attach(spark))

The names, labels and meanings are those of Prometheus (docs/metrics.md). Metrics are read from the
listener at each collection; nothing is kept here. Where they go is for the reader and exporter of
your MeterProvider to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from .metrics.exported import METRICS, Metric, Snapshot
from .metrics.listener import AzQueueListener
from .version import __version__


def export(listener: AzQueueListener, meter: Meter | None = None) -> None:
    """Observe the listener's metrics with a meter (default: one of the global MeterProvider).

    Call it once for a meter: OpenTelemetry has no way to undo it.
    """
    meter = meter or get_meter("spark_azqueue", __version__)
    for metric in METRICS:
        make = (
            meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
        )
        observe = partial(_observed, listener, metric)
        make(metric.name, [observe], unit=metric.unit, description=metric.meaning)


def _observed(
    listener: AzQueueListener, metric: Metric, _: CallbackOptions
) -> Iterator[Observation]:
    for labels, value in metric.samples(Snapshot.of(listener)):
        yield Observation(value, dict(zip(metric.labels, labels, strict=True)))
