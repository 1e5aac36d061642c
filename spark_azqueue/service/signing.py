"""Signs with the account key: a SAS for the messages of one queue.

Signed here, since Azure's SDK writes its own newest version (`sv`) into a SAS: with each update of
it, requests would be verified by the rules of a version that nobody has tried.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from urllib.parse import urlencode

from .account import API_VERSION

_LETTERS = "raup"
"""Read (peek), add, update and process (dequeue, delete)."""


def queue_sas(
    account: str, key: str, queue: str, expiry: datetime, *, https: bool, letters: str = _LETTERS
) -> str:
    """Return a SAS for this queue, as the query part of a URL. REST reference, "Create a service
    SAS".

    letters: what it permits. key: the account key, base64. expiry: in UTC. https: the service is to
    take it over TLS alone.
    """
    expires = expiry.strftime("%Y-%m-%dT%H:%M:%SZ")
    protocol = "https" if https else ""
    resource = f"/queue/{account}/{queue}"
    signed = (letters, "", expires, resource, "", "", protocol, API_VERSION)
    digest = hmac.digest(base64.b64decode(key), "\n".join(signed).encode(), hashlib.sha256)
    fields = {"sv": API_VERSION, "se": expires, "sp": letters, "spr": protocol}
    fields["sig"] = base64.b64encode(digest).decode("ascii")
    return urlencode({name: value for name, value in fields.items() if value})
