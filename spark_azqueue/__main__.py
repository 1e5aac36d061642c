"""`python -m spark_azqueue`: the doctor's command line."""

import sys

from .doctor.command_line import main

if __name__ == "__main__":
    sys.exit(main())
