"""Commands as tests run them: in this process, with a look at how they end."""

import re

from typer.testing import CliRunner

from decond.cli import app


def invoke(*arguments):
    """Run a command, which must not fail in another way than by its exit code, and return the result."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="decond")
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return result


def decond(*arguments):
    """Run a command that must succeed, and return what it printed on stdout."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refusal(*arguments):
    """Run a command that must be refused with exit code 2, and return what it printed, without lines and frames."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "Error" in result.stderr
    return " ".join(re.sub("[─│╭╮╰╯]", " ", result.stderr).split())
