"""The fake service judges SharedKey: the SDK's signatures hold, and what is wrong is refused."""

import base64
import time
from email.utils import formatdate

import pytest
import urllib3
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.queue import QueueClient, QueueServiceClient
from fake_calls import VERSION, detail, refusal
from fake_signing import NONE, now, shared, signature, signed_get

from spark_azqueue.testing import FakeQueueService

OTHER_KEY = base64.b64encode(b"another key".ljust(64, b".")).decode()


def test_a_signature_by_hand_holds(service, metadata):
    assert metadata(signed_get(service)).status == 200


def test_the_sdk_signs_every_operation_as_it_is_read_here(service):
    with QueueServiceClient.from_connection_string(
        service.connection_string, retry_total=0
    ) as account:
        jobs = account.create_queue("jobs", metadata={"a_b": "1", "a0b": "2", "AB": "3  4"})
        jobs.set_queue_metadata({"ab_c": "x", "ab0c": "y", "Abc": "z"})
        assert jobs.get_queue_properties().metadata == {"ab_c": "x", "ab0c": "y", "Abc": "z"}
        sent = jobs.send_message("<é & \u2028>", time_to_live=60)
        assert len(jobs.peek_messages(5)) == 1
        (received,) = jobs.receive_messages(max_messages=5)
        assert received.id == sent.id
        updated = jobs.update_message(received, visibility_timeout=0, content="new")
        jobs.delete_message(updated.id, updated.pop_receipt)
        jobs.clear_messages()
        found = account.list_queues(name_starts_with="j", include_metadata=True)
        assert [queue.name for queue in found] == ["jobs"]
        jobs.delete_queue()
    assert service.statuses["unknown", 405] == 0


def test_another_key_is_refused(service):
    text = service.connection_string.replace(service.key, OTHER_KEY)
    with QueueClient.from_connection_string(text, "orders", retry_total=0) as client:
        with pytest.raises(ClientAuthenticationError) as caught:
            client.send_message("x")
    assert (caught.value.status_code, caught.value.error_code) == (403, "AuthenticationFailed")
    assert service.count("orders") == 0


def test_a_key_that_was_changed_no_longer_holds(service, metadata):
    old = signed_get(service)
    service.key = OTHER_KEY
    assert refusal(metadata(old)) == (403, "AuthenticationFailed")
    assert metadata(signed_get(service)).status == 200
    assert OTHER_KEY in service.connection_string


@pytest.mark.parametrize("key", ["not base64!", "a"])
def test_a_key_is_base64(service, key):
    with pytest.raises(ValueError, match="not base64") as caught:
        FakeQueueService(key=key)
    assert key not in str(caught.value).split()
    with pytest.raises(ValueError, match="not base64"):
        service.key = key


@pytest.mark.parametrize("signed", ["a b", "a \t b"])
def test_white_space_is_signed_as_the_reference_says_or_as_it_is(service, metadata, signed):
    date = now()
    lines = ["GET", *NONE, f"x-ms-client-request-id:{signed}", f"x-ms-date:{date}"]
    lines += [f"x-ms-version:{VERSION}", "/fakeaccount/fakeaccount/orders", "comp:metadata"]
    fields = {"x-ms-date": date, "x-ms-version": VERSION, "x-ms-client-request-id": "a \t b"}
    assert metadata({**fields, **shared(service, signature(service, lines))}).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"x-ms-version": "2021-10-04"},
        {"x-ms-client-request-id": "added later"},
        {"Content-Type": "text/plain"},
        {"If-Match": "*"},
        {"Range": "bytes=0-1"},
    ],
)
def test_what_was_changed_after_signing_is_refused(service, metadata, change):
    reply = metadata({**signed_get(service), **change})
    assert refusal(reply) == (403, "AuthenticationFailed")
    assert "following string to sign: 'GET" in detail(reply)


def test_another_address_than_the_one_signed_is_refused(service):
    headers = signed_get(service)
    for path in ("/other?comp=metadata", "/orders?comp=metadata&timeout=1", "/?comp=list"):
        reply = urllib3.request("GET", service.url + path, headers=headers, retries=False)
        assert refusal(reply) == (403, "AuthenticationFailed")


def test_another_account_than_the_one_addressed_is_refused(service, metadata):
    headers = signed_get(service)
    headers["Authorization"] = headers["Authorization"].replace("fakeaccount", "other")
    assert refusal(metadata(headers)) == (403, "AuthenticationFailed")


def test_shared_key_lite(service, metadata):
    date = now()
    lines = ["GET", "", "", "", f"x-ms-date:{date}", f"x-ms-version:{VERSION}"]
    lines.append(f"/{service.account}/{service.account}/orders?comp=metadata")
    fields = {"x-ms-date": date, "x-ms-version": VERSION}
    lite = shared(service, signature(service, lines), "SharedKeyLite")
    assert metadata({**fields, **lite}).status == 200
    full = shared(service, signature(service, lines))
    assert refusal(metadata({**fields, **full})) == (403, "AuthenticationFailed")


def test_a_date_header_will_do_and_is_signed_in_its_place(service, metadata):
    date = now()
    standard = ["", "", "", "", "", date, "", "", "", "", ""]
    lines = ["GET", *standard, f"x-ms-version:{VERSION}"]
    lines += [f"/{service.account}/{service.account}/orders", "comp:metadata"]
    headers = {"x-ms-version": VERSION, **shared(service, signature(service, lines))}
    assert metadata({**headers, "Date": date}).status == 200
    late = formatdate(time.time() - 901, usegmt=True)
    assert refusal(metadata({**headers, "Date": late})) == (403, "AuthenticationFailed")


def test_x_ms_date_goes_before_date(service, metadata):
    long_ago = formatdate(0, usegmt=True)
    assert metadata(signed_get(service, Date=long_ago)).status == 200
    reply = metadata(signed_get(service, date=long_ago, Date=now()))
    assert refusal(reply) == (403, "AuthenticationFailed")


@pytest.mark.parametrize(
    ("seconds", "word"), [(-899, None), (-901, "too old"), (899, None), (901, "too new")]
)
def test_a_request_is_good_for_15_minutes(seconds, word):
    at = 1_800_000_000.0
    with FakeQueueService(credential_time=lambda: at) as service:
        service.create_queue("orders")
        reply = urllib3.request(
            "GET",
            service.url + "/orders?comp=metadata",
            headers=signed_get(service, formatdate(at + seconds, usegmt=True)),
            retries=False,
        )
        if word is None:
            assert reply.status == 200
        else:
            assert refusal(reply) == (403, "AuthenticationFailed")
            assert word in detail(reply)


def test_moving_the_clock_of_the_messages_leaves_credentials_alone(service, metadata):
    service.clock.advance(30 * 86_400)
    assert metadata(signed_get(service)).status == 200


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        "2026-11-22T01:00:00Z",
        "Sun, 99 Nov 2026 01:00:00 GMT",
        "Sun, 22 Nov 2026 01:00:00 +0100",
        "Sun, 22 Xyz 2026 01:00:00 GMT",
    ],
)
def test_a_date_that_is_none_is_refused(service, metadata, date):
    reply = metadata(signed_get(service, date))
    assert refusal(reply) == (403, "AuthenticationFailed")
    assert "Date header in the request is incorrect" in detail(reply)


def test_no_date_is_refused(service, metadata):
    headers = signed_get(service)
    del headers["x-ms-date"]
    reply = metadata(headers)
    assert refusal(reply) == (403, "AuthenticationFailed")
    assert "date header not specified" in detail(reply)


def test_a_header_twice_is_refused(service, metadata):
    headers = urllib3.HTTPHeaderDict(signed_get(service))
    headers.add("x-ms-version", VERSION)
    assert refusal(metadata(headers))[0] == 400
