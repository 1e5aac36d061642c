"""Signatures for the fake service: by hand, and by Azure's SDK; what each operation needs."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import time
from email.utils import formatdate
from urllib.parse import parse_qs, urlencode

from azure.storage.queue import (
    AccountSasPermissions,
    QueueSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)
from fake_calls import VERSION, message_xml, refusal

FAILED = (403, "AuthenticationFailed")
NONE = [""] * 11
HOUR = datetime.timedelta(hours=1)


def now():
    return formatdate(time.time(), usegmt=True)


def signature(service, lines):
    digest = hmac.new(base64.b64decode(service.key), "\n".join(lines).encode(), hashlib.sha256)
    return base64.b64encode(digest.digest()).decode()


def shared(service, signed, scheme="SharedKey"):
    return {"Authorization": f"{scheme} {service.account}:{signed}"}


def signed_get(service, date=None, version=VERSION, **extra):
    """Headers for GET /orders?comp=metadata, signed by hand."""
    date = now() if date is None else date
    lines = ["GET", *NONE, f"x-ms-date:{date}", f"x-ms-version:{version}"]
    lines += [f"/{service.account}/{service.account}/orders", "comp:metadata"]
    fields = {"x-ms-date": date, "x-ms-version": version, **extra}
    return {**fields, **shared(service, signature(service, lines))}


def utc():
    return datetime.datetime.now(datetime.timezone.utc)


def of_queue(service, letters="raup", queue="orders", *, key=None, expiry=None, **more):
    """Signed by Azure's SDK."""
    return generate_queue_sas(
        service.account,
        queue,
        key or service.key,
        permission=QueueSasPermissions.from_string(letters) if letters else None,
        expiry=utc() + HOUR if expiry is None else expiry,
        **more,
    )


def of_account(service, letters="rwdlacup", types="sco", **more):
    """Signed by Azure's SDK."""
    more.setdefault("expiry", utc() + HOUR)
    return generate_account_sas(
        service.account,
        service.key,
        ResourceTypes.from_string(types),
        AccountSasPermissions.from_string(letters),
        **more,
    )


def changed(sas, **parameters):
    fields = {name: values[0] for name, values in parse_qs(sas).items()}
    fields |= parameters
    return urlencode({name: value for name, value in fields.items() if value is not None})


OPERATIONS = {
    "peek": ("GET", "/orders/messages?peekonly=true", None, 200),
    "properties": ("GET", "/orders?comp=metadata", None, 200),
    "put": ("POST", "/orders/messages", message_xml("x"), 201),
    "update": ("PUT", "/orders/messages/x?popreceipt=AAAA&visibilitytimeout=0", None, 404),
    "dequeue": ("GET", "/orders/messages", None, 200),
    "delete": ("DELETE", "/orders/messages/x?popreceipt=AAAA", None, 404),
    "create": ("PUT", "/orders", None, 204),
    "set_metadata": ("PUT", "/orders?comp=metadata", None, 204),
    "clear": ("DELETE", "/orders/messages", None, 204),
    "list": ("GET", "?comp=list", None, 200),
    "delete_queue": ("DELETE", "/orders", None, 204),
}
NEEDS = {
    "peek": "r", "properties": "r", "put": "a", "update": "u", "dequeue": "p", "delete": "p",
    "create": "cw", "set_metadata": "w", "clear": "d", "list": "l", "delete_queue": "d",
}  # fmt: skip
TYPES = {"s": ["list"], "c": ["properties", "create", "set_metadata", "delete_queue"]}
TYPE_OF = {op: next((kind for kind in "sc" if op in TYPES[kind]), "o") for op in OPERATIONS}


def ask(call, op, sas):
    method, path, body, status = OPERATIONS[op]
    reply = call(method, path, body, sas=sas)
    return "good" if reply.status == status else refusal(reply)
