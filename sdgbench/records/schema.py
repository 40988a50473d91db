"""The whole of ``record.json``, typed: the one owner of what a record holds.

Writer, reader, tables, page, verification and adaptation use these classes; nobody indexes raw
JSON. ``SCHEMA`` is "major.minor". The rule: an added field with a default raises the minor
version; a field that is renamed, removed or changes its meaning raises the major version and gets
a function in ``migration``. Older records are migrated when they are read, unknown fields of a
newer minor version are kept, a newer major version is refused.

Scores are fractions between 0 and 1; tables show per cent.
"""

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct, field

from sdgbench.records.scores import Count, DomainScore, Fraction
from sdgbench.spec.run_spec import RunSpec

SCHEMA = "2.5"
Choice = Literal["last", "val"]  # which weights: the last iterate, or chosen on held-out source


def utc_now() -> str:
    """The time as records keep it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Average(Struct, kw_only=True, frozen=True):
    """The mean over a named group of domains."""

    mean: Fraction
    domains: Count  # how many domains it covers


class ChoiceResult(Struct, kw_only=True, frozen=True):
    """What one choice of weights reached on the targets."""

    step: Count = 0  # training step of the weights
    source_val: Fraction | None = None  # score on held-out source
    average: Fraction  # the ranked mean, which is the first of ``averages``
    domains: Count = 0  # how many domains it covers
    averages: dict[str, Average]  # all named means, the ranked one first
    worst: Fraction  # score on the worst domain
    worst_domain: str = ""  # its name
    per_domain: dict[str, DomainScore]  # each target


class DomainContent(Struct, kw_only=True, frozen=True):
    """What a target domain was."""

    tags: dict[str, Any] = {}  # such as corruption and severity
    count: Count = 0  # images
    sha256: str  # of the decoded content


class SplitContent(Struct, kw_only=True, frozen=True):
    """What a split of the source was."""

    count: Count = 0  # images
    sha256: str = ""  # of the decoded content


class Source(Struct, kw_only=True, frozen=True):
    """The one domain that the method learned from."""

    name: str = ""
    train: SplitContent = SplitContent()  # what it was trained on
    val: SplitContent = SplitContent()  # what was held out


class Latency(Struct, kw_only=True, frozen=True):
    """Milliseconds of a forward pass."""

    p50_ms: float | None = None  # median
    p95_ms: float | None = None  # 95th percentile
    repetitions: Count = 0
    half_ms: float | None = None  # half-width of the median's 95% interval within this run
    compiled: bool | None = None  # whether the networks ran compiled (since 2.5)


class Efficiency(Struct, kw_only=True, frozen=True):
    """What using the trained method costs."""

    parameters_train: Count | None = None  # of all modules
    parameters_inference: Count | None = None  # of those that predict
    flops: Count | None = None  # of one prediction; a multiply-add counts as two
    latency: dict[str, Latency] = {}  # by batch size: "batch_1", "batch_64"
    alone: bool | None = None  # no other run on the GPU meanwhile; None: it was not shared
    load_average: float | None = None  # of the machine's last minute when latency was measured
    peak_memory_bytes: Count | None = None  # in training; on a CPU of the whole process


class Distances(Struct, kw_only=True, frozen=True):
    """W2 between an augmented domain and the source images that it was made of."""

    exact: float | None = None  # by assignment
    sliced: float | None = None  # by random projections
    exact_relative: float | None = None  # in units of the source's standard deviation
    sliced_relative: float | None = None


class AugmentedDomain(Struct, kw_only=True, frozen=True):
    """One domain that the method generated."""

    images: Count = 0
    pixel: Distances = Distances()
    embedding: Distances = Distances()


class Transport(Struct, kw_only=True, frozen=True):
    """How far the generated domains are from the source."""

    measure: str = ""  # the definition, in words
    sample: dict[str, Count] = {}  # images per sample: "exact", "sliced"
    domains: list[AugmentedDomain] = []


class Embedding(Struct, kw_only=True, frozen=True):
    """Samples of all domains in the features of the trained network."""

    sample: dict[str, Count] = {}  # images by kind and name of the domain
    components: Count = 0  # principal components that were kept
    variance_kept: float | None = None  # share of the variance in them
    hull_area_pca: dict[str, float] = {}  # areas of convex hulls in the first two components
    hull_growth_pca: float | None = None  # hull of source and augmented over that of the source


class PhaseCost(Struct, kw_only=True, frozen=True):
    """The cost of one phase of the plan."""

    name: str
    steps: Count
    seconds: float


class Cost(Struct, kw_only=True, frozen=True):
    """What the run took."""

    phases: list[PhaseCost] = []
    train_seconds: float | None = None  # of all phases
    other_seconds: dict[str, float] = {}  # validation, evaluation, checkpoints, analyses
    images_forward: Count | None = None  # through the networks, in training
    images_with_gradient: Count | None = None  # those of them that had gradients
    starts: Count | None = None  # how often the run was started or resumed

    @property
    def seconds(self) -> float:
        """Seconds in all."""
        return (self.train_seconds or 0.0) + sum(self.other_seconds.values())


class Flags(Struct, kw_only=True, frozen=True):
    """What a reader of a table must know about the run."""

    reduced_scale: str | None = None  # what is smaller than in the paper
    recipe_changed: list[str] = []  # recipe settings that are not the preset's
    params_changed: list[str] | None = None  # parameters set by hand; None: not recorded
    reduced_parameters: dict[str, tuple[Any, Any]] = {}  # by the preset: used and published value
    pretrained: bool = False  # starts from weights of the hub or of a file; see ``weights``
    unverified_data: list[str] = []  # splits whose content has no known hash
    regenerated: list[str] = []  # splits that were generated here, not downloaded
    frost_overlays: list[str] = []  # which overlays the frost corruption used
    incomplete_source: str | None = None  # what is missing of the source
    opened_data: list[str] = []  # files of the data folder that the method opened in training
    method: list[str] = []  # flags that the method declares, such as extra_data
    other: dict[str, Any] = {}  # flags that the dataset adds


class InitialWeights(Struct, kw_only=True, frozen=True):
    """The weights that the task network started from."""

    name: str  # of the file; with its repository if it came from the hub
    sha256: str  # of the file
    matched: str = ""  # how its tensors were matched with the network's
    tensors: Count = 0  # how many of them were loaded
    new: list[str] = []  # the network's tensors that started from random values


class Code(Struct, kw_only=True, frozen=True):
    """Which code made the record."""

    version: str = ""  # of sdgbench
    commit: str | None = None  # of the checkout; None: an installed package
    dirty: bool | None = None  # whether the checkout had uncommitted changes
    method_file_sha256: str | None = None
    dataset_file_sha256: str | None = None


class Machine(Struct, kw_only=True, frozen=True):
    """Where and how the run was computed."""

    device: str = ""
    hardware: str = ""  # the name of the chip
    threads: Count = 0
    cuda: str | None = None  # version
    precision: str = ""
    channels_last: bool | None = None
    compile: bool | None = None
    uncompiled: list[str] = []  # functions and steps in which the compiler failed (since 2.5)
    cuda_graphs: list[str] | None = None  # steps that ran as graphs; None: not asked (since 2.5)
    deterministic: bool | None = None
    fast: bool | None = None
    processes: Count = 1  # that shared the run (torchrun)
    runs_beside: Count = 0  # other runs of the same command at the same time
    runs_on_device: Count = 1  # runs of the command that shared the GPU, this one included
    platform: str = ""
    earlier: list["Machine"] = []  # where the run was computed before it was resumed here


class Elsewhere(Struct, kw_only=True, frozen=True):
    """A model that was trained elsewhere and only scored here."""

    name: str  # what tables call it
    model: str = ""  # file.py:function, the name of a network, or a class
    model_file_sha256: str | None = None  # of that file
    weights_file: str | None = None  # its name
    weights_sha256: str = ""  # of all weights and buffers: names, shapes, values
    mean: list[float] | None = None  # of the normalisation in front of it; None: there is none
    std: list[float] | None = None


class Tuned(Struct, kw_only=True, frozen=True):
    """How a search chose the setting of a run: on held-out source, before any target was opened."""

    search: str  # its id
    rule: str = ""  # what the trials were scored by: source or shifted
    trials: Count = 0  # settings that were tried
    trial: Count = 0  # the number of the chosen one; 0 is the default setting
    seeds: list[int] = []  # of the trials; the run's own seed is none of them
    values: dict[str, Any] = {}  # the chosen value of each searched setting
    recipe: dict[str, Any] = {}  # the preset's values of those that are the recipe's
    images_forward: Count | None = None  # through the networks, in training, of all trials
    images_with_gradient: Count | None = None
    seconds: float | None = None  # of all trials


class Record(Struct, kw_only=True, frozen=True):
    """What a finished run leaves."""

    schema: str = SCHEMA
    id: str  # the hash of the specification
    spec: RunSpec  # what was asked, every setting resolved
    started: str = ""  # UTC, ISO 8601; of the last start
    finished: str = ""
    metric: str  # the name of the score: accuracy or mIoU
    classes: list[str | None] = []  # names of the classes
    results: dict[Choice, ChoiceResult]  # "last" is ranked; "val" where validation chose weights
    domains: dict[str, DomainContent]  # the targets that were evaluated, in order
    missing_domains: list[str] = []  # targets without data
    source: Source = Source()
    efficiency: Efficiency = Efficiency()
    transport: Transport | None = None  # None: no domain was generated
    embedding: Embedding | None = None
    cost: Cost = Cost()
    flags: Flags = Flags()
    weights: InitialWeights | None = None  # None: random ones, or not recorded
    code: Code = Code()
    packages: dict[str, str] = {}  # versions of Python and of what numbers may depend on
    machine: Machine = Machine()
    files: dict[str, str] = {}  # sha256 of the run's other files
    elsewhere: Elsewhere | None = None  # None: trained here (since 2.1)
    tuned: Tuned | None = None  # None: no search chose the setting (since 2.4)
    unknown: dict[str, Any] = field(default_factory=dict)  # fields of a newer minor version

    @property
    def last(self) -> ChoiceResult:
        """What the last iterate reached: the ranked result."""
        return self.results["last"]
