"""Records: what a finished run leaves, and where it is kept.

``runs/<dataset>/<method>/<id>/`` holds ``spec.json`` (what was asked), ``train.jsonl`` (the
curve), ``checkpoint.pt``, and at the end ``predictions.npz`` and ``record.json``. The record is
written last: where it stands, the run is finished. No torch is needed to read any of it.
"""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sdgbench import storage
from sdgbench.errors import UserError, explain_os_errors

if TYPE_CHECKING:
    from sdgbench.spec import RunSpec

SCHEMA = 1
State = Literal["new", "interrupted", "running", "failed", "done"]
Record = dict[str, Any]


def now() -> str:
    """The time as records keep it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def label(spec: Mapping[str, Any]) -> str:
    """What a person calls a run."""
    precision = spec.get("precision", "float32")
    remark = "" if precision == "float32" else f", {precision}"
    return "{method} on {dataset} ({preset}, seed {seed}".format(**spec) + f"{remark})"


def read(path: Path) -> Record:
    """Read and check a record."""
    return check(storage.read_json(path), path)


def check(record: Any, path: Path | str) -> Record:
    """Refuse what is not a record, or not whole."""
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise UserError(f"{path} is not a record of sdgbench. Move it out of the runs folder.")
    if record["schema"] > SCHEMA:
        raise UserError(
            f"{path} has schema {record['schema']}, newer than this sdgbench knows ({SCHEMA}). "
            "Upgrade sdgbench to read it."
        )
    missing = [key for key in ("id", "spec", "results", "domains") if key not in record]
    if missing:
        raise UserError(f"{path} lacks {', '.join(missing)}: it is damaged. Delete it.")
    return record


class Store:
    """A folder of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self, *, writable: bool = False) -> None:
        """Refuse early a folder that cannot be used."""
        with explain_os_errors("use the runs folder", self.root):
            if writable:
                self.root.mkdir(parents=True, exist_ok=True)
                probe = self.root / ".writable"
                probe.touch()
                probe.unlink()
            elif self.root.exists():
                next(self.root.iterdir(), None)

    def folder(self, spec: "RunSpec") -> Path:
        """Where a run lives."""
        return self.root / spec.dataset / spec.method / spec.id

    def state(self, spec: "RunSpec") -> State:
        """How far a run is, by its files alone."""
        folder = self.folder(spec)
        if (folder / "record.json").exists():
            return "done"
        if storage.is_owned(folder):
            return "running"
        if (folder / "failed.json").exists():
            return "failed"
        return "interrupted" if (folder / "checkpoint.pt").exists() else "new"

    def begin(self, spec: "RunSpec") -> None:
        """Write down what was asked."""
        folder = self.folder(spec)
        storage.sweep_temporaries(folder)
        (folder / "failed.json").unlink(missing_ok=True)
        storage.write_json(folder / "spec.json", {"schema": SCHEMA, "id": spec.id, **asdict(spec)})

    def fail(self, spec: "RunSpec", error: BaseException) -> None:
        """Write down how a run failed."""
        text = str(error).strip().splitlines()
        storage.write_json(self.folder(spec) / "failed.json", {
            "schema": SCHEMA, "id": spec.id, "time": now(), "error": type(error).__name__,
            "message": text[0] if text else "",
            "traceback": "".join(traceback.format_exception(error)),
        })  # fmt: skip

    def failure(self, spec: "RunSpec") -> str:
        """The one-line reason of a failed run."""
        found = storage.read_json(self.folder(spec) / "failed.json")
        return f"{found['error']}: {found['message']}"

    def record(self, spec: "RunSpec") -> Record:
        """The record of a finished run."""
        return read(self.folder(spec) / "record.json")

    def records(self) -> Iterator[Record | UserError]:
        """All records, in a stable order; what cannot be read comes as its error."""
        self.check()
        for path in sorted(self.root.glob("*/*/*/record.json")):
            try:
                yield read(path)
            except UserError as error:
                yield error
