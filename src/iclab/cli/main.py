"""The command ``iclab``. Commands import what they need when they run, so help and lists are instant."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import click

from iclab import __version__
from iclab.cli.catalogue import list_command, show_command
from iclab.cli.doctor import doctor_command
from iclab.cli.exponents import exponents_command
from iclab.cli.running import report_command, run_command
from iclab.cli.streams import open_standard_streams, reader_is_gone
from iclab.errors import InputError, one_line
from iclab.runs.signals import Stopped, deafen, ending, listen, watch

BAD_INPUT = 2
_LONGEST_ERROR = 600


class _Ended(Exception):
    """Carries an interruption past click, which would print an empty line for it."""

    def __init__(self, cause: KeyboardInterrupt) -> None:
        super().__init__(str(cause))
        self.number = cause.number if isinstance(cause, Stopped) else signal.SIGINT


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            raise _Ended(interruption) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
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
    129, 130, 143: ended by SIGHUP, Ctrl-C, SIGTERM.
    """
    if arguments is not None:
        return _main(arguments)
    open_standard_streams()
    watch(listen())
    code = _main(None)
    deafen()
    return code


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code = iclab.main(args=arguments, prog_name="iclab", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "iclab"
        return _complain(f"{error.format_message().rstrip('.')}; see `{command} --help`")
    except InputError as error:
        return _complain(str(error))
    except OSError as error:
        file = f": {os.fspath(error.filename)}" if error.filename else ""
        return _complain(f"{error.strerror or error}{file}; what was finished before, if anything, is kept")
    except _Ended as error:
        if error.number == signal.SIGINT and sys.stderr.isatty():
            # The terminal has shown ^C.
            click.echo(err=True)
        click.echo(str(error) or ending(error.number), err=True)
        return 128 + error.number
    except SystemExit as error:
        if reader_is_gone():
            # How click ends where the reader of the output is gone, as in `iclab list | true`: nothing is wrong.
            return 0
        return _complain(f"the code of the experiment called sys.exit({error.code!r}); expected it to return")
    except click.Abort:
        click.echo(ending(signal.SIGINT), err=True)
        return 128 + signal.SIGINT
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    click.echo(f"error: {one_line(message, _LONGEST_ERROR)}", err=True)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
