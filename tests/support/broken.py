"""The fake, broken on purpose: for each assumption, a way in which a service would not keep it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from spark_azqueue.testing import answering, blobs, documents, errors, rest, routing
from spark_azqueue.testing.errors import Refusal
from spark_azqueue.testing.model import SEVEN_DAYS, ModelAccount, ModelQueue

Patch = pytest.MonkeyPatch
BREAKS: dict[str, Callable[[Patch], None]] = {}
"""By the key of the assumption."""

NOBODY = "00000000-0000-0000-0000-000000000000"


def breaks(key: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def noted(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BREAKS[key] = make
        return make

    return noted


def around(patch: Patch, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace owner.name by wrapper(the original, its arguments)."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: wrapper(original, *args, **kwargs))


def current(queue: ModelQueue, message_id: str, now: float) -> Any:
    """The message as it is, or None."""
    return next((view for view in queue.messages(now=now) if view.id == message_id), None)


# ── receipts ──────────────────────────────────────────────────────────────────────────────────────


@breaks("stale-receipt")
def _(patch):
    def delete(original, queue, message_id, receipt, *, now):
        try:
            original(queue, message_id, receipt, now=now)
        except Refusal:
            if current(queue, message_id, now) and receipt != "no receipt":
                raise errors.pop_receipt_mismatch() from None
            raise

    around(patch, ModelQueue, "delete", delete)


@breaks("malformed-receipt")
def _(patch):
    def delete(original, queue, message_id, receipt, *, now):
        if receipt == "no receipt":
            raise errors.message_not_found()
        original(queue, message_id, receipt, now=now)

    around(patch, ModelQueue, "delete", delete)


@breaks("expired-receipt")
def _(patch):
    def delete(original, queue, message_id, receipt, *, now):
        found = current(queue, message_id, now)
        if found and found.dequeue_count and found.visible:
            raise errors.message_not_found()
        original(queue, message_id, receipt, now=now)

    around(patch, ModelQueue, "delete", delete)


@breaks("receipt-after-redelivery")
def _(patch):
    def delete(original, queue, message_id, receipt, *, now):
        found = current(queue, message_id, now)
        by_dequeue = found and found.dequeue_count == 2
        original(queue, message_id, found.receipt if by_dequeue else receipt, now=now)

    around(patch, ModelQueue, "delete", delete)


@breaks("update-voids-the-receipt")
def _(patch):
    def delete(original, queue, message_id, receipt, *, now):
        found = current(queue, message_id, now)
        by_update = found and found.receipt.startswith("Aw")
        original(queue, message_id, found.receipt if by_update else receipt, now=now)

    around(patch, ModelQueue, "delete", delete)


@breaks("receipt-of-a-put")
def _(patch):
    def update(original, queue, message_id, receipt, **more):
        found = current(queue, message_id, more["now"])
        if found and not found.dequeue_count:
            raise errors.message_not_found()
        return original(queue, message_id, receipt, **more)

    around(patch, ModelQueue, "update", update)


@breaks("receipt-of-a-page")
def _(patch):
    def dequeue(original, queue, *, now, count=1, visibility=30, twice=False):
        if count > 32:
            return original(queue, now=now, count=count, visibility=visibility)
        found = (original(queue, now=now, count=1, visibility=visibility) for _ in range(count))
        return [view for page in found for view in page]

    around(patch, ModelQueue, "dequeue", dequeue)


@breaks("update-keeps-the-text")
def _(patch):
    def update(original, queue, *args, text=None, **more):
        return original(queue, *args, text=text or "", **more)

    around(patch, ModelQueue, "update", update)


@breaks("update-keeps-the-count")
def _(patch):
    def update(original, queue, *args, now, visibility, text=None):
        view = original(queue, *args, now=now, visibility=0, text=text)
        (again,) = queue.dequeue(now=now, visibility=1)
        assert again.id == view.id
        return original(queue, again.id, again.receipt, now=now, visibility=visibility)

    around(patch, ModelQueue, "update", update)


@breaks("release-shows-at-once")
def _(patch):
    def update(original, queue, *args, visibility, **more):
        return original(queue, *args, visibility=visibility or 5, **more)

    around(patch, ModelQueue, "update", update)


@breaks("dequeue-count")
def _(patch):
    def dequeue(original, queue, **more):
        page = original(queue, **more)
        return [v._replace(dequeue_count=2 * v.dequeue_count - 1) for v in page]

    around(patch, ModelQueue, "dequeue", dequeue)


@breaks("peek-changes-nothing")
def _(patch):
    peeked: Counter[str] = Counter()

    def peek(original, queue, **more):
        page = original(queue, **more)
        peeked.update(view.id for view in page)
        return [v._replace(dequeue_count=v.dequeue_count + peeked[v.id] - 1) for v in page]

    around(patch, ModelQueue, "peek", peek)


# ── texts, times ──────────────────────────────────────────────────────────────────────────────────


@breaks("text-limit")
def _(patch):
    def put(original, queue, text, **more):
        if len(documents.escape(text)) > 65_536:
            raise errors.body_too_large(65_536)
        return original(queue, text, **more)

    around(patch, ModelQueue, "put", put)


@breaks("text-comes-back")
def _(patch):
    around(patch, documents, "escape", lambda original, text: original(text.replace("\r", "\n")))


@breaks("empty-text")
def _(patch):
    def put(original, queue, text, **more):
        if not text:
            raise errors.invalid_xml()
        return original(queue, text, **more)

    around(patch, ModelQueue, "put", put)


@breaks("forbidden-character")
def _(patch):
    def parse(original, body):
        return original(body.replace(b"\x01", b"?"))

    around(patch, documents, "parse_message", parse)


@breaks("body-before-queue")
def _(patch):
    def perform(original, job):
        if job.call.op == "put":
            job.account.queue(job.call.queue)
        return original(job)

    around(patch, rest, "perform", perform)


def puts(key, change):
    """A break of puts: change(delay, life) gives others."""

    @breaks(key)
    def _(patch):
        def put(original, queue, text, *, now, visibility_delay=0, ttl=SEVEN_DAYS):
            delay, life = change(visibility_delay, ttl)
            return original(queue, text, now=now, visibility_delay=delay, ttl=life)

        around(patch, ModelQueue, "put", put)


puts("put-hidden", lambda delay, life: (delay if delay >= life else 0, life))
puts("delay-below-life", lambda delay, life: (delay, life + 1 if delay == life else life))
puts("default-life", lambda delay, life: (delay, 86_400 if life == SEVEN_DAYS else life))
puts("long-life", lambda delay, life: (delay, min(life, SEVEN_DAYS)))
puts("endless-life", lambda delay, life: (delay, SEVEN_DAYS if life == -1 else life))
puts("expired-message", lambda delay, life: (delay, 3_600 if life == 1 else life))


@breaks("lease-bounds")
def _(patch):
    def dequeue(original, queue, *, visibility=30, **more):
        return original(queue, visibility=visibility or 1, **more)

    around(patch, ModelQueue, "dequeue", dequeue)


@breaks("page-bounds")
def _(patch):
    def dequeue(original, queue, *, count=1, **more):
        return original(queue, count=min(count, 32), **more)

    around(patch, ModelQueue, "dequeue", dequeue)


# ── queues, answers ───────────────────────────────────────────────────────────────────────────────


@breaks("clear")
def _(patch):
    def clear(queue):
        for view in queue.messages(now=0):
            if not view.dequeue_count:
                queue.delete(view.id, view.receipt, now=0)

    patch.setattr(ModelQueue, "clear", clear)


@breaks("count-of-hidden")
def _(patch):
    def count(original, queue, *, now):
        return sum(view.visible for view in queue.messages(now=now))

    around(patch, ModelQueue, "approximate_count", count)


def missing(key, *, was_deleted):
    @breaks(key)
    def _(patch):
        deleted = set()

        def delete(original, account, name, **more):
            original(account, name, **more)
            deleted.add(name)

        def queue(original, account, name, **more):
            try:
                return original(account, name, **more)
            except Refusal:
                if (name in deleted) == was_deleted:
                    raise Refusal(404, "ResourceNotFound", "Not found.") from None
                raise

        around(patch, ModelAccount, "delete", delete)
        around(patch, ModelAccount, "queue", queue)


missing("missing-queue", was_deleted=False)
missing("deleted-queue", was_deleted=True)


@breaks("queue-created-twice")
def _(patch):
    def create(original, account, *args, **more):
        made = original(account, *args, **more)
        if not made:
            raise Refusal(409, "QueueDisabled", "Disabled.")
        return made

    around(patch, ModelAccount, "create", create)


@breaks("list-by-prefix")
def _(patch):
    around(patch, ModelAccount, "names", lambda original, account: original(account)[::-1])


@breaks("probe-is-refused")
def _(patch):
    def delete(original, queue, message_id, *args, **more):
        if message_id == NOBODY:
            raise errors.out_of_range_name()
        original(queue, message_id, *args, **more)

    around(patch, ModelQueue, "delete", delete)


@breaks("date")
def _(patch):
    def to_bytes(original, reply, request, *more):
        data = original(reply, request, *more)
        dequeue = request.method == "GET" and "visibilitytimeout" in request.query
        return data.replace(b"\r\nDate: ", b"\r\nDate: about ") if dequeue else data

    around(patch, answering, "to_bytes", to_bytes)


@breaks("version")
def _(patch):
    patch.setattr(routing, "version_answered", lambda request, served: "2015-02-21")


# ── credentials, blobs ────────────────────────────────────────────────────────────────────────────


@breaks("unreadable-token")
def _(patch):
    patch.setattr(errors, "malformed", errors.token_refused)


def denied(key, part):
    @breaks(key)
    def _(patch):
        def not_authenticated(original, *detail):
            return errors.not_for_a_sas() if part in "".join(detail) else original(*detail)

        around(patch, errors, "not_authenticated", not_authenticated)


denied("sas-of-another-queue", "Signature did not match")
denied("expired-sas", "in the specified time frame")


@breaks("missing-letter")
def _(patch):
    patch.setattr(errors, "not_permitted", errors.not_for_a_sas)


def answered(key, was, status, code):
    """A break of the blobs: another code."""

    @breaks(key)
    def _(patch):
        def rendered(original, reply):
            changed = reply._replace(status=status, code=code) if reply.code == was else reply
            return original(changed)

        around(patch, blobs, "_rendered", rendered)


answered("blob-exists", "BlobAlreadyExists", 412, "LeaseIdMissing")
answered("missing-blob", "BlobNotFound", 404, "ResourceNotFound")
answered("missing-container", "ContainerNotFound", 404, "ResourceNotFound")


@breaks("blob-is-whole")
def _(patch):
    def rendered(original, reply):
        return original(
            reply._replace(body=reply.body.replace(b"<Content-Length>4", b"<Content-Length>3"))
        )

    around(patch, blobs, "_rendered", rendered)


@breaks("blob-range")
def _(patch):
    around(patch, blobs, "_part", lambda original, data, wanted: original(data[::-1], wanted))
