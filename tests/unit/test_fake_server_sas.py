"""The fake service judges shared access signatures, for one queue and for the account."""

import datetime
from urllib.parse import parse_qs, urlencode

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.queue import (
    AccountSasPermissions,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    Services,
    generate_account_sas,
    generate_queue_sas,
)
from fake_calls import detail, message_xml, refusal

from spark_azqueue.account import Account
from spark_azqueue.credentials import authority_for
from spark_azqueue.testing import FakeQueueService

FAILED = (403, "AuthenticationFailed")
NOT_PERMITTED = (403, "AuthorizationPermissionMismatch")
RESOURCE_TYPE = (403, "AuthorizationResourceTypeMismatch")
UNFIT = (403, "AuthorizationFailure")
HOUR = datetime.timedelta(hours=1)


def utc():
    return datetime.datetime.now(datetime.timezone.utc)


def of_queue(service, letters="raup", queue="orders", *, key=None, expiry=None, **more):
    """Signed by Azure's SDK."""
    return generate_queue_sas(
        service.account,
        queue,
        key or service.key,
        permission=QueueSasPermissions.from_string(letters) if letters else None,
        expiry=utc() + HOUR if expiry is None else expiry,
        **more,
    )


def of_account(service, letters="rwdlacup", types="sco", **more):
    """Signed by Azure's SDK."""
    more.setdefault("expiry", utc() + HOUR)
    return generate_account_sas(
        service.account,
        service.key,
        ResourceTypes.from_string(types),
        AccountSasPermissions.from_string(letters),
        **more,
    )


def changed(sas, **parameters):
    fields = {name: values[0] for name, values in parse_qs(sas).items()}
    fields |= parameters
    return urlencode({name: value for name, value in fields.items() if value is not None})


OPERATIONS = {
    "peek": ("GET", "/orders/messages?peekonly=true", None, 200),
    "properties": ("GET", "/orders?comp=metadata", None, 200),
    "put": ("POST", "/orders/messages", message_xml("x"), 201),
    "update": ("PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=0", None, 404),
    "dequeue": ("GET", "/orders/messages", None, 200),
    "delete": ("DELETE", "/orders/messages/x?popreceipt=AAAA", None, 404),
    "create": ("PUT", "/orders", None, 204),
    "set_metadata": ("PUT", "/orders?comp=metadata", None, 204),
    "clear": ("DELETE", "/orders/messages", None, 204),
    "list": ("GET", "?comp=list", None, 200),
    "delete_queue": ("DELETE", "/orders", None, 204),
}
NEEDS = {
    "peek": "r", "properties": "r", "put": "a", "update": "u", "dequeue": "p", "delete": "p",
    "create": "cw", "set_metadata": "w", "clear": "d", "list": "l", "delete_queue": "d",
}  # fmt: skip
TYPES = {"s": ["list"], "c": ["properties", "create", "set_metadata", "delete_queue"]}
TYPE_OF = {op: next((kind for kind in "sc" if op in TYPES[kind]), "o") for op in OPERATIONS}


def ask(call, op, sas):
    method, path, body, status = OPERATIONS[op]
    reply = call(method, path, body, sas=sas)
    return "good" if reply.status == status else refusal(reply)


class TestOfAQueue:
    @pytest.mark.parametrize("op", sorted(OPERATIONS))
    def test_each_letter_permits_its_operations(self, call, service, op):
        for letter in "raup":
            expected = "good" if letter == NEEDS[op] else NOT_PERMITTED
            if NEEDS[op] not in "raup":
                expected = FAILED if op == "list" else UNFIT
            assert ask(call, op, of_queue(service, letter)) == expected

    def test_it_is_for_its_queue_alone(self, call, service):
        service.create_queue("other")
        assert ask(call, "put", of_queue(service, queue="other")) == FAILED
        assert service.count("orders") == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"sp": "raup"},
            {"se": "2999-01-01T00:00:00Z"},
            {"st": "2000-01-01T00:00:00Z"},
            {"spr": "https,http"},
            {"sip": "127.0.0.1"},
            {"sv": "2021-10-04"},
            {"sig": "AAAA"},
            {"sig": "\u00e9"},
            {"sig": ""},
        ],
    )
    def test_what_was_changed_after_signing_is_refused(self, call, service, change):
        reply = call("GET", "/orders/messages", sas=changed(of_queue(service, "rp"), **change))
        assert refusal(reply) == FAILED
        assert "String to sign used was" in detail(reply)

    @pytest.mark.parametrize("name", ["sv", "se", "sp"])
    def test_what_it_cannot_do_without(self, call, service, name):
        reply = call("GET", "/orders/messages", sas=changed(of_queue(service), **{name: None}))
        assert refusal(reply) == FAILED
        assert f"{name} is mandatory" in detail(reply)

    def test_another_key_is_refused(self, call, service):
        assert ask(call, "put", of_queue(service, key="b3RoZXI=")) == FAILED

    def test_a_key_that_was_changed_no_longer_holds(self, call, service):
        sas = of_queue(service)
        assert ask(call, "put", sas) == "good"
        service.key = "b3RoZXI="
        assert ask(call, "put", sas) == FAILED

    def test_a_stored_access_policy_is_not_served(self, call, service):
        reply = call("GET", "/orders/messages", sas=of_queue(service, policy_id="mine"))
        assert refusal(reply) == FAILED
        assert "stored access policies" in detail(reply)

    @pytest.mark.parametrize("version", ["2014-02-14", "2999-01-01", "x"])
    def test_a_version_that_is_not_served(self, call, service, version):
        reply = call("GET", "/orders/messages", sas=changed(of_queue(service), sv=version))
        assert refusal(reply) == FAILED

    def test_a_letter_that_a_queue_does_not_have(self, call, service):
        reply = call("GET", "/orders/messages", sas=service.sas("orders", "raupd"))
        assert refusal(reply) == FAILED
        assert "'raupd'" in detail(reply)


class TestTime:
    @pytest.mark.parametrize(
        ("start", "expiry", "good"),
        [
            (None, 1, True),
            (None, 0, False),
            (None, -1, False),
            (0, 1, True),
            (-10, 1, True),
            (1, 10, False),
        ],
    )
    def test_from_start_to_expiry(self, start, expiry, good):
        at = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)

        def seconds(number):
            return None if number is None else at + datetime.timedelta(seconds=number)

        with FakeQueueService(credential_time=at.timestamp) as service:
            service.create_queue("orders")
            sas = of_queue(service, start=seconds(start), expiry=seconds(expiry))
            with QueueClient(service.url, "orders", credential=sas, retry_total=0) as client:
                if good:
                    client.send_message("x")
                else:
                    with pytest.raises(ClientAuthenticationError) as caught:
                        client.send_message("x")
                    assert caught.value.error_code == "AuthenticationFailed"
                    assert "specified time frame" in caught.value.message
            assert service.count("orders") == good

    def test_it_runs_out_while_it_is_used(self):
        times = iter([1_800_000_000.0, 1_800_000_000.0, 1_800_003_600.0])
        with FakeQueueService(credential_time=lambda: next(times)) as service:
            service.create_queue("orders")
            sas = service.sas("orders")
            with QueueClient(service.url, "orders", credential=sas, retry_total=0) as client:
                client.send_message("x")
                with pytest.raises(ClientAuthenticationError):
                    client.send_message("x")

    def test_moving_the_clock_of_the_messages_leaves_credentials_alone(self, call, service):
        sas = of_queue(service)
        service.clock.advance(30 * 86_400)
        assert ask(call, "put", sas) == "good"

    @pytest.mark.parametrize(
        ("text", "good"),
        [
            ("2999-01-01", True),
            ("2999-01-01T00:00Z", True),
            ("2999-01-01T00:00:00Z", True),
            ("2999-01-01T00:00:00.1234567Z", True),
            ("2999-01-01T00:00:00+01:00", True),
            ("2999-01-01T00:00:00", False),
            ("2999-13-01", False),
            ("tomorrow", False),
            ("4102444800", False),
        ],
    )
    def test_forms_of_a_time(self, call, service, text, good):
        assert ask(call, "put", of_queue(service, expiry=text)) == ("good" if good else FAILED)


class TestPlace:
    def test_https_alone(self, call, service):
        refused = (403, "AuthorizationProtocolMismatch")
        assert ask(call, "put", of_queue(service, protocol="https")) == refused
        assert ask(call, "put", of_queue(service, protocol="https,http")) == "good"
        assert ask(call, "put", of_queue(service, protocol="http")) == FAILED

    @pytest.mark.parametrize(
        ("addresses", "expected"),
        [
            ("127.0.0.1", "good"),
            ("127.0.0.0-127.0.0.9", "good"),
            ("10.0.0.1", (403, "AuthorizationSourceIPMismatch")),
            ("127.0.0.2-127.0.0.9", (403, "AuthorizationSourceIPMismatch")),
            ("here", FAILED),
        ],
    )
    def test_addresses(self, call, service, addresses, expected):
        assert ask(call, "put", of_queue(service, ip=addresses)) == expected


class TestOfTheAccount:
    @pytest.mark.parametrize("op", sorted(OPERATIONS))
    def test_each_letter_permits_its_operations(self, call, service, op):
        for letter in "raupcwdl":
            service.create_queue("orders")
            expected = "good" if letter in NEEDS[op] else NOT_PERMITTED
            assert ask(call, op, of_account(service, letter)) == expected

    @pytest.mark.parametrize("op", sorted(OPERATIONS))
    def test_each_type_is_for_its_operations(self, call, service, op):
        for kind in "sco":
            service.create_queue("orders")
            expected = "good" if kind == TYPE_OF[op] else RESOURCE_TYPE
            assert ask(call, op, of_account(service, types=kind)) == expected

    def test_it_must_be_for_queues(self, call, service):
        sas = of_account(service, services=Services(blob=True, fileshare=True))
        assert ask(call, "dequeue", sas) == (403, "AuthorizationServiceMismatch")

    @pytest.mark.parametrize(
        "change", [{"srt": "s"}, {"ss": "qb"}, {"sp": "rwdlacupx"}, {"ses": "mine"}, {"srt": None}]
    )
    def test_what_was_changed_after_signing_is_refused(self, call, service, change):
        sas = changed(of_account(service), **change)
        assert ask(call, "dequeue", sas) == FAILED

    def test_an_older_version_is_signed_otherwise(self, call, service):
        assert ask(call, "put", changed(of_account(service), sv="2019-02-02")) == FAILED

    def test_the_services_permissions_are_the_upper_bound(self, call, service):
        service.permissions = "r"
        assert ask(call, "peek", of_account(service)) == "good"
        assert ask(call, "put", of_account(service)) == NOT_PERMITTED


def test_azures_clients_with_both_kinds(service):
    with QueueServiceClient(service.url, credential=of_account(service)) as account:
        account.create_queue("jobs")
        assert [queue.name for queue in account.list_queues()] == ["jobs", "orders"]
    sas = of_queue(service, queue="jobs")
    with QueueClient(service.url, "jobs", credential=sas, retry_total=0) as jobs:
        jobs.send_message("x")
        (received,) = jobs.receive_messages(max_messages=2)
        updated = jobs.update_message(received, visibility_timeout=0)
        jobs.delete_message(updated)
        assert jobs.get_queue_properties().approximate_message_count == 0


def test_what_the_connector_signs_holds(call, service):
    authority = authority_for(Account(service.account, service.url, key=service.key))
    for op in ("peek", "properties", "put", "update", "dequeue", "delete"):
        assert ask(call, op, authority.sign("orders", "?", {})[1:]) == "good"
    assert ask(call, "put", authority.sign("other", "?", {})[1:]) == FAILED


def test_a_signature_in_the_address_does_not_excuse_the_header(call, service):
    reply = call("GET", "/orders/messages", headers={"Authorization": "SharedKey a:b"})
    assert reply.status == 400
    headers = {"Authorization": "SharedKey a:b", "x-ms-version": "2021-12-02"}
    assert refusal(call("GET", "/orders/messages", headers=headers)) == FAILED
