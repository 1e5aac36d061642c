"""The options that make rows of messages, as a logged batch keeps them: `reading` in its header.

A logged batch is decoded as it was logged, whatever the options are today. The column `body` has
today's type, so a body of the other one is converted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import UndecodableBody
from spark_azqueue.options.choices import LargeBody, OnUndecodable
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.encoding import BodyType, Encoding, raw_bytes
from spark_azqueue.service.messages import Message, container_name

from ..rows import Decoding, content_as

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Enum)

_LARGE_BODY = "largeBody"


class ElsewhereError(UndecodableBody):
    """A body was logged as a reference to a blob that the options of today do not reach."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How bodies are made of messages. container: of largeBody=blob, None without it."""

    encoding: Encoding
    body_type: BodyType
    on_undecodable: OnUndecodable
    container: str | None = None

    @classmethod
    def of(cls, config: Decoding) -> Reading:
        """As these options say."""
        container = config.claim_check.container if config.claim_check else None
        return cls(config.encoding, config.body_type, config.on_undecodable, container)

    @classmethod
    def logged(cls, options: Mapping[str, str], today: Reading) -> Reading:
        """As a batch was logged. What a header does not say, or no option of this release can be,
        is as it is today."""
        return cls(
            _choice(options, "messageEncoding", Encoding) or today.encoding,
            _choice(options, "bodyType", BodyType) or today.body_type,
            _choice(options, "onUndecodable", OnUndecodable) or today.on_undecodable,
            _container(options, today.container),
        )

    @property
    def options(self) -> Mapping[str, str]:
        """For a header, by name."""
        container = self.container
        return {
            "messageEncoding": self.encoding.value,
            "bodyType": self.body_type.value,
            "onUndecodable": self.on_undecodable.value,
            _LARGE_BODY: (LargeBody.FAIL if container is None else LargeBody.BLOB).value,
            **({} if container is None else {"blobContainer": container}),
        }

    @property
    def is_permissive(self) -> bool:
        """True if a message that does not decode gives a row."""
        return self.on_undecodable is OnUndecodable.PERMISSIVE

    def content(self, message: Message, today: Reading) -> tuple[str | bytes, Reference | None]:
        """The body, in the type of today's column, and the reference that it is, if so.

        Raises UndecodableBody; ElsewhereError for a reference that today's options do not read.
        """
        body, reference = content_as(message, self.encoding, self.body_type, self.container)
        if reference and reference.container != today.container:
            raise ElsewhereError(
                "its body is in a blob, as the batch was logged with largeBody=blob and"
                f" blobContainer={reference.container}: set these options again",
                condition=Condition.INVALID_BLOB_REFERENCE,
            )
        return _as(today.body_type, body), reference


def changed_options(number: int, logged: Mapping[str, str], today: Reading) -> list[str]:
    """Which of these options were others when batch `number` was logged. Warns of each."""
    now = today.options
    changed = [name for name in now if name in logged and logged[name] != now[name]]
    for name in changed:
        log.warning(
            "batch %d was logged with %s=%s, now it is %s: it is decoded as it was logged",
            number,
            name,
            logged[name],
            now[name],
        )
    return changed


def has_decisions(options: Mapping[str, str]) -> bool:
    """False if an earlier release wrote these options, which has put no decisions into a log."""
    return _LARGE_BODY in options


def _as(kind: BodyType, body: str | bytes) -> str | bytes:
    """A body in the type of the column."""
    if kind is BodyType.BINARY:
        return raw_bytes(body)
    if isinstance(body, str):
        return body
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableBody(
            f"it holds bytes that are not UTF-8 text (at byte {error.start}), as the batch was"
            " logged with bodyType=binary"
        ) from error


def _choice(options: Mapping[str, str], name: str, kind: type[E]) -> E | None:
    return next((each for each in kind if each.value == options.get(name)), None)


def _container(options: Mapping[str, str], today: str | None) -> str | None:
    if options.get(_LARGE_BODY) == LargeBody.FAIL.value:
        return None
    name = options.get("blobContainer", "")
    try:
        return container_name(name)
    except ValueError:
        return today
