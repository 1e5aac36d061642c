"""An attacker who may write into the folder of leaseOn=executors, and wants requests elsewhere.

The account has a queue that the query's options do not name, and the credential reaches it. The
attacker has receipts of its messages, and forges plans, segments, reports and marks that are
well-formed. What a forged log says of the query's own queues nobody can tell from the truth: so
this world checks one promise alone, that no request is sent to a queue that the options do not say.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from executors import World
from executors_setting import ACCOUNT, CONFIG, LEASE_S, NAMES, POISON, RETENTION, Broken
from executors_walk import MOVES, Move, moves_of

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.identity import IDENTITY, identify
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import Lease, Message, MessageKey, QueueRef, Received
from spark_azqueue.service.queues import calls
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.source.executors import closing, names, slot
from spark_azqueue.source.executors.leasing import Leasing
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import (
    Looked,
    SeenMessages,
    SlotHeader,
    SlotReport,
    SlotSegment,
    encode_slot,
)
from spark_azqueue.source.executors.plan import Part, Plan, Slot
from spark_azqueue.source.logged.undecodable import Reading

VICTIM = "victim"
ALLOWED = frozenset(NAMES + POISON)


class Attacked(World):
    """Nothing is promised of its rows."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int) -> None:
        super().__init__(patch)
        self.chance = random.Random(seed)
        self.leases: list[Received] = []
        self._refused = 0
        for name in (VICTIM, f"{VICTIM}-poison"):
            self.service.account.create(name)
        for text in ("Z29vZA==", "!!bad") * 4:
            self.service.account.queue(VICTIM).put(text, now=self.service.clock.now())
        dequeue = calls.Dequeue(QueueRef(ACCOUNT, VICTIM), 32, 7 * 86_400)
        self.leases += self.service.result(dequeue, CONFIG.account).received
        self.service.seen.insert(0, self._looked_at)

    def _looked_at(self, call: Call[Any], _: object) -> None:
        if call.queue.name not in ALLOWED:
            raise Broken(f"elsewhere: {type(call).__name__} {call.queue.name}")

    def check(self) -> None: ...

    def gives(self, *_: Any) -> None: ...

    def forge(self) -> None:
        """One object, or a slot with all that belongs to it."""
        log = identify(self.log, ACCOUNT, names.SLOTS)
        if log is None:
            return
        (at,) = self.checkpoints
        stored = {each.plan for each in map(names.as_slot_name, self.log.objects) if each}
        given = [at.plan(batch).id for batch in range(len(at.offsets))][-2:]
        newest = [START, *given][-2:]
        plan = self.chance.choice([*newest, *newest, *sorted(stored)])
        weights = [each for each in _FORGERIES for _ in range(_FORGERIES[each])]
        self.chance.choice(weights)(self, log.uuid, plan)

    def begins_anew(self) -> None:
        """The query has ended. Its user starts it again; if it is refused, with a new checkpoint,
        and then with a new folder, too."""
        (at,) = self.checkpoints
        self._refused += 1
        if self._refused % 3 != 1:
            at.offsets.clear()
            at.output.clear()
            at.commits = 0
        if self._refused % 3 == 0:
            for name in [name for name in self.log.objects if name != IDENTITY]:
                del self.log.objects[name]
        self.start()

    def some(self) -> tuple[Received, ...]:
        own = Message(QueueRef(ACCOUNT, NAMES[0]), _id(self), "Z29vZA==", 0, 0, 1)
        mine = (Received(own, Lease(own.queue, own.message_id, "receipt")),)
        return (*self.chance.sample(self.leases, self.chance.randint(1, 3)), *mine)


def _id(world: Attacked) -> str:
    number = f"{world.chance.randrange(16**12):012x}"
    return f"00000000-0000-0000-0000-{number}"


def _hex(world: Attacked) -> str:
    return f"{world.chance.randrange(16**32):032x}"


def _queues(world: Attacked) -> tuple[QueueRef, ...]:
    every = [VICTIM, *world.chance.sample(NAMES, world.chance.randint(0, 2))]
    return tuple(QueueRef(ACCOUNT, each) for each in every)


def _follows(world: Attacked, log: str, plan: PlanId) -> None:
    """A plan with slots of the victim's queue, or with parts of forged slots."""
    following = PlanId(plan.number + 1, _hex(world))
    part = Part(PlanId(max(1, plan.number), plan.nonce), 0, 0, 2)
    again = world.chance.random() < 0.3 and plan.number > 0
    slots = (
        (Slot((), 2, 1, part),)
        if again
        else (Slot(_queues(world), world.chance.randint(1, 9), 10_000),)
    )
    made = Plan(
        ACCOUNT,
        log,
        following,
        slots,
        lease_s=LEASE_S,
        gave_up=world.chance.random() < 0.3 and plan.number > 0,
        reading=Reading.of(CONFIG).options,
    )
    world.log.objects[names.following(plan)] = made.to_bytes()
    if not again and world.chance.random() < 0.8:
        _slot(world, log, following)


def _slot(world: Attacked, log: str, plan: PlanId) -> None:
    """What a slot gave: messages of the victim's queue, and whether their deletes are answered."""
    if plan == START:
        return
    place = world.chance.choice((0, 0, 1))
    received = world.some()
    queues = tuple(dict.fromkeys(message.queue for message, _ in received))
    header = SlotHeader(
        log,
        plan,
        place,
        ACCOUNT,
        _hex(world),
        messages=len(received),
        until=int(world.service.clock.now()) + LEASE_S,
        queues=queues,
        reading={"messageEncoding": "base64", "bodyType": "string", "onUndecodable": "fail"},
        looked={VICTIM: Looked(3)},
    )
    world.log.objects[names.slot(plan, place)] = encode_slot(
        header, SlotSegment(header, received).received
    )
    world.log.objects.pop(names.settled(plan, place), None)
    if world.chance.random() < 0.4:
        _report(world, log, plan, place)


def _report(world: Attacked, log: str, plan: PlanId, place: int = 0) -> None:
    keys = [MessageKey(message.queue, message.message_id) for message, _ in world.some()]
    settled = SlotReport(
        messages=3,
        size=100,
        deleted=3,
        pending=tuple(PendingDelete(key, 1, 0) for key in keys),
        gone=tuple(keys),
        looked={VICTIM: Looked(3), NAMES[0]: Looked(0, drained=True)},
    )
    world.log.objects[names.settled(plan, place)] = settled.to_bytes()


def _mark(world: Attacked, log: str, plan: PlanId) -> None:
    known = SeenMessages(
        PendingDelete(MessageKey(m.queue, m.message_id), 1, 0) for m, _ in world.some()
    )
    name, data = world.chance.choice(
        [
            (names.known(plan), known.to_bytes()),
            (names.committed(plan), b'{"version":1}'),
            (names.plan_attempt(plan, _hex(world)), b'{"version":1}'),
            (names.floor(max(1, plan.number - RETENTION)), b'{"version":1}'),
        ]
    )
    world.log.objects[name] = data


def _removed(world: Attacked, log: str, plan: PlanId) -> None:
    some = [name for name in world.log.objects if str(plan) in name]
    if some:
        del world.log.objects[world.chance.choice(sorted(some))]


def _changed(world: Attacked, log: str, plan: PlanId) -> None:
    """A field of a plan is another."""
    data = world.log.objects.get(names.following(plan))
    if data:
        value = json.loads(data)
        value[world.chance.choice(sorted(value))] = world.chance.choice(
            [None, 0, -1, 10**400, "", "x" * 70, [], [[]], {}, True]
        )
        world.log.objects[names.following(plan)] = json.dumps(value).encode()


_FORGERIES: dict[Callable[..., None], int] = {
    _follows: 6,
    _slot: 3,
    _report: 1,
    _mark: 1,
    _removed: 1,
    _changed: 1,
}


def attack(world: Attacked, moves: list[Move]) -> None:
    """These moves, and a forgery before every third; a query starts again whenever it has ended.

    Raises Broken for a request elsewhere, and whatever is no error of this project.
    """
    for number in range(2 * len(NAMES)):
        world.put(number // 2, decodes=number != 3)
    world.start()
    for number, (name, who, what) in enumerate(moves):
        if not world.alive():
            world.begins_anew()
        try:
            if number % 3 == 0:
                world.forge()
            MOVES[name][1](world, who, what)
        except AzQueueError:
            pass  # this world's own look at what is forged
        except Broken as error:
            if str(error).startswith("elsewhere"):
                raise
        except AssertionError:
            pass  # what others promise of a log that nobody forges


def attacks(seed: int) -> list[Move]:
    return moves_of(seed, 120, without=("copy", "roll back", "queue goes"))


# ── what is taken away ────────────────────────────────────────────────────────────────────────────


def _tasks_delete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slot, "check_held", lambda *_: None)


def _a_plan_is_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "check_held", lambda *_: None)


def _tasks_dequeue(patch: pytest.MonkeyPatch) -> None:
    real = Leasing.__init__

    def made(self: Leasing, config: Any, plan: Plan, of: Slot, *more: Any) -> None:
        real(self, config, plan, of, *more)
        self._queues = list(of.queues)

    patch.setattr(Leasing, "__init__", made)


WAYS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a task deletes what its slot gave": _tasks_delete,
    "a plan is closed": _a_plan_is_closed,
    "a task dequeues": _tasks_dequeue,
}
"""Where a request could go elsewhere, without its check."""
