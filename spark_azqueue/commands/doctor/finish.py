"""`python -m spark_azqueue finish <log>`: shows, publishes or deletes the prepared messages of a
transaction log.

    python -m spark_azqueue finish file:/data/answers --options-file sink.options
    python -m spark_azqueue finish file:/data/answers --options-file sink.options --execute
    python -m spark_azqueue finish blob:logs/answers --queue a,b --discard --execute

Exit status: 0 after a dry run or if no messages are left, 1 if messages are left, 2 for a malformed
command line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass

from spark_azqueue.errors import AzQueueError
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.messages import queue_name
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.transaction.inspect import (
    FoundTransaction,
    TransactionLog,
    discard,
    finish,
    records,
)

from .command_line import Parser, add_options, taken_options
from .finding import advice_on, say


def main(arguments: Sequence[str]) -> int:
    """Run the command line after the word `finish`; return the exit status.

    Raises AzQueueError. If the options are wrong, nothing is changed.
    """
    parser = Parser(
        "finish",
        description="Show the messages that the records of a transaction log still hide, or"
        " delete them. A dry run without --execute. A restarted query shows its own"
        " messages itself. Stop the query first.",
    )
    parser.add_argument("log", help="as in 'transactionLog': blob:<container>/<folder>, or file:/…")
    parser.add_argument(
        "--discard", action="store_true", help="delete these messages instead of showing them"
    )
    parser.add_argument(
        "--queue",
        metavar="QUEUES",
        help="the queues of these messages: a,b (default: 'queue' and 'rowErrorQueue' of the"
        " options)",
    )
    parser.add_argument("--execute", action="store_true", help="do it")
    add_options(parser)
    given = parser.given(arguments)
    queues: Collection[str] = ()
    if given.queue is not None:
        try:
            queues = {queue_name(name.strip()) for name in given.queue.split(",")}
        except ValueError as error:
            parser.error(f"argument --queue: expected {error}")
    try:
        options = taken_options(parser, given).written
        config = sink_config(options | {"transactionLog": given.log})
        queues = queues or config.transaction_queues or ()
        if given.execute and not queues:
            parser.error(
                "name the queues whose messages are meant, with --queue; without --execute it says"
                " which there are"
            )
        return _run(config, queues, given.discard, given.execute)
    except AzQueueError as error:
        say(advice_on(error), is_error=True)
        return 1


def _run(config: SinkConfig, queues: Collection[str], discards: bool, executes: bool) -> int:
    assert config.transaction
    # The log may name any queue. So its queues are compared with the queues in the options before a
    # request is sent.
    with (
        closing(TransactionLog.of(config.transaction, config.account)) as log,
        closing(QueueClient(config.account)) as client,
    ):
        if not log.identify():
            say(f"{log.where} is no transaction log yet: nothing was ever recorded there")
            return 1
        return _Run(config, log, client, queues, discards, executes).all()


@dataclass(frozen=True)
class _Run:
    """One run of the command over the records of a log."""

    config: SinkConfig
    log: TransactionLog
    client: QueueClient
    queues: Collection[str]
    discards: bool
    executes: bool

    def all(self) -> int:
        """Print a line for each record, and return the exit status."""
        hidden = left = 0
        for each in records(self.log):
            if each.is_finished:
                say(f"{each.about}: done, {each.record.head.rows:,} messages")
                continue
            hidden += 1
            try:
                is_left, text = self._one(each)
            except AzQueueError as error:
                is_left, text = True, advice_on(error)
            left += is_left
            say(f"{each.about}: {text}", is_error=is_left)
        if hidden and not self.executes:
            say("Nothing was changed. To do it, add --execute.")
            return 0
        return 1 if left else 0

    def _one(self, each: FoundTransaction) -> tuple[bool, str]:
        """Show, publish or delete the messages of a record. Return True if messages are left, and a
        text about what was done. Raises AzQueueError.
        """
        head = each.record.head
        names = self.log.queues(each.record, each.done)
        where = ", ".join(f"'{name}'" for name in sorted(names))
        hidden = f"{head.rows - each.done:,} of {head.rows:,} messages in {where}"
        if self.executes and (foreign := sorted(names - set(self.queues))):
            return True, (
                f"left alone: {hidden}, and neither --queue nor the options name {foreign}. Is it"
                " yours? Whoever may write to the log's folder can name any queue"
            )
        if not each.is_newest and not self.discards:
            return self.executes, (
                f"a higher number is recorded, and of this one may be hidden {hidden}. They are not"
                " shown any more; --discard deletes what is hidden"
            )
        if not self.executes:
            return False, f"to be {'deleted' if self.discards else 'shown'}: {hidden}"
        if self.discards:
            found = discard(self.config, self.log, self.client, each)
            return found.left > 0, (
                f"{found.deleted:,} messages deleted, {found.gone + each.done:,} were visible"
                f" before or are gone, {found.left:,} left"
            )
        shown = finish(self.config, self.log, self.client, each)
        return False, (
            f"{shown.shown:,} messages shown, {shown.before + each.done:,} were visible before or"
            " are gone"
        )
