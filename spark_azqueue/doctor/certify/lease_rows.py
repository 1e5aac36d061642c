"""How each assumption about pop receipts and leases is tried. As in `queue_rows`."""

from __future__ import annotations

from collections.abc import Callable

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import MAX_PER_REQUEST, Lease
from spark_azqueue.service.queues.calls import Delete, Dequeue, Peek, Update

from .bench import Bench, Differs, NotTried, expect


def stale_receipt(bench: Bench) -> None:
    ref = bench.queue()
    old = bench.put(ref)
    bench.take(ref)
    expect(bench.status_of(Delete(old)), "404 MessageNotFound")


def malformed_receipt(bench: Bench) -> None:
    _, lease = bench.leased()
    call = Delete(lease._replace(pop_receipt="no receipt"))
    expect(bench.status_of(call), "400 InvalidQueryParameterValue")
    if bench.do(call) is not Outcome.LOST:
        raise Differs("the answer does not blame popreceipt")


def expired_receipt(bench: Bench) -> None:
    _, lease = bench.leased(visibility_s=1)
    bench.until_visible(lease.queue)
    expect(bench.status_of(Delete(lease)), "204")


def receipt_after_redelivery(bench: Bench) -> None:
    _, old = bench.leased(visibility_s=1)
    bench.until_visible(old.queue)
    bench.take(old.queue)
    _refused(bench, old)


def receipt_of_a_put(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.status_of(Update(bench.put(ref), 0)), "204")
    expect(bench.status_of(Delete(bench.put(ref))), "204")


def receipt_of_a_page(bench: Bench) -> None:
    ref = bench.queue()
    for _ in range(3):
        bench.put(ref)
    page = bench.do(Dequeue(ref, MAX_PER_REQUEST, 60)).received
    if len(page) != 3:
        raise NotTried(f"a dequeue gave {len(page)} messages in place of 3")
    receipts = {lease.pop_receipt for _, lease in page}
    if len(receipts) != 1:
        raise Differs(f"{len(receipts)} receipts for 3 messages of a page")


def update_voids_the_receipt(bench: Bench) -> None:
    _, old = bench.leased()
    bench.do(Update(old, 60))
    _refused(bench, old)


def update_keeps_the_text(bench: Bench) -> None:
    _, lease = bench.leased("kept")
    bench.do(Update(lease, 0))
    received, _ = bench.take(lease.queue)
    if received.text != "kept":
        raise Differs(f"another text, of {len(received.text)} characters")


def update_keeps_the_count(bench: Bench) -> None:
    before, lease = bench.leased()
    bench.do(Update(lease, 0))
    (after,) = bench.do(Peek(lease.queue, 1)).messages or (None,)
    if after is None:
        raise NotTried("a released message is not visible")
    expect(f"count {after.dequeue_count}", f"count {before.dequeue_count}")


def release_shows_at_once(bench: Bench) -> None:
    _, lease = bench.leased(visibility_s=600)
    bench.do(Update(lease, 0))
    if not bench.visible(lease.queue):
        raise Differs("a peek right after it sees nothing")


def dequeue_count(bench: Bench) -> None:
    first, lease = bench.leased(visibility_s=1)
    expect(f"count {first.dequeue_count}", "count 1")
    bench.until_visible(lease.queue)
    second, _ = bench.take(lease.queue)
    expect(f"count {second.dequeue_count}", "count 2")


def peek_changes_nothing(bench: Bench) -> None:
    ref = bench.queue()
    bench.put(ref)
    seen = [message for _ in range(2) for message in bench.do(Peek(ref, 1)).messages]
    if len(seen) != 2:
        raise Differs(f"two peeks saw the message {len(seen)} times")
    expect(f"count {seen[1].dequeue_count}", "count 0")


def _refused(bench: Bench, old: Lease) -> None:
    """Differs if this receipt still deletes."""
    if bench.status_of(Delete(old)) == "204":
        raise Differs("the old receipt still deletes")


CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        *(stale_receipt, malformed_receipt, expired_receipt, receipt_after_redelivery),
        *(receipt_of_a_put, receipt_of_a_page, update_voids_the_receipt, update_keeps_the_text),
        *(update_keeps_the_count, release_shows_at_once, dequeue_count, peek_changes_nothing),
    )
}
"""By the keys of their assumptions."""
