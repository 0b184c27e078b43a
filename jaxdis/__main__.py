"""``python -m jaxdis`` is the ``jaxdis`` command."""

import sys

from jaxdis._core import interrupts


def run() -> int:
    """Run the command of ``sys.argv`` as a program of its own, which signals end at once."""
    interrupts.end_at_once()
    from jaxdis.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
