"""``python -m jaxdis`` is the ``jaxdis`` command."""

import sys

from jaxdis.cli import main

sys.exit(main())
