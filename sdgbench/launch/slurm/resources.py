"""The resources of a Slurm job: ``--slurm key=value``, or ``[slurm]`` in ``sdgbench.toml``."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from sdgbench.errors import UserError, explain_os_errors, unknown
from sdgbench.spec import parameters
from sdgbench.spec.parameters import param

FILE = Path("sdgbench.toml")
EXTRA = "extra"
SET_HERE = ("array", "output", "error", "open-mode", "signal", "requeue")  # not as extra
CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")


@dataclass(frozen=True)
class Resources:
    """The settings of ``--launcher slurm``."""

    partition: str = param("", "partition; empty: the cluster's default")
    time: int | str = param("4:00:00", "time limit of a job, in minutes or as H:MM:SS")
    gpus: int = param(0, "GPUs of a run")
    cpus: int = param(2, "CPUs of a run; how many of them compute is set by --threads")
    memory: str = param("", "memory of a run, such as 8G; empty: the cluster's default")
    parallel: int = param(256, "largest number of runs at a time")
    account: str = param("", "account to charge")
    qos: str = param("", "quality of service")
    constraint: str = param("", "features that a node must have")
    grace: int = param(90, "seconds before the limit when a run saves and is queued again")
    timeouts: int = param(100, "how often a run may reach the time limit and be queued again")
    setup: tuple[str, ...] = param((), "shell commands before each run, such as module load cuda")
    extra: tuple[tuple[str, str], ...] = param((), "other options of sbatch: extra.NAME=VALUE")

    def __post_init__(self) -> None:
        for name, least in (
            ("gpus", 0),
            ("cpus", 1),
            ("parallel", 1),
            ("grace", 1),
            ("timeouts", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"slurm.{name} is {getattr(self, name)}; the least is {least}")
        if self.memory and not re.fullmatch(r"\d+[KMGT]B?", self.memory, re.IGNORECASE):
            raise ValueError(f'slurm.memory is "{self.memory}"; write it as 8G or 500M')
        # Slurm may send its signal up to a minute early: the limit must exceed both.
        if 60 * self.minutes <= self.grace + 60:
            raise ValueError(
                f"slurm.time is {self.minutes} min; it must exceed slurm.grace "
                f"({self.grace} s) by more than a minute"
            )
        texts = [str(getattr(self, name)) for name in ("partition", "time", "memory", "account")]
        texts += [
            self.qos,
            self.constraint,
            *self.setup,
            *(part for pair in self.extra for part in pair),
        ]
        for text in texts:
            if not text.isprintable():  # a line break would become a line of the job script
                raise ValueError(f"slurm: {text!r} contains a line break or control character")
        for name, _ in self.extra:
            if name in SET_HERE:
                raise ValueError(f"slurm.extra.{name} is set by sdgbench itself")

    @property
    def minutes(self) -> int:
        """The time limit in minutes, rounded up."""
        if isinstance(self.time, int):
            return self.time
        match = CLOCK.fullmatch(self.time.strip())
        if not match:
            raise ValueError(f'slurm.time is "{self.time}"; write minutes or H:MM:SS')
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return (24 * days + hours) * 60 + minutes + (seconds > 0)

    def sbatch(self) -> dict[str, Any]:
        """The resources as submitit's parameters; empty ones are omitted."""
        optional = {
            "partition": self.partition,
            "mem": self.memory,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "gpus_per_node": self.gpus,
            "setup": list(self.setup),
        }
        return {
            "job_name": "sdgbench",
            "time": self.minutes,
            "cpus_per_task": self.cpus,
            # Since Slurm 22.05 srun does not inherit this from sbatch.
            "srun_args": ["--cpus-per-task", str(self.cpus)],
            "array_parallelism": self.parallel,
            "signal_delay_s": self.grace,
            "additional_parameters": {"requeue": True, **dict(self.extra)},
            **{key: value for key, value in optional.items() if value},
        }


def resources(typed: Iterable[tuple[str, str]], file: Path = FILE) -> Resources:
    """Read the resources: typed values win over the file, the file over the defaults."""
    fields = parameters.fields(Resources)
    values: dict[str, Any] = {}
    extra: dict[str, str] = {}
    for key, value in _table(file).items():
        if key == EXTRA and isinstance(value, dict):
            extra.update({name: str(one) for name, one in value.items()})
        elif not parameters.fits(value, _field(fields, key).type):
            raise UserError(
                f"{file}: {parameters.show(value)!r} does not fit slurm.{key}, which "
                f"takes: {_words(fields[key])}."
            )
        else:
            values[key] = tuple(value) if isinstance(value, list) else value
    for key, text in typed:
        scope, dot, name = key.partition(".")
        if dot and scope == EXTRA:
            extra[name] = text
        else:
            values[key] = parameters.parse_field("slurm", _field(fields, key), text)
    built: Resources = parameters.build(Resources, {**values, EXTRA: tuple(extra.items())})
    return built


def _table(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    with explain_os_errors("read", file):
        data = file.read_bytes()
    try:
        content = tomllib.loads(data.decode())
    except ValueError as error:  # of TOML or of UTF-8
        raise UserError(f"{file} is not valid TOML: {error}.") from None
    for name in content:
        if name != "slurm":
            raise unknown(f"table of {file} called", name, ["slurm"])
    table = content.get("slurm", {})
    if not isinstance(table, dict):
        raise UserError(f"{file}: slurm must be a table: [slurm], then lines such as gpus = 1.")
    return table


def _field(fields: Mapping[str, parameters.Field], key: str) -> parameters.Field:
    if key == EXTRA:
        raise UserError("slurm.extra takes names: --slurm extra.NAME=VALUE, or [slurm.extra].")
    if key not in fields:
        raise unknown(
            "setting of slurm called", key, fields, "Other options of sbatch: extra.NAME."
        )
    return fields[key]


def _words(field: parameters.Field) -> str:
    return "a list of text" if get_origin(field.type) is tuple else field.type_name
