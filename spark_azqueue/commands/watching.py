"""Reads the state of queries' queues, even while the queries fail, restart or are stopped.

listener = AzQueueListener.attach(spark, watch=queue_watch({"orders": options}))

`python -m spark_azqueue watch orders` does the same in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from spark_azqueue.errors import InvalidOption
from spark_azqueue.metrics.exported import Snapshot
from spark_azqueue.metrics.watched import Watched, WatchQueues
from spark_azqueue.options import parsers
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.parse import source_configs
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.source.watch import QueuesWatch

from .doctor.command_line import Parser, add_options, taken_options
from .doctor.finding import say
from .shared import access_of, ends_on_signals, of_type

PORT = 9464
"""Default port: the port of OpenTelemetry's exporter for Prometheus."""


def queue_watch(
    queries: Mapping[str, Mapping[str, object] | Sequence[Mapping[str, object]]],
) -> WatchQueues:
    """Return a function that reads the state of queries' queues, for `AzQueueListener.attach`.

    queries: by the name of each query, the options of its source, or a list of the options of its
    sources. The credential must be able to read (SAS `r`). The function reads in the background, at
    most every ten seconds, and leases nothing. Raises InvalidOption for bad options, and TypeError
    if no query is named.
    """
    if not isinstance(queries, Mapping) or not all(
        isinstance(options, Mapping | Sequence) and not isinstance(options, str | bytes)
        for options in queries.values()
    ):
        raise TypeError(
            "expected the options of each query's source by the name of the query:"
            " queue_watch({'orders': options})"
        )
    watches: dict[str, list[QueuesWatch]] = {}
    for query, options in queries.items():
        configs = source_configs(options)
        if len({each.selection.account for each in configs}) > 1:
            raise InvalidOption(
                f"the sources of query '{query}' read several accounts, and queues of one name"
                " would be added up: watch them under several names"
            )
        watches[query] = [QueuesWatch(each.account, each.selection) for each in configs]

    def look() -> Mapping[str, Watched]:
        newest = {query: [each.newest() for each in found] for query, found in watches.items()}
        return {
            query: Watched.of_all(known)
            for query, seen in newest.items()
            if len(known := [each for each in seen if each]) == len(seen)
        }

    return look


def watch(arguments: list[str]) -> int:
    """Run the command line after the word `watch`; return the exit status."""
    parser = Parser(
        "watch",
        description="Export backlog, age, expiry and poison messages of queues for Prometheus, also"
        " while no query runs. Changes nothing, leases nothing, and sends requests only when it is"
        " scraped. Takes the SAS letter 'r'; a pattern, the list of the account's queues. Ends"
        " with a signal, with status 0.",
        epilog=f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the"
        " environment.",
    )
    parser.add_argument(
        "queue", type=of_type(parsers.queue_names), help="the queue, or several: a,b; orders-*"
    )
    parser.add_argument(
        "--query",
        metavar="NAME",
        help="the name of the query, for the label of that name (default: QUEUE)",
    )
    parser.add_argument(
        "--port",
        type=of_type(parsers.whole_number(1, 65_535)),
        default=PORT,
        metavar="N",
        help="(default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where it listens (default: %(default)s; 0.0.0.0: every network, so that anyone who"
        " reaches the port reads names of queues)",
    )
    add_options(parser)
    found = parser.given(arguments)
    options = taken_options(parser, found)
    try:
        from spark_azqueue.metrics.prometheus import served
    except ImportError:
        say("watch needs one more package: pip install prometheus-client", is_error=True)
        return 1
    account = access_of(options).account
    selection = QueueSelection(account.name, found.queue, options["poisonQueue"])
    query = found.query or ",".join(found.queue)
    with closing(QueuesWatch(account, selection)) as queues, ends_on_signals("ending") as stop:
        queues.newest()  # so that a missing permission is reported at the start

        def now() -> Snapshot:
            seen = queues.newest()
            return Snapshot({}, {}, {query: seen} if seen else {})

        try:
            serving = served(now, found.address, found.port)
        except OSError as error:
            say(
                f"port {found.port} of {found.address} cannot be used: {error.strerror or error}."
                " Choose another with --port or --address",
                is_error=True,
            )
            return 1
        with serving:
            say(f"metrics of '{query}': http://{found.address}:{found.port}/metrics")
            stop.wait()
    return 0
