"""Plans, commits and aborts transactions: all steps in one file, since their order matters.

See docs/decisions/0025.

Spark calls plan, commit and abort in processes of their own on the driver. Between them travels
only what is pickled: the plan to the tasks, and what the tasks prepared to commit or abort.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from spark_azqueue.errors import (
    AzQueueError,
    LogDamaged,
    TransactionConflict,
    TransactionExpired,
    TransactionUnknown,
)
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.options.transaction import TransactionConfig
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.reach import check_reachable
from spark_azqueue.service.retry import CONTROL, REPLAY, RetryPolicy
from spark_azqueue.store.store import LogStore

from . import names
from .chunks import unpack
from .committed import Committed
from .hidden import Prepared
from .listing import Listing, Step
from .log import Record, TransactionLog, about
from .names import Transaction
from .record import Head, nonce_of, placed
from .show import ServiceClock, Shown, clock_at, delete, show
from .task import WritePlan

log = logging.getLogger(__name__)

SHOW_RATE = 200
"""Messages a second that a show certainly reaches; for the time that it may need."""

_LEAST_LEFT_S = 60


class Transactions:
    """The transactions of one sink, in one process. Used by one thread.

    What its methods raise besides: ServiceError, LogDamaged, LogConflict. A commit that raised is
    repeated by the next start of the query, or by the same write with the same number.
    """

    def __init__(
        self,
        config: SinkConfig,
        store: LogStore | None = None,
        client: QueueClient | None = None,
    ) -> None:
        """store, client: if not those of the options. Nothing is sent yet."""
        assert config.transaction, "there are no transactions without transactionLog"
        self._config = config
        self._settings: TransactionConfig = config.transaction
        self._log = TransactionLog.of(self._settings, config.account, store)
        self._client = client or QueueClient(config.account)
        self._clock: ServiceClock | None = None

    # ── before the tasks ──────────────────────────────────────────────────────────────────────────

    def plan(self, reach: Callable[[Account], None] = check_reachable) -> WritePlan:
        """Check the log and the rights before anything is put, and list the newest records.

        reach: raises ServiceError if the account of a new log cannot be reached.
        """
        self._log.open()
        settings = self._settings
        key, number = "", 0
        if settings.app_id is not None and settings.version is not None:
            key = names.batch_key(self._config.account.name, self._config.queue, settings.app_id)
            number = settings.version
        listing = self._log.listing(key or names.STREAMS)
        if not listing.newest:  # later, an account that cannot be reached is an outage
            reach(self._config.account)
        if self._config.queue is not None:
            self._check_rights(self._config.queue)
        is_strict = settings.fail_on_data_loss
        return WritePlan(listing.for_tasks(), key, number, is_strict, self._log.uuid)

    def _check_rights(self, queue: str) -> None:
        """Raise AccessDenied if the credential may not update; a sender's may put and not show.

        A queue that does not exist is left to the first put, which creates it, or says more.
        """
        self._time_at(QueueRef(self._config.account.name, queue), CONTROL)

    # ── after the tasks ───────────────────────────────────────────────────────────────────────────

    def commit(self, plan: WritePlan, prepared: Sequence[Prepared]) -> Committed:
        """Record what the tasks put, and show it; or show what was recorded before.

        Raises TransactionConflict, TransactionUnknown, TransactionExpired.
        """
        transaction, run = _agreed(plan, prepared)
        self._check_same_log(prepared)
        step = plan.listing.step(transaction, run, is_strict=plan.is_strict)
        if step is Step.WRITE and (gap := plan.listing.gap(transaction)):
            log.warning("%s It goes on, since failOnDataLoss=false", gap)
        if plan.listing.needs_start(transaction, run):
            newest = plan.listing.newest.get(transaction.key, 0)
            self._log.begin(transaction.key, max(newest, transaction.number), run)
        if step is Step.OVER:
            return Committed(step, _given(prepared), self._leave(prepared), Shown())
        record = self._record(plan, transaction, run, prepared, step)
        is_ours = record.head.nonce == nonce_of(prepared)
        if not is_ours:
            plan.listing.check_stranger(transaction, run)
        listing = self._look_again(transaction, run)
        shown = self._show(record, listing, is_ours=is_ours)
        abandoned = record.head.abandoned
        if not is_ours:
            step = Step.SHOW
            _tell_of_other_rows(record.head, prepared)
            abandoned = self._leave(prepared)
        self._log.clean(record.head, listing)
        return Committed(step, record.head.rows, abandoned, shown)

    def _record(
        self,
        plan: WritePlan,
        transaction: Transaction,
        run: str,
        prepared: Sequence[Prepared],
        step: Step,
    ) -> Record:
        """The record of this transaction: one that stands, or what the tasks put."""
        if step is Step.SHOW:
            found = self._log.read(transaction)
            if found is not None:
                return found
        if any(each.skipped for each in prepared):
            raise TransactionConflict(
                f"{transaction} was recorded in {self._log.where} when the tasks began, so they put"
                " nothing, and its record is gone: did somebody discard it? Start again"
            )
        chunks, parts, inline = placed([chunk for each in prepared for chunk in each.chunks])
        head = Head(
            transaction,
            nonce=nonce_of(prepared),
            run=run,
            account=self._config.account.name,
            about=self._settings.app_id or prepared[0].query,
            given=_given(prepared),
            expires=min((each.expires for each in prepared if each.expires), default=0),
            recorded=0,
            abandoned=sum(each.abandoned for each in prepared),
            chunks=chunks,
        )
        if head.rows:
            first = next(_leases(prepared, head.account))
            head = replace(head, recorded=self._time_at(first.queue).now())
            _check_time(head)
        return self._log.put(Record(head, inline), parts)

    def _check_same_log(self, prepared: Sequence[Prepared]) -> None:
        """Raise TransactionUnknown if the log is not the one that was asked before the tasks."""
        if not self._log.uuid:
            self._log.identify()
        if {each.log for each in prepared} != {self._log.uuid}:
            raise self._emptied()

    def _emptied(self) -> TransactionUnknown:
        return TransactionUnknown(
            f"the transaction log {self._log.where} was emptied or replaced while this transaction"
            " was written: what the log knew is gone, so nothing is shown. Restore the folder, or"
            " name another one"
        )

    def _look_again(self, transaction: Transaction, run: str) -> Listing:
        """List the log again, with the record in hand: only the newest may be shown.

        Raises TransactionConflict if a higher number is recorded, and TransactionUnknown if what
        this run has left there is gone.
        """
        listing = self._log.listing(transaction.key)
        if run and listing.start(transaction, run) is None:
            raise self._emptied()
        if listing.has_higher(transaction):
            raise TransactionConflict(
                f"a higher number than {transaction.number} was recorded in {self._log.where} while"
                " this transaction was written, so it is not shown: another process of this query,"
                " or of this txnAppId, has gone on. Is the same job started twice?"
            )
        return listing

    def _show(self, record: Record, listing: Listing, *, is_ours: bool) -> Shown:
        head = record.head
        done = listing.marked(head.transaction, head.nonce)
        if done == head.rows:
            return Shown()
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
                most=self._config.send_parallelism,
            )
        except LogDamaged:
            # Raises if others have gone on, and cleaned.
            now = self._look_again(head.transaction, "")
            if now.marked(head.transaction, head.nonce) < head.rows:
                raise
            return Shown()  # another process was faster, and has removed the parts

    def _first_queue(self, record: Record, done: int) -> QueueRef:
        return next(self._log.hidden(record, done))[0].lease.queue

    def _time_at(self, queue: QueueRef, retry: RetryPolicy = REPLAY) -> ServiceClock:
        """The time of the queue service, asked once. Any of its answers has it."""
        if self._clock is None:
            self._clock = clock_at(self._client, queue, retry)
        return self._clock

    # ── without a record ──────────────────────────────────────────────────────────────────────────

    def abort(
        self, plan: WritePlan, prepared: Sequence[Prepared], *, is_missing: bool
    ) -> int | None:
        """Delete what the tasks put, if no record can ever hold it.

        is_missing: a task failed, so `commit` was not called. Without that, it is left alone unless
        another attempt's record stands: a put of the record may land later. Returns how many
        messages may stay hidden until they expire; None if it is not known.
        """
        if not prepared:
            return 0
        if not is_missing:
            transaction, _ = _agreed(plan, prepared)
            record = self._log.read(transaction)
            if record is None or record.head.nonce == nonce_of(prepared):
                return None
        return self._leave(prepared)

    def _leave(self, prepared: Sequence[Prepared]) -> int:
        """Delete what these tasks put. Returns how many messages may stay hidden."""
        leases = _leases(prepared, self._config.account.name)
        deleted = delete(self._client, leases, self._config.send_parallelism)
        return deleted.left + sum(each.abandoned for each in prepared)

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._client.close()


def _agreed(plan: WritePlan, prepared: Sequence[Prepared]) -> tuple[Transaction, str]:
    """The transaction and the run that all tasks name."""
    named = {(plan.transaction(each.query, each.batch), each.run) for each in prepared}
    if len(named) != 1 or any(
        sum(chunk.rows for chunk in each.chunks) > each.rows for each in prepared
    ):
        raise AzQueueError(
            f"the tasks of one write named {len(named)} transactions, or more messages than rows:"
            " nothing was recorded. Please report this with the log of the driver"
        )
    return named.pop()


def _given(prepared: Sequence[Prepared]) -> int:
    return sum(each.rows for each in prepared)


def _leases(prepared: Sequence[Prepared], account: str) -> Iterator[Lease]:
    for each in prepared:
        for chunk in each.chunks:
            for hidden in unpack(chunk, account):
                yield hidden.lease


def _check_time(head: Head) -> None:
    """Raise TransactionExpired if its messages may expire before all of them are shown."""
    left = head.expires - head.recorded
    needed = _LEAST_LEFT_S + head.rows // SHOW_RATE
    if left < needed:
        raise TransactionExpired(
            f"{about(head)}: its first message expires in {left:,} s, and to show all"
            f" {head.rows:,} may take {needed:,} s, so nothing was recorded and nothing is"
            " visible. Raise 'timeToLive' (7 days at most), or write smaller batches"
        )


def _tell_of_other_rows(head: Head, prepared: Sequence[Prepared]) -> None:
    """Warn if the repeated write has another number of rows than the recorded one."""
    if head.given != _given(prepared):
        log.warning(
            "%s was recorded with %d rows, and now has %d: the source or the query does not give"
            " the same rows again. The recorded ones count. A source azqueue needs 'writeAheadLog'",
            *(about(head), head.given, _given(prepared)),
        )
