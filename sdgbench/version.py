"""The version of the installed package."""


def version() -> str:
    """The version as ``pip`` knows it; read when it is needed, because that takes milliseconds."""
    from importlib.metadata import version as installed

    return installed("sdgbench")
