"""Checks whether Spark hides secrets in its statements.

In a plan, Spark hides the values of options with certain names. A Connect server also logs each
statement as text, and hides in it what matches a pattern in its settings.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import socket
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .finding import Finding
from .redaction import PATTERNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VALUE = "c2VjcmV0"
_KEY = f"{_VALUE}{'A' * 78}=="  # has the length of an account key

_VALUES = (
    ("accountAccessKey", _VALUE),
    ("clientSecret", _VALUE),
    ("sasToken", f"sv=2021-12-02&sp=raup&sig={_VALUE}"),
    ("secret.connectionString", f"AccountName=shop;AccountKey={_VALUE};EndpointSuffix=e.net"),
    ("secret.blobConnectionString", f"AccountName=shop;AccountKey={_VALUE}"),
    # A secret in an option that is not meant for secrets.
    ("accountUrl", _KEY),
    ("queue", f"AccountName=shop;AccountKey={_VALUE}"),
)

_BY_NAME_ALONE = ("accountAccessKey", "clientSecret")
"""Options whose secret values do not look like secrets. Only a pattern with the option's name can
hide them."""

_BETWEEN = (
    *(" ", "\t", "\n", "\r\n", "=", " == ", "\t=\n", "  ->  ", "\f"),
    *(" /* a comment */ ", "/*'*/", " -- it's a comment\n", " = -- , 'a'\n", "/**/=/**/"),
)
"""Texts that a statement may have between an option and its value."""

_USUAL_SHAPES = (
    'options {{\n  key: "{name}"\n  value: "{value}"\n}}\n',
    "query: \"OPTIONS (`{name}` \\'{value}\\', queue \\'orders\\')\"",
)

_OTHER_SHAPES = (
    *(f"OPTIONS (`{{name}}`{between}'{{value}}', queue 'orders')" for between in _BETWEEN),
    *(f'OPTIONS ({{name}}{between}"{{value}}")' for between in _BETWEEN),
    # The same texts in the form of Connect, in which, for example, a tab is a backslash and a
    # letter.
    *(
        f"query: \"OPTIONS (`{{name}}`{written}\\'{{value}}\\')\""
        for between in _BETWEEN
        if (written := between.encode("unicode_escape").decode().replace("'", "\\'")) != between
    ),
    "OPTIONS ({name} 'a' '{value}')",  # SQL joins two adjacent strings to one text
    "OPTIONS ({name} 'a'\n'{value}')",
)


ENABLED = "spark.eventLog.enabled"
_CONNECT_PORT = 15002
_CONNECTING_AT_MOST_S = 10
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ADVICE = (
    "keep secrets out of options (environment variable, managed identity, credentialProvider), or"
    f" start the server with --conf '{PATTERNS[1]}=PATTERN', where PATTERN is what"
    f" `python -c 'import spark_azqueue as s; print(s.redaction_conf()[\"{PATTERNS[1]}\"])'` prints"
)


def shown_through(hide: Callable[[str], str]) -> tuple[str, ...]:
    """Return the options whose secrets are still in a statement after `hide` was applied to it."""
    return tuple(
        name
        for name, value in _VALUES
        if any(_VALUE in hide(shape.format(name=name, value=value)) for shape in _shapes(name))
    )


def _shapes(name: str) -> tuple[str, ...]:
    """Return the forms of a statement with which an option is tested. There are few forms, because
    a server needs time for each form.
    """
    return _USUAL_SHAPES + (_OTHER_SHAPES if name in _BY_NAME_ALONE else ())


def judge(shown: Sequence[str], logged: bool, where: str) -> Finding:
    """Return the finding about a Spark that shows the values of these options in statements.

    logged: True if Spark writes an event log. where: name of this Spark in the finding.
    """
    if not shown:
        return Finding(True, f"{where}: Spark hides secret options in the text of statements")
    text = f"{where}: statements of Spark Connect show the values of {', '.join(shown)}"
    if not logged:
        return Finding(None, f"{text} in Spark's UI (there is no event log)", _ADVICE)
    return Finding(False, f"{text} in the event log and in Spark's UI", _ADVICE)


def of_defaults() -> Iterator[Finding]:
    """Check the spark-defaults.conf of this Python's Spark, if it enables an event log."""
    try:
        settings = read_properties(_defaults().read_text(encoding="utf-8"))
    except (OSError, UnicodeError):
        return
    if settings.get(ENABLED, "").lower() != "true":
        return
    pattern = next((settings[name] for name in PATTERNS if settings.get(name)), "")
    where = "spark-defaults.conf"
    try:
        shown = shown_through(lambda text: re.sub(pattern, "", text) if pattern else text)
    except re.error:  # Python cannot compile all regular expressions of Java
        text = f"{where}: could not check whether {PATTERNS[1]} hides secrets; ask the server with"
        yield Finding(None, f"{text} --remote", _ADVICE)
        return
    yield judge(shown, True, where)


def of_server(address: str) -> Finding:
    """Check which secrets a Connect server hides. Its address is never shown, because it may
    contain a token.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port or _CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if not host:
        advice = "pass it as to SparkSession.builder.remote, such as sc://spark.example.com:15002"
        return Finding(False, "Connect server: the address is not like sc://<host>:<port>", advice)
    where = f"Connect server {host}:{port}"
    try:
        # Otherwise, Spark's client would retry for minutes.
        socket.create_connection((host, port), _CONNECTING_AT_MOST_S).close()
    except OSError as error:
        return Finding(False, f"{where}: no answer ({type(error).__name__})", "is it running?")
    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(address).create()
        try:
            logged = (spark.conf.get(ENABLED, "") or "").lower() == "true"
            shown = shown_through(lambda text: _explained(spark, text))
        finally:
            spark.stop()
    except Exception as error:  # noqa: BLE001 (Spark's client, and what it needs, raise anything)
        advice = "this needs pip install 'pyspark[connect]', and what the server asks of clients"
        return Finding(False, f"{where}: not asked ({type(error).__name__})", advice)
    return judge(shown, logged, where)


def _explained(spark: SparkSession, text: str) -> str:
    """Return the server's text of a plan that contains `text`.

    The same pattern hides secrets in plans and in statements. The pattern cannot be read from the
    server, because Spark hides the value of a setting that contains the word "secret".
    """
    from pyspark.sql.functions import lit

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        spark.range(1).select(lit(text)).explain(True)
    return said.getvalue()


def read_properties(text: str) -> dict[str, str]:
    """Parse the settings in a spark-defaults.conf, which is a Java properties file: `\\\\` is one
    `\\`."""
    found = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        match = re.match(r"\s*([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*)", line)
        if match:
            value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), match[2])
            found[match[1]] = value.strip()
    return found


def _defaults() -> Path:
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder:
        return Path(folder) / "spark-defaults.conf"
    home = os.environ.get("SPARK_HOME")
    if not home:
        spec = importlib.util.find_spec("pyspark")
        home = (
            spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
        )
    return Path(home) / "conf" / "spark-defaults.conf"
