"""Calls to blobs and of the control plane: they end in time, and read no more than they ask for."""

import gzip
import re
import zlib

import pytest
from misbehaving import Server, Slow, dribbling, endless, in_turn, says

from spark_azqueue.errors import LostBlob, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs import container
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.etags import etag_of
from spark_azqueue.service.blobs.protection import Protection, protection_of
from spark_azqueue.service.blobs.references import Large, Reference
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.incoming import Incoming
from spark_azqueue.service.queues.management import create_queue, list_queues, read_metadata
from spark_azqueue.service.wire import pages
from spark_azqueue.service.wire.calls import SMALL_BYTES

KEY = "c2VjcmV0LWtleQ=="
SAS = "sv=2021-12-02&sp=raup&sig=aBcD1234%2Bx"
NAME = "0123456789abcdef" * 2
CREDENTIALS = {"key": {"key": KEY}, "SAS": {"sas": SAS}}
SHORT_S = 0.3  # a deadline for servers that never end


def account(server, kind="SAS"):
    return Account("acc", server.url + "/acc", **CREDENTIALS[kind])


def store(server, kind="SAS", **given):
    return BlobStore(account(server, kind), "bodies", **given)


def metadata(server, kind, **given):
    return read_metadata(account(server, kind), "orders", **given)


def got(server, kind, size=10, **given):
    return store(server, kind, **given).get(Reference("bodies", NAME, size))


CALLS = {
    "create": lambda server, kind, **given: create_queue(account(server, kind), "orders", **given),
    "metadata": metadata,
    "get": got,
    "put": lambda server, kind, **given: store(server, kind, **given).put(Large(b"a", False)),
    "delete": lambda server, kind, **given: store(server, kind, **given).delete(NAME),
}
KINDS = pytest.mark.parametrize("kind", CREDENTIALS)
EACH = pytest.mark.parametrize("call", CALLS)


@pytest.fixture
def pulled(monkeypatch):
    """How many bytes of bodies were taken from the network, in pieces as they came."""
    sizes = []
    write = Incoming.write

    def counting(self, chunk):
        sizes.append(len(chunk))
        return write(self, chunk)

    monkeypatch.setattr(Incoming, "write", counting)
    return sizes


@EACH
@KINDS
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(call, kind, status):
    with Server(says(200)) as other:
        elsewhere = f"{other.url}/elsewhere?sig=hidden"
        with Server(says(status, Location=elsewhere)) as server:
            with pytest.raises(ServiceError, match=r"redirect .HTTP \d+. to '127.0.0.1'") as caught:
                CALLS[call](server, kind)
            assert len(server.requests) == 1
        assert other.connections == 0
        assert other.requests == []
    assert caught.value.status == status
    assert "sig=" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("place", ["http://[", "//\x1b[31mred", "x" * 3000, "/else", ""])
def test_an_odd_redirect_is_told_without_its_place(place):
    with Server(says(307, Location=place)) as server, pytest.raises(ServiceError) as caught:
        metadata(server, "SAS")
    assert "(HTTP 307) to elsewhere" in str(caught.value)
    assert str(caught.value).isprintable()


HEADS = {
    "status": "",
    "headers": "HTTP/1.1 200 OK\r\n",
    "body": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "blob": "HTTP/1.1 206 OK\r\nContent-Length: 9999\r\nContent-Range: bytes 0-9998/9999\r\n\r\n",
    "error": "HTTP/1.1 404 No\r\nContent-Length: 100000\r\n\r\n",
}


@EACH
@pytest.mark.parametrize("head", HEADS)
def test_a_byte_now_and_then_does_not_prolong_a_call(call, head):
    # (What it sends of a status or of headers is legal as far as it goes.)
    piece = {"status": b"HTTP/1.1 " + b" " * 1000, "headers": b"a: " + b"b" * 1000}.get(head, b"x")
    size = {"size": 10_000} if call == "get" else {}
    with Server(dribbling(HEADS[head], piece)) as server:
        with pytest.raises(ServiceUnavailable, match="no answer") as caught:
            CALLS[call](server, "SAS", within_s=SHORT_S, **size)
    host = re.escape(server.url.removeprefix("http://")).replace(":", "(:|, port )")
    assert re.search(host, str(caught.value)), "the host is named"
    assert "sig=" not in str(caught.value)


@EACH
def test_what_is_tried_again_counts_as_one_call(call):
    with Server(says(503)) as server, pytest.raises(ServiceUnavailable):
        CALLS[call](server, "SAS", within_s=SHORT_S)


def test_connections_that_are_closed_are_opened_anew():
    with Server(says(202)) as server:
        made = store(server)
        for _ in range(2):
            made.delete(NAME)
            made.close()
    assert server.connections == 2


def test_a_body_that_nobody_takes_does_not_prolong_a_put(monkeypatch):
    monkeypatch.setattr(container, "SLOWEST_BYTES_PER_S", 2**40)

    def stuck(connection, stopped):
        stopped.wait()
        return False

    class ReadsNothing(Server):
        def read(self, connection):
            return b"nothing is read"

    with ReadsNothing(stuck) as server, pytest.raises(ServiceUnavailable):
        store(server, within_s=SHORT_S).put(Large(bytes(20_000_000), False))


@pytest.mark.parametrize(("size", "seconds"), [(0, 60.0), (20 * 2**20, 60.0 + 160.0)])
def test_a_deadline_grows_with_the_body(monkeypatch, size, seconds):
    noted = []
    data = bytes(size)

    def carried_out(session, call, retry, within_s):
        noted.append(within_s)
        return data

    monkeypatch.setattr(container, "carried_out", carried_out)

    with Server(says(200)) as server:
        made = store(server, within_s=60.0)
        reference = made.put(Large(data, False))
        assert made.get(reference) == data

    assert noted == [seconds, pytest.approx(seconds, abs=0.001)], "a byte more is asked for"


def blob(body, total=None, **headers):
    ending = f"bytes 0-{len(body) - 1}/{len(body) if total is None else total}"
    return says(206, body, Content_Range=ending, ETag='"1"', **headers)


def test_no_more_is_asked_for_than_a_byte_beyond_the_size(pulled):
    with Server(blob(b"0123456789")) as server:
        assert got(server, "key") == b"0123456789"
    (request,) = server.requests
    assert re.search(rb"(?i)\r\nx-ms-range: bytes=0-10\r\n", request)
    assert b"ccept-encoding" not in request.lower()
    with Server(blob(b"0123456789a", 10**9)) as server:
        with pytest.raises(LostBlob, match="has more bytes, and its message says 10"):
            got(server, "key")
    assert len(server.requests) == 1
    assert sum(pulled) == 10 + 11


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
        "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-10/11\r\nContent-Length: 1000000000000\r\n\r\n",
        "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-10/11\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 206 OK\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-10/11\r\n\r\n",
    ],
    ids=["ignores the range", "is longer than it says", "has no length", "chunked", "compressed"],
)
def test_reading_stops_whatever_the_server_sends(head, pulled):
    piece = b"ffff\r\n" + bytes(0xFFFF) + b"\r\n" if "chunked" in head else bytes(0xFFFF)
    with Server(endless(head, piece)) as server:
        with pytest.raises(ServiceError, match="more than the 11 bytes asked for"):
            got(server, "SAS")
    assert len(server.requests) == 1, "it would be no better a second time"
    assert sum(pulled) <= 11 + 64 * 1024, "no more than what libcurl takes at a time"


def test_nothing_is_decompressed(pulled):
    packed = gzip.compress(bytes(100_000_000))
    assert len(packed) < 100_000
    whole = blob(packed, Content_Encoding="gzip")
    with Server(whole) as server:
        found = store(server).get(Reference("bodies", NAME, len(packed)))
    assert found == packed
    assert sum(pulled) == len(packed)


@EACH
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(bytes(10_000_000)), {"Content_Encoding": "gzip"}),
        (zlib.compress(bytes(10_000_000)), {"Content_Encoding": "deflate"}),
        (b"\xff\xfe", {"Content_Type": "text/html"}),
        (b"<not <xml", {"Content_Type": "application/xml"}),
        (b"", {"Content_Type": "application/xml"}),
        (b"{", {"Content_Type": "application/json"}),
    ],
)
def test_the_status_of_an_error_is_told_whatever_comes_with_it(call, body, headers):
    with Server(says(403, body, **headers)) as server:
        with pytest.raises(ServiceError, match="HTTP 403"):
            CALLS[call](server, "SAS")


@EACH
def test_a_long_page_of_somebody_else_is_not_read(call, pulled):
    head = "HTTP/1.1 403 No\r\nContent-Type: text/html\r\nContent-Length: 1000000000000\r\n\r\n"
    with Server(endless(head, bytes(0xFFFF))) as server:
        with pytest.raises(ServiceError, match="HTTP 403"):
            CALLS[call](server, "SAS")
    assert sum(pulled) <= SMALL_BYTES + 64 * 1024


@EACH
def test_headers_without_end_are_not_read(call):
    with Server(endless("HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000)) as server:
        with pytest.raises(ServiceError):
            CALLS[call](server, "SAS", within_s=SHORT_S)


@pytest.mark.parametrize(
    "answer",
    [
        says(200, b"0123456789"),
        says(206, b"0123456789"),
        says(206, b"0123456789", Content_Range="nonsense"),
        says(206, b"0123456789", Content_Range="bytes 0-9/²"),
        says(206, b"0123456789", Content_Range="bytes 0-8/10"),
        says(206, b"0123456789", Content_Range="bytes 1-10/11"),
        says(206, b"0123456789", Content_Range="bytes 0-9/11"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_ours(answer):
    with Server(answer) as server, pytest.raises(ServiceError, match="proxy on the way"):
        got(server, "SAS")


def test_a_blob_that_is_empty_is_read_as_azurite_tells_it():
    with Server(says(206, Content_Range="bytes 0--1/0")) as server:
        assert store(server).get(Reference("bodies", NAME, 0)) == b""


def test_an_empty_answer_about_the_account_is_an_error_of_ours():
    with Server(says(200)) as server:
        logs = Container(account(server), "logs", if_missing="")
        with pytest.raises(ServiceError, match=r"read the blob settings of account 'acc'.* proxy"):
            protection_of(logs, "a")


@pytest.mark.parametrize("count", ["many", "²", "1" * 5000])
def test_a_count_that_is_none_is_an_error_of_ours(count):
    with Server(says(200, x_ms_approximate_messages_count=count)) as server:
        with pytest.raises(ServiceError, match="proxy on the way"):
            metadata(server, "SAS")


def test_a_code_with_escapes_is_not_shown():
    with Server(says(400, x_ms_error_code="\x1b[31mRed")) as server:
        with pytest.raises(ServiceError) as caught:
            metadata(server, "SAS")
    assert str(caught.value).isprintable()


@EACH
def test_each_request_has_an_id_of_ours_and_each_error_that_of_the_service(call):
    given = "3f1c2b4e-0003-0045-1c5d-5f6a8b000000"
    with Server(says(403, x_ms_request_id=given)) as server:
        with pytest.raises(ServiceError, match=f"x-ms-request-id {given}") as caught:
            CALLS[call](server, "SAS")
    assert caught.value.request_id == given
    assert re.search(rb"\r\nx-ms-client-request-id: [0-9a-f-]{36}\r", server.requests[0])


def test_connections_are_kept():
    with Server(says(202)) as server:
        made = store(server)
        for _ in range(5):
            made.delete(NAME)
        made.close()
        assert (len(server.requests), server.connections) == (5, 1)


def test_the_credential_is_ours_whatever_lies_in_the_home_directory(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with Server(says(202)) as server:
        store(server, "key").delete(NAME)
        store(server, "SAS").delete(NAME)
    by_key, by_sas = server.requests
    assert b"sr=c&se=" in by_key
    assert b"sig=aBcD1234%2Bx " in by_sas
    assert b"Authorization" not in by_key + by_sas


def test_a_proxy_is_asked_and_gets_no_header_of_the_service(monkeypatch):
    with Server(says(200, x_ms_approximate_messages_count="0", x_ms_meta_Colour="red")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        there = Account("acc", "http://acc.queue.example", key=KEY)
        assert read_metadata(there, "orders") == {"Colour": "red"}
    assert proxy.requests[0].startswith(b"GET http://acc.queue.example/orders?comp=metadata&")


@pytest.mark.parametrize("proxy", ["http://user:hush@[:1", "odd://user:hush@127.0.0.1:1"])
def test_the_password_of_a_proxy_is_in_no_error(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    there = Account("acc", "http://acc.queue.example", key=KEY)
    with pytest.raises(ServiceError) as caught:
        read_metadata(there, "orders", SHORT_S)
    assert "hush" not in str(caught.value)


def test_headers_are_bounded_by_ourselves_too():
    incoming = Incoming(SMALL_BYTES)
    taken = [incoming.header(b"a: b\r\n") for _ in range(20_000)]

    assert taken[0] == 6
    assert taken[-1] == -1
    assert incoming.header(b"HTTP/1.1 200 OK\r\n") == -1, "those that came before count, too"


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────


def page(*names, marker=""):
    listed = "".join(f"<Queue><Name>{name}</Name></Queue>" for name in names)
    text = (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://x/">'
        f"<Queues>{listed}</Queues><NextMarker>{marker}</NextMarker></EnumerationResults>"
    )
    return says(200, text.encode(), Content_Type="application/xml")


def test_a_list_of_queues_goes_on_behind_empty_pages_and_repeats_a_page_alone():
    busy = says(503, x_ms_error_code="ServerBusy")
    answers = page("abc", marker="m1"), page(marker="m2"), busy, page("abd")
    with Server(in_turn(*answers)) as server:
        assert list_queues(account(server), "ab") == ["abc", "abd"]

    asked = [re.search(rb"marker=(\w+)", request) for request in server.requests]
    assert [found and found[1] for found in asked] == [None, b"m1", b"m2", b"m2"]


def test_a_page_of_the_longest_names_is_read():
    names = [f"{number:063}" for number in range(5_000)]
    with Server(page(*names)) as server:
        assert list_queues(account(server), "") == names


@pytest.mark.parametrize("names", [(), ("orders",)])
def test_a_list_of_queues_without_end_has_one_deadline_for_all_pages(names, monkeypatch):
    with Server(page(*names, marker="again")) as server:
        monkeypatch.setattr(pages, "time", Slow(server, 5.0))
        with pytest.raises(ServiceUnavailable, match=r"12 pages with [\d,]+ names came in 60 s"):
            list_queues(account(server), "", within_s=60.0)
    assert len(server.requests) == 12


# ── properties ────────────────────────────────────────────────────────────────────────────────────


def settings(soft_delete):
    text = f"<StorageServiceProperties>{soft_delete}</StorageServiceProperties>"
    return says(200, text.encode(), Content_Type="application/xml")


KEPT = "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>"
DENIED = says(403, x_ms_error_code="AuthorizationPermissionMismatch")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            (says(200, x_ms_has_legal_hold="true"), settings(KEPT), says(200, x_ms_version_id="1")),
            Protection(immutable=True, kept_days=7, versions=True),
        ),
        (
            (says(200, x_ms_has_legal_hold="false"), settings(""), says(200)),
            Protection(immutable=False, kept_days=0, versions=False),
        ),
        ((DENIED, DENIED, DENIED), Protection(None, None, None)),
    ],
)
def test_what_protects_a_blob(answers, expected):
    with Server(in_turn(*answers)) as server:
        assert protection_of(Container(account(server), "logs", if_missing=""), "a") == expected
    asked = [request.split(b"sv=")[0] for request in server.requests]
    assert asked == [
        b"GET /acc/logs?restype=container&",
        b"GET /acc/?restype=service&comp=properties&",
        b"HEAD /acc/logs/a?",
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (says(200, ETag='"0x1"'), "0x1"),
        (says(404), None),
        (says(404, x_ms_error_code="BlobNotFound"), None),
    ],
)
def test_the_etag_of_a_blob_has_no_quotation_marks(answer, expected):
    with Server(in_turn(says(503), answer)) as server:
        found = etag_of(Container(account(server), "logs", if_missing=""), "a b/ü")
        assert found == expected
    assert server.requests[-1].startswith(b"HEAD /acc/logs/a%20b/%C3%BC?")


@pytest.mark.parametrize(
    "answer", [says(200), says(200, ETag='""'), says(404, x_ms_error_code="ContainerNotFound")]
)
def test_an_etag_that_is_none_is_an_error(answer):
    with Server(answer) as server, pytest.raises(ServiceError):
        etag_of(Container(account(server), "logs", if_missing=""), "a")


@pytest.mark.parametrize(
    ("path", "sent"),
    [("a//b.json", b"/acc/logs/a//b.json?"), ("a/.../b", b"/acc/logs/a/.../b?"), ("a/", b"/a/?")],
)
def test_the_name_of_a_blob_may_have_empty_parts(path, sent):
    with Server(says(200, ETag='"0x1"')) as server:
        assert etag_of(Container(account(server), "logs", if_missing=""), path) == "0x1"
    assert sent in server.requests[0]


@pytest.mark.parametrize("path", ["../other/b", "a/./b", "a/.."])
def test_no_name_of_a_blob_leads_elsewhere(path):
    with Server(says(200, ETag='"0x1"')) as server:
        with pytest.raises(ServiceError, match="nothing was sent"):
            etag_of(Container(account(server), "logs", if_missing=""), path)
    assert server.requests == []
