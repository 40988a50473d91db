"""``sdgbench completion``: names and options on the Tab key."""

import click
from click.shell_completion import get_completion_class

from sdgbench.cli.app import cli


@click.command("completion", epilog='Example: eval "$(sdgbench completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell; put it where the shell reads it at start."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "sdgbench", "_SDGBENCH_COMPLETE").source())
