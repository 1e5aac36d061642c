"""The fake service on the wire: connections, pieces, order."""

import re
import socket

import pytest
from fake_calls import message_xml, port_of

from spark_azqueue.testing import Fault


class TestConnections:
    def exchange(self, service, *pieces):
        """Send bytes in pieces, say no more, and read until the server closes."""
        with socket.create_connection(("127.0.0.1", port_of(service)), timeout=10) as connection:
            for piece in pieces:
                connection.sendall(piece)
            received = b""
            while piece := connection.recv(65_536):
                received += piece
        return received

    def request(self, service, method, path, body=b"", extra=b""):
        path += ("&" if "?" in path else "?") + service.sas()
        head = f"{method} /fakeaccount{path} HTTP/1.1\r\nHost: x\r\n"
        length = f"Content-Length: {len(body)}\r\n"
        return b"".join((head.encode(), length.encode(), extra, b"\r\n", body))

    def test_pipelined_requests_are_answered_in_order(self, service):
        received = self.exchange(
            service,
            self.request(service, "POST", "/orders/messages", message_xml("a"))
            + self.request(service, "HEAD", "/orders?comp=metadata")
            + self.request(service, "GET", "/orders/messages")
            + self.request(service, "GET", "/nowhere/messages", extra=b"Connection: close\r\n")
            + self.request(service, "GET", "/orders/messages"),
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"201", b"200", b"200", b"404"]
        assert service.requests["dequeue"] == 2

    def test_a_slow_answer_keeps_the_order_of_its_connection(self, service):
        service.faults.add(Fault("put", "slow", nth=1, seconds=0.05))
        received = self.exchange(
            service,
            self.request(service, "POST", "/orders/messages", message_xml("a"))
            + self.request(service, "GET", "/orders/messages", extra=b"Connection: close\r\n"),
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"201", b"200"]

    def test_requests_in_pieces(self, service):
        whole = self.request(
            service, "POST", "/orders/messages", message_xml("a"), extra=b"Connection: close\r\n"
        )
        received = self.exchange(service, *(whole[n : n + 1] for n in range(len(whole))))
        assert received.startswith(b"HTTP/1.1 201 ")
        assert service.count("orders") == 1

    def test_expect_continue(self, service):
        whole = self.request(
            service,
            "POST",
            "/orders/messages",
            message_xml("a"),
            extra=b"Connection: close\r\nExpect: 100-continue\r\n",
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", self.exchange(service, whole)) == [b"100", b"201"]

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET / HTTP/1.0\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
            (b"PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
            (b"PUT /fakeaccount/orders HTTP/1.1\r\n\r\n", b"411"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
            (b"x" * 70_000, b"431"),
        ],
    )
    def test_unreadable_requests_end_the_connection(self, service, request_bytes, status):
        received = self.exchange(service, request_bytes)
        assert received.startswith(b"HTTP/1.1 " + status)
        assert service.requests.total() == 0

    def test_answers_are_chunked_as_the_services_are(self, service):
        received = self.exchange(
            service,
            self.request(service, "GET", "/orders/messages", extra=b"Connection: close\r\n"),
        )
        assert b"\r\nTransfer-Encoding: chunked\r\n" in received
        assert received.endswith(b"\r\n0\r\n\r\n")
