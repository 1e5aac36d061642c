"""How each assumption about queues is tried. A check raises Differs or NotTried, or it holds.

Each looks at its own assumption alone: what else goes wrong on the way is NotTried.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_azqueue.service import fields
from spark_azqueue.service.account import API_VERSION
from spark_azqueue.service.encoding import MAX_STORED_BYTES
from spark_azqueue.service.messages import MAX_PER_REQUEST, WEEK_S
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Peek, Put, Request
from spark_azqueue.service.queues.management import clear_queue
from spark_azqueue.service.queues.probes import nobody
from spark_azqueue.service.queues.xml import document

from .bench import Bench, Differs, NotTried, Raw, expect

_US = 1_000_000
_TEXT = "\t<&>\"'\r\n\r]]> \u00e9 \U0001f600 \u4e2d \ufffd."


def text_limit(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.status_of(Put(ref, "&" * MAX_STORED_BYTES)), "201")
    expect(bench.status_of(Put(ref, "x" * (MAX_STORED_BYTES + 1))), "413 RequestBodyTooLarge")


def text_comes_back(bench: Bench) -> None:
    received, _ = bench.leased(_TEXT)
    if received.text != _TEXT:
        pairs = zip(_TEXT, received.text, strict=False)
        changed = [f"U+{ord(put):04X}" for put, got in pairs if put != got]
        raise Differs(f"another text, from {changed[0] if changed else 'its end'} on")


def empty_text(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.status_of(Put(ref, "")), "201")
    received, _ = bench.take(ref)
    if received.text or not received.intact:
        raise Differs("it does not come back empty")


def forbidden_character(bench: Bench) -> None:
    status = bench.status_of(Put(bench.queue(), "a\x01b"))
    if not status.startswith("400"):
        raise Differs(f"{status}, not 400")


def body_before_queue(bench: Bench) -> None:
    call = Put(bench.unmade(), "x")
    broken = Raw(call.queue, Request("POST", ("messages",), "", document("x")[:-5]))
    expect(bench.status_of(broken), "400 InvalidXmlDocument")


def put_hidden(bench: Bench) -> None:
    ref = bench.queue()
    bench.put(ref, delay_s=600)
    given = len(bench.do(Dequeue(ref, 1, 60)).received)
    expect(f"given out {given} times", "given out 0 times")


def delay_below_life(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.attempt(bench.client.queue(ref).check_put), "done")
    expect(f"{bench.do(Count(ref))} messages", "0 messages")


def default_life(bench: Bench) -> None:
    expect(f"{_life_s(bench, None)} seconds", f"{WEEK_S} seconds")


def long_life(bench: Bench) -> None:
    month = 30 * 86_400
    expect(f"{_life_s(bench, month)} seconds", f"{month} seconds")


def endless_life(bench: Bench) -> None:
    years = _life_s(bench, -1) // (365 * 86_400)
    if years < 7_000:
        raise Differs(f"it expires in {years} years")


def expired_message(bench: Bench) -> None:
    ref = bench.queue()
    bench.put(ref, ttl_s=1)
    for _ in range(4):
        bench.wait(1.0)
        if not bench.do(Peek(ref, 1)).messages:
            return
    raise Differs("it is given out 4 seconds after a life of one second")


def lease_bounds(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.status_of(Dequeue(ref, 1, 1)), "200")
    expect(bench.status_of(Dequeue(ref, 1, WEEK_S)), "200")
    expect(bench.status_of(Dequeue(ref, 1, 0)), "400 OutOfRangeQueryParameterValue")


def page_bounds(bench: Bench) -> None:
    ref = bench.queue()
    for _ in range(MAX_PER_REQUEST + 1):
        bench.put(ref)
    status = bench.status_of(Dequeue(ref, MAX_PER_REQUEST + 1, 60))
    expect(status, "400 OutOfRangeQueryParameterValue")
    page = bench.do(Dequeue(ref, MAX_PER_REQUEST, 60)).received
    expect(f"{len(page)} messages", f"{MAX_PER_REQUEST} messages")


def count_of_hidden(bench: Bench) -> None:
    ref = bench.queue()
    bench.put(ref)
    bench.put(ref, delay_s=600)
    bench.do(Dequeue(ref, 1, 600))
    count = bench.do(Count(ref))
    if count < 2:
        raise Differs(f"{count}, with one message leased and one delayed")


def clear(bench: Bench) -> None:
    ref = bench.queue()
    bench.put(ref)
    bench.take(ref)
    bench.put(ref, delay_s=600)
    bench.put(ref)
    expect(bench.attempt(lambda: clear_queue(bench.account, ref.name)), "done")
    expect(f"{bench.do(Count(ref))} messages", "0 messages")


def missing_queue(bench: Bench) -> None:
    expect(bench.status_of(Dequeue(bench.unmade(), 1, 1)), "404 QueueNotFound")


def queue_created_twice(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.attempt(lambda: bench.create_again(ref)), "done")


def deleted_queue(bench: Bench) -> None:
    ref = bench.queue()
    bench.remove(ref)
    status = bench.status_of(Dequeue(ref, 1, 1))
    expect(status, "404 QueueNotFound", "409 QueueBeingDeleted")


def list_by_prefix(bench: Bench) -> None:
    made = {bench.queue().name for _ in range(3)}
    bench.count()
    names = bench.client.names(bench.prefix)
    others = [name for name in names if not name.startswith(bench.prefix)]
    if others or not made <= set(names) or names != sorted(names):
        order = "in" if names == sorted(names) else "not in"
        lost = len(made - set(names))
        raise Differs(f"{len(others)} other names, {lost} of 3 missing, {order} order")


def probe_is_refused(bench: Bench) -> None:
    ref = bench.queue()
    expect(bench.attempt(bench.client.queue(ref).check), "done")
    status = bench.status_of(Delete(nobody(ref)))
    unknown = ("404 MessageNotFound", "400 PopReceiptMismatch", "400 InvalidQueryParameterValue")
    expect(status, *unknown)


def date(bench: Bench) -> None:
    answer = bench.answer(Dequeue(bench.queue(), 1, 1))
    written = answer.headers.get("date", "")
    if fields.moment(written) is None:
        raise Differs("a Date in another form" if written else "no Date")


def version(bench: Bench) -> None:
    answer = bench.answer(Dequeue(bench.queue(), 1, 1))
    expect(answer.headers.get("x-ms-version", "none"), API_VERSION)


def _life_s(bench: Bench, ttl_s: int | None) -> int:
    """From the insertion of a message to its expiration, in seconds."""
    ref = bench.queue()
    bench.put(ref, ttl_s=ttl_s)
    (message,) = bench.do(Peek(ref, 1)).messages or (None,)
    if message is None:
        raise NotTried("a message that was put is not visible")
    return (message.expiration_time - message.insertion_time) // _US


CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        *(text_limit, text_comes_back, empty_text, forbidden_character, body_before_queue),
        *(put_hidden, delay_below_life, default_life, long_life, endless_life, expired_message),
        *(lease_bounds, page_bounds, count_of_hidden, clear, missing_queue, queue_created_twice),
        *(deleted_queue, list_by_prefix, probe_is_refused, date, version),
    )
}
"""By the keys of their assumptions."""
