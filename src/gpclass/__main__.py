"""The command line, as ``python -m gpclass``."""

from gpclass.app.cli import main

main()
