"""The fake service: what it tells tests, outages, its command line."""

import signal
import subprocess
import sys
import threading

import pytest
import urllib3
from azure.storage.queue import QueueServiceClient
from fake_calls import NOW, VERSION, address, lease, message_xml, page, port_of

from spark_azqueue.testing import FakeQueueService, Refusal


class TestConveniences:
    def test_messages(self, call, service):
        ids = service.put_many("orders", ["a", "b"], ttl=60)
        ids.append(service.put("orders", "c", delay=10, ttl=-1))
        [leased] = lease(call)
        found = service.messages("orders")
        assert [m.id for m in found] == ids
        assert [m.text for m in found] == ["a", "b", "c"]
        assert [m.visible for m in found] == [False, True, False]
        assert [m.dequeue_count for m in found] == [1, 0, 0]
        assert found[0].receipt == leased["PopReceipt"]
        assert [m.expiration for m in found[:2]] == [NOW + 60, NOW + 60]
        assert (service.count("orders"), service.visible("orders")) == (3, 1)
        service.clock.advance(30)
        assert service.visible("orders") == 3
        service.clock.advance(30)
        assert service.count("orders") == 1

    @pytest.mark.parametrize("action", ["count", "visible", "messages", "delete_queue"])
    def test_missing_queue(self, service, action):
        with pytest.raises(Refusal, match="QueueNotFound"):
            getattr(service, action)("nowhere")

    def test_put_is_as_strict_as_the_service(self, service):
        with pytest.raises(Refusal, match="RequestBodyTooLarge"):
            service.put("orders", "x" * 65_537)
        with pytest.raises(Refusal, match="InvalidXmlDocument"):
            service.put("orders", "\x00")

    def test_counters_and_log(self, call, service):
        service.put("orders", "x")
        [leased] = lease(call)
        call("DELETE", address(leased))
        call("DELETE", address(leased))
        call("PATCH", "/orders")
        assert service.requests == {"dequeue": 1, "delete": 2, "unknown": 1}
        assert service.statuses == {
            ("dequeue", 200): 1,
            ("delete", 204): 1,
            ("delete", 404): 1,
            ("unknown", 405): 1,
        }
        assert service.log == [
            ("dequeue", "orders", "", 200),
            ("delete", "orders", leased["MessageId"], 204),
            ("delete", "orders", leased["MessageId"], 404),
            ("unknown", "", "", 405),
        ]
        service.reset_counters()
        assert (service.requests, service.statuses, service.log) == ({}, {}, [])

    def test_log_is_bounded(self):
        with FakeQueueService(log_size=2) as service:
            for _ in range(3):
                urllib3.request("GET", service.url + "/orders/messages", retries=False)
            assert len(service.log) == 2
            assert service.requests["dequeue"] == 3

    def test_wait_until(self, call, service):
        def put_later():
            for text in "abc":
                call("POST", "/orders/messages", message_xml(text))

        sender = threading.Thread(target=put_later)
        sender.start()

        def three_by_peeking():
            peeked = page(call("GET", "/orders/messages?peekonly=true&numofmessages=32"))
            return len(peeked) == 3 and [m["MessageText"] for m in peeked]

        # The predicate may itself send requests.
        assert service.wait_until(three_by_peeking, timeout=10) == ["a", "b", "c"]
        sender.join()

    def test_wait_until_sees_what_the_test_itself_puts(self, service):
        sender = threading.Thread(target=lambda: service.put("orders", "x"))
        sender.start()
        assert service.wait_until(lambda: service.count("orders"), timeout=10) == 1
        sender.join()

    def test_wait_until_gives_up(self, service):
        with pytest.raises(TimeoutError, match="not so within"):
            service.wait_until(lambda: False, timeout=0.01)

    def test_wait_until_gives_up_though_requests_never_cease(self, call, service):
        with pytest.raises(TimeoutError, match="'peek'"):
            service.wait_until(
                lambda: page(call("GET", "/orders/messages?peekonly=true")), timeout=0.05
            )

    def test_outage(self, client, service):
        service.put("orders", "x")
        url = service.url
        assert client.get_queue_properties().approximate_message_count == 1
        service.stop()
        service.stop()
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            urllib3.request("GET", url + "/orders/messages", retries=False)
        service.start()
        assert service.url == url
        assert client.get_queue_properties().approximate_message_count == 1
        with pytest.raises(RuntimeError):
            service.start()

    def test_port_taken(self, service):
        with pytest.raises(OSError, match="in use"):
            FakeQueueService(port=port_of(service)).start()

    def test_no_address_before_the_start(self):
        with pytest.raises(RuntimeError):
            _ = FakeQueueService().connection_string


def test_command_line():
    with subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue.testing", "--queue", "orders", "--queue", "jobs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        connection_string = process.stdout.readline().strip()
        with QueueServiceClient.from_connection_string(
            connection_string, api_version=VERSION, retry_total=0
        ) as client:
            assert [queue.name for queue in client.list_queues()] == ["jobs", "orders"]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "", "")


def test_command_line_refuses_an_illegal_queue_name():
    finished = subprocess.run(
        [sys.executable, "-m", "spark_azqueue.testing", "--queue", "NO"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert "OutOfRangeInput" in finished.stderr
    assert "Traceback" not in finished.stderr
