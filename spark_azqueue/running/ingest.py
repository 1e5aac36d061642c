"""IngestJob: writes messages of a queue to a table.

    job = IngestJob(options, "order_id BIGINT", folder="/data/job", into="/data/orders")
    job.run(spark)

A job combines other parts of this package: the source with a write-ahead log, `unpack` or
`try_apply`, `run_until_done` and `drain`. Spark's own sinks write the table. See
docs/production.md. `ingest_rules.py` has the checks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from spark_azqueue.commands.doctor.output_checks import Checkpoint
from spark_azqueue.errors import CheckpointMismatch, InvalidOption
from spark_azqueue.options.parse import account_options, as_texts, source_configs
from spark_azqueue.options.source_config import SourceConfig

from .draining import check_times, drained
from .ingest_places import Folders, Place, read_checkpoint
from .ingest_rows import TableRows, check_limit, columns_of, observed, parsed_schema
from .ingest_rules import (
    FILL,
    FORMATS,
    RECORD,
    RECORD_AT_MOST,
    Record,
    check_batches,
    check_catalog,
    check_columns,
    folder_of,
    is_path,
    log_options,
    refuse_new_folder,
)
from .supervisor import PERMANENT, RestartLimits, RunResult, parsed, supervised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

STOP_WITHIN_S = 20.0
"""Maximum seconds for which a running batch continues after `stop` is set."""

_OBSERVED = "azqueue_ingest"


@dataclass(frozen=True)
class IngestResult(RunResult):
    """Result of `run` or `drain`. The counts are minimum numbers.

    rows: rows without a reason in `error`. bad_rows: rows with a reason in `error`. batches:
    committed batches. left: number of messages that `drain` left in the queue, including delayed
    messages; None if unknown.
    """

    rows: int = 0
    bad_rows: int = 0
    batches: int = 0
    left: int | None = None


@dataclass(frozen=True)
class IngestJob:
    """Append the messages of a queue to a table, each row once. A bad message is a row with a
    reason.

        IngestJob(options, "order_id BIGINT", folder="/data/job", into="/data/orders").run(spark)

    source: options of the source. schema: columns of the bodies, as for `unpack`. apply, returns:
        in place of schema, a function and its schema as for `try_apply`. Otherwise, the table has
        the unchanged bodies.
    folder: folder for checkpoint and log: a path or abfss://…. into: a path if it has a slash, else
        the name of a table. format: `parquet` or `delta`.
    every: maximum time for which `run` waits for 4,096 messages before a batch. limit: the job
        stops after this many consecutive bad messages; None: no limit.

    The job may be killed and restarted at any point: docs/production.md. Raises InvalidOption for
    arguments and options that do not fit. A start checks the schema, the folder and the output.
    """

    source: Mapping[str, object]
    schema: StructType | str | None = None
    _: KW_ONLY
    folder: str
    into: str
    apply: Callable[[Any], Any] | None = None
    returns: StructType | str | None = None
    format: str = "parquet"
    every: str = "1 minute"
    limit: int | None = 32

    def __post_init__(self) -> None:
        """Check everything that can be checked without Spark."""
        if not isinstance(self.source, Mapping):
            raise InvalidOption(
                "IngestJob(source=…): expected the options of the source as a dict, not"
                f" {type(self.source).__name__}"
            )
        if self.format not in FORMATS:
            raise InvalidOption(
                f"IngestJob(format={self.format!r}): it is one of {', '.join(FORMATS)}"
            )
        if not isinstance(self.into, str) or not self.into.strip():
            raise InvalidOption(f"IngestJob(into={self.into!r}): name a path or a table, as a text")
        if (self.apply is None) != (self.returns is None) or (self.apply and self.schema):
            raise InvalidOption(
                "IngestJob: give schema, or apply together with returns, or none of the three"
            )
        check_limit(self.limit)
        _options_of(self, folder_of(self.folder), is_drain=False)

    def run(
        self, spark: SparkSession, *, stop: threading.Event | None = None, **how: Any
    ) -> IngestResult:
        """Run the job until it is stopped, and restart it after failures.

        stop: event that stops the job within 20 seconds. The next start repeats an unfinished
            batch.
        how: arguments of `run_until_done`.

        Returns a `RunResult` that also has rows, bad_rows (with `error`), batches, and left: the
        number of messages in the queue after `drain`. Raises InvalidOption, InvalidSchema or
        CheckpointMismatch before a message is leased.
        """
        return _Call(self, spark, stop, is_drain=False).run(how)

    def drain(
        self, spark: SparkSession, *, stop: threading.Event | None = None, **how: Any
    ) -> IngestResult:
        """Write all messages that are in the queue when this method is called, then return.

        stop: see `run`. how: arguments of `drain`. Raises the errors of `run` and `drain`.
        """
        return _Call(self, spark, stop, is_drain=True).drain(how)


class _Stopped(BaseException):
    """Raised if `stop` is set while no query is running."""


class _Call:
    """One call of `run` or `drain`. All state that is needed after the call is in the job's
    folder."""

    def __init__(
        self, job: IngestJob, spark: SparkSession, stop: threading.Event | None, *, is_drain: bool
    ) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise InvalidOption(
                "IngestJob looks at its folder through the driver, which a client of Spark Connect"
                " does not reach: run the program on the driver (spark-submit, a job's task), or"
                " write the stream, as docs/supervision.md shows"
            )
        self._job, self._spark, self._stop, self._is_drain = job, spark, stop, is_drain
        self._folder = folder_of(job.folder)
        self._options, self._config = _options_of(job, self._folder, is_drain=is_drain)
        schema = job.schema if job.apply is None else job.returns
        columns = None if schema is None else parsed_schema(schema)
        self._rows = TableRows(columns, job.apply, job.limit)
        self._query: Any = None
        self._newest = -1
        self._counts = [0, 0, 0]  # numbers of good rows, bad rows and batches
        self._stop_by: float | None = None
        self._stop_after = -1

    def run(self, how: dict[str, Any]) -> IngestResult:
        """Run until the job is stopped."""
        listener = how.pop("listener", None)
        limits = self._limits(how)
        try:
            result = supervised(self._start, listener, limits, self._look)
            if result.finished:  # on Spark 4.0 and 4.1, the reason is about availableNow
                result = replace(result, reason="stopped")
        except _Stopped:
            result = RunResult(True, 0, reason="stopped")
        return self._result(result)

    def drain(self, how: dict[str, Any]) -> IngestResult:
        """Drain the queue."""
        hidden, within = how.pop("hidden", None), how.pop("within", None)
        bar, listener = how.pop("bar", False), how.pop("listener", None)
        check_times(hidden, within)
        limits, left = self._limits(how), None
        try:
            done = drained(
                self._start, self._options, hidden, within, bar, listener, limits, self._look
            )
            if done.left_visible is not None and done.left_hidden is not None:
                left = done.left_visible + done.left_hidden + (done.others or 0)
            result: RunResult = done
        except _Stopped:
            result = RunResult(False, 0, reason="stopped: the next call resumes")
        return self._result(result, left)

    def _result(self, result: RunResult, left: int | None = None) -> IngestResult:
        own = {each.name: getattr(result, each.name) for each in fields(RunResult)}
        rows, bad, batches = self._counts
        return IngestResult(**own, rows=rows, bad_rows=bad, batches=batches, left=left)

    def _limits(self, how: dict[str, Any]) -> RestartLimits:
        """Return the limits on restarts. With them, the call also ends after too many bad messages,
        and when `stop` is set."""
        if stop := self._stop:

            def sleep(seconds: float) -> None:
                if stop.wait(seconds):
                    raise _Stopped

            how["sleep"] = sleep
        return RestartLimits(**how, permanent=PERMANENT | {"FunctionFailed"})

    # ── a start ──

    def _start(self) -> Any:
        """Check the folder and the output, then start the query. No message is leased before the
        query starts."""
        if self._stop and self._stop.is_set():
            raise _Stopped
        job = self._job
        reader = self._spark.readStream.format("azqueue").options(**self._options)
        table = self._rows.of(reader.load())
        self._check(table)
        self._stop_by = None
        writer = observed(table, _OBSERVED).writeStream.format(job.format).outputMode("append")
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoint")
        writer = writer.queryName(str(self._options["queue"]))
        if job.format == "delta":
            writer = writer.option("mergeSchema", "true")
        if self._is_drain:
            writer = writer.trigger(availableNow=True)
        start = writer.start if is_path(job.into) else writer.toTable
        self._query = start(job.into)
        return self._query

    def _check(self, table: DataFrame) -> None:
        """Raise an error if the folder or the output belongs to another job, or if both do not fit.
        Write the record of a new folder."""
        job, folders = self._job, Folders(self._spark)
        if not is_path(job.into):
            kind = self._spark.conf.get("spark.sql.catalogImplementation")
            check_catalog(job.into, str(kind), self._spark.catalog.currentCatalog())
        known = read_checkpoint(folders, f"{self._folder}/checkpoint")
        names = self._config.selection.parts
        into = folders.qualified(job.into) if is_path(job.into) else job.into
        if self._folder.startswith(f"{into}/"):
            raise InvalidOption(
                f"IngestJob: the folder {self._folder} is inside of the output {job.into}, where"
                " other programs remove files: name a folder beside it"
            )
        record = Record(self._config.account.name, names, into, job.format)
        is_new = self._is_new(folders, record, known)
        place = Place(self._spark, folders, job.into, job.format, self._folder)
        found = place.look(known.query)
        if found.newest is None:
            log.warning("the history of %s no longer shows the batches of this job", job.into)
        else:
            check_batches(job.into, self._folder, known, found.newest)
        check_columns(job.into, found.columns, columns_of(table))
        if is_new and found.remedy and known.planned < 0:
            refuse_new_folder(job.into, self._folder, found.remedy)
        if is_new:
            folders.write(f"{self._folder}/{RECORD}", record.to_bytes(), over=True)
        if not found.remedy:
            place.claim(table)

    def _is_new(self, folders: Folders, record: Record, known: Checkpoint) -> bool:
        """Return True if a record has to be written: the folder has none, or the job of its record
        never began a batch. Raises CheckpointMismatch if the folder belongs to another job."""
        path = f"{self._folder}/{RECORD}"
        data = folders.read(path, RECORD_AT_MOST)
        if data is None:
            return True
        try:
            Record.read(data, path).check(self._folder, record)
        except CheckpointMismatch:
            if known.planned < 0:
                return True
            raise
        return False

    # ── while it runs ──

    def _look(self, query: Any) -> None:
        """Count the written rows. Stop the query if `stop` is set. Called once a second."""
        try:
            events = [parsed(each) for each in query.recentProgress]
        except Exception:  # noqa: BLE001 (the session has ended: the run ends with this error)
            return
        for event in events:
            self._count(event)
        if self._stop is None or not self._stop.is_set():
            return
        if self._stop_by is None:
            self._stop_by, self._stop_after = time.monotonic() + STOP_WITHIN_S, self._newest
        status = query.status
        is_busy = status["isTriggerActive"] and status["isDataAvailable"]
        if self._newest > self._stop_after or not is_busy or time.monotonic() >= self._stop_by:
            query.stop()

    def _count(self, event: Mapping[str, Any]) -> None:
        seen = (event.get("observedMetrics") or {}).get(_OBSERVED)
        batch = int(event["batchId"])
        if not seen or batch <= self._newest or not event["numInputRows"]:
            return
        self._newest = batch
        for place, more in enumerate((seen["good"], seen["bad"], 1)):
            self._counts[place] += int(more)


def _options_of(
    job: IngestJob, folder: str, *, is_drain: bool
) -> tuple[dict[str, str], SourceConfig]:
    """Return the options of the source, including the log in the folder, and the parsed options."""
    texts = as_texts({str(name): value for name, value in job.source.items()})
    lower = {name.lower(): value for name, value in texts.items()}
    if "readlog" in lower:
        raise InvalidOption("IngestJob reads queues, and 'readLog' is for spark.read: remove it")
    values, account = account_options(texts)
    options: dict[str, str] = {"onUndecodable": "permissive"}
    if not is_drain or "maxtriggerdelay" in lower:
        options["minMessagesPerTrigger"] = str(min(FILL, values["maxMessagesPerTrigger"] or FILL))
        options["maxTriggerDelay"] = job.every
    options = {name: value for name, value in options.items() if name.lower() not in lower}
    options |= log_options(folder, account, lower) | texts
    (config,) = source_configs(options)
    return options, config
