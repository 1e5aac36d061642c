"""`azqueue ingest`: runs an IngestJob from the command line. The container in deploy/ runs this
command."""

from __future__ import annotations

import os
import sys

from spark_azqueue.commands.doctor.command_line import Parser, add_options, options_of
from spark_azqueue.commands.doctor.finding import advice_on, say
from spark_azqueue.commands.shared import as_json, ends_on_signals, of_type
from spark_azqueue.errors import InvalidOption, InvalidSchema
from spark_azqueue.options import parsers
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE

_STOPPING = "ending after the running batch, within 20 s; a second signal ends it immediately"


def ingest(arguments: list[str]) -> int:
    """Run the command `ingest`. arguments: the words after `ingest`. Returns the exit status."""
    parser = _parser()
    found = parser.given(arguments)
    options = options_of(parser, found)
    # Spark's Python workers on this machine must use this Python, because they need its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with ends_on_signals(_STOPPING) as stop:
            from pyspark.sql import SparkSession

            from .ingest import IngestJob

            job = IngestJob(
                options,
                found.schema,
                folder=found.folder,
                into=found.into,
                format=found.format,
                every=found.every,
                limit=found.limit,
            )
            builder = SparkSession.builder.appName("azqueue ingest")
            spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
            try:
                result = (job.drain if found.drain else job.run)(spark, stop=stop)
            finally:
                spark.stop()
    except (InvalidOption, InvalidSchema) as error:
        say(advice_on(error), is_error=True)
        return 2
    stopped = stop.is_set()
    explained = result.explanation if not result.finished and not stopped else None
    reason = result.reason or (f"{explained.error}: {explained.sentence}" if explained else "")
    told = {
        **{name: getattr(result, name) for name in ("rows", "bad_rows", "batches", "restarts")},
        "left": result.left,
        "finished": result.finished,
        "stopped": stopped,
        "reason": reason,
    }
    if found.json:
        print(as_json(told))
    else:
        left = "" if result.left is None else f", {result.left:,} left in the queue"
        say(
            f"{result.rows:,} rows and {result.bad_rows:,} bad messages in {result.batches:,}"
            f" batches, {result.restarts:,} restarts{left}"
        )
    if result.finished or stopped:
        return 0
    say(f"gave up: {reason}", is_error=True)
    return 1


def _parser() -> Parser:
    parser = Parser(
        "ingest",
        description="Append the messages of a queue to a table, each row once, until a signal"
        " stops it. The options are the source's, with the queue.",
        epilog=f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the"
        " environment. Spark's settings come from SPARK_CONF_DIR. Exit status: 0 if it has ended or"
        " was stopped, 1 if it gave up, 2 for wrong arguments.",
    )
    add_options(parser)
    parser.add_argument(
        "--schema",
        metavar="DDL",
        help="columns of the bodies: 'order_id BIGINT, quantity INT' (default: the bodies as they"
        " are)",
    )
    parser.add_argument(
        "--folder",
        required=True,
        metavar="FOLDER",
        help="folder of checkpoint and log, for this job only",
    )
    parser.add_argument("--into", required=True, metavar="TABLE", help="a path, or a table's name")
    parser.add_argument("--format", choices=["parquet", "delta"], default="parquet")
    parser.add_argument(
        "--every",
        default="1 minute",
        metavar="DURATION",
        help="how long messages wait for a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=of_type(_limit),
        default=32,
        metavar="N",
        help="stop after this many consecutive bad messages (default: %(default)s; none: any"
        " number)",
    )
    parser.add_argument(
        "--drain", action="store_true", help="stop when the current messages are in the table"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    return parser


def _limit(written: str) -> int | None:
    return None if written == "none" else parsers.whole_number(1, 10**9)(written)
