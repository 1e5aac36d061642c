"""The notebooks: each runs from top to bottom on Azurite, and what it shows is what happened."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import math
from pathlib import Path
from types import ModuleType

import nbformat
import numpy as np
import pytest
from nbclient.exceptions import CellExecutionError
from PIL import Image, ImageOps

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"


def load_execute() -> ModuleType:
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = load_execute().execute


@pytest.fixture
def account(azurite_connection_string: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks take the account that the environment names."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite_connection_string)


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.usefixtures("azurite_connection_string")  # for what happens where there is none
def test_quickstart_on_an_azurite_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)

    notebook, answers = execute(
        FOLDER / "01_quickstart.ipynb",
        ask=[
            "arrived.count()",
            "arrived.select('order_id').distinct().count()",
            "samples[0][1], samples[-1][1:]",
            "sum(p['numInputRows'] for p in batches), max(p['numInputRows'] for p in batches)",
            "'azurite' in globals()",
        ],
    )

    assert answers == ["400", "400", "400 (0, 0)", "400 40", "True"]
    assert "400 messages in the queue" in printed(notebook)
    assert pictures(notebook) == 2


@pytest.mark.usefixtures("account")
def test_poison_is_found_and_redriven() -> None:
    notebook, answers = execute(
        FOLDER / "02_poison_and_redrive.ipynb",
        ask=[
            "json.dumps([attempt['failed at'] for attempt in attempts])",
            "json.dumps(rows)",
            "processed.count()",
            "sorted(sizes[batch] for batch in failed)[:2]",
            "'azurite' in globals()",
        ],
    )

    *failures, last = json.loads(answers[0])
    assert set(failures) == {"n/a", "18,9"}
    assert last is None
    rows = json.loads(answers[1])
    assert len(rows) == 24
    assert rows.pop("s-05") is None
    assert rows.pop("s-17") == 18.9
    others = [n for n in range(24) if n not in (5, 17)]
    assert rows == {f"s-{n:02}": round(20 + 2 * math.sin(n / 3), 1) for n in others}
    assert answers[2:] == ["24", "[1, 1]", "False"]
    assert "22 processed, 0 left, 2 in the poison queue" in printed(notebook)
    assert "0 in the poison queue, 2 back" in printed(notebook)
    assert pictures(notebook) == 2


@pytest.mark.usefixtures("account")
def test_pipeline_answers_each_request_with_its_own_mosaic() -> None:
    notebook, answers = execute(
        FOLDER / "03_pipeline.ipynb",
        ask=[
            "json.dumps(requests)",
            "json.dumps([response.asDict() for response in responses])",
            "left",
            "sorted({(p.row, p.column, p.of) for p in pieces} - "
            "{(r, c, 16) for r in range(4) for c in range(4)}), len(pieces)",
            "json.dumps([row.asDict() for row in not_read.collect()])",
        ],
    )

    requests, responses = json.loads(answers[0]), json.loads(answers[1])
    assert [response["request_id"] for response in responses] == ["R1", "R2", "R3", "R4"]
    for request, response in zip(requests, responses, strict=True):
        grey = picture(request["picture"]).convert("L")
        expected = np.asarray(ImageOps.colorize(grey, request["dark"], request["light"]), float)
        found = np.asarray(picture(response["picture"]), float)
        assert np.abs(found - expected).mean() < 6, "more than JPEG does to a picture"
        assert response["slices"] == 16
    assert answers[2] == str(dict.fromkeys(("requests", "slices", "results", "responses"), 0))
    assert answers[3] == "[] 32"
    assert json.loads(answers[4]) == [
        {"reason": "not JSON of this form", "body": "half a slice"},
        {"reason": "not JSON of this form", "body": "make it blue, please"},
        {"reason": "missing: light, picture", "body": '{"request_id": "R5", "dark": "#1d3461"}'},
    ]
    assert pictures(notebook) == 3


def picture(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


@pytest.mark.usefixtures("account")
def test_long_jobs_go_on_where_they_were_and_keep_their_leases() -> None:
    notebook, answers = execute(
        FOLDER / "04_long_jobs.ipynb",
        ask=[
            "schedule",
            "waits.total_seconds()",
            "json.dumps({job['video']: job['history'] for job in done})",
            "left",
            "rendered.selectExpr('count(*)', 'max(dequeue_count)').first()",
            "max(seen for moment, _, seen in samples if moment >= leased_at)",
            "at[-1] > 2 * LEASE_S",
        ],
    )

    days = "[('today', 0), ('a minute before its time', 0), ('a day later', 1)]"
    assert answers[:2] == [days, "86400.0"]
    histories = json.loads(answers[2])
    assert sorted(histories) == ["harbour", "market", "rally", "snow"]
    for history in histories.values():
        assert [stage for stage, _, _ in history] == ["decode", "motion", "thumbnails"]
    decoded, moved = histories["market"][:2]
    assert moved[1] > decoded[1] + 1, "it was delivered once more than it had stages"
    assert answers[3:] == ["3", "Row(count(1)=4, max(dequeue_count)=1)", "0", "True"]
    said = printed(notebook)
    assert "6 jobs in the queue, 4 of them visible" in said
    assert "the machine died at market, stage motion" in said
    assert "3 jobs left, 0 of them visible" in said
    assert pictures(notebook) == 3


@pytest.mark.usefixtures("account")
def test_payments_are_booked_once_with_a_log_and_again_without() -> None:
    notebook, answers = execute(
        FOLDER / "05_exactly_once.ipynb",
        ask=[
            "len(found[PLAIN]), len({payment for payment, _, _ in found[PLAIN]})",
            "len(found[LOGGED]), len({payment for payment, _, _ in found[LOGGED]})",
            "sorted({batch for _, batch, _ in found[LOGGED]})",
            "[total == paid for total in totals.values()]",
            "(newest['log_segments'], newest['log_pending_deletes'], left)",
        ],
    )

    assert answers[0] == "140 100", "the rows of two batches came again"
    assert answers[1:] == ["100 100", "[0, 1, 2, 3, 4]", "[True, False, True]", "(6, 0, 0)"]
    said = printed(notebook)
    assert "140 rows, 100 payments, 0 messages left" in said
    assert "100 rows, 100 payments, 0 messages left" in said
    assert pictures(notebook) == 2


@pytest.mark.usefixtures("account")
def test_each_file_is_read_once_and_three_are_set_aside() -> None:
    notebook, answers = execute(
        FOLDER / "06_files.ipynb",
        ask=[
            "sorted(row.order_id for row in orders.collect()) == "
            "[n for n in range(1000) if n // 5 not in (17, 94, 151)]",
            "json.dumps([row.path for row in files.where('why IS NOT NULL').collect()])",
            "why",
        ],
    )

    assert answers[0] == "True"
    assert sorted(path[-8:] for path in json.loads(answers[1])) == [
        *("017.json", "094.json", "151.json")
    ]
    assert answers[2] == ("['a line is not an order', 'the file is gone', 'the file is not UTF-8']")
    said = printed(notebook)
    assert "199 files in the container" in said
    assert "True | 146 events left" in said, "the first batch was committed, the second died"
    assert said.count("error: None | 0 events left") == 2
    assert "200 files, 985 orders, 985 of them once" in said
    assert pictures(notebook) == 2


@pytest.mark.usefixtures("account")
def test_each_invoice_arrives_once_with_transactions_and_twice_without() -> None:
    notebook, answers = execute(
        FOLDER / "07_transactions.ipynb",
        ask=[
            "len(arrived[PLAIN]), arrived[PLAIN].total()",
            "len(arrived[CHAINED]), arrived[CHAINED].total()",
            "sorted({arrived[PLAIN][each] for each in ordered[PLAIN][:80]})",
            "{arrived[PLAIN][each] for each in ordered[PLAIN][80:]}",
            "max(hidden for _, _, hidden in seen) <= BATCH, seen[-1][1:]",
        ],
    )

    assert answers == ["100 180", "100 100", "[2]", "{1}", "True (100, 0)"]
    said = printed(notebook)
    assert "180 invoices for 100 orders" in said
    for moment in ("recorded       0", "five visible   5", "all visible   20", "stop           0"):
        assert f"{moment} of 20 visible" in said
    assert "'record': 1, 'mark': 1" in said
    assert pictures(notebook) == 2


def test_a_cell_that_fails_fails_the_run(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    cells = [nbformat.v4.new_code_cell("1 / 0"), nbformat.v4.new_code_cell("print('later')")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    before = path.read_bytes()

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(path)

    assert path.read_bytes() == before
