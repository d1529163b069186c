"""Run the command line as ``python -m decond``."""

from decond.cli import app

app(prog_name="decond")
