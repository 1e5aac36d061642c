"""The settings with which Spark hides secrets in plans, statements and event logs."""

from __future__ import annotations

STATEMENTS = (
    # Matches the secret parts of a connection string or a SAS, and an account key without a field
    # name, in any text.
    r"""(?i)\b(?:AccountKey|SharedAccess(?:Key|Signature))\s*"""
    r"""(?:=[=\s]*[^=;,)"'\\\s][^;,)"'\\\s]*|[=\\][\s\S]*)"""
    r"""|(?:\b|%3F|%26)sig(?:=|%3D)[^&;,)"'\\\s]+|[0-9A-Za-z+/]{86}=="""
    # Matches an option and its value, in SQL or in the text of a plan with Connect. If the form of
    # the text is unknown, everything after the option is hidden, because it contains the value.
    r"""|(?:accountAccessKey|clientSecret|sasToken|connectionString|secret[.]\w+)"""
    r"""(?!\w|=\*+\(redacted\))"""
    r"""(?:(?:\\*["'`])?\s*(?:(?:value:|=|->|:)\s*)?r?(\\*["'])[^"'\\]*"""
    r"""(?=\1\s*(?:[,)}]|(?![\s\S])))|[\s\S]*)"""
)
"""Value for `spark.redaction.string.regex`: a regular expression. Spark replaces text that matches
by asterisks.

Spark uses it for statements and plans. The regular expression works in Java and in Python.
"""

PATTERNS = ("spark.sql.redaction.string.regex", "spark.redaction.string.regex")
"""Spark uses the first of these settings that is set."""

_NAMES = (
    "secret|password|passwd|token|access[.]?key"  # Spark's default
    "|accountkey|account[.]key|connectionstring|sas"
)


def redaction_conf() -> dict[str, str]:
    """Return the settings of Spark that hide the connector's secrets in plans and event logs.

        SparkSession.builder.config(map=redaction_conf()).getOrCreate()

    The settings are those of conf/spark-defaults.conf: names of options whose values are hidden,
    and a pattern for the text of statements. Set them before the session starts. With Spark
    Connect, set them on the server.
    """
    return {
        "spark.redaction.regex": f"(?i){_NAMES}|credential",
        "spark.sql.redaction.options.regex": f"(?i)url|{_NAMES}",
        **dict.fromkeys(PATTERNS, STATEMENTS),
    }
