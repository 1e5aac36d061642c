"""Every option, declared once: name, parser, side, meaning, config field, default, secret.

Spark passes names in lower case; users see the spelling of these tables. `docs/options.md` is
generated from them. `source_config` and `sink_config` build the configs and check combinations.
"""

from __future__ import annotations

from .option import Option
from .shared_options import SHARED_OPTIONS
from .sink_options import SINK_OPTIONS
from .source_options import SOURCE_OPTIONS

OPTIONS: tuple[Option, ...] = (*SHARED_OPTIONS, *SOURCE_OPTIONS, *SINK_OPTIONS)
