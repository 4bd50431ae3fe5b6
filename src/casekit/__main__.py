"""``python -m casekit`` is ``casekit``."""

import sys

from casekit.cli import main

if __name__ == "__main__":
    sys.exit(main())
