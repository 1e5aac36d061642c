"""Rows of a logged batch.

Bodies are always decoded with the options with which the batch was logged.

Each body was decoded before its message was logged (`source/dead_letters.py`). So each message of a
log has a row. The row contains the body; with onUndecodable=permissive, the row of a body that does
not decode contains only the text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.choices import LargeBody, OnUndecodable
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.encoding import BodyType, Encoding, looks_like_base64, raw_bytes
from spark_azqueue.service.messages import Message, MessageKey, Received, is_queue_name

from ..refusals import undecodable_in_batch
from ..rows import Decoding, Row, content_as, undecodable

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Enum)

_LARGE_BODY = "largeBody"


class NoPlaceError(UndecodableBody):
    """Raised if a body decodes with the logged options, but does not fit into the column of the
    current options."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Options that turn messages into bodies. container: blob container with largeBody=blob, else
    None."""

    encoding: Encoding
    body_type: BodyType
    on_undecodable: OnUndecodable
    container: str | None = None

    @classmethod
    def of(cls, config: Decoding) -> Reading:
        """Return the options of a configuration."""
        container = config.claim_check.container if config.claim_check else None
        return cls(config.encoding, config.body_type, config.on_undecodable, container)

    @classmethod
    def logged(cls, options: Mapping[str, str], today: Reading) -> Reading:
        """Return the options with which a batch was logged.

        If an option was not logged, its current value is used.
        """
        return cls(
            _choice(options, "messageEncoding", today.encoding),
            _choice(options, "bodyType", today.body_type),
            _choice(options, "onUndecodable", today.on_undecodable),
            _container(options, today.container),
        )

    @property
    def options(self) -> Mapping[str, str]:
        """Values by option name, for a header."""
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
        """True if a message that does not decode gets a row."""
        return self.on_undecodable is OnUndecodable.PERMISSIVE

    def content(self, message: Message, today: Reading) -> tuple[str | bytes, Reference | None]:
        """Return the body in the type of the current column, and the reference if the body is in a
        blob.

        Raises UndecodableBody, and NoPlaceError for a body that does not fit into the current
        column.
        """
        body, reference = content_as(message, self.encoding, self.body_type, self.container)
        if reference and reference.container != today.container:
            raise NoPlaceError(
                "its body is in a blob, as the batch was logged with largeBody=blob and"
                f" blobContainer={reference.container}: set these options again",
                condition=Condition.INVALID_BLOB_REFERENCE,
            )
        return _as(today.body_type, body), reference


def _warn_of_changed(number: int, logged: Mapping[str, str], today: Reading) -> None:
    """Log a warning for each option that has changed since batch `number` was logged."""
    for name, now in today.options.items():
        if logged.get(name, now) != now:
            log.warning(
                "batch %d was logged with %s=%s, now it is %s: the batch is decoded as logged%s",
                *(number, name, logged[name], now),
                _TEXTS_IN_LOG if logged[name] == OnUndecodable.PERMISSIVE.value else "",
            )


_TEXTS_IN_LOG = (
    "; messages that do not decode have a null body, and readLog with onUndecodable=permissive has"
    " their texts"
)


def _as(kind: BodyType, body: str | bytes) -> str | bytes:
    """Return a body in the type of the column."""
    if kind is BodyType.BINARY:
        return raw_bytes(body)
    if isinstance(body, str):
        return body
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoPlaceError(
            f"it holds bytes that are not UTF-8 text (at byte {error.start}), as the batch was"
            " logged with bodyType=binary: set bodyType=binary again"
        ) from error


def _choice(options: Mapping[str, str], name: str, today: E) -> E:
    """Return the value of an option in a header. `READING` has checked the header."""
    return type(today)(options[name]) if name in options else today


def _container(options: Mapping[str, str], today: str | None) -> str | None:
    if options.get(_LARGE_BODY) == LargeBody.FAIL.value:
        return None
    name = options.get("blobContainer", "")
    return name if is_queue_name(name) else today  # containers have the same name rules as queues


class LoggedRows:
    """The messages in one object of a log, and their rows."""

    def __init__(
        self,
        received: Sequence[Received],
        options: Mapping[str, str],
        today: Reading,
        number: int,
        read_as: Callable[[Reading], Reading] | None = None,
    ) -> None:
        """options: options with which batch `number` was logged. read_as: replaces some of these
        options by options of `readLog`; None for a query, which deletes messages."""
        self.received = received
        self._options = options
        self._today = today
        self._number = number
        self._is_query = read_as is None
        logged = Reading.logged(options, today)
        self._reading = read_as(logged) if read_as else logged

    def rows(self) -> Iterator[Row]:
        """Yield one row for each message.

        Raises UndecodableBody if a body does not fit into the current column. A query never
        delivers a row without a body that the log has, because the query would then delete the
        message.
        """
        if self._is_query and self.received:
            _warn_of_changed(self._number, self._options, self._today)
        is_permissive = self._reading.is_permissive or self._today.is_permissive
        for message, lease in self.received:
            try:
                body, reference = self._reading.content(message, self._today)
            except UndecodableBody as error:
                is_hidden = self._is_query and isinstance(error, NoPlaceError)
                if is_hidden or not is_permissive:
                    raise self._named(message, error) from error
                yield Row(message, None, lease, corrupt=message.text)
            else:
                yield Row(message, body, lease, reference=reference)

    def blobs(self) -> Iterator[tuple[MessageKey, str]]:
        """Yield each message whose body is in a blob, with the name of the blob."""
        for message, _ in self.received:
            with suppress(UndecodableBody):
                _, reference = self._reading.content(message, self._today)
                if reference:
                    yield message.key, reference.name

    def encoding_of(self, message: Message) -> Encoding:
        """Return the encoding of bodies in the queue of this message, even if this body does not
        decode."""
        if self._reading.encoding is not Encoding.AUTO:
            return self._reading.encoding
        is_base64 = looks_like_base64(message.text, self._reading.body_type)
        return Encoding.BASE64 if is_base64 else Encoding.NONE

    def _named(self, message: Message, error: UndecodableBody) -> UndecodableBody:
        named = undecodable(message, error, self._today.encoding)
        was = ", ".join(f"{name}={value}" for name, value in self._options.items())
        return undecodable_in_batch(self._number, str(named), was)
