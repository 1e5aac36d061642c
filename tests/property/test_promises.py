"""The promises, under every order of events that hypothesis can think of.

The real Consumer (ledger, leases, batches, settling, renewal) runs over a model queue and a model
of Spark, beside a foreign consumer, with clock jumps, lost replies, busy answers, requests that
hang and arrive late or never, messages delivered twice, messages updated by somebody, kills and
restarts. After each step:

1. a message is gone only if a committed batch held its rows, or somebody else deleted it;
2. in one run, no message gives its row twice (unless its text was changed);
4. after a restart, every receipt of the unfinished batch is dead (checked in the simulation);
6. while renewals run, no message in hand is there for others, unless its own renewal had no answer;
and at the end, with the faults over, everything is processed and the queue is empty (5).
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from budget import EXAMPLES
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from world.disturbances import OTHERS, Disturbed
from world.fates import Fate
from world.others import Others
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S, Spark

from spark_azqueue.errors import QueueNotFound, ServiceError, UndecodableBody
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.wire.calls import Call

pytestmark = pytest.mark.usefixtures("simulated_time")


class Promises(Disturbed):
    """One query, one foreign consumer; one queue or several."""

    bare = False
    ahead = 0
    queues: ClassVar[list[str]] = [SOURCE]
    options: ClassVar[dict[str, str]] = {}
    renewals_run = False
    """Whether time passes with a renewal thread beside it."""
    poison_every = 0
    """Every so many messages one makes its batch fail, for ever; 0: none does."""

    def __init__(self) -> None:
        super().__init__()
        self.service = Service([name for each in self.queues for name in (each, f"{each}-poison")])
        self.others = Others(self.service)
        options = {"queue": ",".join(self.queues), **self.options}
        self.spark = Spark(
            self.service, options, bare=self.bare, ahead=self.ahead, renewals_run=self.renewals_run
        )
        self.number = 0
        self.steps = 0
        self.failed_in_peace = False

    def names(self) -> list[str]:
        return self.queues

    @property
    def sent(self) -> dict[str, str]:
        """Ids, and the texts that are now in the queue."""
        return self.others.sent

    @property
    def elsewhere(self) -> set[str]:
        return self.others.deleted

    @property
    def now(self) -> float:
        return self.service.clock.now()

    def there(self) -> set[str]:
        """Ids of the messages in the queues."""
        return {view.id for name in self.queues for view in self.service.views(name)}

    def set_aside(self) -> set[str]:
        """Texts of the messages in the poison queues."""
        return {v.text for name in self.queues for v in self.service.views(f"{name}-poison")}

    def makes_its_batch_fail(self, text: str) -> bool:
        number = int(text.partition(" ")[0].removeprefix("m"))
        return self.poison_every > 0 and number % self.poison_every == 0

    @rule(count=st.integers(1, 12), data=st.data())
    def somebody_sends(self, count: int, data: st.DataObject) -> None:
        self.send(count, data.draw(st.sampled_from(self.queues)))

    def send(self, count: int, name: str) -> None:
        for _ in range(count):
            self.another_sends(name)

    def another_sends(self, queue: str) -> None:
        self.number += 1
        self.others.send(queue, f"m{self.number}")

    @rule(
        dies=st.sampled_from(["", "", "", "before_log", "after_log", "after_sink", "batch"]),
        slow=st.booleans(),
        sent=st.integers(0, 10),
        data=st.data(),
    )
    def spark_triggers(self, dies: str, slow: bool, sent: int, data: st.DataObject) -> None:
        def meanwhile() -> None:
            """A batch that outlasts its leases, while somebody else has a look."""
            for _ in range(data.draw(st.integers(1, 3))):
                self.service.pass_time(data.draw(st.sampled_from([60, VISIBILITY_S])))
                if data.draw(st.booleans()):
                    self.spark.renew()
                for _ in range(data.draw(st.integers(0, 2))):
                    self.disturb(*data.draw(OTHERS))

        self.send(sent, self.queues[sent % len(self.queues)])
        try:
            self.spark.trigger(
                dies=dies,
                fails_on=self.makes_its_batch_fail,
                meanwhile=meanwhile if slow else None,
            )
        except ServiceError as error:  # the faults outlasted the retries: the query fails
            if isinstance(error, QueueNotFound):
                raise  # every queue that has to be there is there
            self.spark.stop()

    @rule()
    def its_other_load_gets_data(self) -> None:
        self.spark.another_has_data = True

    @rule(politely=st.booleans())
    def spark_ends(self, politely: bool) -> None:
        if politely:
            self.spark.stop()
        else:
            self.spark.kill()

    @rule(seconds=st.sampled_from([1, 40, 60, VISIBILITY_S, 5 * VISIBILITY_S]))
    def time_passes(self, seconds: int) -> None:
        self.service.pass_time(seconds)

    @rule(triggers=st.booleans(), data=st.data())
    def leases_are_renewed(self, triggers: bool, data: st.DataObject) -> None:
        """Perhaps Spark goes on while an answer hangs."""
        if triggers:
            self.spark.renew_while(lambda: self.spark_triggers("", False, 0, data))
        else:
            self.spark.renew()

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        lost = gone - self.spark.committed
        if lost:
            aside = self.set_aside()
            lost = {item for item in lost if item[1] not in aside}
        assert not lost, "deleted, though no committed batch and no poison queue holds it"

    @invariant()
    def once_in_one_run(self) -> None:
        repeated = {key: n for key, n in self.spark.given_in_run.items() if n > 1}
        assert not repeated

    @invariant()
    def what_is_reported_adds_up(self) -> None:
        if self.spark.consumer is None:
            return
        report = self.spark.consumer.report()
        counts = report.counters
        assert counts.delivered == sum(self.spark.given_in_run.values())
        assert report.held >= 0
        failures = counts.deletes_refused + counts.deletes_given_up + counts.leases_lost
        assert report.unconfirmed_deletes <= failures + self.spark.pending_in_checkpoint()

    @invariant()
    def leases_are_kept(self) -> None:
        if self.renewals_run:
            assert not self.spark.held_and_visible()

    @invariant()
    def memory_and_leases_are_bounded(self) -> None:
        """Three batches: one being deleted, one with Spark, one that waits (docs/design.md)."""
        self.steps += 1
        if self.spark.consumer is not None:
            held = self.spark.consumer.report().held
            assert held <= 3 * self.largest_batch()

    def largest_batch(self) -> int:
        """How many messages a batch may have that is not over yet."""
        return self.spark.config().max_messages * max(1, self.ahead)

    def teardown(self) -> None:
        """The faults end, the foreign consumer goes home: everything gets processed."""
        self.service.end_faults()
        self.spark.another_has_data = False
        for looks in range(400 if self.ahead else 3):  # a closing offset takes a further one
            if looks > 3 and not self.there():
                break
            self.service.pass_time(10 * VISIBILITY_S)
            while self.triggers_in_peace():
                self.nothing_is_lost()
                self.once_in_one_run()
                self.memory_and_leases_are_bounded()
        assert self.there() == set(), "an idle stream leaves an empty queue"
        self.nothing_is_lost()
        super().teardown()

    def triggers_in_peace(self) -> bool:
        try:
            return self.spark.trigger(fails_on=self.makes_its_batch_fail)
        except ServiceError as error:  # of a look ahead, before the faults ended
            if isinstance(error, QueueNotFound):
                raise  # every queue that has to be there is there
            assert not self.failed_in_peace, "the faults are over"
            self.spark.stop()
            self.failed_in_peace = True
            return True


class OnOldSpark(Promises):
    """The same on Spark 4.0 and 4.1, which tell a source less."""

    bare = True


class SeveralQueues(Promises):
    """Three queues, of which two at most are asked at once."""

    queues: ClassVar[list[str]] = [SOURCE, "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"parallelism": "2"}


class Strictly(Promises):
    """With queuePriority=strict a queue is read when those before it had nothing more."""

    queues: ClassVar[list[str]] = [SOURCE, "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"parallelism": "2", "queuePriority": "strict"}

    def __init__(self) -> None:
        super().__init__()
        self.has_more = dict.fromkeys(self.queues, False)
        self.service.seen.append(self.comes_in_turn)

    def comes_in_turn(self, call: Call[Any], given: Answer) -> None:
        if not isinstance(call, Dequeue) or given.status != 200:
            return
        name = call.queue.name
        self.has_more[name] = bool(call.result(given).received)
        before = self.queues[: self.queues.index(name)]
        passed_over = [each for each in before if self.has_more[each]]
        assert not (self.has_more[name] and passed_over), "the first queue comes first"


class StrictlyOnOldSpark(Strictly):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class OwnSize(SeveralQueues):
    """How many requests are under way is learned from the answers."""

    options: ClassVar[dict[str, str]] = {"parallelism": "auto"}


class RenewedInTime(SeveralQueues):
    """A renewal thread beside it, which never stands still; few renewals at once."""

    options: ClassVar[dict[str, str]] = {"parallelism": "2"}
    renewals_run = True


class Isolation(SeveralQueues):
    """Poison among them: batches fail until it stands alone and is set aside."""

    options: ClassVar[dict[str, str]] = {"parallelism": "2", "maxDequeueCount": "2"}
    poison_every = 10


class IsolationOnOldSpark(Isolation):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class QueuesComeAndGo(Promises):
    """Queues that a pattern finds are made, and removed with what is in them."""

    queues: ClassVar[list[str]] = [SOURCE, "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"parallelism": "2", "queue": f"{SOURCE},*"}

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[str] = [*type(self).queues]  # type: ignore[misc]
        self.gone: list[str] = []
        self.made: list[str] = [*type(self).queues]

    def set_aside(self) -> set[str]:
        return {v.text for name in self.made for v in self.service.views(f"{name}-poison")}

    @precondition(lambda self: len(self.queues) > 1)
    @rule(data=st.data())
    def somebody_removes_a_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.queues[1:]))
        self.others.remove(name)
        self.queues.remove(name)
        self.gone.append(name)

    @precondition(lambda self: len(self.queues) < 5)
    @rule(again=st.booleans())
    def somebody_creates_a_queue(self, again: bool) -> None:
        name = self.gone.pop(0) if self.gone and again else f"queue-{len(self.made)}"
        self.service.account.create(name)
        self.service.account.create(f"{name}-poison")
        self.queues.append(name)
        self.made.append(name)


class QueuesComeAndGoWithPoison(QueuesComeAndGo):
    """The same with messages that make their batches fail."""

    options: ClassVar[dict[str, str]] = {**QueuesComeAndGo.options, "maxDequeueCount": "2"}
    poison_every = 10


class QueuesComeAndGoOnOldSpark(QueuesComeAndGoWithPoison):
    """The same on Spark 4.0 and 4.1."""

    bare = True


def planning_ahead(machine: type[Promises], batches: int = 3) -> type[Promises]:
    """The same with another engine than Spark: its calls prove less.

    batches: so many are planned before the first of them is committed, and any may fail.
    """
    name = f"{machine.__name__}Planning{batches}Ahead"
    return type(name, (machine,), {"ahead": batches, "__doc__": machine.__doc__})


MACHINES = [
    Promises,
    OnOldSpark,
    planning_ahead(Promises),
    planning_ahead(Promises, 2),
    planning_ahead(Promises, 1),
    planning_ahead(OnOldSpark, 1),
    SeveralQueues,
    Strictly,
    StrictlyOnOldSpark,
    OwnSize,
    RenewedInTime,
    Isolation,
    IsolationOnOldSpark,
    planning_ahead(Isolation),
    QueuesComeAndGo,
    QueuesComeAndGoWithPoison,
    QueuesComeAndGoOnOldSpark,
]


def run_machine(machine: type[RuleBasedStateMachine], steps: int = 40) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_promises(machine: type[Promises]) -> None:
    run_machine(machine)


@pytest.mark.parametrize("bad", [{"m7"}, {"m1", "m2", "m40"}, {"m64"}, set()])
def test_only_the_guilty_reaches_the_poison_queue(bad: set[str]) -> None:
    """Restarted by a loop, as a job scheduler would: the query gets through."""
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    spark = Spark(service, {"maxDequeueCount": "3", "maxMessagesPerTrigger": "64"})
    for number in range(1, 65):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())

    idle = 0
    for _ in range(500):
        if spark.trigger(fails_on=bad.__contains__):
            idle = 0
            continue
        idle += 1
        service.clock.advance(VISIBILITY_S + 1)
        if idle > 2:
            break

    assert service.views() == []
    assert {view.text for view in service.views(POISON)} == bad
    assert len(service.views(POISON)) == len(bad), "copied once"
    assert set(spark.committed_texts) == {f"m{n}" for n in range(1, 65)} - bad
    assert all(count == 1 for count in spark.committed_texts.values())


def a_query(texts: int = 8, **options: str) -> tuple[Service, Spark]:
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    for number in range(texts):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    return service, Spark(service, options)


def test_a_batch_of_ten_times_its_visibility_timeout_is_delivered_once() -> None:
    """Promise 6: the lease follows the work; a second consumer polls throughout and gets none."""
    service, spark = a_query()
    taken: list[Any] = []

    def long_work() -> None:
        for _ in range(10 * VISIBILITY_S // 10):
            service.clock.advance(10)
            spark.renew()
            taken.extend(service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32))

    assert spark.trigger(meanwhile=long_work)
    assert not spark.trigger()

    assert taken == []
    assert service.views() == []
    # Renewed at half the lease, so twice in each visibility timeout: no more requests than that.
    assert service.updates == 8 * 20
    assert [n for n in spark.committed_texts.values() if n > 1] == []


def test_an_ordinary_batch_is_never_renewed() -> None:
    service, spark = a_query()
    spark.trigger(meanwhile=lambda: (service.clock.advance(VISIBILITY_S / 2 - 1), spark.renew()))
    assert service.updates == 0


def test_when_the_driver_is_gone_nothing_is_renewed() -> None:
    service, spark = a_query()
    spark.trigger(dies="after_log")
    service.clock.advance(VISIBILITY_S)
    spark.renew()
    assert service.updates == 0
    assert len(service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32)) == 8


@pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])
def test_after_a_clean_restart_the_last_batch_is_settled_before_anything_is_dequeued(
    bare: bool,
) -> None:
    """Promise 3: even when its leases have run out."""
    service, spark = a_query()
    spark.bare = bare
    spark.trigger()
    spark.consumer = None  # committed, but the process never learnt of it
    service.clock.advance(10 * VISIBILITY_S)
    assert not spark.trigger(), "no row comes twice"
    assert service.views() == []


def test_a_latest_offset_that_fails_gives_back_what_it_had_leased() -> None:
    """Promise 4."""
    service, spark = a_query(6, messageEncoding="base64")
    with pytest.raises(UndecodableBody):
        spark.trigger()
    assert [view.visible for view in service.views()] == [True] * 6


def test_a_lost_lease_is_not_renewed_for_ever() -> None:
    service, spark = a_query(1)

    def somebody_takes_it() -> None:
        service.clock.advance(VISIBILITY_S + 1)
        service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=1, visibility=600)
        for _ in range(5):
            spark.renew()
            service.clock.advance(VISIBILITY_S)

    spark.trigger(meanwhile=somebody_takes_it)
    assert service.updates == 1


def test_a_committed_message_whose_delete_was_refused_is_deleted_when_it_comes_back() -> None:
    """Promise 2: whatever happened to its lease, it gives no second row in this run."""
    service, spark = a_query(1)
    queue = service.account.queue(SOURCE)

    def somebody_looks_at_it() -> None:
        service.clock.advance(VISIBILITY_S + 1)
        queue.dequeue(now=service.clock.now(), count=1, visibility=30)

    assert spark.trigger(meanwhile=somebody_looks_at_it)
    spark.trigger()  # the delete is refused: the receipt is somebody else's now; an offset says so
    assert len(service.views()) == 1
    service.clock.advance(31)
    spark.trigger()
    assert service.views() == []
    assert [*spark.committed_texts.values()] == [1]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_delete_that_was_refused_after_a_lost_answer_gives_no_second_row(arrives: bool) -> None:
    """Whether the first attempt arrived cannot be told: if it did not, the message comes back."""
    service, spark = a_query(1)

    def somebody_holds_it() -> None:
        service.clock.advance(VISIBILITY_S + 1)
        queue = service.account.queue(SOURCE)
        queue.dequeue(now=service.clock.now(), count=1, visibility=30)

    assert spark.trigger(meanwhile=None if arrives else somebody_holds_it)
    service.meet("delete", Fate.LOST_AFTER if arrives else Fate.LOST_BEFORE)
    assert not spark.trigger()
    assert spark.consumer
    report = spark.consumer.report()
    assert (report.held, report.unconfirmed_deletes, report.counters.deleted) == (0, 0, 1)
    assert len(service.views()) == (0 if arrives else 1)
    service.clock.advance(31)
    assert not spark.trigger()
    assert service.views() == []
    assert spark.consumer.report().counters.deleted == 1


def test_a_committed_message_that_somebody_updated_is_a_new_one() -> None:
    service, spark = a_query(1)
    queue = service.account.queue(SOURCE)

    def somebody_updates_it() -> None:
        now = service.clock.advance(VISIBILITY_S + 1) or service.clock.now()
        (view,) = queue.dequeue(now=now, count=1, visibility=30)
        queue.update(view.id, view.receipt, now=now, visibility=0, text="stage 2")

    assert spark.trigger(meanwhile=somebody_updates_it)
    assert spark.trigger()
    assert spark.committed_texts == {"m0": 1, "stage 2": 1}
    assert not spark.trigger()
    assert service.views() == []


def test_never_more_is_leased_than_three_batches_while_poison_is_isolated() -> None:
    """One suspect among very many messages that come for the first time."""
    service, spark = a_query(1, maxDequeueCount="5")
    spark.trigger(dies="batch")
    for number in range(1, 500):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())

    while spark.trigger():
        assert spark.consumer
        assert spark.consumer.report().held <= 3 * 8
        assert sum(not view.visible for view in service.views()) <= 3 * 8

    assert len(spark.committed_texts) == 500
