"""The fake service under Azure's own client."""

import time
from email.utils import parsedate_to_datetime

import pytest
import urllib3
from azure.core.exceptions import (
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.queue import QueueClient, QueueServiceClient
from fake_calls import NOW, VERSION

from spark_azqueue.testing import FakeQueueService, Fault


class TestSdk:
    def test_life_of_a_message(self, service):
        with QueueClient.from_connection_string(
            service.connection_string, "jobs", api_version=VERSION, retry_total=0
        ) as client:
            client.create_queue(metadata={"Owner": "me"})
            sent = client.send_message("<héllo & \u2028>", visibility_timeout=0, time_to_live=60)
            assert sent.inserted_on.timestamp() == int(NOW)
            properties = client.get_queue_properties()
            assert properties.approximate_message_count == 1
            assert properties.metadata == {"Owner": "me"}
            [peeked] = client.peek_messages(max_messages=5)
            assert (peeked.id, peeked.content, peeked.dequeue_count) == (
                sent.id,
                "<héllo & \u2028>",
                0,
            )
            [received] = client.receive_messages(max_messages=5, visibility_timeout=30)
            assert (received.id, received.content, received.dequeue_count) == (
                sent.id,
                "<héllo & \u2028>",
                1,
            )
            assert received.next_visible_on.timestamp() == int(NOW + 30)
            updated = client.update_message(
                received.id, received.pop_receipt, visibility_timeout=0, content="new"
            )
            with pytest.raises(ResourceNotFoundError) as stale:
                client.delete_message(received.id, received.pop_receipt)
            assert stale.value.error_code == "MessageNotFound"
            [again] = client.receive_messages(max_messages=1)
            assert (again.content, again.dequeue_count) == ("new", 2)
            assert again.pop_receipt != updated.pop_receipt
            client.delete_message(again.id, again.pop_receipt)
            client.clear_messages()
            client.delete_queue()
            with pytest.raises(ResourceNotFoundError) as missing:
                client.get_queue_properties()
            assert missing.value.error_code == "QueueNotFound"

    def test_control_plane(self, service):
        with QueueServiceClient.from_connection_string(
            service.connection_string, api_version=VERSION, retry_total=0
        ) as client:
            client.create_queue("other", metadata={"a": "b"})
            found = [(q.name, q.metadata) for q in client.list_queues(include_metadata=True)]
            assert found == [("orders", {}), ("other", {"a": "b"})]
            assert [q.name for q in client.list_queues(results_per_page=1)] == ["orders", "other"]
            with pytest.raises(ResourceExistsError) as exists:
                client.create_queue("other")
            assert exists.value.error_code == "QueueAlreadyExists"
            client.delete_queue("other")

    def test_refusals_as_the_sdk_reports_them(self, client, service):
        service.put("orders", "x")
        service.faults.add(Fault("dequeue", "busy_503", nth=1))
        service.faults.add(Fault("dequeue", "unauthorized", nth=2))
        for expected, status, code in [
            (HttpResponseError, 503, "ServerBusy"),
            (ClientAuthenticationError, 401, "InvalidAuthenticationInfo"),
        ]:
            with pytest.raises(expected) as caught:
                next(client.receive_messages())
            assert (caught.value.status_code, caught.value.error_code) == (status, code)
        service.faults.add(Fault("dequeue", "broken_xml", times=1))
        with pytest.raises(DecodeError):
            next(client.receive_messages())
        assert client.get_queue_properties().approximate_message_count == 1

    def test_real_time_by_default(self):
        before = int(time.time())
        with FakeQueueService() as service:
            reply = urllib3.request("GET", service.url + "?comp=list", retries=False)
        date = parsedate_to_datetime(reply.headers["Date"]).timestamp()
        assert before <= date <= time.time() + 1
