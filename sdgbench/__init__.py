"""A benchmark harness for single-domain generalization, for Python callers.

``docs/python.md`` shows how to use what is in ``__all__``. Everything is imported when it is first
used: ``import sdgbench`` loads neither torch nor pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdgbench.api.catalogue import list_datasets, list_methods, load_dataset
    from sdgbench.api.evaluate import evaluate
    from sdgbench.api.export import export
    from sdgbench.api.finished import FinishedRun, load_model, load_run
    from sdgbench.api.records import Records, load_records
    from sdgbench.api.reproduce import Reproduction, reproduce
    from sdgbench.api.run import RunsFailed, run
    from sdgbench.api.submit import SubmissionRefused, submit
    from sdgbench.api.tables import Tables
    from sdgbench.api.tune import Tuning, tune
    from sdgbench.errors import UserError
    from sdgbench.registry import (
        add_plugin,
        register_dataset,
        register_method,
        register_network,
    )

__all__ = [
    "FinishedRun",
    "Records",
    "Reproduction",
    "RunsFailed",
    "SubmissionRefused",
    "Tables",
    "Tuning",
    "UserError",
    "add_plugin",
    "evaluate",
    "export",
    "list_datasets",
    "list_methods",
    "load_dataset",
    "load_model",
    "load_records",
    "load_run",
    "register_dataset",
    "register_method",
    "register_network",
    "reproduce",
    "run",
    "submit",
    "tune",
]

_MODULES = {
    "sdgbench.api.catalogue": ("list_datasets", "list_methods", "load_dataset"),
    "sdgbench.api.evaluate": ("evaluate",),
    "sdgbench.api.export": ("export",),
    "sdgbench.api.finished": ("FinishedRun", "load_model", "load_run"),
    "sdgbench.api.records": ("Records", "load_records"),
    "sdgbench.api.reproduce": ("Reproduction", "reproduce"),
    "sdgbench.api.run": ("RunsFailed", "run"),
    "sdgbench.api.submit": ("SubmissionRefused", "submit"),
    "sdgbench.api.tables": ("Tables",),
    "sdgbench.api.tune": ("Tuning", "tune"),
    "sdgbench.errors": ("UserError",),
    "sdgbench.registry": ("add_plugin", "register_dataset", "register_method", "register_network"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from sdgbench.version import version

        return version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sdgbench' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
