"""The fake service judges shared access signatures, for one queue and for the account."""

import pytest
from azure.storage.queue import QueueClient, QueueServiceClient, Services
from fake_calls import detail, refusal
from fake_signing import FAILED, NEEDS, OPERATIONS, TYPE_OF, ask, changed, of_account, of_queue

from spark_azqueue.service.account import Account
from spark_azqueue.service.credentials import authority_for

NOT_PERMITTED = (403, "AuthorizationPermissionMismatch")
RESOURCE_TYPE = (403, "AuthorizationResourceTypeMismatch")
UNFIT = (403, "AuthorizationFailure")


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
