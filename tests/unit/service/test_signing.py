"""A SAS of our own: as the SDK would make it, of a version that no update of the SDK changes."""

from __future__ import annotations

import datetime
from urllib.parse import parse_qsl

import pytest
from azure.storage.queue import QueueSasPermissions, generate_queue_sas
from fake_calls import NOW
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import API_VERSION, queue_sas
from spark_azqueue.service.credentials import authority_for
from spark_azqueue.testing import FakeClock, FakeQueueService

KEY = "c2VjcmV0LWtleS0wMTIzNDU2Nzg5"
EXPIRY = datetime.datetime(2026, 11, 20, 18, 41, tzinfo=datetime.timezone.utc)
SDKS_VERSION = "azure.storage.queue._shared_access_signature.X_MS_VERSION"


@pytest.mark.parametrize("https", [True, False])
def test_it_is_what_the_sdk_makes_for_the_same_version(
    monkeypatch: pytest.MonkeyPatch, https: bool
) -> None:
    monkeypatch.setattr(SDKS_VERSION, API_VERSION)
    theirs = generate_queue_sas(
        "shop",
        "orders",
        KEY,
        permission=QueueSasPermissions(read=True, add=True, update=True, process=True),
        expiry=EXPIRY,
        **({"protocol": "https"} if https else {}),
    )

    ours = queue_sas("shop", KEY, "orders", EXPIRY, https=https)

    assert dict(parse_qsl(ours)) == dict(parse_qsl(theirs))


def test_an_update_of_the_sdk_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service knows versions up to the one that we ask for, the SDK a newer one."""
    monkeypatch.setattr(SDKS_VERSION, "2099-01-01")
    with FakeQueueService(FakeClock(NOW, frozen=True), versions=[API_VERSION]) as service:
        service.create_queue("orders")
        service.put("orders", "hello")
        account = read_account({"secret.connectionString": service.connection_string}, {})

        assert len(OneQueue(account, ORDERS).dequeue(1, 60).received) == 1


@pytest.mark.parametrize(("scheme", "expected"), [("https", "https"), ("http", None)])
def test_a_sas_for_an_endpoint_with_tls_goes_over_tls_alone(
    scheme: str, expected: str | None
) -> None:
    url = f"{scheme}://shop.queue.core.windows.net"
    account = read_account({"accountUrl": url, "accountAccessKey": KEY}, {})

    signed = authority_for(account).sign("orders", "/orders?", {})

    fields = dict(parse_qsl(signed.partition("?")[2]))
    assert (fields["sv"], fields.get("spr")) == (API_VERSION, expected)
