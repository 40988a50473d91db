"""Why a run failed: ``failed.json`` in its folder."""

import traceback
from pathlib import Path

import msgspec

from sdgbench import storage
from sdgbench.records.schema import SCHEMA, utc_now

FAILURE_FILE = "failed.json"


class Failure(msgspec.Struct, frozen=True):
    """The content of ``failed.json``."""

    schema: int | str = SCHEMA
    id: str = ""  # of the run
    time: str = ""
    error: str = "unknown"  # name of the exception's class
    message: str = ""  # first line of the exception's text
    traceback: str = ""
    method_file_sha256: str = ""  # which version of the method failed; empty: not recorded

    def __str__(self) -> str:
        return f"{self.error}: {self.message}"


def write_failure(
    folder: Path, run_id: str, error: BaseException, method_file_sha256: str = ""
) -> None:
    """Record in a run's folder that it failed, and how."""
    lines = str(error).strip().splitlines()
    failure = Failure(
        id=run_id,
        time=utc_now(),
        error=type(error).__name__,
        message=lines[0] if lines else "",
        traceback="".join(traceback.format_exception(error)),
        method_file_sha256=method_file_sha256,
    )
    storage.write_json(folder / FAILURE_FILE, failure)


def read_failure(folder: Path) -> Failure:
    """Read why a run failed; a UserError names a file that is missing or damaged."""
    return storage.read_struct(folder / FAILURE_FILE, Failure)
