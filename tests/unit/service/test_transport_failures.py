"""One attempt per call, against the fake: each failure is told apart, and no secret is told."""

import re
from urllib.parse import parse_qs

import pytest
from queues import OneQueue
from refs import ORDERS, ref

from spark_azqueue.errors import AccessDenied, QueueNotFound, ServiceUnavailable
from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.management import create_queue, read_metadata
from spark_azqueue.testing import Fault


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.dequeue(1, 60),
        lambda queue: queue.peek(1),
        lambda queue: queue.put("hello"),
        lambda queue: queue.delete(Lease(ref("nowhere"), "id", "AAAA")),
        lambda queue: queue.update(Lease(ref("nowhere"), "id", "AAAA"), 60),
        lambda queue: queue.check(),
    ],
)
def test_a_missing_queue_is_never_a_missing_message(service, call):
    account = read_account({"secret.connectionString": service.connection_string}, {})

    with pytest.raises(QueueNotFound, match="'nowhere' of account 'fakeaccount'"):
        call(OneQueue(account, ref("nowhere")))


@pytest.mark.parametrize(
    ("kind", "raised", "status"),
    [
        ("busy_503", ServiceUnavailable, 503),
        ("busy_429", ServiceUnavailable, 429),
        ("error_500", ServiceUnavailable, 500),
        ("reset", ServiceUnavailable, None),
        ("reply_lost", ServiceUnavailable, None),
        ("forbidden", AccessDenied, 403),
        ("unauthorized", AccessDenied, 401),
    ],
)
@pytest.mark.parametrize("operation", ["dequeue", "put"])
def test_each_fault_is_told_apart_and_never_retried_here(
    service, orders, kind, raised, status, operation
):
    service.faults.add(Fault(operation, kind))
    service.reset_counters()

    with pytest.raises(raised) as caught:
        orders.dequeue(1, 60) if operation == "dequeue" else orders.put("hello")

    assert caught.value.status == status
    # Only what was not believed is asked again, once, with a new proof.
    assert service.requests[operation] == (2 if status == 401 else 1)


@pytest.mark.parametrize(
    ("letters", "call", "needs"),
    [
        ("rau", lambda queue: queue.dequeue(1, 60), "SAS letter 'p'"),
        ("rau", lambda queue: queue.delete(Lease(ORDERS, "id", "AAAA")), "SAS letter 'p'"),
        ("rap", lambda queue: queue.update(Lease(ORDERS, "id", "AAAA"), 1), "SAS letter 'u'"),
        ("rap", lambda queue: queue.check(), "SAS letter 'u'"),
        ("rup", lambda queue: queue.put("hello"), "SAS letter 'a'"),
        ("rup", lambda queue: queue.check_put(), "SAS letter 'a'"),
        ("aup", lambda queue: queue.peek(1), "SAS letter 'r'"),
    ],
)
def test_a_missing_right_is_named(service, orders, letters, call, needs):
    service.permissions = letters

    with pytest.raises(AccessDenied) as caught:
        call(orders)

    assert needs in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"types": "s"}, "srt=sco"),
        ({"types": "c"}, "srt=sco"),
    ],
)
def test_a_sas_for_something_else_says_what_it_lacks(service, given, says):
    account = read_account({"accountUrl": service.url, "sasToken": service.sas(**given)}, {})

    with pytest.raises(AccessDenied) as caught:
        OneQueue(account, ORDERS).put("hello")

    assert says in str(caught.value)
    assert "does not accept this credential" not in str(caught.value)


def test_a_sas_for_one_queue_can_never_create_it(service):
    sas = service.sas(queue="orders")
    account = read_account({"accountUrl": service.url, "sasToken": sas}, {})

    with pytest.raises(AccessDenied, match="a SAS for one queue can never create it"):
        create_queue(account, "orders")


def test_a_service_that_takes_the_probe_shows_it_to_nobody(service, orders, monkeypatch):
    seen = []
    monkeypatch.setattr(orders, "put", lambda *arguments: seen.append(arguments), raising=False)

    type(orders).check_put(orders)

    ((_, delay_s, ttl_s),) = seen
    assert delay_s >= ttl_s > 0, "it would expire before anybody sees it"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"queue": "orders", "life": -3600.0}, "the SAS has ended"),
        ({"queue": "elsewhere"}, "the SAS does not fit. It was made for another queue"),
    ],
)
def test_an_expired_sas_and_one_for_another_queue_are_told_apart(service, given, why):
    sas = service.sas(**given)
    account = read_account({"accountUrl": service.url, "sasToken": sas}, {})

    with pytest.raises(AccessDenied, match=why) as by_queue:
        OneQueue(account, ORDERS).dequeue(1, 60)
    with pytest.raises(AccessDenied, match=why) as by_sdk:
        read_metadata(account, "orders")

    signature = parse_qs(sas)["sig"][0]
    assert signature not in f"{by_queue.value} {by_sdk.value}"


def test_a_wrong_key_is_told(service):
    text = re.sub("AccountKey=[^;]+", "AccountKey=d3Jvbmc=", service.connection_string)
    account = read_account({"secret.connectionString": text}, {})

    with pytest.raises(AccessDenied, match="the account key is not that of the account"):
        OneQueue(account, ORDERS).dequeue(1, 60)
