"""Plans, commits and aborts transactions.

All steps are in one file, since the order of the steps matters.

See docs/decisions/0025.

`plan`, `commit` and `abort` run in separate processes on the driver, which share only pickled
values: Spark passes the plan to the tasks, and the tasks' prepared messages to commit or abort.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from spark_azqueue.errors import LogDamaged, ServiceError
from spark_azqueue.journal.refusals import vanished
from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.reach import check_reachable
from spark_azqueue.service.retry import CONTROL, REPLAY, RetryPolicy

from . import names
from .listing import Listing, PassedOver, Step
from .log import TransactionLog, TransactionRecord, about
from .names import Transaction
from .record import Prepared, RecordHead, nonce_of, placed
from .refusals import emptied, overtaken, record_gone
from .show import ServiceClock, Shown, clock_at, delete_hidden, show
from .task import (
    WritePlan,
    agreed,
    check_chunks,
    check_time,
    given_rows,
    is_known,
    is_same,
    leases_of,
    tell_of_other_rows,
    texts_of,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """Result of a commit.

    step: WRITE if the commit recorded the messages of this write. rows: number of messages in the
    record; if the transaction was skipped, number of rows of this write. abandoned: number of
    messages that may stay invisible until they expire. given: number of rows of this write.
    passed_over: why the transaction was skipped, if it was. is_same: the record has the same texts
    as this write; None if unknown. discarded: number of the record's messages that a user deleted
    (`finish --discard`).
    """

    step: Step
    rows: int
    abandoned: int
    shown: Shown
    given: int
    passed_over: PassedOver
    is_same: bool | None = None
    discarded: int = 0

    @property
    def is_skipped(self) -> bool:
        """True if the rows of this write were not sent, and the user should be informed.

        False if a stream's newest batch was repeated, because this is normal after a start.
        """
        is_stream = self.passed_over is PassedOver.STREAM
        return self.step is Step.OVER or (self.step is Step.SHOW and not is_stream)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for the context of the log line."""
        whole = {"transaction": self.step.name.lower(), "abandoned": self.abandoned}
        return whole | asdict(self.shown)

    def in_words(self) -> str:
        """Return the result as a sentence."""
        if self.step is Step.OVER:
            return (
                f"A higher number is recorded in the transaction log, so these {self.rows:,} rows"
                f" were not sent: {self.passed_over.value}"
            )
        whose = "Recorded" if self.step is Step.WRITE else "It was recorded before"
        before = f", {self.shown.before:,} were shown before" if self.shown.before else ""
        hidden = f"; up to {self.abandoned:,} abandoned" if self.abandoned else ""
        skipped = (
            f". The {self.given:,} rows of this write were not sent; to send other rows, use a"
            " higher txnVersion"
            if self.is_skipped
            else ""
        )
        return (
            f"{whose}: {self.rows:,} messages, {self.shown.shown:,} shown in"
            f" {self.shown.seconds:.1f} s{before}{hidden}{skipped}"
        )


class Transactions:
    """Handles the transactions of one sink, in one process. Used by one thread.

    All methods also raise ServiceError, LogDamaged, LogConflict. If a commit fails, the next start
    of the query, or the same write with the same number, repeats the commit.
    """

    def __init__(
        self,
        config: SinkConfig,
        store: LogStore | None = None,
        client: QueueClient | None = None,
    ) -> None:
        """Keep the parameters; send nothing.

        store, client: replace the store and the client of the account that the options name.
        """
        assert config.transaction, "there are no transactions without transactionLog"
        self._config = config
        self._settings: TransactionConfig = config.transaction
        queues = config.transaction_queues
        self._log = TransactionLog.of(self._settings, config.account, store, queues=queues)
        self._client = client or QueueClient(config.account)
        self._clock: ServiceClock | None = None
        self.may_be_recorded = False
        """After a failed commit: True if a record may contain the messages that the tasks
        prepared."""
        self.shown = Shown()
        """Counts of the messages that were published; also valid after a failed commit."""
        self.left = 0
        """After a failed commit: number of messages that may stay invisible until they expire."""

    # ── before the tasks ──────────────────────────────────────────────────────────────────────────

    def plan(self, reach: Callable[[Account], None] = check_reachable) -> WritePlan:
        """Check the log and the credential's rights before any message is put, and list the newest
        records.

        A batch write also publishes the newest record with a lower number. reach: function that
        raises ServiceError if the account of a new log cannot be reached. Raises TransactionUnknown
        if the number is lower than the newest number and it is unknown whether the number was
        written. Also raises the errors of `commit`.
        """
        self._log.open()
        settings = self._settings
        key, number = "", 0
        if settings.app_id is not None and settings.version is not None:
            key = names.batch_key(self._config.account.name, self._config.queue, settings.app_id)
            number = settings.version
        listing = self._log.listing(key or names.STREAMS)
        # for later writes, an account that cannot be reached counts as an outage
        if not listing.newest:
            reach(self._config.account)
        if self._config.queue is not None:
            self._check_rights(self._config.queue)
        is_written = False
        if key and listing.has_higher(Transaction(key, number)):
            newest = self._newest(listing, key)
            ranges = newest.head.written if newest else ()
            is_written = is_known(ranges, number, listing.newest_of(key), settings, self._log.where)
        elif key:
            self.finish_below(Transaction(key, number))
        is_strict = settings.fail_on_data_loss
        for_all = listing.for_tasks(), key, number, is_strict, self._log.uuid
        return WritePlan(*for_all, is_written=is_written)

    def _newest(self, listing: Listing, key: str) -> TransactionRecord | None:
        return self._log.record(Transaction(key, listing.newest_of(key)))

    def _check_rights(self, queue: str) -> None:
        """Raise AccessDenied if the credential may not update messages.

        The role of a sender can put messages, but not publish them.

        A missing queue is not an error here, because the first put creates the queue, or fails with
        a better error.
        """
        self._time_at(QueueRef(self._config.account.name, queue), CONTROL)

    # ── after the tasks ───────────────────────────────────────────────────────────────────────────

    def commit(self, plan: WritePlan, prepared: Sequence[Prepared]) -> Committed:
        """Record and publish the tasks' messages.

        If the transaction is already recorded, publish the recorded messages.

        If the commit fails, and it is certain that no record will contain the tasks' messages,
        these messages are deleted. Raises TransactionConflict, TransactionUnknown,
        TransactionExpired.
        """
        try:
            return self._commit(plan, prepared)
        except Exception:
            if not self.may_be_recorded and any(each.chunks for each in prepared):
                self.left = self._leave(prepared)
                log.warning(
                    "the transaction was not recorded, and its messages are deleted. Up to %d"
                    " messages stay hidden until they expire",
                    self.left,
                )
            raise

    def _commit(self, plan: WritePlan, prepared: Sequence[Prepared]) -> Committed:
        transaction, run = agreed(plan, prepared)
        self._check_same_log(prepared)
        step = plan.listing.step(transaction, is_strict=plan.is_strict)
        if step is Step.WRITE and (gap := plan.listing.gap(transaction)):
            log.warning("%s It continues, since failOnDataLoss=false", gap)
        if plan.listing.needs_start(transaction, run):
            start = max(plan.listing.newest_of(transaction.key), transaction.number)
            self._log.begin(transaction.key, start, run)
        given = given_rows(prepared)
        if step is Step.OVER:
            newest = self._newest(plan.listing, transaction.key)
            plan.listing.check_stranger(transaction, run, newest.head.run if newest else "")
            if newest and plan.is_strict:
                plan.listing.check_written(transaction, newest.head)
            left = self._leave(prepared)
            return Committed(step, given, left, Shown(), given, plan.passed_over)
        below = self.finish_below(transaction) if step is Step.WRITE else None
        record = self._record(transaction, run, prepared, step, below)
        self.may_be_recorded = True
        is_ours = record.head.nonce == nonce_of(prepared)
        if not is_ours:
            plan.listing.check_stranger(transaction, run, record.head.run)
        listing = self._look_again(record.head, run)
        shown = self._show(record, listing, is_ours=is_ours, found=self.shown)
        head, discarded = record.head, 0
        abandoned = head.abandoned
        if not is_ours:
            step = Step.SHOW
            tell_of_other_rows(head, prepared)
            abandoned = self._leave(prepared)
            discarded = int(self._log.last_show(head).get("discarded", 0))
        self._log.clean(head, listing)
        counts = Committed(step, head.rows, abandoned, shown, given, plan.passed_over)
        return replace(counts, is_same=is_same(head, prepared), discarded=discarded)

    def finish_below(self, transaction: Transaction) -> RecordHead | None:
        """Publish the newest record with a lower number, because no later start would publish it.

        Returns the head of the record; None if there is no such record, or if this number is
        already recorded. Raises TransactionConflict if a higher number is recorded, and the errors
        of `show`.
        """
        listing = self._not_overtaken(transaction)
        below = listing.below(transaction)
        if not below or listing.newest_of(transaction.key) == transaction.number:
            return None
        record = self._log.record(below[0])
        if record and listing.is_finished(record.head):
            return record.head
        # List again after the record was read, because only the newest record may be published.
        again = self._not_overtaken(transaction)
        newest = again.newest_of(transaction.key)
        if newest == transaction.number:
            return None
        if newest > below[0].number:
            return self.finish_below(transaction)
        if record is None:
            raise vanished(self._log.store, names.record(below[0]))
        log.warning(
            "%s may not be completely visible: its messages are shown before %d is recorded",
            *(about(record.head), transaction.number),
        )
        self._show(record, again, is_ours=False)
        return record.head

    def _not_overtaken(self, transaction: Transaction) -> Listing:
        """List the key's objects. Raises TransactionConflict if a higher number is recorded."""
        listing = self._log.listing(transaction.key)
        if listing.has_higher(transaction):
            raise overtaken(self._log.where, transaction.number)
        return listing

    def _record(
        self,
        transaction: Transaction,
        run: str,
        prepared: Sequence[Prepared],
        step: Step,
        below: RecordHead | None,
    ) -> TransactionRecord:
        """Return the record of this transaction. If there is none, record the tasks' messages.

        below: head of the newest record with a lower number, which is finished.
        """
        if step is Step.SHOW:
            found = self._log.record(transaction)
            if found is not None:
                return found
        if any(each.skipped for each in prepared):
            raise record_gone(self._log.where, transaction)
        chunks, parts, inline = placed([chunk for each in prepared for chunk in each.chunks])
        check_chunks(len(chunks))
        head = RecordHead(
            transaction,
            nonce=nonce_of(prepared),
            run=run,
            account=self._config.account.name,
            about=self._settings.app_id or prepared[0].query,
            given=given_rows(prepared),
            expires=min((each.expires for each in prepared if each.expires), default=0),
            recorded=0,
            abandoned=sum(each.abandoned for each in prepared),
            chunks=chunks,
            written=below.written_then if below else (),
            texts=texts_of(prepared),
        )
        if head.rows:
            first = next(leases_of(prepared, head.account))
            head = replace(head, recorded=self._time_at(first.queue).now())
            check_time(head)
        own = TransactionRecord(head, inline)
        self._log.put_parts(head, parts)
        self.may_be_recorded = True
        try:
            is_first = self._log.put_head(own)
        except ServiceError as error:
            self.may_be_recorded = error.may_have_taken_effect
            raise
        return own if is_first else self._log.need_record(transaction)

    def _check_same_log(self, prepared: Sequence[Prepared]) -> None:
        """Raise TransactionUnknown if the log has been replaced since the plan was made."""
        if not self._log.uuid:
            self._log.identify()
        if {each.log for each in prepared} != {self._log.uuid}:
            raise emptied(self._log.where)

    def _look_again(self, head: RecordHead, run: str) -> Listing:
        """List the log again after the record was read.

        Only the newest record may be published.

        Raises TransactionConflict if a higher number is recorded and the record is not finished.
        Raises TransactionUnknown if the start mark of this run is missing.
        """
        listing = self._log.listing(head.transaction.key)
        if run and listing.start(head.transaction, run) is None:
            raise emptied(self._log.where)
        return listing if listing.is_finished(head) else self._not_overtaken(head.transaction)

    def _show(
        self,
        record: TransactionRecord,
        listing: Listing,
        *,
        is_ours: bool,
        found: Shown | None = None,
    ) -> Shown:
        head = record.head
        if listing.is_finished(head):
            return Shown()
        done = listing.marked(head)
        try:
            clock = self._clock or self._time_at(self._first_queue(record, done))
            return show(
                self._client,
                self._log,
                record,
                clock,
                done=done,
                is_ours=is_ours,
                is_strict=self._settings.fail_on_data_loss,
                most=self._config.parallelism,
                found=found,
            )
        except LogDamaged:
            # Raises an error if another process has recorded a higher number and removed the parts.
            if not self._look_again(head, "").is_finished(head):
                raise
            return Shown()  # another process has published the record and removed its parts

    def _first_queue(self, record: TransactionRecord, done: int) -> QueueRef:
        return next(self._log.hidden(record, done))[0].lease.queue

    def _time_at(self, queue: QueueRef, retry: RetryPolicy = REPLAY) -> ServiceClock:
        """Return the clock of the queue service. Sends one request, because every answer contains
        the time."""
        if self._clock is None:
            self._clock = clock_at(self._client, queue, retry)
        return self._clock

    # ── without a record ──────────────────────────────────────────────────────────────────────────

    def abort(
        self, plan: WritePlan, prepared: Sequence[Prepared], *, is_missing: bool
    ) -> int | None:
        """Delete the tasks' messages, if it is certain that no record will contain them.

        is_missing: a task failed, so `commit` was not called. If no task failed, `commit` may have
        put the record, or the put may still take effect. In this case the messages are kept, unless
        another attempt has put the record. Returns the number of messages that may stay invisible
        until they expire; None if unknown.
        """
        if not prepared:
            return 0
        if not is_missing:
            transaction, _ = agreed(plan, prepared)
            record = self._log.record(transaction)
            if record is None or record.head.nonce == nonce_of(prepared):
                return None
        return self._leave(prepared)

    def _leave(self, prepared: Sequence[Prepared]) -> int:
        """Delete the messages of these tasks. Returns how many messages may stay invisible."""
        leases = leases_of(prepared, self._config.account.name)
        deleted = delete_hidden(self._client, leases, self._config.parallelism)
        return deleted.left + sum(each.abandoned for each in prepared)

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._client.close()
