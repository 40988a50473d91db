"""``sdgbench completion``: complete names and options with the Tab key."""

import click
from click.shell_completion import get_completion_class

from sdgbench.cli.app import cli


@click.command("completion", epilog='Example: eval "$(sdgbench completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell; put it where the shell reads it at start."""
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "sdgbench", "_SDGBENCH_COMPLETE").source())
