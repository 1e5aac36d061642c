"""What the rest of the package relies on, held against the fake and against Azurite.

So the fake stays honest. Where the two differ the difference is in a test of its own. The facts of
the service itself are in `certify`'s table: test_certify_azurite.py and tests/unit/doctor.
"""

import datetime
import time

import pytest
from azure.storage.queue import QueueClient, QueueSasPermissions, generate_queue_sas
from queues import OneQueue

from spark_azqueue.errors import (
    AccessDenied,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import API_VERSION, Account
from spark_azqueue.service.messages import LAST_US, Lease, QueueRef
from spark_azqueue.service.queues import management
from spark_azqueue.service.queues.management import create_queue, list_queues, read_metadata

pytestmark = pytest.mark.core

SOON = 20.0


class Target:
    """A queue service, and one queue in it."""

    def __init__(self, name, connection_string, queue, fake=None):
        self.name = name
        self.connection_string = connection_string
        self.queue = queue
        self.fake = fake
        self.account = read_account({"secret.connectionString": connection_string}, {})

    def open(self, account=None, queue=None):
        account = account or self.account
        return OneQueue(account, QueueRef(self.account.name, queue or self.queue))

    def with_sas(self, letters="raup", key=None):
        """The queue, by a SAS for just these permissions."""
        return self.open(self.with_sas_account(letters, key))

    def with_sas_account(self, letters="raup", key=None):
        """The account as this SAS of the queue sees it."""
        sas = generate_queue_sas(
            self.account.name,
            self.queue,
            key or self.account.key,
            permission=QueueSasPermissions.from_string(letters),
            expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
        )
        if self.fake:  # it looks at no signature, and so at nothing that one signs
            self.fake.permissions = letters
        return Account(self.account.name, self.account.url, sas=sas)

    def remove(self):
        with QueueClient.from_connection_string(
            self.connection_string, self.queue, api_version=API_VERSION
        ) as client:
            client.delete_queue()


@pytest.fixture(params=["fake", "azurite"])
def target(request, queue):
    if request.param == "fake":
        fake = request.getfixturevalue("fake")
        return Target("fake", fake.connection_string, queue, fake)
    return Target("azurite", request.getfixturevalue("azurite_connection_string"), queue)


@pytest.fixture
def orders(target):
    """The queue, created and empty; gone at the end."""
    assert create_queue(target.account, target.queue) is True
    yield target.open()
    if target.fake:
        target.fake.permissions = "raupcdlw"
    target.remove()


def one(queue, visibility=60):
    """Dequeue the one message there is."""
    (received,) = queue.dequeue(32, visibility).received
    return received


def eventually(look):
    """The first true value: leases and times to live are whole seconds of real time."""
    end = time.monotonic() + SOON
    while not (value := look()):
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.05)
    return value


# ── queues ────────────────────────────────────────────────────────────────────────────────────────


def test_queues_are_listed_by_what_their_names_begin_with(target, orders, monkeypatch):
    monkeypatch.setattr(management, "_PAGE", 2)
    prefix = f"{target.queue}-list"
    names = [f"{prefix}-{number}" for number in range(5)]
    for name in names:
        create_queue(target.account, name)
    try:
        assert list_queues(target.account, prefix) == names
        assert target.queue in list_queues(target.account, "")
        assert list_queues(target.account, f"{prefix}-9") == []
    finally:
        for name in names:
            Target(target.name, target.connection_string, name).remove()


def test_more_queues_than_a_list_may_have_are_refused(target, orders, monkeypatch):
    monkeypatch.setattr(management, "MOST_LISTED", 0)

    with pytest.raises(ServiceError, match="a pattern that begins with more letters"):
        list_queues(target.account, target.queue)


def test_a_sas_of_one_queue_may_not_list_the_queues(target, orders):
    account = target.with_sas_account()

    with pytest.raises(AccessDenied, match="list the queues of account"):
        list_queues(account, target.queue)


@pytest.mark.parametrize("name", ["No", "a--b", "x" * 64])
def test_an_illegal_name_is_refused(target, name):
    with pytest.raises(ServiceError) as caught:
        create_queue(target.account, name)

    assert caught.value.status == 400


def test_checks_pass_and_change_nothing(target, orders):
    orders.put("hello")

    date = orders.check()
    orders.check_put()

    assert abs(date.timestamp() - time.time()) < 60
    assert [message.text for message in orders.peek(32)] == ["hello"]


def test_metadata_comes_back_as_it_was_set(target, orders):
    assert read_metadata(target.account, target.queue) == {}

    noted = {"defaulttimeout": "90", "PoisonThreshold": "3"}
    with QueueClient.from_connection_string(
        target.connection_string, target.queue, api_version=API_VERSION
    ) as client:
        client.set_queue_metadata(noted)

    found = read_metadata(target.account, target.queue)
    assert {name.lower(): value for name, value in found.items()} == {
        name.lower(): value for name, value in noted.items()
    }
    with pytest.raises(QueueNotFound, match="the metadata of queue 'missing'"):
        read_metadata(target.account, "missing")


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_as_it_was_put(target, orders):
    before = int(time.time()) * 1_000_000

    orders.put("hello")
    message, _ = one(orders)

    assert (message.text, message.dequeue_count, message.intact) == ("hello", 1, True)
    assert message.queue == QueueRef(target.account.name, target.queue)
    assert len(message.message_id) == 36
    assert before - 1_000_000 <= message.insertion_time <= time.time() * 1_000_000 + 1_000_000
    assert message.expiration_time - message.insertion_time == 7 * 86_400 * 1_000_000
    assert 59_000_000 <= message.next_visible_time - message.insertion_time <= 61_000_000


@pytest.mark.parametrize("text", ["a\r\nb", "\r", "a\rb"])
def test_a_carriage_return_comes_back_on_the_fake(target, orders, text):
    orders.put(text)

    back = one(orders)[0].text
    if target.fake:
        assert back == text
    else:  # Azurite writes it raw, and XML reads that as a line feed
        assert back in (text, text.replace("\r\n", "\n").replace("\r", "\n"))


@pytest.mark.parametrize("ask", [1, 5, 32])
def test_a_page_has_as_many_as_were_asked_for(orders, ask):
    texts = [str(n) for n in range(40)]
    for text in texts:
        orders.put(text)

    page = orders.dequeue(ask, 60)

    assert page.asked == ask
    assert [message.text for message, _ in page.received] == texts[:ask]
    assert len(orders.dequeue(32, 60).received) == min(32, 40 - ask)


@pytest.mark.parametrize(("count", "visibility"), [(0, 60), (33, 60), (1, 0), (1, 604_801)])
def test_a_dequeue_beyond_the_bounds_is_refused(orders, count, visibility):
    with pytest.raises(ServiceError) as caught:
        orders.dequeue(count, visibility)

    assert caught.value.status == 400
    assert caught.value.outcome is Outcome.FATAL


# ── delay and time to live ────────────────────────────────────────────────────────────────────────


def test_the_last_second_of_a_hidden_message_is_seen_by_the_answers_time(orders):
    """What isolationLevel=readCommitted compares: ExpirationTime, and the Date of the answer."""
    orders.put("abandoned", delay_s=4, ttl_s=5)
    orders.put("own", ttl_s=3600)

    own = orders.dequeue(32, 60)
    last = eventually(lambda: (page := orders.dequeue(32, 60)).received and page)

    (message, _) = last.received[0]
    assert message.text == "abandoned"
    assert message.expiration_time - last.answered_at <= LAST_US
    (message, _) = own.received[0]
    assert message.text == "own"
    assert 3598 * 1_000_000 <= message.expiration_time - own.answered_at <= 3600 * 1_000_000


@pytest.mark.parametrize(("delay", "ttl"), [(60, 60), (61, 60), (604_801, -1), (0, 0), (0, -2)])
def test_delays_and_times_to_live_beyond_the_bounds_are_refused(orders, delay, ttl):
    with pytest.raises(ServiceError) as caught:
        orders.put("hello", delay, ttl)

    assert caught.value.status == 400
    assert orders.peek(1) == ()


# ── receipts ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", "other", "😀 <&>", " \n "])
def test_an_update_may_replace_the_text(orders, text):
    orders.put("hello")
    _, lease = one(orders)

    outcome, newer = orders.update(lease, 0, text)
    message, _ = one(orders)

    assert (outcome, message.text, message.dequeue_count) == (Outcome.OK, text, 2)
    assert newer.message_id == message.message_id == lease.message_id
    assert orders.update(newer, 0, "again")[0].refused, "it was dequeued since"
    assert orders.update(lease, 0, "again")[0].refused


def test_a_message_is_deleted_once(orders):
    orders.put("hello")
    _, lease = one(orders)

    assert orders.delete(lease) is Outcome.OK
    assert orders.delete(lease).refused
    assert orders.update(lease, 60)[0].refused


def test_a_renewal_voids_the_old_receipt_and_keeps_text_and_count(orders):
    orders.put(" <a>\n")
    _, old = one(orders)

    outcome, new = orders.update(old, 0)

    assert outcome is Outcome.OK
    assert orders.delete(old).refused
    message, newest = one(orders)
    assert (message.text, message.dequeue_count) == (" <a>\n", 2)
    assert orders.delete(new).refused  # the dequeue made a newer one
    assert orders.delete(newest) is Outcome.OK


def test_a_receipt_whose_time_is_over_still_renews(orders):
    orders.put("hello")
    _, lease = one(orders, visibility=1)
    eventually(lambda: orders.peek(1))

    assert orders.update(lease, 60)[0] is Outcome.OK
    assert orders.peek(1) == ()


@pytest.mark.parametrize(
    "receipt", ["AgAAAAMAAAAAAAAAAAAAAAAAAAA=", "nonsense", "a b+c/d=&x=1", "é", "x"]
)
def test_a_receipt_that_never_was_is_dead(orders, receipt):
    orders.put("hello")
    message, lease = one(orders)
    foreign = Lease(orders.ref, message.message_id, receipt)

    assert orders.delete(foreign).refused
    assert orders.update(foreign, 60)[0].refused
    assert orders.delete(lease) is Outcome.OK


def test_a_message_that_never_was_is_gone(orders):
    lease = Lease(orders.ref, "11111111-1111-1111-1111-111111111111", "AAAAAA==")

    assert orders.delete(lease).refused
    assert orders.update(lease, 0)[0].refused


@pytest.mark.parametrize("visibility", [-1, 604_801])
def test_a_renewal_beyond_the_bounds_does_not_say_that_the_receipt_is_dead(orders, visibility):
    orders.put("hello")
    _, lease = one(orders)

    with pytest.raises(ServiceError) as caught:
        orders.update(lease, visibility)

    assert not caught.value.outcome.refused
    assert orders.delete(lease) is Outcome.OK


# ── who may do what ───────────────────────────────────────────────────────────────────────────────


def test_a_sas_for_the_queue_does_all_that_source_and_sink_need(target, orders):
    queue = target.with_sas("raup")

    queue.put("hello")
    assert len(queue.peek(1)) == 1
    assert queue.count() == 1
    queue.check()
    queue.check_put()
    _, lease = one(queue)
    outcome, newest = queue.update(lease, 60)
    assert (outcome, queue.delete(newest)) == (Outcome.OK, Outcome.OK)


@pytest.mark.parametrize(
    ("letters", "call"),
    [
        ("rau", lambda queue: queue.dequeue(1, 60)),
        ("rap", lambda queue: queue.check()),
        ("rup", lambda queue: queue.put("hello")),
        ("rup", lambda queue: queue.check_put()),
        ("aup", lambda queue: queue.peek(1)),
        ("aup", lambda queue: queue.count()),
    ],
    ids=["dequeue", "check", "put", "check_put", "peek", "count"],
)
def test_a_sas_without_the_letter_is_denied(target, orders, letters, call):
    with pytest.raises(AccessDenied):
        call(target.with_sas(letters))


def test_a_wrong_key_is_denied(target, orders):
    if target.fake:
        target.fake.revoked = True

    wrong = "d3JvbmcgYnV0IHN0aWxsIGJhc2U2NA=="
    for queue in (
        target.with_sas(key=wrong),
        target.open(Account(target.account.name, target.account.url, key=wrong)),
    ):
        with pytest.raises(AccessDenied) as caught:
            queue.dequeue(1, 60)
        assert caught.value.status == 403
    with pytest.raises(AccessDenied):
        create_queue(Account(target.account.name, target.account.url, key=wrong), "another")
    if target.fake:
        target.fake.revoked = False


def test_where_nobody_listens_the_service_is_unavailable(target, orders):
    unknown_lease = Account(
        target.account.name, f"http://127.0.0.1:9/{target.account.name}", key="YWJj"
    )

    with pytest.raises(ServiceUnavailable):
        target.open(unknown_lease).dequeue(1, 60)
