"""Execute notebooks from top to bottom, each in a fresh kernel, and save them with their outputs.

    python notebooks/execute.py                          # all of them
    python notebooks/execute.py notebooks/01_quickstart.ipynb

`make notebooks` runs it with what it takes (Spark, Azurite). A notebook is saved only where every
cell worked. Logs of Spark and of the connector go to the terminal: an output holds what a cell
printed or drew, and nothing else.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
NOTEBOOKS = tuple(sorted(HERE.glob("*.ipynb")))

CELL_AT_MOST_S = 300

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def execute(path: Path, ask: Sequence[str] = ()) -> tuple[nbformat.NotebookNode, list[str]]:
    """Run a notebook; return it with its outputs, and what each expression of `ask` is at its end.

    Expressions are Python, evaluated in the notebook's kernel; answers come as text. Raises
    nbclient's CellExecutionError for the first cell that fails. `path` itself is not changed.
    """
    notebook = nbformat.read(path, as_version=4)
    cells = len(notebook.cells)
    notebook.cells += [nbformat.v4.new_code_cell(f"print({expression})") for expression in ask]
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_AT_MOST_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            # Else what Java and Spark's Python processes log becomes output of some cell.
            extra_arguments=["--IPKernelApp.capture_fd_output=False", "--log-level=ERROR"],
        )
        client.execute(env=_environment(folder))
    answers = [_printed(cell) for cell in notebook.cells[cells:]]
    notebook.cells = notebook.cells[:cells]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook, answers


def _environment(folder: str) -> dict[str, str]:
    """A kernel's environment: Spark on this Python, and all files of the run in `folder`."""
    settings = [word for item in _SETTINGS.items() for word in ("--conf", "=".join(item))]
    here = {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_SUBMIT_ARGS": " ".join([*settings, "pyspark-shell"]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AZQUEUE_AZURITE": os.environ.get("AZQUEUE_AZURITE", str(HERE.parent / ".azurite")),
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
        "TMPDIR": folder,
    }
    return {**os.environ, **here}


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream").strip()


def main() -> None:
    """Execute the notebooks named on the command line, or all; save each when it is done."""
    for path in [Path(name) for name in sys.argv[1:]] or NOTEBOOKS:
        began = time.monotonic()
        notebook, _ = execute(path)
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
