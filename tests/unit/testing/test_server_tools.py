"""The fake service: what it tells tests, outages, its command line."""

import pytest
import urllib3
from fake_calls import page, port_of

from spark_azqueue.testing import FakeQueueService, Refusal


class TestConveniences:
    @pytest.mark.parametrize("action", ["count", "visible", "messages", "delete_queue"])
    def test_missing_queue(self, service, action):
        with pytest.raises(Refusal, match="QueueNotFound"):
            getattr(service, action)("nowhere")

    def test_put_is_as_strict_as_the_service(self, service):
        with pytest.raises(Refusal, match="RequestBodyTooLarge"):
            service.put("orders", "x" * 65_537)
        with pytest.raises(Refusal, match="InvalidXmlDocument"):
            service.put("orders", "\x00")

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
