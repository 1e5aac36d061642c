"""The recorded requests, signed anew, asked of the fake: what its answers differ in, and why."""

from __future__ import annotations

from cassettes import recorded
from replaying import Replay, by_cassette
from replaying_blobs import BlobReplay

ALLOWED = {
    "header server: another": "the fake says what it is",
    "PopReceipt: other constant bytes": (
        "the fake's hold `+` and `/`, so that code that does not escape them fails"
    ),
    "header x-ms-popreceipt: other constant bytes": "the same",
}
"""The only differences, each with its reason."""


def test_the_fake_answers_as_the_service_did():
    replay = Replay()
    for exchanges in by_cassette(recorded("queue")):
        replay.cassette(exchanges)

    kinds = {kind.partition(": ")[2] for kind in replay.differences}
    assert kinds == set(ALLOWED), "\n".join(sorted(replay.differences))
    assert replay.replayed == 910


def test_what_is_not_replayed_are_operations_that_the_fake_lacks():
    replay = Replay()
    for exchanges in by_cassette(recorded("queue")):
        replay.cassette(exchanges)

    assert replay.unknown == {
        "GET account?comp=properties&restype": 47,
        "PUT account?comp=properties&restype": 30,
        "GET queue?comp=acl": 28,
        "PUT queue?comp=acl": 24,
        "GET account?comp=stats&restype": 8,
    }


OF_BLOBS = {
    "blobs have properties that the package does not read, and the fake does not keep": [
        "DELETE blob 202: header x-ms-delete-type-permanent missing",
        "GET blob 200: header content-md5 missing",
        "GET blob 200: header x-ms-creation-time missing",
        "GET blob 200: header x-ms-lease-state missing",
        "GET blob 200: header x-ms-lease-status missing",
        "GET blob 200: header x-ms-server-encrypted missing",
        "GET blob 206: header content-md5 missing",
        "GET blob 206: header x-ms-blob-content-md5 missing",
        "GET blob 206: header x-ms-creation-time missing",
        "GET blob 206: header x-ms-encryption-key-sha256 missing",
        "GET blob 206: header x-ms-lease-state missing",
        "GET blob 206: header x-ms-lease-status missing",
        "GET blob 206: header x-ms-meta-encryptiondata missing",
        "GET blob 206: header x-ms-server-encrypted missing",
        "PUT blob 201: header content-md5 missing",
        "PUT blob 201: header x-ms-content-crc64 missing",
        "PUT blob 201: header x-ms-encryption-key-sha256 missing",
        "PUT blob 201: header x-ms-request-server-encrypted missing",
    ],
    "two answers of old versions leave it out, all others have it": [
        "GET blob 200: header accept-ranges added",
    ],
    "the fake checks no credential: these were asked for without one": [
        "GET blob: 200 in place of 404",
    ],
    "the package encrypts with no keys of its own, and reads on no condition": [
        "GET blob: 206 in place of 409",
        "GET blob: 206 in place of 412",
    ],
    "the fake does not check the names of containers": ["PUT container: 201 in place of 400"],
}
"""The only differences of the fake of the blobs, by their reason."""


def test_the_fake_of_the_blobs_answers_as_the_service_did():
    replay = BlobReplay()
    for exchanges in by_cassette(recorded("blob")):
        replay.cassette(exchanges)

    allowed = {kind for kinds in OF_BLOBS.values() for kind in kinds}
    assert set(replay.differences) == allowed
    assert replay.replayed == 1650
