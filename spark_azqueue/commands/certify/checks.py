"""Tests of the assumptions. Each assumption has a function, which raises Mismatch if the assumption
does not hold, and NotTried if it cannot be tested.

A test is only about its own assumption; for any other failure, it raises NotTried. Tests of
credentials use credentials that the service must refuse. Tests of blobs use the sandbox's own
container.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from dataclasses import replace

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service import fields
from spark_azqueue.service.account import API_VERSION, Account, queue_sas
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.credentials import Authority
from spark_azqueue.service.encoding import MAX_STORED_BYTES
from spark_azqueue.service.messages import MAX_PER_REQUEST, WEEK_S, Lease, QueueRef
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Peek, Put, Update
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import clear_queue
from spark_azqueue.service.queues.reach import unknown_lease
from spark_azqueue.service.queues.xml import document
from spark_azqueue.service.wire.calls import Request
from spark_azqueue.service.wire.http import Session

from .assumptions import ASSUMPTIONS
from .sandbox import Mismatch, NotTried, Raw, Sandbox, expect, status_and_code

_US = 1_000_000
_TEXT = "\t<&>\"'\r\n\r]]> \u00e9 \U0001f600 \u4e2d \ufffd."
_HOUR = datetime.timedelta(hours=1)
_BLOB = "seg/000000000001"
_BYTES = bytes(range(256)) * 16


# Pop receipts and leases.


def stale_receipt(box: Sandbox) -> None:
    ref = box.queue()
    old = box.put(ref)
    box.take(ref)
    expect(box.status_of(Delete(old)), "404 MessageNotFound")


def malformed_receipt(box: Sandbox) -> None:
    _, lease = box.leased()
    call = Delete(lease._replace(pop_receipt="no receipt"))
    expect(box.status_of(call), "400 InvalidQueryParameterValue")
    if box.do(call) is not Outcome.LOST:
        raise Mismatch("the answer does not blame popreceipt")


def expired_receipt(box: Sandbox) -> None:
    _, lease = box.leased(visibility_s=1)
    box.until_visible(lease.queue)
    expect(box.status_of(Delete(lease)), "204")


def receipt_after_redelivery(box: Sandbox) -> None:
    _, old = box.leased(visibility_s=1)
    box.until_visible(old.queue)
    box.take(old.queue)
    _refused(box, old)


def receipt_of_a_put(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.status_of(Update(box.put(ref), 0)), "204")
    expect(box.status_of(Delete(box.put(ref))), "204")


def receipt_of_a_page(box: Sandbox) -> None:
    ref = box.queue()
    for _ in range(3):
        box.put(ref)
    page = box.do(Dequeue(ref, MAX_PER_REQUEST, 60)).received
    if len(page) != 3:
        raise NotTried(f"a dequeue gave {len(page)} messages in place of 3")
    receipts = {lease.pop_receipt for _, lease in page}
    if len(receipts) != 1:
        raise Mismatch(f"{len(receipts)} receipts for 3 messages of a page")


def update_voids_the_receipt(box: Sandbox) -> None:
    _, old = box.leased()
    box.do(Update(old, 60))
    _refused(box, old)


def update_keeps_the_text(box: Sandbox) -> None:
    _, lease = box.leased("kept")
    box.do(Update(lease, 0))
    received, _ = box.take(lease.queue)
    if received.text != "kept":
        raise Mismatch(f"another text, of {len(received.text)} characters")


def update_keeps_the_count(box: Sandbox) -> None:
    before, lease = box.leased()
    box.do(Update(lease, 0))
    (after,) = box.do(Peek(lease.queue, 1)).messages or (None,)
    if after is None:
        raise NotTried("a released message is not visible")
    expect(f"count {after.dequeue_count}", f"count {before.dequeue_count}")


def release_shows_at_once(box: Sandbox) -> None:
    _, lease = box.leased(visibility_s=600)
    box.do(Update(lease, 0))
    if not box.visible(lease.queue):
        raise Mismatch("a peek right after it sees nothing")


def dequeue_count(box: Sandbox) -> None:
    first, lease = box.leased(visibility_s=1)
    expect(f"count {first.dequeue_count}", "count 1")
    box.until_visible(lease.queue)
    second, _ = box.take(lease.queue)
    expect(f"count {second.dequeue_count}", "count 2")


def peek_changes_nothing(box: Sandbox) -> None:
    ref = box.queue()
    box.put(ref)
    seen = [message for _ in range(2) for message in box.do(Peek(ref, 1)).messages]
    if len(seen) != 2:
        raise Mismatch(f"two peeks saw the message {len(seen)} times")
    expect(f"count {seen[1].dequeue_count}", "count 0")


def _refused(box: Sandbox, old: Lease) -> None:
    """Raise Mismatch if a delete with this receipt still succeeds."""
    if box.status_of(Delete(old)) == "204":
        raise Mismatch("the old receipt still deletes")


# Texts, times, queues, answers.


def text_limit(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.status_of(Put(ref, "&" * MAX_STORED_BYTES)), "201")
    expect(box.status_of(Put(ref, "x" * (MAX_STORED_BYTES + 1))), "413 RequestBodyTooLarge")


def text_comes_back(box: Sandbox) -> None:
    received, _ = box.leased(_TEXT)
    if received.text != _TEXT:
        pairs = zip(_TEXT, received.text, strict=False)
        changed = [f"U+{ord(put):04X}" for put, got in pairs if put != got]
        raise Mismatch(f"another text, from {changed[0] if changed else 'its end'} on")


def empty_text(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.status_of(Put(ref, "")), "201")
    received, _ = box.take(ref)
    if received.text or not received.intact:
        raise Mismatch("it does not come back empty")


def forbidden_character(box: Sandbox) -> None:
    status = box.status_of(Put(box.queue(), "a\x01b"))
    if not status.startswith("400"):
        raise Mismatch(f"{status}, not 400")


def body_before_queue(box: Sandbox) -> None:
    call = Put(box.unmade(), "x")
    broken = Raw(call.queue, Request("POST", ("messages",), "", document("x")[:-5]))
    expect(box.status_of(broken), "400 InvalidXmlDocument")


def put_hidden(box: Sandbox) -> None:
    ref = box.queue()
    box.put(ref, delay_s=600)
    given = len(box.do(Dequeue(ref, 1, 60)).received)
    expect(f"delivered {given} times", "delivered 0 times")


def delay_below_life(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.attempt(box.client.queue(ref).check_put), "done")
    expect(f"{box.do(Count(ref))} messages", "0 messages")


def default_life(box: Sandbox) -> None:
    expect(f"{_life_s(box, None)} seconds", f"{WEEK_S} seconds")


def long_life(box: Sandbox) -> None:
    month = 30 * 86_400
    expect(f"{_life_s(box, month)} seconds", f"{month} seconds")


def endless_life(box: Sandbox) -> None:
    years = _life_s(box, -1) // (365 * 86_400)
    if years < 7_000:
        raise Mismatch(f"it expires in {years} years")


def expired_message(box: Sandbox) -> None:
    ref = box.queue()
    box.put(ref, ttl_s=1)
    for _ in range(4):
        box.wait(1.0)
        if not box.do(Peek(ref, 1)).messages:
            return
    raise Mismatch("it is delivered 4 seconds after a life of one second")


def lease_bounds(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.status_of(Dequeue(ref, 1, 1)), "200")
    expect(box.status_of(Dequeue(ref, 1, WEEK_S)), "200")
    expect(box.status_of(Dequeue(ref, 1, 0)), "400 OutOfRangeQueryParameterValue")


def page_bounds(box: Sandbox) -> None:
    ref = box.queue()
    for _ in range(MAX_PER_REQUEST + 1):
        box.put(ref)
    status = box.status_of(Dequeue(ref, MAX_PER_REQUEST + 1, 60))
    expect(status, "400 OutOfRangeQueryParameterValue")
    page = box.do(Dequeue(ref, MAX_PER_REQUEST, 60)).received
    expect(f"{len(page)} messages", f"{MAX_PER_REQUEST} messages")


def count_of_hidden(box: Sandbox) -> None:
    ref = box.queue()
    box.put(ref)
    box.put(ref, delay_s=600)
    box.do(Dequeue(ref, 1, 600))
    count = box.do(Count(ref))
    if count < 2:
        raise Mismatch(f"{count}, with one message leased and one delayed")


def clear(box: Sandbox) -> None:
    ref = box.queue()
    box.put(ref)
    box.take(ref)
    box.put(ref, delay_s=600)
    box.put(ref)
    expect(box.attempt(lambda: clear_queue(box.account, ref.name)), "done")
    expect(f"{box.do(Count(ref))} messages", "0 messages")


def missing_queue(box: Sandbox) -> None:
    expect(box.status_of(Dequeue(box.unmade(), 1, 1)), "404 QueueNotFound")


def queue_created_twice(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.attempt(lambda: box.create_again(ref)), "done")


def deleted_queue(box: Sandbox) -> None:
    ref = box.queue()
    box.remove(ref)
    status = box.status_of(Dequeue(ref, 1, 1))
    expect(status, "404 QueueNotFound", "409 QueueBeingDeleted")


def list_by_prefix(box: Sandbox) -> None:
    made = {box.queue().name for _ in range(3)}
    box.count()
    names = box.client.names(box.prefix)
    others = [name for name in names if not name.startswith(box.prefix)]
    if others or not made <= set(names) or names != sorted(names):
        order = "in" if names == sorted(names) else "not in"
        lost = len(made - set(names))
        raise Mismatch(f"{len(others)} other names, {lost} of 3 missing, {order} order")


def probe_is_refused(box: Sandbox) -> None:
    ref = box.queue()
    expect(box.attempt(box.client.queue(ref).check), "done")
    status = box.status_of(Delete(unknown_lease(ref)))
    unknown = ("404 MessageNotFound", "400 PopReceiptMismatch", "400 InvalidQueryParameterValue")
    expect(status, *unknown)


def date(box: Sandbox) -> None:
    answer = box.answer(Dequeue(box.queue(), 1, 1))
    written = answer.headers.get("date", "")
    if fields.moment(written) is None:
        raise Mismatch("a Date in another form" if written else "no Date")


def version(box: Sandbox) -> None:
    answer = box.answer(Dequeue(box.queue(), 1, 1))
    expect(answer.headers.get("x-ms-version", "none"), API_VERSION)


def _life_s(box: Sandbox, ttl_s: int | None) -> int:
    """Return the time between the insertion and the expiry of a message, in seconds."""
    ref = box.queue()
    box.put(ref, ttl_s=ttl_s)
    (message,) = box.do(Peek(ref, 1)).messages or (None,)
    if message is None:
        raise NotTried("a message that was put is not visible")
    return (message.expiration_time - message.insertion_time) // _US


# Credentials.


class _NoToken(Authority):
    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        headers["Authorization"] = "Bearer no-token"
        return url


def unreadable_token(box: Sandbox) -> None:
    session = Session(replace(box.account, key=None, sas="none", identity=None))
    session.authority = _NoToken()
    status = _dequeue_status(box, box.queue(), QueueClient(session.account, session))
    expect(status, "400 InvalidAuthenticationInfo")


def sas_of_another_queue(box: Sandbox) -> None:
    ref = box.queue()
    client = _with_sas(box, f"{ref.name}-other")
    expect(_dequeue_status(box, ref, client), "403 AuthenticationFailed")


def expired_sas(box: Sandbox) -> None:
    ref = box.queue()
    client = _with_sas(box, ref.name, life=-_HOUR)
    expect(_dequeue_status(box, ref, client), "403 AuthenticationFailed")


def missing_letter(box: Sandbox) -> None:
    ref = box.queue()
    client = _with_sas(box, ref.name, letters="r")
    expect(_dequeue_status(box, ref, client), "403 AuthorizationPermissionMismatch")


def _dequeue_status(box: Sandbox, ref: QueueRef, client: QueueClient) -> str:
    try:
        return box.status_of(Dequeue(ref, 1, 1), client)
    finally:
        client.close()


def _with_sas(
    box: Sandbox, queue: str, *, letters: str = "raup", life: datetime.timedelta = _HOUR
) -> QueueClient:
    """Return a client with a new SAS, which is signed with the account key.

    Raises NotTried without a key.
    """
    account = box.account
    if not account.key:
        raise NotTried("it takes an account key, to make such a SAS of")
    expiry = datetime.datetime.now(datetime.timezone.utc) + life
    https = account.url.startswith("https:")
    sas = queue_sas(account.name, account.key, queue, expiry, https=https, letters=letters)
    return QueueClient(Account(account.name, account.url, sas=sas))


# Blobs.


def blob_exists(box: Sandbox) -> None:
    with _folder(box) as folder:
        _put_blob(folder, _BYTES)
        try:
            made = folder.put_new(_BLOB, b"another")
        except ServiceError as error:
            raise Mismatch(f"{status_and_code(error)}, not 409 BlobAlreadyExists") from None
        if made:
            raise Mismatch("the second put is taken as well")
        if folder.get(_BLOB, len(_BYTES)) == b"another":
            raise Mismatch("the second put has replaced the first")


def blob_is_whole(box: Sandbox) -> None:
    with _folder(box) as folder:
        _put_blob(folder, _BYTES)
        listed = [(each.name, each.size) for each in folder.entries("seg")]
        expect(f"listed: {len(listed)}", "listed: 1")
        expect(f"{listed[0][1]} bytes in the list", f"{len(_BYTES)} bytes in the list")


def blob_range(box: Sandbox) -> None:
    with _folder(box) as folder:
        _put_blob(folder, _BYTES)
        for most in (100, len(_BYTES), len(_BYTES) + 1):
            try:
                found = folder.get(_BLOB, most)
            except ServiceError as error:
                raise Mismatch(status_and_code(error)) from None
            if found != _BYTES[:most]:
                raise Mismatch(f"other bytes than the first {most}")


def missing_blob(box: Sandbox) -> None:
    with _folder(box) as folder:
        try:
            if folder.get(_BLOB, 1) is not None:
                raise Mismatch("a read gives something")
            folder.delete(_BLOB)
        except ServiceError as error:
            raise Mismatch(f"{status_and_code(error)}, not 404 BlobNotFound") from None


def missing_container(box: Sandbox) -> None:
    if box.blobs is None:
        raise NotTried("the options name no blob endpoint")
    folder = BlobFolder(box.blobs, f"{box.prefix}-none", "x")
    with contextlib.closing(folder):
        box.count()
        try:
            folder.open()
        except ServiceError as error:
            expect(status_and_code(error), "404 ContainerNotFound")
        else:
            raise Mismatch("it can be listed")


@contextlib.contextmanager
def _folder(box: Sandbox) -> Iterator[BlobFolder]:
    """Yield a new folder for a test that sends up to five requests."""
    folder = box.folder()
    with contextlib.closing(folder):
        box.count(5)
        yield folder


def _put_blob(folder: BlobFolder, data: bytes) -> None:
    if not folder.put_new(_BLOB, data):
        raise NotTried("a new blob is said to exist")


CHECKS: dict[str, Callable[[Sandbox], None]] = {
    each.key: globals()[each.key.replace("-", "_")] for each in ASSUMPTIONS if not each.untried
}
"""Tests by key of the assumption. An assumption with `untried` has no test."""
