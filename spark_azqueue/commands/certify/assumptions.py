"""Assumptions of this package about the service, in one table.

docs/service.md is generated from this table. `certify` tests the assumptions; the tests are in
`checks.py`, by the same keys. This module has only values.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial


class Area(enum.Enum):
    """Topic of an assumption, as a title."""

    RECEIPTS = "Pop receipts and leases"
    TEXTS = "Texts"
    TIMES = "Times and bounds"
    QUEUES = "Queues, counts and lists"
    ANSWERS = "Answers"
    CREDENTIALS = "Credentials"
    BLOBS = "Blobs"


RECORDED = "recorded"


@dataclass(frozen=True)
class Assumption:
    """An assumption. key: name of the assumption in reports, which never changes between releases.
    says: the assumption as text. where: code that relies on the assumption. evidence: a recording,
    documentation, an issue of an SDK, or "none". azurite: the known deviation of Azurite, or "" if
    there is none. untried: reason why `certify` cannot test the assumption, or "" if it can.
    """

    area: Area
    key: str
    says: str
    where: str
    evidence: str
    azurite: str = ""
    untried: str = ""


_REST = "documented (REST reference, "
_LEDGER = "source/leases/ledger.py"
_ELSEWHERE = f"{RECORDED} in other releases than those of the suite"
_TESTS_ALONE = "the fake alone (testing/)"

_receipts = partial(Assumption, Area.RECEIPTS)
_texts = partial(Assumption, Area.TEXTS)
_times = partial(Assumption, Area.TIMES)
_queues = partial(Assumption, Area.QUEUES)
_answers = partial(Assumption, Area.ANSWERS)
_credentials = partial(Assumption, Area.CREDENTIALS)
_blobs = partial(Assumption, Area.BLOBS)

ASSUMPTIONS = (
    _receipts(
        "stale-receipt",
        "a receipt that was replaced is refused with 404 MessageNotFound. 400 PopReceiptMismatch"
        " was never seen of the service; both count as a lost lease",
        "service/answers.py `classify`",
        "reported (live tests of an SDK), not recorded",
        azurite="400 PopReceiptMismatch",
    ),
    _receipts(
        "malformed-receipt",
        "a text that is no receipt is refused with 400, and the answer blames `popreceipt`",
        "service/answers.py `classify`",
        "reported (issues of SDKs)",
        azurite="400 PopReceiptMismatch",
    ),
    _receipts(
        "expired-receipt",
        "a receipt whose lease has ended still works until the next dequeue",
        f"{_LEDGER}; source/leases/worker.py deletes late",
        _REST + "Delete Message)",
    ),
    _receipts(
        "receipt-after-redelivery",
        "the next dequeue of a message voids its older receipts",
        _LEDGER,
        _REST + "Get Messages)",
    ),
    _receipts(
        "receipt-of-a-put",
        "the answer to a put holds a receipt that deletes and updates the message",
        "sink/transaction/",
        f"{RECORDED} that there is one; that it works is {_REST}Put Message)",
    ),
    _receipts(
        "receipt-of-a-page",
        "all messages of one dequeue have the same receipt, made of the time at which they are"
        " visible again",
        f"nothing but {_TESTS_ALONE}",
        f"{RECORDED} (8 of 8 pages of several messages here)",
    ),
    _receipts(
        "update-voids-the-receipt",
        "an update gives a new receipt and voids the old one",
        "source/leases/worker.py renews",
        f"{RECORDED} that there is a new one",
    ),
    _receipts(
        "update-keeps-the-text",
        "an update without a body keeps the text",
        "service/queues/calls.py `Update`, `Release`, `Show`",
        RECORDED,
    ),
    _receipts(
        "update-keeps-the-count",
        "an update leaves the dequeue count as it is",
        "source/batches/poison.py",
        RECORDED,
    ),
    _receipts(
        "release-shows-at-once",
        "an update to 0 seconds makes a message visible at once",
        "source/leases/worker.py releases; sink/transaction/show.py",
        RECORDED,
    ),
    _receipts(
        "dequeue-count",
        "each dequeue raises the dequeue count of a message by one, from 0 after the put",
        "source/batches/poison.py; `maxDequeueCount`",
        RECORDED,
    ),
    _receipts(
        "peek-changes-nothing",
        "a peek takes no lease and raises no count",
        "source/peek.py, commands/doctor/queue_checks.py",
        RECORDED,
    ),
    _receipts(
        "at-least-once",
        "a message may be delivered again although its lease has not ended",
        _LEDGER,
        "documented (Storage queues compared with Service Bus)",
        untried="it happens on its own, and seldom",
    ),
    _texts(
        "text-limit",
        "64 KiB count the text in UTF-8 before it is escaped as XML; more is refused with 413"
        " RequestBodyTooLarge",
        "service/encoding.py `encode`",
        f"{RECORDED}; that it counts before it is escaped: {_ELSEWHERE}",
    ),
    _texts(
        "text-comes-back",
        "markup, line ends (CR as a character reference), tabs and characters of any plane come"
        " back as they were put",
        "service/queues/xml.py `document`",
        f"{RECORDED} in part; CR: none",
    ),
    _texts(
        "empty-text",
        "an empty text can be put, and comes back empty",
        "service/queues/xml.py",
        _ELSEWHERE,
    ),
    _texts(
        "forbidden-character",
        "a character that XML 1.0 does not have is refused with 400",
        "service/encoding.py `encode` refuses it first",
        RECORDED,
        azurite="takes it, and then fails at every look at that queue",
    ),
    _texts(
        "body-before-queue",
        "a malformed body is refused with 400 InvalidXmlDocument even if the queue does not exist",
        _TESTS_ALONE,
        _ELSEWHERE,
        azurite="400 without a code",
    ),
    _times(
        "put-hidden",
        "a message that is put with a delay is not delivered before it ends",
        "sink/transaction/, column `visibility_delay`",
        _REST + "Put Message)",
    ),
    _times(
        "delay-below-life",
        "a put that would expire when it becomes visible (30 s and 30 s) is refused with 400, and"
        " nothing is put",
        "service/queues/client.py `check_put`; sink/requests.py",
        f"{_ELSEWHERE}; {_REST}Put Message)",
    ),
    _times(
        "default-life",
        "without `messagettl` a message expires after 7 days",
        "service/messages.py `WEEK_S`",
        RECORDED,
    ),
    _times(
        "long-life",
        "a time to live of more than 7 days is taken as it is",
        "column `time_to_live`",
        RECORDED,
    ),
    _times(
        "endless-life",
        "a message put with -1 never expires: its time is the end of the year 9999",
        "service/queues/xml.py",
        RECORDED,
    ),
    _times(
        "expired-message",
        "an expired message is not delivered any more",
        "sink/transaction/: `TransactionExpired`",
        _REST + "Put Message)",
    ),
    _times(
        "lease-bounds",
        "a dequeue takes a visibility timeout of 1 second to 7 days, and refuses 0 with 400",
        "service/messages.py; options/source_config.py",
        _REST + "Get Messages)",
    ),
    _times(
        "page-bounds",
        "a dequeue gives up to 32 messages, and refuses to be asked for 33 with 400",
        "service/messages.py `MAX_PER_REQUEST`",
        f"32: {RECORDED}; 33: {_REST}Get Messages)",
    ),
    _queues(
        "count-of-hidden",
        "the approximate count of a queue includes messages that are leased or delayed",
        "source/intake/backlog.py, docs/supervision.md",
        _ELSEWHERE,
    ),
    _queues(
        "clear",
        "clearing a queue deletes all its messages, leased and delayed ones, too",
        "service/queues/management.py `clear_queue`",
        _REST + "Clear Messages)",
    ),
    _queues(
        "missing-queue",
        "a queue that does not exist is 404 QueueNotFound",
        "service/answers.py",
        RECORDED,
    ),
    _queues(
        "queue-created-twice",
        "creating a queue that exists with the same metadata changes nothing: 204",
        "service/queues/management.py; source/preflight.py",
        RECORDED,
    ),
    _queues(
        "deleted-queue",
        "a queue that was deleted is 409 QueueBeingDeleted (for about 40 seconds) or 404"
        " QueueNotFound",
        "service/answers.py; source/intake/queues.py",
        _REST + "Delete Queue); 409 is not recorded",
    ),
    _queues(
        "list-by-prefix",
        "a list has just the queues whose names begin with the prefix, in order",
        "source/intake/queues.py: `queue=orders-*`",
        RECORDED,
    ),
    _answers(
        "probe-is-refused",
        "an update and a delete of a message that cannot exist are refused as unknown (404, or 400"
        " about the receipt) if we may do them",
        "service/queues/reach.py; source/preflight.py; the doctor",
        "none",
    ),
    _answers(
        "date",
        "each answer has a Date, by the clock that the messages' times are of",
        "service/queues/calls.py `answered_at`; source/intake/polling.py",
        RECORDED,
    ),
    _answers(
        "version",
        "the service answers in the version that the request names",
        "service/account.py `API_VERSION`",
        RECORDED,
        azurite="names its own version",
    ),
    _answers(
        "no-retry-after",
        "503 ServerBusy comes without Retry-After; if one comes, it is kept up to 5 seconds",
        "service/retry.py",
        f"{RECORDED}: none of the answers has one, and none is a 503",
        untried="it takes load: `--load` measures it",
    ),
    _answers(
        "error-500",
        "a request that got 500 may have been carried out",
        "errors/__init__.py `may_have_taken_effect`",
        "an issue of an SDK (azure-sdk-for-net#37014, Azure's support)",
        untried="no request makes the service fail so",
    ),
    _credentials(
        "unreadable-token",
        "a token that is none is refused with 400 InvalidAuthenticationInfo",
        "service/answers.py `UNUSABLE_PROOF`",
        RECORDED,
        azurite="403 AuthenticationFailed",
    ),
    _credentials(
        "sas-of-another-queue",
        "a SAS that was made for another queue is refused with 403 AuthenticationFailed",
        "service/answers.py; service/wire/transport.py `refuses_credential`",
        _REST + "SAS error codes)",
    ),
    _credentials(
        "expired-sas",
        "a SAS that has ended is refused with 403 AuthenticationFailed",
        "service/wire/transport.py `refuses_credential`; credentials.py renews",
        _REST + "SAS error codes)",
    ),
    _credentials(
        "missing-letter",
        "a SAS without the letter is refused with 403 AuthorizationPermissionMismatch",
        "service/answers.py; the doctor",
        f"{RECORDED} (of a blob)",
    ),
    _blobs(
        "blob-exists",
        "a put with `If-None-Match: *` of a blob that exists is refused with 409"
        " BlobAlreadyExists, and changes nothing",
        "service/blobs/folder.py `put_new`",
        RECORDED,
    ),
    _blobs(
        "blob-is-whole",
        "a blob that was put in one request is there whole, at once, and in the next list",
        "service/blobs/folder.py; source/log/, sink/transaction/",
        "documented (Azure Storage is strongly consistent)",
    ),
    _blobs(
        "blob-range",
        "a read of the first bytes gives just these",
        "service/blobs/folder.py `get`",
        RECORDED,
    ),
    _blobs(
        "missing-blob",
        "a read and a delete of a blob that does not exist are 404 BlobNotFound",
        "service/blobs/folder.py",
        RECORDED,
    ),
    _blobs(
        "missing-container",
        "what is asked of a container that does not exist is 404 ContainerNotFound",
        "service/blobs/container.py",
        RECORDED,
    ),
)
"""All assumptions, in the order of the page and of the reports."""
