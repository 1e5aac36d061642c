"""The data source: its name, its schema, its readers and writers.

Options are checked here, before any request, because Spark reports an error of this module
directly.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_azqueue.errors import AzQueueError, InvalidOption, short_tracebacks
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.choices import OnUndecodable, Side
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.options.parse import parse, replay_config, sink_config, source_config
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.options.transaction import check_batch, check_stream
from spark_azqueue.sink.columns import SinkColumns, check_supplied
from spark_azqueue.sink.writers import STREAM_WRITER, AzQueueStreamWriter, AzQueueWriter, plan_of
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.readers import AzQueueReader, AzQueueStreamReader, RefusedStreamReader
from spark_azqueue.source.replay.follower import check_stream as check_log_stream
from spark_azqueue.source.replay.objects import OWN_COLUMNS
from spark_azqueue.source.replay.readers import LogReader, LogStreamReader

C = TypeVar("C", SourceConfig, SinkConfig, ReplayConfig)


class AzQueueDataSource(DataSource):
    """Azure Storage Queues as a stream source, a stream and batch sink, and a batch read (peek).

    With `readLog`, also the write-ahead log of a stream as a table and as a stream. If the package
    is installed, Spark finds this class as `format("azqueue")`. Otherwise, call
    `spark.dataSource.register`. Options: see docs/options.md. Raises InvalidOption for unknown
    names and bad values.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "azqueue"

    @short_tracebacks
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # It is not known yet whether this is a source or a sink. Spark pickles the parsed options
        # for the processes that plan, read and write.
        self._parsed = parse(options, Side.BOTH)
        self._load = uuid.uuid4().hex

    @short_tracebacks
    def schema(self) -> str:
        """Return the source's columns as DDL. Raises InvalidOption."""
        columns = _available(self._replay() or self._source())
        return ", ".join(f"`{name}` {kind}" for name, kind in columns)

    @short_tracebacks
    def reader(self, schema: StructType) -> AzQueueReader | LogReader:
        """Return the reader of `spark.read`: a peek, or a read of a log. Raises InvalidOption."""
        if replay := self._replay():
            return LogReader(replay, _columns(schema), _available(replay))
        config = self._source()
        return AzQueueReader(config, _columns(schema), _available(config))

    def streamReader(
        self, schema: StructType
    ) -> AzQueueStreamReader | LogStreamReader | RefusedStreamReader:
        """Return the reader of `spark.readStream`. Never raises: the reader raises the errors
        later."""
        try:
            if replay := self._replay():
                check_log_stream(replay)
                return LogStreamReader(replay, _columns(schema), _available(replay))
            config = self._source()
        except AzQueueError as error:
            return RefusedStreamReader(error.with_traceback(None))
        return AzQueueStreamReader(config, _columns(schema), _available(config), self._load)

    @short_tracebacks
    def writer(self, schema: StructType, overwrite: bool) -> AzQueueWriter:
        """Return the writer of `df.write`. Raises InvalidOption, InvalidSchema."""
        if overwrite:
            raise InvalidOption(
                "a queue cannot be overwritten: write with mode('append'). To empty it first,"
                " run python -m spark_azqueue purge <queue> --execute"
            )
        config, columns = self._sink(schema)
        check_batch(config.transaction)
        return AzQueueWriter(config, columns, plan_of(config))

    @short_tracebacks
    def streamWriter(self, schema: StructType, overwrite: bool) -> AzQueueStreamWriter:
        """Return the writer of `df.writeStream`. Raises InvalidOption, InvalidSchema."""
        if overwrite:
            raise InvalidOption(
                "output mode 'complete' would send the whole result with every batch; use"
                " outputMode('append')"
            )
        config, columns = self._sink(schema)
        check_stream(config.transaction)
        return STREAM_WRITER(config, columns, plan_of(config))

    def _source(self) -> SourceConfig:
        return self._checked(source_config)

    def _replay(self) -> ReplayConfig | None:
        """Return the config of a read of a log, or None for other reads."""
        if "readLog" not in self._parsed.written:
            return None
        return self._checked(replay_config)

    def _checked(self, make: Callable[[ParsedOptions], C]) -> C:
        """Return the config that `make` builds from the options."""
        try:
            config = make(self._parsed)
        except InvalidOption as error:
            if self._parsed.written or error.condition is Condition.NOT_ALLOWED:
                raise
            raise InvalidOption(
                f"{error}. No option came with this read or write. Is it of a table? Spark does not"
                " hand the OPTIONS of a table to a source in Python: name them in each statement,"
                " behind the table, as in: t WITH (queue 'orders', …). Or use a temporary view"
            ) from None
        return config

    def _sink(self, schema: StructType) -> tuple[SinkConfig, SinkColumns]:
        config = self._checked(sink_config)
        columns = check_supplied(
            _columns(schema),
            ignore_extra=config.ignore_extra_columns,
            queue=config.queue,
            default_queue=config.default_queue,
            operation=config.operation,
            message_format=config.message_format,
        )
        return config, columns


def _available(config: SourceConfig | ReplayConfig) -> Columns:
    permissive = config.on_undecodable is OnUndecodable.PERMISSIVE
    columns = source_columns(config.body_type, permissive=permissive)
    return columns + OWN_COLUMNS if isinstance(config, ReplayConfig) else columns


def _columns(schema: StructType) -> Columns:
    return tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
