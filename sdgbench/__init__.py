"""A benchmark harness for single-domain generalization."""


def __getattr__(name: str) -> str:
    if name == "__version__":  # looked up only when asked for: it would slow down every start
        from importlib.metadata import version

        return version("sdgbench")
    raise AttributeError(name)
