"""Commands as tests run them: in this process, with a look at how they end."""

from typer.testing import CliRunner

from decond.cli import app


def decond(*arguments, code=0):
    """Run a command and return what it printed: results, or why it was refused."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr if code else result.stdout
