"""The fake service: a SAS with a user delegation key, made by Azure's SDK or by itself."""

import datetime
from urllib.parse import parse_qs

import pytest
from azure.storage.queue import QueueSasPermissions, generate_queue_sas
from fake_calls import message_xml, refusal
from fake_signing import HOUR, changed, utc

from spark_azqueue.testing import FakeQueueService

DENIED = (403, "AuthenticationFailed")


def by_the_sdk(service, letters="raup", *, key=None, **more):
    return generate_queue_sas(
        service.account,
        "orders",
        permission=QueueSasPermissions.from_string(letters),
        expiry=utc() + HOUR,
        user_delegation_key=key or service.delegation_key(),
        **more,
    )


def put(call, sas, **headers):
    reply = call("POST", "/orders/messages", message_xml("x"), headers=headers, sas=sas)
    return reply.status if reply.status < 300 else refusal(reply)


def bearer(service, **claims):
    return {
        "Authorization": f"Bearer {service.token(**claims)}",
        "x-ms-version": "2025-07-05",
    }


@pytest.mark.parametrize("made", [by_the_sdk, lambda service: service.delegated_sas("orders")])
def test_it_is_accepted(call, service, made):
    sas = made(service)

    assert {"skoid", "sktid", "skt", "ske", "sks", "skv", "sig"} <= parse_qs(sas).keys()
    assert put(call, sas) == 201


def test_the_fakes_own_is_the_same_as_the_sdks(service):
    own = {name: values[0] for name, values in parse_qs(service.delegated_sas("orders")).items()}
    expiry = datetime.datetime.fromisoformat(own["se"].replace("Z", "+00:00"))
    theirs = generate_queue_sas(
        service.account,
        "orders",
        permission="raup",
        expiry=expiry,
        user_delegation_key=service.delegation_key(),
    )

    assert {*own} == {*parse_qs(theirs)}


@pytest.mark.parametrize(
    "change",
    [
        {"sp": "r"},
        {"ske": "2099-01-01T00:00:00Z"},
        {"skoid": "00000000-0000-0000-0000-000000000001"},
        {"sktid": None},
        {"sks": "b"},
        {"skv": "2025-11-05"},
        {"sduoid": "00000000-0000-0000-0000-000000000009"},
        {"sv": "2021-12-02"},
        {"se": "2099-01-01T00:00:00Z"},
    ],
)
def test_one_that_was_changed_is_refused(call, service, change):
    assert put(call, changed(service.delegated_sas("orders"), **change)) == DENIED


def test_a_letter_that_is_missing(call, service):
    sas = service.delegated_sas("orders", "p")

    assert put(call, sas) == (403, "AuthorizationPermissionMismatch")


def test_it_ends_with_its_key_of_seven_days_at_most(call, service):
    assert put(call, by_the_sdk(service, key=service.delegation_key(8 * 86_400))) == DENIED
    assert put(call, by_the_sdk(service, key=service.delegation_key(60))) == 201
    times = [1_900_000_000.0]
    with FakeQueueService(credential_time=lambda: times[0]) as other:
        key = other.delegation_key(60)
        times[0] += 61
        assert put(call, by_the_sdk(other, key=key)) == DENIED


def test_one_for_a_user_takes_the_token_of_that_user(call, service):
    user = "11111111-2222-3333-4444-555555555555"
    for sas in (
        service.delegated_sas("orders", user=user),
        by_the_sdk(service, user_delegation_oid=user),
    ):
        assert put(call, sas) == DENIED
        assert put(call, sas, **bearer(service)) == DENIED
        assert put(call, sas, **bearer(service, oid="another")) == DENIED
        assert put(call, sas, **bearer(service, oid=user)) == 201
