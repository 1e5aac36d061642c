"""The demo: some thousand orders through an Azure Storage Queue and Spark, all on this machine.

Exit status: 0 where every order arrived exactly once and the queue is empty, 1 where not, 130 after
Ctrl-C. Everything it writes is in `.demo/`, which it empties first.
"""

from __future__ import annotations

import sys

from interrupt import Interrupt, Interrupted


def main() -> int:
    """Run the demo; return the exit status."""
    interrupt = Interrupt()
    # Imports take their time: only now, when Ctrl-C is taken care of.
    import shutil
    import traceback
    from pathlib import Path

    from screen import Screen

    folder = Path(__file__).resolve().parents[2] / ".demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    log = folder / "demo.log"
    screen = Screen(log)
    try:
        from story import tell

        return 0 if tell(screen, interrupt, folder) else 1
    except Interrupted:
        screen.line("Stopped.")
        return interrupt.status
    except Exception as error:  # noqa: BLE001 (the last resort: it is told, and logged)
        traceback.print_exc()
        first = next(iter(str(error).strip().splitlines()), "")
        screen.line(f"The demo failed: {type(error).__name__}: {first}")
        screen.line(f"More in {log}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
