"""``python -m jaxdis`` is the ``jaxdis`` command."""

import sys

from jaxdis.cli import main

if __name__ == "__main__":
    sys.exit(main())
