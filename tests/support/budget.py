"""How much the property tests try.

AZQUEUE_EXAMPLES: examples of each simulation, of 40 steps. Few by default, so that `make check` is
short; `make property-long` sets many. More find more: 400 are half a million steps.
"""

from __future__ import annotations

import os

EXAMPLES = int(os.environ.get("AZQUEUE_EXAMPLES", "20"))
