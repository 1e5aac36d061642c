"""Keeps the signature of a SAS out of texts and logs. Ring: core (standard library only)."""

from __future__ import annotations

import logging
import re

_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)


def hide_signatures(text: str) -> str:
    """Take the signature of a SAS out of a text meant for people."""
    return _SECRET.sub(r"\1…", text)


class _HideSignatures(logging.Filter):
    """urllib3 logs every URL at debug level (and odd answers' at any), and a SAS is part of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "sig=" in message.lower():
            record.msg, record.args = hide_signatures(message), ()
        return True


def hide_signatures_in_logs() -> None:
    """Keep signatures out of what urllib3, which is below Azure's SDK, logs. Repeatable."""
    for name in ("urllib3.connectionpool", "urllib3.connection"):
        log = logging.getLogger(name)
        if not any(isinstance(known, _HideSignatures) for known in log.filters):
            log.addFilter(_HideSignatures())
