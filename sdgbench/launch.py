"""Runs a matrix in this process: only what is missing, and no failure stops the rest."""

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sdgbench import progress, registry
from sdgbench.device import Device
from sdgbench.errors import Interrupted, UserError
from sdgbench.record import Record, Store
from sdgbench.runner import StopSignal, execute
from sdgbench.spec import RunSpec

Outcome = Literal["done", "finished before", "failed", "failed before", "refused", "skipped",
                  "stopped", "not started"]  # fmt: skip
STYLES = {"done": "green", "failed": "bold red", "failed before": "red", "refused": "red",
          "skipped": "yellow", "stopped": "yellow"}  # fmt: skip


@dataclass
class Result:
    """How one run of the matrix ended."""

    spec: RunSpec
    outcome: Outcome
    record: Record | None = None
    remark: str = ""
    seconds: float = 0.0


def run_matrix(
    specs: Sequence[RunSpec],
    runs: Path,
    data: Path,
    device_name: str,
    checkpoint_seconds: float = 300.0,
    retry: bool = False,
    redo: bool = False,
) -> int:
    """Run what is missing, print a summary, and return the exit code."""
    device = Device(device_name)
    store = Store(runs)
    store.check(writable=True)
    console = Console(highlight=False)
    results: list[Result] = []
    with StopSignal() as stop:
        for position, spec in enumerate(specs, 1):
            if stop():
                results.append(Result(spec, "not started"))
                continue
            title = f"[{position}/{len(specs)}] {spec.label}"
            began = time.perf_counter()
            result = _run_one(
                spec, store, data, device, console, title, checkpoint_seconds, stop, retry, redo
            )
            result.seconds = time.perf_counter() - began
            results.append(result)
    if all(result.outcome == "refused" for result in results):
        for remark in dict.fromkeys(result.remark for result in results):
            print(f"Error: {remark}", file=sys.stderr)
    else:
        _summarise(results, console, runs)
    return _exit_code(results)


def _run_one(
    spec: RunSpec, store: Store, data: Path, device: Device, console: Console, title: str,
    checkpoint_seconds: float, stop: StopSignal, retry: bool, redo: bool,
) -> Result:  # fmt: skip
    if reason := spec.skipped():
        return Result(spec, "skipped", remark=reason)
    try:
        if redo and store.state(spec) != "running":
            shutil.rmtree(store.folder(spec), ignore_errors=True)
        state = store.state(spec)
        if state == "done":
            record = store.record(spec)
            return Result(spec, "finished before", record, _changed_since(record))
        if state == "failed" and not retry:
            return Result(spec, "failed before", remark=store.failure(spec) + " (--retry)")
        with progress.reporter(console, title) as reporter:
            record = execute(spec, store, data, device, reporter, checkpoint_seconds, stop)
        return Result(spec, "done", record)
    except Interrupted as error:
        return Result(spec, "stopped", remark=str(error))
    except UserError as error:
        return Result(spec, "refused", remark=str(error))
    except Exception as error:
        console.print_exception(max_frames=8)
        store.fail(spec, error)
        first = (str(error).strip().splitlines() or [""])[0]
        return Result(spec, "failed", remark=f"{type(error).__name__}: {first}")


def _changed_since(record: Record) -> str:
    """Warn when a finished run was made by another version of its method's file."""
    now = registry.get("method", record["spec"]["method"]).source_sha256
    same = record.get("code", {}).get("method_file_sha256") in (None, now)
    return "" if same else "made by another version of the method's file (--redo)"


def _summarise(results: Sequence[Result], console: Console, runs: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    for title in ("source", "unseen", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        best = result.record["results"]["last"] if result.record else {}
        source = best.get("source_val")
        table.add_row(
            escape(result.spec.label),
            f"[{STYLES.get(result.outcome, 'default')}]{result.outcome}[/]",
            f"{100 * source:.1f}" if source is not None else "",
            f"{100 * best['average']:.1f}" if best else "",
            f"{result.seconds:.0f} s" if result.outcome == "done" else "",
        )
    console.print()
    console.print(table)
    for result in results:
        if result.remark:
            style = STYLES.get(result.outcome, "default")
            console.print(f"[{style}]{result.outcome}[/] {escape(result.spec.label)}: "
                          f"{escape(result.remark)}", soft_wrap=True)  # fmt: skip
    reduced = {r.record["flags"]["reduced_scale"] for r in results if r.record} - {None}
    for text in sorted(reduced):
        console.print(f"[yellow]reduced scale[/]: {escape(text)}", soft_wrap=True)
    if any(result.record for result in results):
        console.print(f"source, unseen: per cent on held-out source and on the mean unseen domain, "
                      f"last iterate. All domains: sdgbench compare --runs {escape(str(runs))}",
                      style="dim", soft_wrap=True)  # fmt: skip
    if any(result.outcome in ("stopped", "not started") for result in results):
        console.print("Stopped and saved. Run the same command again to go on.", style="bold")


def _exit_code(results: Sequence[Result]) -> int:
    outcomes = {result.outcome for result in results}
    if "failed" in outcomes or "failed before" in outcomes:
        return 1
    if "refused" in outcomes:
        return 2
    return 130 if outcomes & {"stopped", "not started"} else 0
