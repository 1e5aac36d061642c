"""Parsers for ids, receipts, counts and times in the service's answers.

A parser accepts any text and never raises. If the service could not have sent the text, it returns
None, False or "".
"""

from __future__ import annotations

import functools
import re
from datetime import datetime, timezone

from spark_azqueue.errors import InvalidOption, InvalidRow
from spark_azqueue.errors.conditions import Condition

MAX_ID = 64
MAX_RECEIPT = 512
"""Maximum length of an id or a receipt, in characters. The service's ids are GUIDs of 36
characters, and its receipts are base64 of fewer than 100 characters.
"""

# Ids and receipts become parts of a URL, so a text such as ".." would change the address. A receipt
# may have any printable characters, except characters that JSON would have to escape.
_MESSAGE_ID = re.compile(rf"[0-9A-Za-z-]{{1,{MAX_ID}}}")
_RECEIPT = re.compile(rf"[ !#-\[\]-~]{{1,{MAX_RECEIPT}}}")

_DIGITS = re.compile(r"[0-9]+")
_HTTP_DATE = re.compile(
    r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_HTTP_DATE_LENGTH = len("Tue, 14 Nov 2023 22:13:20 GMT")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_LONGEST_PAUSE_S = 86_400.0


def is_message_id(text: str) -> bool:
    """Return True if the text has the form of a message id."""
    return _MESSAGE_ID.fullmatch(text) is not None


def is_receipt(text: str) -> bool:
    """Return True if the text has the form of a pop receipt."""
    return _RECEIPT.fullmatch(text) is not None


def request_id(text: str) -> str:
    """Return the service's id of a request; "" if the text cannot be such an id."""
    return text if is_message_id(text) else ""


def count(text: str, most: int) -> int | None:
    """Parse a whole number from 0 to `most`, in ASCII digits. Returns None for any other text."""
    if len(text) > len(str(most)) or not _DIGITS.fullmatch(text):
        return None
    found = int(text)
    return found if found <= most else None


def moment(text: str) -> int | None:
    """Parse an HTTP date (RFC 1123) to seconds since 1970.

    Returns None if the date is malformed or before 1970.
    """
    return _moment(text) if len(text) == _HTTP_DATE_LENGTH else None


@functools.lru_cache(maxsize=4096)
def _moment(text: str) -> int | None:
    """Parse an HTTP date. The result is cached, because all messages of one second have the same
    date.
    """
    found = _HTTP_DATE.fullmatch(text)
    if not found or found[2] not in _MONTHS:
        return None
    day, _, year, hour, minute, second = found.groups()
    month = _MONTHS.index(found[2]) + 1
    numbers = (int(year), month, int(day), int(hour), int(minute), int(second))
    try:
        at = int(datetime(*numbers, tzinfo=timezone.utc).timestamp())
    except ValueError:
        return None
    return at if at > 0 else None


def pause_s(text: str, now: float) -> float | None:
    """Parse a `Retry-After` (a number or an HTTP date) to seconds, at most a day.

    Returns None if the text is not readable.

    `now`: seconds since 1970.
    """
    if _DIGITS.fullmatch(text):
        return min(float(text), _LONGEST_PAUSE_S)
    at = moment(text)
    return None if at is None else min(max(0.0, at - now), _LONGEST_PAUSE_S)


_MARK = "deleteOnCommit=true "
"""Prefix that a source which deletes on commit puts before the receipts in its rows. No receipt of
the service begins with this prefix, because base64 has no space.
"""


def marked(receipt: str) -> str:
    """Return this receipt with the prefix for rows of a source that deletes on commit."""
    return _MARK + receipt


def check_usable(message_id: object, receipt: object) -> None:
    """Check the id and receipt of a row whose message will be updated or deleted.

    Raises InvalidRow if the row has no receipt. Raises InvalidOption if the receipt has the prefix
    of a source that deletes on commit: in this case the options of the stream are wrong, and a
    retry of the write cannot help.
    """
    if not receipt:
        raise InvalidRow(
            f"message {message_id} has no pop_receipt; the stream source gives one (with"
            " deleteOnCommit=false it is yours to use), a peek and readLog do not"
        )
    if str(receipt).startswith(_MARK):
        raise InvalidOption(
            f"message {message_id} is from a stream with deleteOnCommit=true (the default), which"
            " deletes it when its batch is committed, also if you show it again for a retry."
            " Nothing was changed by this row: set deleteOnCommit=false at the stream (readStream)",
            condition=Condition.DELETED_ON_COMMIT,
        )
