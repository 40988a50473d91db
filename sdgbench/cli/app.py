"""The ``sdgbench`` command. A verb's file is imported when called, and torch only if needed."""

import difflib
import importlib
import sys
from typing import Any

import click

from sdgbench.errors import Interrupted, UserError

VERBS = {
    "run": "Train and evaluate methods on datasets.",
    "status": "Tell how far all runs are.",
    "cancel": "Take runs back from Slurm.",
    "adapt": "Fine-tune finished runs on a few images of a target.",
    "compare": "Show the results of finished runs as tables.",
    "report": "Write the results as one HTML page.",
    "plot": "Draw the figures as files.",
    "paper": "Make the tables and figures of the M-ADA paper.",
    "list": "List methods and datasets.",
    "info": "Tell all about a method or a dataset.",
    "new": "Write the file of a new method.",
    "check": "Check that a method keeps the rules.",
    "data": "Fetch, import, verify and list real data.",
    "verify": "Recompute the numbers of finished runs.",
    "doctor": "Check this machine: versions, device, memory, data.",
    "completion": "Print the shell completion script.",
}


class LazyGroup(click.Group):
    """Imports a verb's file when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs in the order in which they are needed."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"sdgbench.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say what was probably meant by an unknown verb."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            meant = f' Did you mean "{near[0]}"?' if near else ""
            raise UserError(f'No command "{args[0]}".{meant} All: sdgbench --help')
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        import sdgbench

        click.echo(f"sdgbench {sdgbench.__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: sdgbench run --method erm --dataset digits-mini --preset quick",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False,
              callback=_print_version, help="Show the version.")  # fmt: skip
def cli() -> None:
    """Compare methods of single-domain generalization: train on one domain, test on unseen ones."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input ends in one line and exit code 2, a bug in its traceback."""
    code: Any = 0
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
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> int:
    click.echo("Error: " + " ".join(message.split()), err=True)
    return 2
