"""The fake service takes the versions that there are, and no others."""

import pytest
import urllib3
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient
from fake_calls import VERSION, detail, refusal
from fake_signing import signed_get

from spark_azqueue.testing import FakeQueueService


@pytest.mark.parametrize(
    "version", ["", "x", "2021-12-03", "2021-12-2", "2999-01-01", "2021/12/02"]
)
def test_a_version_that_there_is_not_is_refused(call, version):
    reply = call("GET", "/orders/messages", headers={"x-ms-version": version})
    assert refusal(reply) == (400, "InvalidHeaderValue")
    assert detail(reply, "HeaderName") == "x-ms-version"
    assert reply.headers["x-ms-version"] == VERSION


@pytest.mark.parametrize("version", ["2015-04-05", "2021-12-02", "2026-10-06"])
def test_the_version_asked_for_is_the_one_answered(call, version):
    reply = call("GET", "/orders/messages", headers={"x-ms-version": version})
    assert (reply.status, reply.headers["x-ms-version"]) == (200, version)


def test_a_sas_brings_its_own_version(call):
    assert call("GET", "/orders/messages").status == 200
    assert call("GET", f"/orders/messages?api-version={VERSION}").status == 200
    reply = call("GET", "/orders/messages?api-version=2021")
    assert refusal(reply) == (400, "InvalidQueryParameterValue")


def test_a_signed_request_must_name_its_version(service):
    headers = signed_get(service)
    del headers["x-ms-version"]
    reply = urllib3.request(
        "GET", service.url + "/orders?comp=metadata", headers=headers, retries=False
    )
    assert refusal(reply) == (400, "MissingRequiredHeader")
    assert detail(reply, "HeaderName") == "x-ms-version"


def test_other_versions_on_request():
    with FakeQueueService(versions=["2999-01-01"]) as service:
        service.create_queue("orders")
        for version, good in (("2999-01-01", True), (VERSION, False)):
            headers = signed_get(service, version=version)
            reply = urllib3.request(
                "GET", service.url + "/orders?comp=metadata", headers=headers, retries=False
            )
            assert (reply.status == 200) is good


def test_the_sdks_newest_version_is_known(service):
    with QueueClient.from_connection_string(
        service.connection_string, "orders", retry_total=0
    ) as client:
        assert client.get_queue_properties().approximate_message_count == 0


def test_the_sdk_tells_of_a_version_that_is_unknown(service):
    with (
        FakeQueueService(versions=["2999-01-01"]) as newer,
        QueueClient.from_connection_string(
            newer.connection_string, "orders", retry_total=0
        ) as client,
        pytest.raises(HttpResponseError) as caught,
    ):
        client.get_queue_properties()
    assert (caught.value.status_code, caught.value.error_code) == (400, "InvalidHeaderValue")
