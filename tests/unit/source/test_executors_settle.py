"""leaseOn=executors: what a refused delete says depends on when it was refused."""

from __future__ import annotations

import pytest
from doubles import OneByOne
from executors_setting import ACCOUNT, CONFIG

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.service.queues.calls import Deleted
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.source.executors.leasing import settle_slot
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SlotHeader, SlotSegment

QUEUE = QueueRef(ACCOUNT, "aaa")
UNTIL = 1_800_000_000
EXPIRES = UNTIL + 5 * 86_400


class Refusing(OneByOne):
    """Each delete is refused at this time of the service; None: its answer does not say."""

    def __init__(self, at: int | None) -> None:
        super().__init__(lambda _: self)
        self.limits = Limits()
        self._at = at

    def delete(self, lease: Lease) -> Deleted:
        return Deleted(Outcome.GONE, self._at)


@pytest.mark.parametrize(
    ("at", "is_gone"),
    [
        (UNTIL - 60, True),
        (UNTIL - 6, True),
        (UNTIL - 5, False),
        (UNTIL - 1, False),
        (UNTIL, False),
        (UNTIL + 60, False),
        (None, False),
    ],
)
def test_shortly_before_the_leases_end_somebody_else_may_have_the_message(
    at: int | None, is_gone: bool
) -> None:
    """Times are whole seconds, and the service's servers differ: it is remembered then as long as
    it lives. What an earlier attempt has probably deleted is remembered for a day after."""
    message = Message(QUEUE, "00000000-0000-0000-0000-000000000001", "YQ==", 0, 10**6 * EXPIRES, 1)
    header = SlotHeader(
        "a" * 32,
        PlanId(1, "b" * 32),
        0,
        ACCOUNT,
        "c" * 32,
        messages=1,
        until=UNTIL,
        queues=(QUEUE,),
    )
    segment = SlotSegment(header, (Received(message, Lease(QUEUE, message.message_id, "receipt")),))

    found = settle_slot(CONFIG, Refusing(at), segment, 100, ())  # type: ignore[arg-type]

    (pending,) = found.pending
    assert found.deleted == is_gone
    assert pending.expires == (at if is_gone else EXPIRES)
