"""The code of docs/packing.md for other languages reads what we write, and we read what it writes.

With Azure's JavaScript SDK, too, if AZQUEUE_TEST_NODE_MODULES names a folder that has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from packed import EVERY_TYPE, in_base64

from spark_azqueue.rows.packing.arrow_format import ArrowFormat
from spark_azqueue.rows.packing.bodies import FORMATS, rows_of
from spark_azqueue.rows.packing.bounds import PackBounds

PAGE = (Path(__file__).parents[3] / "docs" / "packing.md").read_text(encoding="utf-8")
NODE = shutil.which("node")
MODULES = os.environ.get("AZQUEUE_TEST_NODE_MODULES", "")
WANTED = pa.schema({"id": pa.int64(), "text": pa.string()})
ROWS = [{"id": 1, "text": "Grüße\n\r\u2028 & <x>"}, {"id": 2, "text": None}]

needs_node = pytest.mark.skipif(not NODE, reason="no Node on this machine")


def code(language: str, holding: str) -> str:
    """The block of the page in this language that has this text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if holding in block]
    return found


def packed(name: str, rows: pa.RecordBatch) -> str:
    chosen = FORMATS[name]
    return in_base64(chosen.packed(chosen.prepared(rows)))


def opened(body: str) -> list[dict[str, Any]]:
    return [row for each in rows_of(body, WANTED, PackBounds()) for row in each.to_pylist()]


def test_python_without_this_package() -> None:
    names: dict[str, Any] = {}
    exec(code("py", "def read("), names)
    found = names["read"](packed("json", EVERY_TYPE))
    assert [row["big"] for row in found] == [-(2**63), 2**63 - 1, None]
    assert found[0]["at"] == "2026-11-27T21:00:00.123456Z"
    assert opened(names["write"](ROWS)) == ROWS


def test_python_with_arrow_alone() -> None:
    names: dict[str, Any] = {}
    exec(code("py", "def read_arrow("), names)
    found = names["read_arrow"](packed("arrow", EVERY_TYPE))
    assert found.to_batches() == [ArrowFormat.prepared(EVERY_TYPE)]


def run_node(script: str, *arguments: str) -> Any:
    assert NODE
    environment = {**os.environ, "NODE_PATH": MODULES}
    done = subprocess.run(
        [NODE, "-e", script, "--", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout, parse_float=Decimal)


@needs_node
def test_javascript() -> None:
    rows = pa.RecordBatch.from_pylist(ROWS, WANTED)
    script = code("js", "function read(") + (
        "const [body, rows] = process.argv.slice(1);"
        "process.stdout.write(JSON.stringify([read(body), write(JSON.parse(rows))]))"
    )
    read, written = run_node(script, packed("json", rows), json.dumps(ROWS))
    assert read == ROWS
    assert opened(written) == ROWS


@needs_node
@pytest.mark.skipif(not MODULES, reason="AZQUEUE_TEST_NODE_MODULES names no folder")
def test_javascript_with_azures_sdk(fake) -> None:
    """What it sends we read, and what we send it reads: base64 passes unchanged."""
    fake.create_queue("rows")
    fake.put("rows", packed("json", pa.RecordBatch.from_pylist(ROWS, WANTED)))
    script = code("js", "function read(") + (
        'const { QueueServiceClient } = require("@azure/storage-queue");'
        "const [account, rows] = process.argv.slice(1);"
        "(async () => {"
        'const queue = QueueServiceClient.fromConnectionString(account).getQueueClient("rows");'
        "const { receivedMessageItems: [one] } = await queue.receiveMessages();"
        "await queue.deleteMessage(one.messageId, one.popReceipt);"
        "await queue.sendMessage(write(JSON.parse(rows)));"
        "process.stdout.write(JSON.stringify(read(one.messageText)));"
        "})()"
    )
    assert run_node(script, fake.connection_string, json.dumps(ROWS)) == ROWS
    (message,) = fake.messages("rows")
    assert opened(message.text) == ROWS
