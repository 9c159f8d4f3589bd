"""Run ``python -m teleop_agent``."""

import sys

from .commands import main

if __name__ == "__main__":
    sys.exit(main())
