import pytest

from sdgbench.errors import UserError
from sdgbench.launch.slurm.resources import Resources, resources


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "sdgbench.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("time", "minutes"),
    [(90, 90), ("1:30:00", 90), ("0:10:01", 11), ("36:00:00", 2160), ("1-02:00:00", 1560)],
)
def test_the_time_limit_in_minutes(time, minutes):
    assert Resources(time=time).minutes == minutes


def test_what_is_typed_wins_over_the_file_and_the_file_over_the_defaults(toml):
    file = toml("""
[slurm]
partition = "gpu"
time = "2:00:00"
gpus = 1
setup = ["module load cuda", "export A=1,2"]

[slurm.extra]
mail-type = "FAIL"
nice = 5
""")
    chosen = resources([("gpus", "2"), ("time", "45"), ("extra.mail-type", "END")], file)
    assert chosen == Resources(
        partition="gpu",
        time=45,
        gpus=2,
        setup=("module load cuda", "export A=1,2"),
        extra=(("mail-type", "END"), ("nice", "5")),
    )
    assert resources([], file.with_name("none.toml")) == Resources()


def test_parameters_for_submitit():
    assert Resources().sbatch() == {
        "job_name": "sdgbench",
        "time": 240,
        "cpus_per_task": 2,
        "srun_args": ["--cpus-per-task", "2"],
        "array_parallelism": 256,
        "signal_delay_s": 90,
        "additional_parameters": {"requeue": True},
    }
    more = Resources(
        partition="p",
        gpus=2,
        memory="8G",
        account="a",
        qos="q",
        constraint="c",
        extra=(("nice", "5"),),
        setup=("x",),
    ).sbatch()
    assert more["additional_parameters"] == {"requeue": True, "nice": "5"}
    assert {key: more[key] for key in more.keys() - Resources().sbatch().keys()} == {
        "partition": "p",
        "gpus_per_node": 2,
        "mem": "8G",
        "account": "a",
        "qos": "q",
        "constraint": "c",
        "setup": ["x"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[slurm]\npartiton = 'gpu'", 'called "partiton". Did you mean "partition"?'),
        ("[slrum]\ngpus = 1", 'No table of .* called "slrum". Did you mean "slurm"?'),
        ("slurm = 3", "slurm must be a table"),
        ("[slurm]\ngpus = 'two'", "'two' does not fit slurm.gpus, which takes: integer"),
        ("[slurm]\ncpus = true", "'true' does not fit slurm.cpus, which takes: integer"),
        ("[slurm]\npartition = 3", "'3' does not fit slurm.partition, which takes: text"),
        ("[slurm]\nsetup = 'x'", "does not fit slurm.setup, which takes: a list of text"),
        ("[slurm]\nextra = 'x'", "slurm.extra takes names"),
        ("[slurm", "sdgbench.toml is not valid TOML"),
        ("[slurm]\nextra.output = 'x'", "slurm.extra.output is set by sdgbench itself"),
    ],
)
def test_a_bad_file_is_refused(toml, text, message):
    with pytest.raises(UserError, match=message):
        resources([], toml(text))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gpu", "1", 'Did you mean "gpus"?'),
        ("cpus", "many", '"many" does not fit slurm.cpus, which takes: integer. Default: 2.'),
        ("cpus", "0", "slurm.cpus is 0; the least is 1"),
        ("time", "1:30", 'slurm.time is "1:30"; write minutes or H:MM:SS'),
        ("time", "2", "slurm.time is 2 min; it must exceed slurm.grace"),
        ("memory", "lots", 'slurm.memory is "lots"; write it as 8G'),
    ],
)
def test_a_bad_value_is_refused(tmp_path, key, value, message):
    with pytest.raises(UserError) as refused:
        resources([(key, value)], tmp_path / "none.toml")
    assert message in str(refused.value)
