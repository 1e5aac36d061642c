"""Plain requests to the fake service, and what its answers say."""

from __future__ import annotations

from urllib.parse import quote
from xml.etree import ElementTree

import urllib3

NOW = 1_700_000_000.75
VERSION = "2021-12-02"


def caller(service, pool):
    """One request, `call(method, path below the account, body)`; never repeated on failure.

    It carries a SAS for the whole account, or the one given; an empty one: none.
    """

    def send(method, path, body=None, headers=None, sas=None):
        signature = service.sas() if sas is None else sas
        joined = "&" if "?" in path else "?"
        target = f"{service.url}{path}{joined}{signature}" if signature else service.url + path
        return pool.request(method, target, body=body, headers=headers)

    return send


def message_xml(text):
    return f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>".encode()


def page(reply):
    """The messages of a reply as dictionaries."""
    root = ElementTree.fromstring(reply.data.decode("utf-8-sig"))
    return [{field.tag: field.text for field in message} for message in root]


def address(message):
    return f"/orders/messages/{message['MessageId']}?popreceipt={quote(message['PopReceipt'], '')}"


def port_of(service):
    return urllib3.util.parse_url(service.url).port


def lease(call, count=1, visibility=30):
    return page(
        call("GET", f"/orders/messages?numofmessages={count}&visibilitytimeout={visibility}")
    )


def refusal(reply):
    """The status and the code of a refusal."""
    return reply.status, reply.headers.get("x-ms-error-code")


def detail(reply, name="AuthenticationErrorDetail"):
    """One element of a refusal's document."""
    return ElementTree.fromstring(reply.data.decode("utf-8-sig")).findtext(name)
