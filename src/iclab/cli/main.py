"""The command ``iclab``. Commands import what they need when they run, so help and lists are instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from iclab import __version__
from iclab.cli.catalogue import list_command, show_command
from iclab.cli.doctor import doctor_command
from iclab.cli.exponents import exponents_command
from iclab.cli.running import report_command, run_command
from iclab.errors import InputError

BAD_INPUT = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iclab")
def iclab() -> None:
    """A laboratory for in-context learning in state space models.

    \b
    iclab list                     what can be run
    iclab show NAME                what an experiment asks and how it is set up
    iclab run NAME [key=value ...] run it; the same command continues an interrupted run
    iclab report DIR               make tables, figures and page of a run again
    """


for command in (list_command, show_command, run_command, report_command, exponents_command, doctor_command):
    iclab.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: a cell failed, the reading, or a check of ``doctor``; 2: wrong input, or a file that cannot be written;
    130: interrupted.
    """
    try:
        code = iclab.main(args=arguments, prog_name="iclab", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except InputError as error:
        return _complain(str(error))
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _complain(f"{error.strerror or error}{place}; what was finished before is kept")
    except (KeyboardInterrupt, click.Abort) as error:
        cause = error if isinstance(error, KeyboardInterrupt) else error.__context__
        click.echo(str(cause or "") or "interrupted", err=True)
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
