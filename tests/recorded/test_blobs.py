"""Each recorded success of a request to blobs that we make, byte for byte, to our blob plane."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from cassettes import Recorded, recorded
from feeding import Feeding

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.blobs.protection import protection_of
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.blobs.xml import blobs_in

_WHOLE = re.compile(r"bytes 0-(\d+)/(\d+)")
_SIGNED = {"sv", "sr", "sp", "st", "se", "sip", "spr", "sig"}


@pytest.fixture(scope="module")
def service() -> Iterator[Feeding]:
    with Feeding() as feeding:
        yield feeding


@pytest.fixture(scope="module")
def account(service: Feeding) -> Account:
    return Account("storagename", service.url, sas="sv=1&sig=x")


@pytest.fixture(scope="module")
def folder(account: Account) -> Iterator[BlobFolder]:
    made = BlobFolder(account, "logs", "orders")
    yield made
    made.close()


def answers(method: str, parts: int, *statuses: int, asks: str = "") -> list[Recorded]:
    """The recorded answers to requests for a blob (2 parts) or a container (1)."""
    found = [
        each
        for each in recorded("blob")
        if each.service == "blob"
        and (each.method, len(each.parts)) == (method, parts)
        and each.status in statuses
        and "&".join(p for p in each.query.split("&") if p.partition("=")[0] not in _SIGNED) == asks
    ]
    assert found
    return found


def test_blobs_that_were_put(service, folder):
    """201, or 409 where a blob of that name exists: with `If-None-Match: *`, as we ask."""
    made: Counter[bool] = Counter()
    for each in answers("PUT", 2, 201, 409):
        if each.status == 409 and each.fields["x-ms-error-code"] != "BlobAlreadyExists":
            continue
        service.next(each)
        made[folder.put_new("seg/000000000001", b"x")] += 1

    assert made == {True: 2214, False: 8}


def test_blobs_that_were_read(service, folder):
    read: Counter[int] = Counter()
    for each in answers("GET", 2, 200, 206):
        range_told = _WHOLE.fullmatch(each.fields.get("content-range", ""))
        if not range_told or int(range_told[2]) != len(each.content):
            continue  # an answer to a request that we do not make: from the middle of a blob
        if each.fields["x-ms-blob-type"] == "PageBlob":
            continue  # of those, the SDK asks for the pages as well; we write block blobs
        service.next(each)
        assert folder.get("seg/000000000001", len(each.content)) == each.content
        read[each.status] += 1

    assert read == {206: 637}


def test_blobs_that_are_missing(service, folder):
    missing = [e for e in answers("GET", 2, 404) if "x-ms-error-code" in e.fields]
    for each in missing:
        service.next(each)
        if each.fields["x-ms-error-code"] == "BlobNotFound":
            assert folder.get("seg/000000000001", 1) is None
        else:
            with pytest.raises(ServiceError, match="Create the container 'logs'"):
                folder.get("seg/000000000001", 1)
    # Those are of public access, without a code in a header.
    assert len(missing) + 5 == len(answers("GET", 2, 404))


def test_blobs_that_have_no_first_byte(service, folder):
    empty = answers("GET", 2, 416)
    for each in empty:
        service.next(each)
        assert folder.get("seg/000000000001", 1) == b""

    assert len(empty) == 39


def test_blobs_that_were_deleted(service, folder):
    deleted = answers("DELETE", 2, 202, 404)
    for each in deleted:
        service.next(each)
        folder.delete("seg/000000000001")  # a missing one is deleted, too

    assert len(deleted) == 103


def test_lists_of_a_container(service, folder):
    lists = answers("GET", 1, 200, asks="restype=container&comp=list")
    names = 0
    for each in lists:
        service.next(each)
        folder.open()
        root = ElementTree.fromstring(each.content.decode("utf-8-sig"))
        told = [blob.findtext("Name") for blob in root.iter("Blob")]
        sizes = [int(e.text or 0) for e in root.iter("Content-Length")]
        assert [(b.name, b.size) for b in blobs_in(each.content)[0]] == list(
            zip(told, sizes, strict=True)
        )
        names += len(told)

    assert (len(lists), names) == (83, 85)


def test_containers_that_are_created_for_a_large_body(service, account):
    """A put finds no container, creates it, and goes on; also if another one was faster."""
    (missing,) = answers("PUT", 2, 404)
    stored = answers("PUT", 2, 201)[0]
    created = answers("PUT", 1, 201, 409, asks="restype=container")
    store = BlobStore(account, "bodies", create_container=True)
    made: Counter[int] = Counter()
    for each in created:
        service.next(missing, each, stored)
        assert store.put(Large(b"body", True)).size == 4
        assert not service.left
        made[each.status] += 1
    store.close()

    assert (made[201] > 1900, made[409]) == (True, 64)


def test_what_protects_blobs(service, account):
    containers = answers("GET", 1, 200, asks="restype=container")
    accounts = answers("GET", 0, 200, asks="restype=service&comp=properties")
    blobs = [e for e in answers("HEAD", 2, 200) if "x-ms-blob-type" in e.fields]
    container = Container(account, "logs", if_missing="Create it")
    for number, each in enumerate(containers):
        settings, blob = accounts[number % len(accounts)], blobs[number % len(blobs)]
        service.next(each, settings, blob)
        found = protection_of(container, "x")
        kept = re.search(
            rb"<DeleteRetentionPolicy><Enabled>true</Enabled><Days>(\d+)", settings.content
        )
        assert found.kept_days == (int(kept[1]) if kept else 0)
        assert found.immutable is (
            each.fields.get("x-ms-has-immutability-policy") == "true"
            or each.fields.get("x-ms-has-legal-hold") == "true"
        )
        assert found.versions is False, "versions came later than the recordings"
    container.close()

    assert len(containers) == 99
