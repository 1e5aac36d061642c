"""A folder of blobs that are written once: what a put has done, whatever became of its answers."""

import gzip
import re
import socket

import pytest
from misbehaving import Server, Slow, dribbling, endless, hangs_up, in_turn, says

from spark_azqueue.errors import AccessDenied, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs import container
from spark_azqueue.service.blobs import folder as blobs
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.names import Stored
from spark_azqueue.service.wire import pages
from spark_azqueue.testing import Fault
from spark_azqueue.testing.blobs import FakeBlobService

SAS = "sv=2021-12-02&sp=rcdl&sig=aBcD1234%2Bx"
SHORT_S = 0.3

CREATED = says(201, ETag='"1"', Last_Modified="Sun, 22 Nov 2026 04:00:00 GMT")
EXISTS = says(409, x_ms_error_code="BlobAlreadyExists")
NOT_MET = says(412, x_ms_error_code="ConditionNotMet")
BUSY = says(503, x_ms_error_code="ServerBusy")
FAILED = says(500, x_ms_error_code="OperationTimedOut")
DENIED = says(403, x_ms_error_code="AuthorizationPermissionMismatch")
REFUSED = says(403, x_ms_error_code="AuthenticationFailed")
NO_BLOB = says(404, x_ms_error_code="BlobNotFound")
NO_CONTAINER = says(404, x_ms_error_code="ContainerNotFound")


def opened(server, **given):
    url = server if isinstance(server, str) else server.url
    return BlobFolder(Account("acc", url + "/acc", sas=SAS), "logs", "orders/a", **given)


def found(data, total=None, **headers):
    span = f"bytes 0-{len(data) - 1}/{len(data) if total is None else total}"
    return says(206, data, Content_Range=span, ETag='"1"', **headers)


def page(*names, marker="", start="orders/a/seg/"):
    listed = "".join(f"<Blob><Name>{start}{name}</Name></Blob>" for name in names)
    text = (
        '\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://x/"'
        f' ContainerName="logs"><Blobs>{listed}</Blobs><NextMarker>{marker}</NextMarker>'
        "</EnumerationResults>"
    )
    return says(200, text.encode(), Content_Type="application/xml")


CALLS = {
    "open": lambda folder: folder.open(),
    "put": lambda folder: folder.put_new("seg/1", b"abc"),
    "get": lambda folder: folder.get("seg/1", 10),
    "names": lambda folder: folder.names("seg"),
    "delete": lambda folder: folder.delete("seg/1"),
}
EACH = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.mark.parametrize("letters", ["rcdl", "rwdl", "rcwdl"])
def test_a_put_whose_answer_is_lost_has_created_the_blob_with_any_letters(letters):
    """Without 'w' the service answers the repeated put with 403 UnauthorizedBlobOverwrite."""
    sas = f"sv=2021-12-02&sp={letters}&sig=aBcD1234%2Bx"
    with FakeBlobService() as service:
        service.faults.add(Fault("put_blob", "reply_lost", times=1))
        folder = BlobFolder(Account("acc", service.url, sas=sas), "logs", "orders/a")
        assert folder.put_new("seg/1", b"abc") is False  # ours: the bytes are
        assert folder.get("seg/1", 10) == b"abc"
        assert folder.put_new("seg/1", b"another") is False
        assert folder.get("seg/1", 10) == b"abc"
        folder.delete("seg/1")
        folder.close()


def test_the_fake_refuses_what_a_sas_does_not_permit():
    with FakeBlobService() as service:
        sas = "sv=2021-12-02&sp=l&sig=aBcD1234%2Bx"
        folder = BlobFolder(Account("acc", service.url, sas=sas), "logs", "orders/a")
        assert folder.names("seg") == []
        for call in ("put", "get", "delete"):
            with pytest.raises(AccessDenied):
                CALLS[call](folder)
        folder.close()


# ── put ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_put_is_one_request_that_creates_or_does_nothing():
    data = bytes(70 * 2**20)  # above the size at which the SDK would send blocks
    with Server(CREATED) as server:
        assert opened(server).put_new("seg/000000000001", data) is True

    (request,) = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /acc/logs/orders/a/seg/000000000001?sv=")
    assert re.search(rb"(?i)\r\nif-none-match: \*\r\n", head)
    assert re.search(rb"(?i)\r\nx-ms-blob-type: BlockBlob\r\n", head)
    assert b"comp=block" not in head
    assert body == data


@pytest.mark.parametrize("answer", [EXISTS, NOT_MET])
def test_a_blob_that_exists_is_left_alone(answer):
    with Server(answer) as server:
        assert opened(server).put_new("seg/1", b"abc") is False
    assert len(server.requests) == 1


def test_a_put_whose_answer_was_lost_finds_its_own_blob():
    with Server(in_turn(hangs_up, EXISTS)) as server:
        assert opened(server).put_new("seg/1", b"abc") is False

    first, second = (request.partition(b"\r\n\r\n")[2] for request in server.requests)
    assert first == second == b"abc"


@pytest.mark.parametrize("trouble", [BUSY, FAILED, hangs_up, says(502), says(429)])
def test_a_put_is_repeated_until_it_has_an_answer(trouble):
    with Server(in_turn(trouble, trouble, CREATED)) as server:
        assert opened(server).put_new("seg/1", b"abc") is True
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answers", "may"),
    [
        ((REFUSED,), False),
        ((BUSY, REFUSED), False),
        ((NO_CONTAINER,), False),
        ((says(400, x_ms_error_code="InvalidHeaderValue"),), False),
        ((says(409, x_ms_error_code="ContainerBeingDeleted"),), False),
        ((says(413),), False),
        ((hangs_up, REFUSED), True),
        ((FAILED, NO_CONTAINER), True),
        ((FAILED, BUSY, REFUSED), True),
        ((hangs_up, says(409, x_ms_error_code="ContainerBeingDeleted")), True),
    ],
)
def test_a_put_that_fails_says_whether_the_blob_may_exist(answers, may):
    with Server(in_turn(*answers)) as server:
        with pytest.raises(ServiceError) as caught:
            opened(server).put_new("seg/1", b"abc")

    assert len(server.requests) == len(answers)
    assert caught.value.may_have_taken_effect is may


@pytest.mark.parametrize(
    ("before", "reading", "may"),
    [
        ((), found(b"x"), None),
        ((hangs_up,), found(b"x"), None),
        ((), NO_BLOB, False),
        ((), DENIED, False),
        ((hangs_up,), NO_BLOB, True),
        ((hangs_up,), DENIED, True),
    ],
)
def test_a_sas_that_may_only_create_is_refused_if_the_blob_exists(before, reading, may):
    with Server(in_turn(*before, DENIED, reading)) as server:
        if may is None:
            assert opened(server).put_new("seg/1", b"abc") is False
            return
        with pytest.raises(AccessDenied, match="could not store blob") as caught:
            opened(server).put_new("seg/1", b"abc")
    assert caught.value.may_have_taken_effect is may


@pytest.mark.parametrize(
    ("trouble", "may", "within_s"),
    # An attempt may take a fourth of it: an answer on a busy machine must not come too late.
    [(BUSY, False, 4.0), (FAILED, True, SHORT_S), (hangs_up, True, SHORT_S)],
)
def test_a_put_that_never_succeeds_ends_in_time(trouble, may, within_s):
    with Server(trouble) as server:
        with pytest.raises(ServiceUnavailable) as caught:
            opened(server, within_s=within_s).put_new("seg/1", b"abc")

    assert caught.value.may_have_taken_effect is may


def test_nothing_can_exist_if_nothing_was_sent():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    folder = opened(f"http://127.0.0.1:{port}", within_s=SHORT_S)
    with pytest.raises(ServiceUnavailable, match="no answer") as caught:
        folder.put_new("seg/1", b"abc")

    assert not caught.value.may_have_taken_effect


def test_a_put_on_a_kept_connection_that_was_closed_may_have_been_sent_twice():
    # libcurl itself sends it again, on a new connection.
    with Server(in_turn(CREATED, hangs_up, REFUSED)) as server:
        folder = opened(server)
        assert folder.put_new("seg/1", b"abc") is True
        with pytest.raises(AccessDenied) as caught:
            folder.put_new("seg/2", b"abc")
        with pytest.raises(AccessDenied) as later:
            folder.put_new("seg/3", b"abc")

    assert len(server.requests) == 4
    assert caught.value.may_have_taken_effect
    assert not later.value.may_have_taken_effect


@pytest.mark.parametrize("body", [b"<not <xml", b"\xff\xfe"])
def test_an_answer_of_success_that_cannot_be_read_is_no_proof(body):
    with Server(says(201, body, Last_Modified="yesterday")) as server:
        with pytest.raises(ServiceError) as caught:
            opened(server, within_s=SHORT_S).put_new("seg/1", b"abc")

    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize(("size", "seconds"), [(0, 60.0), (256 * 2**20, 60.0 + 2048.0)])
def test_the_time_of_a_put_grows_with_its_size(monkeypatch, size, seconds):
    noted = []
    monkeypatch.setattr(
        container, "carried_out", lambda _, call, retry, within_s: noted.append((retry, within_s))
    )

    assert opened("http://127.0.0.1:9", within_s=60.0).put_new("seg/1", bytes(size))

    ((retry, within_s),) = noted
    assert within_s == seconds
    assert retry.attempt_s == seconds - 45.0, "so there is time for another"


# ── get ───────────────────────────────────────────────────────────────────────────────────────────


def test_no_more_is_asked_for_than_the_beginning():
    with Server(found(b"0123456789", 300 * 2**20)) as server:
        assert opened(server).get("seg/1", 10) == b"0123456789"

    (request,) = server.requests
    assert re.search(rb"(?i)\r\nx-ms-range: bytes=0-9\r\n", request)


def test_a_whole_blob_is_one_request():
    data = bytes(40 * 2**20)  # above the size at which the SDK would ask for parts
    with Server(found(data)) as server:
        assert opened(server).get("seg/1", 300 * 2**20) == data
    assert len(server.requests) == 1


def test_nothing_is_decompressed():
    packed = gzip.compress(bytes(1000))
    with Server(found(packed, Content_Encoding="gzip")) as server:
        assert opened(server).get("seg/1", 10_000) == packed


@pytest.mark.parametrize(
    ("answer", "data"),
    [(NO_BLOB, None), (says(416, x_ms_error_code="InvalidRange"), b"")],
)
def test_an_absent_blob_and_an_empty_one(answer, data):
    with Server(answer) as server:
        assert opened(server).get("seg/1", 10) == data


@pytest.mark.parametrize("answer", [says(404), NO_CONTAINER, says(404, b"<html>no such page")])
def test_what_is_not_certainly_absent_is_an_error(answer):
    with Server(answer) as server, pytest.raises(ServiceError, match="HTTP 404"):
        opened(server).get("seg/1", 10)


def test_an_answer_that_is_too_large_is_broken_off():
    head = "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 99999999\r\n\r\n"
    with Server(endless(head, bytes(0xFFFF))) as server:
        with pytest.raises(ServiceError, match="more than the 10 bytes asked for"):
            opened(server).get("seg/1", 10)
    assert len(server.requests) == 1


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_pages_are_small_and_each_is_repeated_for_itself():
    with Server(
        in_turn(page("3", "2", marker="m&amp;1"), BUSY, page(marker="m2"), hangs_up, page("1"))
    ) as server:
        assert opened(server).names("seg") == ["seg/1", "seg/2", "seg/3"]

    asked = [request.split(b" ")[1].decode() for request in server.requests]
    assert all("maxresults=100&" in target for target in asked)
    assert all("prefix=orders%2Fa%2Fseg%2F&" in target for target in asked)
    markers = [re.search(r"marker=([^&]*)", target) for target in asked]
    assert [m and m[1] for m in markers] == [None, "m%261", "m%261", "m2", "m2"]


def test_the_longest_names_fit_into_a_page():
    properties = "<Properties>" + "x" * 1000 + "</Properties>"
    listed = "".join(
        f"<Blob><Name>orders/a/seg/{n:0100}</Name>{properties}</Blob>" for n in range(100)
    )
    text = f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker/></EnumerationResults>"
    with Server(says(200, text.encode(), Content_Type="application/xml")) as server:
        assert len(opened(server).names("seg")) == 100


@pytest.mark.parametrize(
    ("properties", "size", "written", "tier"),
    [
        (
            "<Last-Modified>Sun, 22 Nov 2026 10:00:00 GMT</Last-Modified>"
            "<Content-Length>1234</Content-Length><AccessTier>Hot</AccessTier>"
            "<AccessTierInferred>true</AccessTierInferred>",
            *(1_234, 1_795_341_600.0, ""),
        ),
        ("<Content-Length>7</Content-Length><AccessTier>Archive</AccessTier>", 7, 0.0, "Archive"),
        ("<Content-Length>-7</Content-Length><Last-Modified>now</Last-Modified>", 0, 0.0, ""),
        (f"<Content-Length>{'9' * 5_000}</Content-Length>", 0, 0.0, ""),
    ],
)
def test_what_a_listing_tells_of_a_blob(properties, size, written, tier):
    listed = f"<Blob><Name>orders/a/seg/1</Name><Properties>{properties}</Properties></Blob>"
    text = f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker/></EnumerationResults>"
    with Server(says(200, text.encode(), Content_Type="application/xml")) as server:
        assert opened(server).entries("seg") == [Stored("seg/1", size, written, tier)]


def test_names_that_are_not_ours_are_left_out():
    answer = page("1", "2/3", ".tmp-1", "a_b", "x.json", "")
    with Server(in_turn(answer)) as server:
        assert opened(server).names("seg") == ["seg/1"]
    with Server(page("1", start="elsewhere/seg/")) as server:
        assert opened(server).names("seg") == []


def test_too_many_names_are_an_error(monkeypatch):
    monkeypatch.setattr(blobs, "MOST_NAMES", 3)
    with Server(in_turn(page("1", "2", marker="m"), page("3"))) as server:
        assert len(opened(server).names("seg")) == 3
    with Server(in_turn(page("1", "2", marker="m"), page("3", "4"))) as server:
        with pytest.raises(ServiceError, match="there are more than 3"):
            opened(server).names("seg")


def test_pages_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(blobs, "_MOST_PAGES", 20)
    with Server(page(marker="again")) as server:
        with pytest.raises(ServiceError, match="Is it another program's folder"):
            opened(server).names("seg")
    assert len(server.requests) == 21


@pytest.mark.parametrize("names", [(), ("1",)])
def test_pages_without_end_are_an_error_after_one_deadline_for_all(names, monkeypatch):
    with Server(page(*names, marker="again")) as server:
        monkeypatch.setattr(pages, "time", Slow(server, 5.0))
        with pytest.raises(ServiceUnavailable, match=r"12 pages with [\d,]+ names came in 60 s"):
            opened(server, within_s=6.0).names("seg")
    assert len(server.requests) == 12


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"<html></html>", b"<EnumerationResults>", b"\xff\xfe"),
        b"<EnumerationResults/>",
        b"<EnumerationResults><Blobs/></EnumerationResults>",
        b"<EnumerationResults><NextMarker/></EnumerationResults>",
        b"<x><Blobs/><NextMarker/></x>",
        b"<EnumerationResults><Blobs><Blob/></Blobs><NextMarker/></EnumerationResults>",
        b"<EnumerationResults><Blobs><Blob><Name/></Blob></Blobs><NextMarker/>"
        b"</EnumerationResults>",
        "<!DOCTYPE x><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>".encode(
            "utf-16"
        ),
        b"<!DOCTYPE x><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>",
    ],
)
@pytest.mark.parametrize("kind", ["application/xml", "text/html", "application/json"])
def test_an_answer_that_is_no_list_is_no_empty_log(body, kind):
    with Server(says(200, body, Content_Type=kind)) as server:
        with pytest.raises(ServiceError, match=r"not what the service sends|no answer"):
            opened(server, within_s=SHORT_S).names("seg")


# ── delete, open, and what all have in common ─────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [says(202), NO_BLOB])
def test_a_blob_is_deleted_or_gone_already(answer):
    with Server(in_turn(BUSY, answer)) as server:
        opened(server).delete("seg/1")
    assert len(server.requests) == 2


def test_opening_lists_the_folder():
    with Server(page()) as server:
        opened(server).open()

    (request,) = server.requests
    target = request.split(b" ")[1].decode()
    assert target.startswith("/acc/logs?")
    assert "comp=list" in target
    assert "prefix=orders%2Fa%2F&" in target


@EACH
def test_a_missing_container_is_told(call):
    with Server(NO_CONTAINER) as server:
        with pytest.raises(ServiceError, match="Create the container 'logs', or correct 'writeAh"):
            call(opened(server))
    assert len(server.requests) == 1


@EACH
def test_a_missing_right_is_told(call):
    with Server(DENIED) as server:
        with pytest.raises(AccessDenied) as caught:
            call(opened(server))

    assert "the SAS letters 'r', 'c', 'd' and 'l' for blobs or the role 'Storage Blob Data" in str(
        caught.value
    )
    assert "container 'logs' of account 'acc'" in str(caught.value)
    assert "sig=" not in str(caught.value)


@EACH
def test_a_redirect_is_not_followed(call):
    with Server(says(200)) as other:
        with Server(says(307, Location=f"{other.url}/elsewhere?sig=hidden")) as server:
            with pytest.raises(ServiceError, match="redirect") as caught:
                call(opened(server))
        assert other.connections == 0
    assert len(server.requests) == 1
    assert not caught.value.may_have_taken_effect
    assert "sig=" not in str(caught.value)


@EACH
def test_a_byte_now_and_then_does_not_prolong_a_call(call):
    head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    with Server(dribbling(head)) as server, pytest.raises(ServiceError, match="no answer"):
        call(opened(server, within_s=SHORT_S))


def test_connections_are_kept_and_opened_anew_after_close():
    with Server(says(202)) as server:
        folder = opened(server)
        folder.delete("seg/1")
        folder.delete("seg/2")
        folder.close()
        folder.close()
        folder.delete("seg/3")
        folder.close()
    assert server.connections == 2


def test_it_says_where_it_is_without_the_credential():
    folder = opened("http://127.0.0.1:9")

    assert folder.where == "blob:logs/orders/a"
    assert "sig=" not in repr(folder)


def hangs(connection, stopped):
    """No answer, and the connection stays open."""
    stopped.wait(5.0)
    return False


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda folder: folder.get("claims/1-a", 1), found(b"x")),
        (lambda folder: folder.delete("seg/1"), says(202)),
        (lambda folder: folder.put_new("seg/1", b"abc"), CREATED),
    ],
    ids=["get", "delete", "put"],
)
def test_a_request_that_hangs_is_repeated_in_time(call, answer):
    with Server(in_turn(hangs, answer)) as server:
        call(opened(server, within_s=2.0))

    assert len(server.requests) == 2
