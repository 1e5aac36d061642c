"""A SAS of our own: as the SDK would make it, of a version that no update of the SDK changes."""

from __future__ import annotations

import datetime
from urllib.parse import parse_qsl

import pytest
from azure.storage import blob
from azure.storage.queue import QueueSasPermissions, generate_queue_sas
from azure.storage.queue._shared.shared_access_signature import SharedAccessSignature
from fake_calls import NOW
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.options.account import read_account
from spark_azqueue.service.account import API_VERSION, account_sas, container_sas, queue_sas
from spark_azqueue.service.credentials import Plane, authority_for
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


@pytest.mark.parametrize("https", [True, False])
@pytest.mark.parametrize("service", ["container", "q", "b"])
def test_those_for_a_container_and_an_account_are_the_sdks_too(
    monkeypatch: pytest.MonkeyPatch, service: str, https: bool
) -> None:
    monkeypatch.setattr("azure.storage.blob._shared_access_signature.X_MS_VERSION", API_VERSION)
    more = {"expiry": EXPIRY, **({"protocol": "https"} if https else {})}
    if service == "container":
        rights = blob.ContainerSasPermissions.from_string("rcwdl")
        theirs = blob.generate_container_sas("shop", "logs", KEY, permission=rights, **more)
        ours = container_sas("shop", KEY, "logs", EXPIRY, https=https)
    else:
        signature = SharedAccessSignature("shop", KEY, x_ms_version=API_VERSION)
        theirs = signature.generate_account(
            service, "sc" if service == "b" else "sco", "rdlc", **more
        )
        ours = account_sas("shop", KEY, service, EXPIRY, https=https)

    assert dict(parse_qsl(ours)) == dict(parse_qsl(theirs))


@pytest.mark.parametrize(
    ("plane", "scope", "expected"),
    [
        (Plane.QUEUES, "orders", {"ss": None, "sr": None, "sp": "raup"}),
        (Plane.QUEUES, "", {"ss": "q", "sp": "rdlc"}),
        (Plane.BLOBS, "logs", {"sr": "c", "sp": "rcwdl"}),
        (Plane.BLOBS, "", {"ss": "b", "sp": "rdlc"}),
    ],
)
def test_a_key_signs_for_no_more_than_the_call_is_for(
    plane: Plane, scope: str, expected: dict[str, str | None]
) -> None:
    account = read_account({"accountUrl": "https://shop.q.test", "accountAccessKey": KEY}, {})

    fields = dict(parse_qsl(authority_for(account, plane).sign(scope, "?", {})))

    assert {name: fields.get(name) for name in expected} == expected


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
