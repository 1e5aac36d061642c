"""Rows from a segment: the same messages in the same partitions, whatever the options are today."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import UndecodableBody
from spark_azqueue.options.source_config import SourceConfig

from ..columns import Columns
from ..rows import Row, decoded, streams
from .segment import Segment

log = logging.getLogger(__name__)


def reading_options(config: SourceConfig) -> Mapping[str, str]:
    """The options that make rows of messages, as a segment's header keeps them."""
    return {
        "messageEncoding": config.encoding.value,
        "bodyType": config.body_type.value,
        "onUndecodable": config.on_undecodable.value,
    }


def partitions_of(segment: Segment, columns: Columns, config: SourceConfig) -> list[bytes]:
    """The segment's partitions. Decodes with today's options. Raises UndecodableBody."""
    logged, today = segment.header.reading, reading_options(config)
    changed = [name for name in today if logged.get(name) != today[name]]
    for name in changed:
        log.warning(
            "batch %d was logged with %s=%s, and is read with %s",
            segment.number,
            name,
            logged.get(name, "(unknown)"),
            today[name],
        )
    try:
        rows = [decoded(message, config, leased=False) for message in segment.messages]
    except UndecodableBody as error:
        was = ", ".join(f"{name}={logged.get(name, '(unknown)')}" for name in changed)
        hint = f". It was logged with {was}" if was else ""
        raise UndecodableBody(
            f"batch {segment.number} of the log: {error}{hint}",
            condition=Condition.UNDECODABLE_BODY_IN_LOG,
        ) from error
    return streams(_parts(rows, segment.header.cut), columns)


def _parts(rows: Sequence[Row], cut: Sequence[int]) -> Iterator[list[Row]]:
    rest = iter(rows)
    for size in cut:
        yield list(islice(rest, size))
