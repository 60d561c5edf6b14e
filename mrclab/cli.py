"""The command line: one click group, each command in a module of its own.

Commands are imported when they are called: `./lab doctor` must not pay for Mininet.
Every mistake of the user ends in one line on standard error and exit status 2.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import click

from mrclab import __version__
from mrclab.errors import EXIT_USAGE, EXIT_VOID, LabVoid, UserError

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, one line for the overview)
    "drill": ("drill", "Run a failure drill and give a verdict."),
    "up": ("up", "Bring a fabric up and give a Mininet prompt on it."),
    "ps": ("attach", "List the labs that run on this machine."),
    "exec": ("attach", "Run a command on a host of the running lab."),
    "traffic": ("traffic", "Send MRC writes between two hosts of the running lab."),
    "shell": ("attach", "Open p4runtime-shell on a switch of the running lab."),
    "ctl": ("ctl", "Ask the MRC controller of the running lab: links, EVs, denylist."),
    "compile": ("compile", "Compile a P4-16 program to bmv2 JSON and P4Info."),
    "stf": ("stf", "Run packet tests (STF) against a P4 program."),
    "decode": ("decode", "Print every field of MRC packets (hex, pcap, pcapng)."),
    "encode": ("decode", "Turn decoded packets (JSON) back into bytes."),
    "fabric": ("fabric", "Show a fabric: sizes, addresses, diagram."),
    "bench": ("bench", "Measure switch, endpoint and bring-up."),
    "soak": ("soak", "Run endpoints against an adversary, on and on."),
    "test": ("test", "Run all checks and tests."),
    "doctor": ("doctor", "Print versions and what is absent."),
}


class LazyGroup(click.Group):
    """A click group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mrclab.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name}_command is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f" (commands: {', '.join(COMMANDS)})"
            raise click.UsageError(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table: listing the commands must not import them all.
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_module, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Set-up is automatic; ./lab setup does it alone. Docs: README.md, docs/.",
)
@click.version_option(__version__, prog_name="mrclab")
def lab() -> None:
    """See, break and compare an MRC fabric on one machine.

    \b
    Examples:
      sudo ./lab drill link-down       cut a link under load, get a verdict
      sudo ./lab up                    a fabric with a Mininet prompt
      sudo ./lab test                  all tests
    """


def _complain(context: click.Context | None, message: str) -> int:
    name = context.command_path if context is not None else "lab"
    print(f"{name}: {message}", file=sys.stderr)
    return EXIT_USAGE


def _drop_output() -> None:
    """Keep Python from complaining again when it flushes standard output on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str]) -> int:
    """Run the command line. Returns the exit status (2: usage, with one line why)."""
    try:
        result = lab.main(args=list(argv), prog_name="lab", standalone_mode=False)
        if sys.stdout is not None:  # None: the caller closed it
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "lab"
        message = " ".join(error.format_message().split())
        return _complain(error.ctx, f"{message[:1].lower() + message[1:]} (see ./{path} --help)")
    except click.ClickException as error:
        return _complain(None, error.format_message())
    except LabVoid as error:
        _complain(None, str(error))
        return EXIT_VOID
    except UserError as error:
        return _complain(None, str(error))
    except (click.Abort, KeyboardInterrupt):
        print("lab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) went away: not an error.
        _drop_output()
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        what = f" {error.filename}" if error.filename else ""
        return _complain(None, f"can't write{what}: {error.strerror}; make room and try again")
    return result if isinstance(result, int) else 0
