"""`read_new_files`: reads files as they arrive. See docs/files.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from spark_azqueue.options.blobs import read_blob_account
from spark_azqueue.options.log import LogPlace
from spark_azqueue.options.parse import account_options, source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.account import Account

from .batches import Arrivals
from .checks import (
    check_aside,
    check_kinds,
    check_options,
    check_outside,
    check_pattern,
    check_reader_options,
)
from .hadoop import has_batches, place_of_log, qualified
from .listing import OF_BLOBS, check_sink
from .memory import Bounds
from .reading import Files
from .rules import Rules, roots_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = ["read_new_files"]


_FILES_OF_A_MESSAGE = 10
"""Maximum average number of files per message. Event Grid puts one event into each message."""


def read_new_files(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    trusted: str | Iterable[str],
    format: str,
    each: Callable[[DataFrame, int], object],
    checkpoint: str,
    schema: StructType | str | None = None,
    reader_options: Mapping[str, str] | None = None,
    log: str | None = None,
    paths: Mapping[str, str] | None = None,
    include_existing_files: bool = True,
    max_files_per_trigger: int = 1000,
    path_glob_filter: str | None = None,
    allow_overwrites: bool = False,
    backfill_interval: float | None = None,
    max_file_age: float | None = None,
    max_files_remembered: int = 1_000_000,
    set_aside_queue: str | None = None,
    available_now: bool = False,
    processing_time: str | None = None,
    query_name: str | None = None,
) -> StreamingQuery:
    """Start a query that reads each new file of a container once, as Event Grid announces it.

    options: options of the source: the account, its credential, and `queue`, the queue of the
        events. `messageEncoding` applies to messages that the query writes.
    trusted: the containers that events may be about, as for `blob_events`. Files elsewhere are not
        opened.
    format, schema, reader_options: as in `spark.read.format(…).schema(…).options(…)`, and tested at
        the start. Formats with only one schema, such as `text`, need no `schema`. The default of
        `mode` is FAILFAST, unless there is a column for corrupt records: a file with a line that
        does not fit the schema is quarantined whole.
    each: function that is called with the rows of a batch of files and the batch's number. There
        are no rows if all files are missing or broken. After a crash, the function may be called
        again with the same number and files. The new write must replace the earlier write, or be
        skipped.
    checkpoint: Spark's `checkpointLocation`. Checkpoint and log must be outside of the containers.
    log: the folder that records which files were read, as `blob:<container>/<folder>` or
        `file:/<folder>`. None: the folder `files` in the checkpoint, if the checkpoint is on a disk
        of the driver.
    paths: for texts of `trusted`, the path of the container's files in Spark, if it is not
        `abfss://…`, as in ``{"shopdata/landing": "/mnt/landing"}``.
    include_existing_files: True to also read files from before the first start. The first start
        decides.
    max_files_per_trigger: maximum number of messages in a batch. A batch has at most ten times as
        many files.
    path_glob_filter: a glob for the names (not paths) of wanted files.
    allow_overwrites: True to read a file again after it was replaced. False: a path is read once.
        The first start decides.
    backfill_interval: seconds after which a start or a batch lists the containers, to find files
        whose events were lost. None: never.
    max_file_age: seconds for which a file is remembered, at least 14 days. None: forever.
    max_files_remembered: number of remembered files, at most 10 million. Files of the last day and
        of the last 200 batches are also remembered. Files whose events are older than all
        remembered files are quarantined.
    set_aside_queue: another queue for unreadable files and events, with the reasons. Created if
        missing. None: only the log and warnings name them.
    available_now, processing_time, query_name: settings of the query.

    Returns the query, after the events of the first listing are in the queue. A restart with the
    same arguments continues, because `checkpoint` and `log` have the whole state. Before anything
    is sent, raises ValueError for invalid arguments (InvalidOption for `options`), and Spark's
    errors for a format, schema or option. The log may raise ServiceError, LogConflict or
    LogDamaged. The listing may raise Spark's errors and ValueError.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise ValueError(
            "read_new_files does not work on Spark Connect: its log and `each` belong to the"
            " driver's process"
        )
    reader_options = {} if reader_options is None else reader_options
    paths = {} if paths is None else paths
    check_kinds(locals())
    check_options(options)
    check_reader_options(reader_options)
    parsed, account = account_options(options)
    given = {**_of_the_source(options), "maxMessagesPerTrigger": str(max_files_per_trigger)}
    source = source_config(given)
    queue = _queue(source)
    check_sink(options, queue)
    set_aside_queue = check_aside(set_aside_queue, [queue])
    texts = [trusted] if isinstance(trusted, str) else list(trusted)
    wanted = check_pattern(path_glob_filter) if path_glob_filter is not None else None
    rules = Rules(roots_of(texts, paths), wanted, allow_overwrites)
    check_outside(rules, f"the checkpoint {checkpoint}", checkpoint)
    place = place_of_log(spark, log, checkpoint)
    blobs = None
    if place.container or allow_overwrites:
        blobs = read_blob_account(parsed, account)
        others = [name for name in rules.roots if name.split("/")[0] != blobs.name]
        if allow_overwrites and others:
            raise ValueError(
                f"allow_overwrites asks for the etag of each file with the credential for account"
                f" '{blobs.name}', and trusted names {others[0]}: set 'blobAccountUrl' or"
                " 'secret.blobConnectionString' in options to that account"
            )
    check_outside(rules, f"the log {place}", _path_of(place, blobs))
    if ahead := source.write_ahead_log:
        check_outside(rules, f"the log {ahead.place}", _path_of(ahead.place, ahead.account))
    arrivals = Arrivals(
        options=dict(options),
        queue=queue,
        trusted=texts,
        rules=rules,
        files=Files(rules.roots, format, schema, reader_options),
        each=each,
        place=place,
        account=account,
        blobs=blobs,
        bounds=Bounds(max_file_age, max_files_remembered),
        aside_queue=set_aside_queue,
        backfill_s=backfill_interval,
        most=_FILES_OF_A_MESSAGE * max_files_per_trigger,
    )
    check_outside(rules, f"the checkpoint {checkpoint}", qualified(spark, checkpoint))
    arrivals.files.check(spark)
    events = spark.readStream.format("azqueue").options(**given).load()
    writer = events.writeStream.foreachBatch(arrivals).option("checkpointLocation", checkpoint)
    if query_name is not None:
        if any(query.name == query_name for query in spark.streams.active):
            raise ValueError(f"query_name={query_name!r} is the name of a query that runs")
        writer = writer.queryName(query_name)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif processing_time is not None:
        writer = writer.trigger(processingTime=processing_time)
    resumed = has_batches(spark, checkpoint)
    arrivals.begin(spark, existing=include_existing_files, resumed=resumed)
    return writer.start()


def _of_the_source(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without `messageEncoding`. If the source uses no blobs, also without the
    options of a blob account.

    Without `messageEncoding`, the source reads bodies in either encoding. With a fixed encoding, a
    body in the other encoding would stop the query at every start.
    """
    uses_blobs = {"largebody", "writeaheadlog"} & {name.lower() for name in options}
    left_out = {"messageencoding"} if uses_blobs else {"messageencoding", *OF_BLOBS}
    return {name: value for name, value in options.items() if name.lower() not in left_out}


def _queue(source: SourceConfig) -> str:
    """Return the queue of the events. Raises ValueError unless there is exactly one."""
    selection = source.selection
    if selection.patterns or len(selection.named) != 1:
        raise ValueError(
            "the option 'queue' has to name one queue: listed files are announced in it"
        )
    return selection.named[0].name


def _path_of(place: LogPlace, account: Account | None) -> str:
    """Return the path of a log's folder in Spark's form."""
    if place.container and account:
        return f"abfss://{place.container}@{account.name}.dfs.core.windows.net/{place.folder}"
    return f"file:{place.folder}"
