"""`python -m spark_azqueue`: the command line."""

import sys

from .commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
