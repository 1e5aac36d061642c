"""What was decided of messages of a logged batch whose bodies do not decode as it was logged.

The options with which a batch was logged decide about its rows, for ever: a body that decodes with
them has its row, and so has one that does not, if they say permissive. What neither decodes nor was
permissive takes the options of the run that comes upon it: it has a row then, maybe without a body,
or a copy in the poison queue and no row. That is put into the log before the batch is delivered, so
every repetition and every reader has the same rows. A later run may come upon others: decisions are
numbered, and the first one to put a number decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, NamedTuple, TypeVar

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import UndecodableBody
from spark_azqueue.journal.codec import (
    Damaged,
    as_json,
    hexadecimal,
    of_version,
    read_fields,
    sealed,
    text,
    unsealed,
)
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.pending import MESSAGE_BYTES, MESSAGE_VALUES, keys
from spark_azqueue.options.choices import LargeBody, OnUndecodable
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.encoding import BodyType, Encoding, looks_like_base64, raw_bytes
from spark_azqueue.service.messages import (
    MOST_IN_A_BATCH,
    Message,
    MessageKey,
    Received,
    is_queue_name,
)

from ..decoding_record import DecodingRecord
from ..refusals import undecodable_in_batch
from ..rows import Decoding, Row, content_as, undecodable
from .options import READING

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Enum)

_LARGE_BODY = "largeBody"


class NoPlaceError(UndecodableBody):
    """A body decodes as it was logged, and the options of today have no place for it."""


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
        is as it is today; but nothing counts as decided then about what does not decode."""
        return cls(
            _choice(options, "messageEncoding", Encoding) or today.encoding,
            _choice(options, "bodyType", BodyType) or today.body_type,
            _choice(options, "onUndecodable", OnUndecodable) or OnUndecodable.FAIL,
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

        Raises UndecodableBody; NoPlaceError for a body that today's options cannot show.
        """
        body, reference = content_as(message, self.encoding, self.body_type, self.container)
        if reference and reference.container != today.container:
            raise NoPlaceError(
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
            "batch %d was logged with %s=%s, now it is %s: it is decoded as it was logged%s",
            *(number, name, logged[name], now[name]),
            _TEXTS_IN_LOG if logged[name] == OnUndecodable.PERMISSIVE.value else "",
        )
    return changed


_TEXTS_IN_LOG = (
    "; messages that do not decode have a null body, and readLog with onUndecodable=permissive has"
    " their texts"
)


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
        raise NoPlaceError(
            f"it holds bytes that are not UTF-8 text (at byte {error.start}), as the batch was"
            " logged with bodyType=binary: set that again"
        ) from error


def _choice(options: Mapping[str, str], name: str, kind: type[E]) -> E | None:
    return next((each for each in kind if each.value == options.get(name)), None)


def _container(options: Mapping[str, str], today: str | None) -> str | None:
    if options.get(_LARGE_BODY) == LargeBody.FAIL.value:
        return None
    name = options.get("blobContainer", "")
    return name if is_queue_name(name) else today  # a container has the same rules


_VERSION = 1
_MOST_MESSAGES = MOST_IN_A_BATCH + 4_096  # a slot's pages that were under way
_AT_MOST = MESSAGE_BYTES * _MOST_MESSAGES + 2**16
_VALUES_AT_MOST = MESSAGE_VALUES * _MOST_MESSAGES + 100

Copy = Callable[[Message, str], None]
"""Copies a message to its poison queue, with the reason. Raises ServiceError."""


class About(NamedTuple):
    """What decisions are about: the object `of` of this log, which holds the batch `number`.

    name: of the decision with a number, from 0.
    """

    log: str
    of: str
    number: int
    account: str
    name: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Decision:
    """rows: these messages are decoded as `reading` says. aside: these have no row."""

    reading: Annotated[Mapping[str, str], READING]
    rows: Annotated[tuple[MessageKey, ...], keys(_MOST_MESSAGES)] = ()
    aside: Annotated[tuple[MessageKey, ...], keys(_MOST_MESSAGES)] = ()

    def to_bytes(self, about: About) -> bytes:
        """The object to store."""
        head = {"version": _VERSION, "log": about.log, "of": about.of}
        return sealed(head | as_json(self))

    @classmethod
    def from_bytes(cls, data: bytes, about: About) -> Decision:
        """Read it back. Raises Damaged."""
        found = of_version(unsealed(data, _VALUES_AT_MOST), "decision", _VERSION)
        if (hexadecimal(found, "log"), text(found, "of")) != (about.log, about.of):
            raise Damaged("it belongs to another log, or to another batch of it")
        return cls(**read_fields(cls, {**found, "account": about.account}))


class LoggedRows:
    """The messages of one object of a log, and the rows that they have. Used by one thread.

    Raises ServiceError, and LogDamaged for a decision that is not as it was written.
    """

    def __init__(
        self,
        received: Sequence[Received],
        options: Mapping[str, str],
        today: Reading,
        journal: Journal,
        about: About,
        read_as: Callable[[Reading], Reading] | None = None,
    ) -> None:
        """options: which it was logged with. read_as: what options of `readLog` make of that; None
        for a query, which deletes. Nothing is sent."""
        self.received = received
        self._options = options
        self._today = today
        self._logged = Reading.logged(options, today)
        self._read_log_as = read_as
        self._journal = journal
        self._about = about
        self._count = 0  # decisions that are known
        self._read_as: dict[MessageKey, Reading] = {}
        self._aside: set[MessageKey] = set()

    @property
    def _is_query(self) -> bool:
        return self._read_log_as is None

    @property
    def is_decided(self) -> bool:
        """True if a decision is known."""
        return self._count > 0

    @property
    def aside(self) -> frozenset[MessageKey]:
        """The messages that have a copy in the poison queue, and no row."""
        return frozenset(self._aside)

    def load(self) -> LoggedRows:
        """Find out what was decided."""
        while self._load_next():
            pass
        return self

    def leave_out_undecodable(self) -> None:
        """As an earlier release copied what does not decode, and did not write that down."""
        for message, _ in self.received:
            try:
                self._logged.content(message, self._logged)
            except UndecodableBody:
                self._aside.add(message.key)

    def decide(self, copy: Copy, record: DecodingRecord) -> bool:
        """Decide about what does not decode, with the options of today. False if nothing was.

        record: counts what is dead-lettered. Raises UndecodableBody with onUndecodable=fail, and
        TooManyPoison: then nothing was decided.
        """
        if self.received:
            changed_options(self._about.number, self._options, self._today)
        while decision := self._decision(copy, record):
            name, data = self._about.name(self._count), decision.to_bytes(self._about)
            # another process's is first, or an attempt of our own
            self._add(self._journal.first(name, data, self._next) or decision)
        return self.is_decided

    def rows(self, *, is_delivered: bool = True) -> Iterator[Row | None]:
        """For each message its row, or None. Raises UndecodableBody.

        A query delivers no row without a body that the log has: it would be deleted. is_delivered:
        False if the rows are for finding blobs alone.
        """
        for message, lease in self.received:
            key = message.key
            if key in self._aside:
                yield None
                continue
            reading = self._reading(key)
            try:
                body, reference = reading.content(message, self._today)
            except UndecodableBody as error:
                has_body = isinstance(error, NoPlaceError)
                is_kept = self._is_decided(key) and not has_body
                is_strict = has_body and self._is_query and is_delivered
                may_hide = self._today.is_permissive and not is_strict
                if not (is_kept or may_hide):
                    raise self._named(message, error) from error
                yield Row(message, None, lease, corrupt=message.text)
            else:
                yield Row(message, body, lease, reference=reference)

    def check_places(self) -> None:
        """Raise UndecodableBody for a body with a row that the options of today cannot show.

        A run that cannot show it is no attempt of the batch, so its code cannot be at fault.
        """
        for message, _ in self.received:
            if message.key in self._aside:
                continue
            try:
                self._reading(message.key).content(message, self._today)
            except NoPlaceError as error:
                raise self._named(message, error) from error
            except UndecodableBody:
                continue

    def encoding_of(self, message: Message) -> Encoding:
        """How the queue of this message stores bodies, also if this one does not decode."""
        reading = self._reading(message.key)
        if reading.encoding is not Encoding.AUTO:
            return reading.encoding
        is_base64 = looks_like_base64(message.text, reading.body_type)
        return Encoding.BASE64 if is_base64 else Encoding.NONE

    def _decision(self, copy: Copy, record: DecodingRecord) -> Decision | None:
        """What is to be decided now, with copies of the dead letters. None if that is nothing."""
        today = self._today
        rows: list[MessageKey] = []
        aside: list[tuple[Message, str]] = []
        for message in self._open():
            try:
                today.content(message, today)
            except UndecodableBody as found:
                if today.on_undecodable is OnUndecodable.FAIL:
                    raise self._named(message, found) from found
                if today.on_undecodable is OnUndecodable.POISON:
                    aside.append((message, found.sentence))
                    continue
            rows.append(message.key)
        if aside:
            rows_here = len(self.received) - len(aside)
            record.check(rows=rows_here, undecodable=len(aside))
            for message, reason in aside:
                copy(message, reason)
            record.add(rows=rows_here, undecodable=len(aside))
        if not rows and not aside:
            return None
        return Decision(today.options, tuple(rows), tuple(message.key for message, _ in aside))

    def _open(self) -> Iterator[Message]:
        """Messages about which nothing is decided, and that do not decode as the batch was logged.

        Not one that decodes, and for which today's options have no place: it keeps its row.
        """
        for message, _ in self.received:
            if self._is_decided(message.key):
                continue
            try:
                self._reading(message.key).content(message, self._today)
            except NoPlaceError:
                continue
            except UndecodableBody:
                yield message

    def _is_decided(self, key: MessageKey) -> bool:
        """True if it is known what becomes of a message, whether or not its body decodes."""
        return key in self._aside or key in self._read_as or self._reading(key).is_permissive

    def _reading(self, key: MessageKey) -> Reading:
        reading = self._read_as.get(key, self._logged)
        return self._read_log_as(reading) if self._read_log_as else reading

    def _load_next(self) -> bool:
        found = self._next()
        if found is not None:
            self._add(found)
        return found is not None

    def _next(self) -> Decision | None:
        return self._journal.read(
            self._about.name(self._count),
            _AT_MOST,
            lambda data: Decision.from_bytes(data, self._about),
        )

    def _add(self, decision: Decision) -> None:
        self._count += 1
        reading = Reading.logged(decision.reading, self._today)
        self._read_as |= dict.fromkeys(decision.rows, reading)
        self._aside.update(decision.aside)

    def _named(self, message: Message, error: UndecodableBody) -> UndecodableBody:
        named = undecodable(message, error, self._today.encoding)
        was = ", ".join(f"{name}={value}" for name, value in self._options.items())
        return undecodable_in_batch(self._about.number, str(named), was)
