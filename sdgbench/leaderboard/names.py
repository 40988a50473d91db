"""Display names of methods, for papers: M-ADA where commands and records say mada."""

from sdgbench import registry
from sdgbench.errors import UserError


def display_name(name: str) -> str:
    """The name of a row with its method's display name, where the method's file is here."""
    method, space, rest = name.partition(" ")  # a method's name has no spaces
    try:
        entry = registry.entries("method").get(method)
    except UserError:  # a broken plugin is no reason to show no table
        return name
    return f"{entry.title}{space}{rest}" if entry else name
