"""The ``sdgbench`` command. A verb's file is imported when called, and torch only if needed."""

import difflib
import errno
import importlib
import io
import os
import sys
from typing import Any

import click

from sdgbench.cli import text
from sdgbench.errors import Interrupted, UserError

OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # a full disk, a closed terminal
VERBS = {
    "run": "Train and evaluate methods on datasets.",
    "tune": "Search for a method's setting on the source alone.",
    "status": "Show the state and progress of all runs.",
    "watch": "Show runs on a page while they are under way.",
    "cancel": "Cancel the Slurm jobs of runs.",
    "adapt": "Fine-tune finished runs on a few images of a target.",
    "evaluate": "Score a model that was trained elsewhere.",
    "export": "Write the weights of a run as files to share.",
    "compare": "Show the results of finished runs as tables.",
    "report": "Write the results as one HTML page.",
    "plot": "Draw the figures as files.",
    "paper": "Make the tables and figures of the M-ADA paper.",
    "list": "List methods and datasets.",
    "info": "Describe a method or a dataset.",
    "new": "Write the file of a new method.",
    "check": "Check that a method follows the rules.",
    "data": "Download, import, verify and list real data.",
    "show": "Print the record of a finished run.",
    "reproduce": "Run a record again and compare.",
    "verify": "Recompute the numbers of finished runs.",
    "submit": "Check finished runs and add them to the leaderboards.",
    "doctor": "Check this machine: versions, device, memory, data.",
    "completion": "Print the shell completion script.",
}


class LazyGroup(click.Group):
    """Imports a verb's file when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs in the order in which a user needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of one verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"sdgbench.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Call the verb. Click takes an EOFError for Ctrl-D and would report it as a stop."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise RuntimeError("a file ended too early") from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown verb and suggest the nearest one."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            suggestion = f' Did you mean "{near[0]}"?' if near else ""
            raise UserError(f'No command "{args[0]}".{suggestion} All: sdgbench --help')
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from sdgbench.version import version

        click.echo(f"sdgbench {version()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: sdgbench run --method erm --dataset digits-mini --preset quick",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def cli() -> None:
    """Compare methods of single-domain generalization: train on one domain, test on unseen ones."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input prints one line and exits with 2, a bug shows its traceback."""
    code: Any = 0
    for stream in (sys.stdout, sys.stderr):  # such as ASCII: ± becomes a question mark
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(args=arguments, prog_name="sdgbench", standalone_mode=False)
    except UserError as error:
        code = _refuse(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        code = 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "sdgbench"
        code = _refuse(f"{error.format_message().rstrip('.')}. Help: {where} --help")
    except click.ClickException as error:
        code = _refuse(error.format_message())
    except (Interrupted, KeyboardInterrupt, click.Abort):
        click.echo("Stopped. Run the same command again to go on.", err=True)
        code = 130
    except BrokenPipeError:  # the reader of a pipe has closed it
        sys.stderr.close()
    except SystemExit as error:  # of sdgbench's own code, only rich raises it: a closed pipe
        if isinstance(error.__context__, BrokenPipeError):
            sys.exit(code)
        code = _refuse(f"Some code called sys.exit({error.code!r}): a plugin's? Fix it.")
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        code = _refuse(f"Cannot write the output: {error.strerror}. What was saved is whole.")
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # a full disk; Python would say so again at exit
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        code = code or 1
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> int:
    text.echo("Error: " + " ".join(message.split()), err=True)
    return 2
