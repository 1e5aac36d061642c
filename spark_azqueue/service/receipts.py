"""Pop receipts in rows: nobody can use that of a message which its source deletes on commit.

An update with such a receipt would succeed, and the source would then take the message for a copy
of a committed one, and delete it. So rows have it with a mark, which makes it void for everybody.
"""

from __future__ import annotations

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption, InvalidRow

_MARK = "deleteOnCommit=true "
"""No receipt has a space: it is base64."""


def marked(receipt: str) -> str:
    """This receipt as the rows of a source that deletes on commit have it."""
    return _MARK + receipt


def check_usable(message_id: object, receipt: object) -> None:
    """Check the receipt of a row that is to be updated or deleted.

    Raises InvalidRow if there is none, and InvalidOption, for the source's options, if it is
    marked: no repetition of the write helps then.
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
