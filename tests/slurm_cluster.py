"""A Slurm cluster of two nodes on this machine, started without systemd and gone at the end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

NEEDED = (
    "setpriv",
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "srun",
    "squeue",
    "scancel",
    "scontrol",
)

CONF = """
ClusterName=sdgbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
KillWait=60
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=n1,n2 PriorityTier=2
"""


def why_not() -> str:
    """Say why no cluster can be started here, or nothing."""
    if os.geteuid() != 0:
        return "only root can start a Slurm cluster"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def wait_for(condition: Callable[[], object], what: str, seconds: float = 300.0) -> None:
    """Poll until it holds; the limit is for hangs only."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            jobs = subprocess.run(["scontrol", "show", "job"], capture_output=True, text=True)
            raise AssertionError(f"{what}: not within {seconds:.0f} s\n{jobs.stdout}{jobs.stderr}")
        time.sleep(0.1)


def command(*words: object) -> str:
    """Run a command of Slurm and return what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@contextmanager
def cluster() -> Iterator[Path]:
    """Start it, point SLURM_CONF at it, and end every process of it, whatever happens.

    Should even this process be killed, the kernel ends the daemons (--pdeathsig).
    """
    home = Path(tempfile.mkdtemp(prefix="sdgbench-slurm-"))  # short: sockets' paths are limited
    before = os.environ.get("SLURM_CONF")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        _configure(home)
        os.environ["SLURM_CONF"] = str(home / "slurm.conf")
        stack.callback(_restore_environment, before)
        daemons = [
            (
                "munged",
                "--foreground",
                "--force",
                f"--key-file={home}/munge.key",
                f"--socket={home}/munge.socket",
                f"--pid-file={home}/munged.pid",
                f"--log-file={home}/munged.log",
                f"--seed-file={home}/munged.seed",
            ),
            ("slurmctld", "-D", "-f", home / "slurm.conf"),
            ("slurmd", "-D", "-N", "n1", "-f", home / "slurm.conf"),
            ("slurmd", "-D", "-N", "n2", "-f", home / "slurm.conf"),
        ]
        for number, words in enumerate(daemons):
            log = stack.enter_context((home / f"daemon-{number}.log").open("wb"))
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *(str(word) for word in words)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            stack.callback(_stop, process)
            if number == 0:
                wait_for((home / "munge.socket").exists, "munged", 30)
        stack.callback(_end_jobs)
        try:
            wait_for(_idle, "two idle nodes", 60)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *_logs(home)])) from None
        yield home


def _configure(home: Path) -> None:
    home.chmod(0o755)
    (home / "state").mkdir()
    key = home / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    text = CONF.format(home=home, host=socket.gethostname().partition(".")[0], ports=_free_ports(3))
    (home / "slurm.conf").write_text(text)
    version = re.search(r"(\d+)\.\d+", command("slurmd", "-V"))
    plugin = "disabled" if version and int(version[1]) >= 23 else "cgroup/v1"  # unused, must load
    (home / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _restore_environment(conf: str | None) -> None:
    os.environ.pop("SLURM_CONF")
    if conf is not None:
        os.environ["SLURM_CONF"] = conf


def _idle() -> bool:
    done = subprocess.run(["sinfo", "-h", "-N", "-p", "main", "-o", "%t"], capture_output=True)
    return done.stdout.split() == [b"idle", b"idle"]


def _logs(home: Path) -> list[str]:
    return [f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(home.glob("*.log"))]


def _end_jobs() -> None:
    """No job outlives the cluster."""
    subprocess.run(["scancel", "--signal=KILL", "--full", "--user=root"], capture_output=True)
    subprocess.run(["scancel", "--user=root"], capture_output=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done = subprocess.run(["squeue", "-h"], capture_output=True, text=True)
        if done.returncode or not done.stdout.strip():
            return
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
