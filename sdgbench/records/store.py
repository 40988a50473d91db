"""Records: what a finished run leaves, and where it is kept.

``runs/<dataset>/<method>/<id>/`` holds ``spec.json`` (what was asked), ``train.jsonl`` (the
curve), ``checkpoint.pt``, and at the end ``predictions.npz`` and ``record.json``. The record is
written last: where it exists, the run is finished. No torch is needed to read any of it.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from sdgbench import registry, storage
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.records.failure import FAILURE_FILE, read_failure, write_failure
from sdgbench.records.folders import run_folders
from sdgbench.records.reading import read
from sdgbench.records.schema import SCHEMA, Record
from sdgbench.spec.run_spec import RunSpec

RECORD = "record.json"
State = Literal["new", "interrupted", "running", "failed", "done"]


def _file_hash(spec: RunSpec) -> str:
    return registry.get("method", spec.method).source_sha256


class Store:
    """A folder of runs. ``finished`` is the file that a run leaves at its end."""

    def __init__(self, root: Path, finished: str = RECORD) -> None:
        self.root, self.finished = root, finished

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

    def folder(self, spec: RunSpec) -> Path:
        """Where a run lives."""
        return self.root / spec.dataset / spec.method / spec.id

    def state(self, spec: RunSpec) -> State:
        """How far a run is, by its files alone."""
        folder = self.folder(spec)
        if (folder / self.finished).exists():
            return "done"
        if storage.is_locked(folder):
            return "running"
        if (folder / FAILURE_FILE).exists():
            return "failed"
        return "interrupted" if any(folder.glob("checkpoint*.pt")) else "new"

    def refuse_links(self, spec: RunSpec) -> None:
        """Refuse a run whose folder is a link: no command follows it."""
        folder = self.folder(spec)
        for path in (folder, folder.parent, folder.parent.parent):
            storage.refuse_link(path)

    def begin(self, spec: RunSpec) -> None:
        """Write down what was asked."""
        folder = self.folder(spec)
        self.refuse_links(spec)
        storage.sweep_temporaries(folder)
        (folder / FAILURE_FILE).unlink(missing_ok=True)
        about = {"schema": SCHEMA, "id": spec.id, "param_changes": spec.changed_parameters()}
        storage.write_json(folder / "spec.json", {**about, **asdict(spec)})

    def fail(self, spec: RunSpec, error: BaseException) -> None:
        """Record that a run failed, and how."""
        write_failure(self.folder(spec), spec.id, error, _file_hash(spec))

    def has_changed_since_failure(self, spec: RunSpec) -> bool:
        """Whether the method's file was edited after the run failed; False: not known."""
        failure = read_failure(self.folder(spec))
        return bool(failure.method_file_sha256) and failure.method_file_sha256 != _file_hash(spec)

    def failure(self, spec: RunSpec) -> str:
        """The one-line reason of a failed run."""
        return str(read_failure(self.folder(spec)))

    def record(self, spec: RunSpec) -> Record:
        """The record of a finished run."""
        return read(self.folder(spec) / "record.json")

    def records(self) -> Iterator[Record | UserError]:
        """All records, in a stable order; what cannot be read comes as its error."""
        self.check()
        problems: list[UserError] = []
        folders = run_folders(self.root, "record.json", problems)
        yield from problems
        for folder in folders:
            try:
                yield read(Path(folder, "record.json"))
            except UserError as error:
                yield error
