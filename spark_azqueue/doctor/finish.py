"""`python -m spark_azqueue finish <log>`: shows, or deletes, what a transaction log still hides.

    python -m spark_azqueue finish file:/data/answers --options-file sink.options
    python -m spark_azqueue finish blob:logs/answers --discard --options-file sink.options

Exit status: 0 if nothing is left to show, 1 if something is, 2 for a malformed command line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing

from spark_azqueue.errors import AzQueueError
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.blobs.store import require_package
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.transaction.finish import Newest, discard, finish, newest_records
from spark_azqueue.sink.transaction.log import TransactionLog

from .command_line import add_options
from .finding import advice_on, say


def main(arguments: Sequence[str], options_of: Callable[..., dict[str, str]]) -> int:
    """Run the command line behind the word `finish`; return the exit status.

    options_of: reads --option and --options-file. The log and its messages stay as they are if the
    options do not work.
    """
    parser = argparse.ArgumentParser(
        prog="python -m spark_azqueue finish",
        description="Show the messages that the newest records of a transaction log still hide."
        " A query that starts again does that by itself. End the query first.",
    )
    parser.add_argument("log", help="as in 'transactionLog': blob:<container>/<folder>, or file:/…")
    parser.add_argument(
        "--discard", action="store_true", help="delete these messages instead of showing them"
    )
    add_options(parser)
    given = parser.parse_args(arguments)
    options = options_of(parser, given)
    options = {name: value for name, value in options.items() if not name.lower().startswith("txn")}
    try:
        config = sink_config(options | {"transactionLog": given.log})
        if config.transaction and config.transaction.account:
            require_package("transactionLog=blob:…")
        return _run(config, is_discarded=given.discard)
    except AzQueueError as error:
        say(advice_on(error), is_error=True)
        return 1


def _run(config: SinkConfig, *, is_discarded: bool) -> int:
    assert config.transaction
    with (
        closing(TransactionLog.of(config.transaction, config.account)) as log,
        closing(QueueClient(config.account)) as client,
    ):
        if not log.identify():
            say(f"{log.where} is no transaction log yet: nothing was ever recorded there")
            return 1
        left = 0
        for each in newest_records(log):
            if each.is_finished:
                say(f"{each.about}: done, {each.record.head.rows:,} messages")
            elif is_discarded:
                found = discard(config, log, client, each)
                left += found.left
                say(
                    f"{each.about}: {found.deleted:,} messages deleted, {found.gone + each.done:,}"
                    f" were visible before or are gone, {found.left:,} left"
                )
            else:
                say(_shown(config, log, client, each))
        return 1 if left else 0


def _shown(config: SinkConfig, log: TransactionLog, client: QueueClient, each: Newest) -> str:
    found = finish(config, log, client, each)
    return (
        f"{each.about}: {found.shown:,} messages shown, {found.before + each.done:,} were visible"
        f" before or are gone"
    )
