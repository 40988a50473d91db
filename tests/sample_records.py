"""Plausible records without any training, for whatever reads records.

``make`` builds one record, ``write`` puts methods x seeds x datasets into a runs folder. Scores
depend on nothing but the names and the seed: a shared part per domain, one per method, one per
seed (so that differences pair), and noise.
"""

import copy
import hashlib
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sdgbench.corruptions.names import ALL_19, STANDARD_15
from sdgbench.leaderboard import Leaderboard, Run
from sdgbench.leaderboard import leaderboards as group
from sdgbench.records.reading import decode
from sdgbench.records.schema import SCHEMA, Record

CLASSES = (
    "void",
    "sky",
    "building",
    "road",
    "sidewalk",
    "fence",
    "vegetation",
    "pole",
    "car",
    "traffic sign",
    "pedestrian",
    "bicycle",
    "lane marking",
    "traffic light",
)
CONDITIONS = ("dawn", "fog", "night", "spring", "winter")
RECIPES = {
    "paper": {"network": "convnet", "steps": 10000, "lr": 1e-4, "test_images": None, "reduced": ""},
    "quick": {
        "network": "convnet-32",
        "steps": 600,
        "lr": 5e-4,
        "test_images": None,
        "reduced": "ConvNet of half the width, 600 steps instead of 10,000",
    },
    "smoke": {
        "network": "convnet-8",
        "steps": 20,
        "lr": 5e-4,
        "test_images": 50,
        "reduced": "ConvNet of an eighth of the width, 20 steps",
    },
}
GAINS = {"erm": 0.0, "jigen": 0.02, "gud": 0.04, "mada": 0.08}  # others: by their name


def corrupted_tags() -> dict[str, dict[str, Any]]:
    """The 96 domains of CIFAR-10-C."""
    tags: dict[str, dict[str, Any]] = {"clean": {"corruption": None, "severity": 0}}
    for corruption in ALL_19:
        for severity in range(1, 6):
            tags[f"{corruption}/{severity}"] = {"corruption": corruption, "severity": severity}
    return tags


def scene_tags() -> dict[str, dict[str, Any]]:
    """The ten domains of SYNTHIA."""
    return {
        f"{location}/{condition}": {"location": location, "condition": condition}
        for location in ("new-york", "old-european")
        for condition in CONDITIONS
    }


TAGS = {
    "digits": {name: {} for name in ("svhn", "mnist-m", "syn", "usps")},
    "digits-mini": {name: {} for name in ("street", "texture", "print", "scan")},
    "cifar10c": corrupted_tags(),
    "shapes10c": corrupted_tags(),
    "synthia": scene_tags(),
    "streets-mini": scene_tags(),
}
SOURCES = {
    "digits": "mnist",
    "digits-mini": "handwriting",
    "cifar10c": "cifar-10",
    "shapes10c": "shapes",
    "synthia": "highway/dawn",
    "streets-mini": "highway/dawn",
}


def _draw(*names: object) -> random.Random:
    return random.Random("/".join(map(str, names)))


def _score(dataset: str, method: str, seed: int, domain: str, tags: Mapping[str, Any]) -> float:
    base = _draw(dataset, domain).uniform(0.35, 0.75) + 0.15 - 0.04 * tags.get("severity", 2)
    gain = GAINS.get(method, _draw(method).uniform(-0.02, 0.1))
    shared = _draw(dataset, "seed", seed).gauss(0, 0.02)
    noise = _draw(dataset, method, seed, domain).gauss(0, 0.01)
    return min(0.999, max(0.001, base + gain + shared + noise))


def _result(metric: str, score: float, *names: object) -> dict[str, Any]:
    if metric == "accuracy":
        spread = _draw("classes", *names).uniform(0, min(score, 1 - score))
        per_class = [round(score + spread * (number - 4.5) / 4.5, 4) for number in range(10)]
        return {
            "accuracy": round(score, 4),
            "correct": round(10000 * score),
            "count": 10000,
            "class_accuracy": per_class,
        }
    draw = _draw("iou", *names)
    iou: list[float | None] = [round(score * draw.uniform(0.5, 1.5) % 1, 6) for _ in CLASSES]
    iou[draw.randrange(len(iou))] = None
    known = [value for value in iou if value is not None]
    return {
        "mIoU": math.fsum(known) / len(known),
        "mIoU_without_void": score,
        "pixel_accuracy": min(1.0, score + 0.2),
        "iou": iou,
    }


def averages(dataset: str, scores: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """The named means that a dataset's record holds; the first is ranked."""
    groups: dict[str, Sequence[str]] = {"average": list(scores)}
    if TAGS.get(dataset) == corrupted_tags():
        groups = {
            "acc19_L5": [f"{n}/5" for n in ALL_19],
            "acc15_L5": [f"{n}/5" for n in STANDARD_15],
        }
        groups |= {f"acc19_L{s}": [f"{n}/{s}" for n in ALL_19] for s in range(1, 5)}
        groups["acc15_all"] = [f"{n}/{s}" for n in STANDARD_15 for s in range(1, 6)]
        groups["clean"] = ["clean"]
    covered = {g: [scores[n] for n in names if n in scores] for g, names in groups.items()}
    return {g: {"mean": math.fsum(v) / len(v), "domains": len(v)} for g, v in covered.items() if v}


def make(
    method: str = "erm",
    seed: int = 0,
    dataset: str = "digits",
    preset: str = "quick",
    *,
    scores: Mapping[str, float] | None = None,
    params: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    domains: Iterable[str] | None = None,
    version: int = 1,
) -> dict[str, Any]:
    """One record; ``scores`` sets the score of each domain, ``domains`` keeps only some."""
    metric = "mIoU" if dataset in ("synthia", "streets-mini") else "accuracy"
    tags = TAGS.get(dataset) or {name: {} for name in scores or ()}
    kept = [name for name in (domains or tags) if scores is None or name in scores]
    per_domain = {}
    for name in kept:
        score = scores[name] if scores else _score(dataset, method, seed, name, tags[name])
        per_domain[name] = _result(metric, score, dataset, method, seed, name)
        per_domain[name][metric] = score if scores else per_domain[name][metric]
    plain = {name: result[metric] for name, result in per_domain.items()}
    worst = min(plain, key=plain.__getitem__)
    means = averages(dataset, plain)
    ranked = next(iter(means.values()))
    source_val = round(0.95 + _draw(method, seed, "val").uniform(0, 0.04), 4)
    last = {
        "step": RECIPES[preset]["steps"],
        "source_val": source_val,
        "average": ranked["mean"],
        "domains": ranked["domains"],
        "averages": means,
        "worst": plain[worst],
        "worst_domain": worst,
        "per_domain": per_domain,
    }
    spec = {
        "method": method,
        "params": dict(params or {}),
        "dataset": dataset,
        "dataset_version": version,
        "options": {},
        "option_changes": [],
        "preset": preset,
        "recipe": {**RECIPES[preset], "pretrained": False, "batch": 32, "image_size": [32, 32]},
        "recipe_changes": [],
        "seed": seed,
        "targets": list(domains or ()),
    }
    speed = _draw(method, "speed").uniform(0.8, 4.0)
    images = RECIPES[preset]["steps"] * 32
    return {
        "schema": SCHEMA,
        "id": hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12],
        "spec": spec,
        "started": "2026-11-16T08:40:38+00:00",
        "finished": "2026-11-16T08:41:02+00:00",
        "metric": metric,
        "classes": list(CLASSES if metric == "mIoU" else "0123456789"),
        "results": {"last": last, "val": {**copy.deepcopy(last), "step": last["step"] // 2}},
        "domains": {
            name: {"tags": tags.get(name, {}), "count": 10000, "sha256": _hash(dataset, name)}
            for name in kept
        },
        "missing_domains": [],
        "source": {
            "name": SOURCES.get(dataset, "s"),
            "train": {"count": 10000, "sha256": _hash(dataset, "train")},
            "val": {"count": 1000, "sha256": _hash(dataset, "val")},
        },
        "efficiency": {
            "parameters_train": 1141194,
            "parameters_inference": 1141194,
            "flops": 16176128,
            "latency": {
                size: {
                    "p50_ms": round(m * speed, 4),
                    "p95_ms": round(1.2 * m * speed, 4),
                    "repetitions": 100,
                }
                for size, m in (("batch_1", 1), ("batch_64", 20))
            },
            "peak_memory_bytes": 1023991808,
        },
        "transport": transport(method, seed) if method.startswith(("gud", "mada")) else None,
        "embedding": {"hull_growth_pca": 1.0 + round(_draw(method, seed, "hull").random(), 3)},
        "cost": {
            "phases": [{"name": "train", "steps": RECIPES[preset]["steps"], "seconds": 18.7}],
            "train_seconds": round(18.7 * speed + seed / 10, 3),
            "other_seconds": {"validation": 1.7, "evaluate": 3.3},
            "images_forward": images,
            "images_with_gradient": images,
            "starts": 1,
        },
        "flags": {
            "reduced_scale": RECIPES[preset]["reduced"] or None,
            "recipe_changed": [],
            "params_changed": [],
            "pretrained": False,
            **(flags or {}),
        },
        "code": {
            "version": "0.1.0",
            "commit": "0" * 40,
            "dirty": False,
            "method_file_sha256": _hash("method", method),
            "dataset_file_sha256": _hash("dataset", dataset),
        },
        "packages": {"python": "3.11.7", "torch": "2.15.0", "numpy": "2.4.6"},
        "machine": {
            "device": "cpu",
            "hardware": "AMD EPYC (2 cores)",
            "threads": 2,
            "precision": "float32",
        },
        "files": {"predictions.npz": _hash("predictions"), "train.jsonl": _hash("curve")},
    }


def typed(record: Mapping[str, Any]) -> Record:
    """The record as it is read from a file."""
    return decode(json.dumps(record).encode())


def leaderboards(made: Iterable[Mapping[str, Any] | Run]) -> list[Leaderboard]:
    """The leaderboards of records that were made here."""
    return group(record if isinstance(record, Run) else typed(record) for record in made)


def transport(method: str, seed: int = 0, domains: int = 3) -> dict[str, Any]:
    """Plausible distances of augmented domains from the source."""
    draw = _draw(method, seed, "transport")

    def distances() -> dict[str, float]:
        exact = round(draw.uniform(0.01, 0.1), 6)
        return {
            "exact": exact,
            "sliced": exact / 2,
            "exact_relative": 4 * exact,
            "sliced_relative": 2 * exact,
        }

    return {
        "measure": "W2",
        "sample": {"exact": 500, "sliced": 2000},
        "domains": [
            {"images": 9952 // k, "pixel": distances(), "embedding": distances()}
            for k in range(1, domains + 1)
        ],
    }


def _hash(*names: str) -> str:
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def save(root: Path, record: Mapping[str, Any]) -> Path:
    """Put a record where a runs folder keeps it."""
    spec = record["spec"]
    folder = root / _file_name(spec["dataset"]) / _file_name(spec["method"]) / record["id"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "record.json"
    path.write_text(json.dumps(record, indent=2), encoding="utf-8")
    (folder / "predictions.npz").touch()  # tables only look whether it is there
    return path


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in name)


def curve(folder: Path, steps: int = 600, lines: int = 10) -> None:
    """Write a plausible train.jsonl."""
    with (folder / "train.jsonl").open("w") as file:
        for step in range(steps // lines, steps + 1, steps // lines):
            file.write(
                json.dumps(
                    {
                        "step": step,
                        "loss": round(2.3 / (1 + step / 100), 4),
                        "source_val": round(1 - 1 / (1 + step / 50), 4),
                    }
                )
                + "\n"
            )


def write(
    root: Path,
    methods: Sequence[str] = ("erm", "gud", "mada"),
    seeds: Iterable[int] = range(5),
    datasets: Sequence[str] = ("digits",),
    preset: str = "quick",
) -> list[Path]:
    """Write a record for each method, seed and dataset; return their paths."""
    return [
        save(root, make(method, seed, dataset, preset))
        for dataset in datasets
        for method in methods
        for seed in seeds
    ]


def sampled(root, data, name="digits-mini", domains=("street", "scan"), wrong=0, method="erm"):
    """A record of real data with predictions of which the first ``wrong`` of each domain fail."""
    import numpy as np

    from sdgbench.spec.resolution import resolve

    asked = resolve(method, name, "smoke", 0)
    dataset = asked.dataset_class(data, asked.build_options(), asked.build_recipe())
    record = make(method, 0, name, "smoke", scores=dict.fromkeys(domains, 0.5), domains=domains)
    record["spec"] |= {"recipe": dict(asked.recipe), "options": dict(asked.options)}
    record["domains"], predictions = {}, {}
    for domain in domains:
        real = dataset.target(domain).subsample(dataset.recipe_used.test_images)
        record["domains"][domain] = {"tags": {}, "count": len(real), "sha256": real.sha256()}
        decided = np.array(real.labels)
        decided[:wrong] = (decided[:wrong] + 1) % dataset.task.classes
        predictions[f"last/{domain}"] = decided
    folder = save(root, record).parent
    np.savez_compressed(folder / "predictions.npz", **predictions)
    return folder


def verifiable(root, data, method="erm", seed=0, wrong=0, name="digits-mini"):
    """A record that ``verify`` confirms, without training; returns the folder of the run.

    Of each domain the first ``wrong`` images (and one more per seed) are predicted wrongly.
    """
    from dataclasses import asdict

    import msgspec
    import numpy as np

    from sdgbench import registry, storage
    from sdgbench.evaluation import metrics
    from sdgbench.evaluation.evaluator import summarise
    from sdgbench.spec.resolution import resolve

    asked = resolve(method, name, "smoke", seed)
    recipe = asked.build_recipe()
    dataset = asked.dataset_class(data, asked.build_options(), recipe)
    dataset.prepare()
    tags = dataset.target_tags(dataset.options)
    domains, scores, predictions = {}, {}, {}
    for domain in tags:
        real = dataset.target(domain).subsample(recipe.test_images)
        decided = np.array(real.labels)
        decided[: wrong + seed] = (decided[: wrong + seed] + 1) % dataset.task.classes
        predictions[f"last/{domain}"] = decided
        domains[domain] = {"tags": tags[domain], "count": len(real), "sha256": real.sha256()}
        matrix = metrics.confusion_matrix(np.asarray(real.labels), decided, dataset.task.classes)
        scores[domain] = dataset.task.score(matrix)
    groups = dataset.averages(list(scores))
    result = summarise(scores, dataset.task.metric, groups, recipe.steps, source_val=0.9)
    record = make(method, seed, name, "smoke", scores=dict.fromkeys(tags, 0.5))
    splits = {split: dataset.source(split) for split in ("train", "val")}
    record |= {"spec": asdict(asked), "id": asked.id, "domains": domains}
    record["results"] = {choice: msgspec.to_builtins(result) for choice in ("last", "val")}
    record["source"] = {"name": dataset.source_name(dataset.options)} | {
        split: {"count": len(images), "sha256": images.sha256()} for split, images in splits.items()
    }
    record["cost"]["phases"] = [{"name": "train", "steps": recipe.steps, "seconds": 1.0}]
    record["flags"] = {
        "reduced_scale": recipe.reduced or None,
        "reduced_parameters": asked.reduced_parameters(),
        "params_changed": [],
    }
    for kind, registered in (("method", method), ("dataset", name)):
        record["code"][f"{kind}_file_sha256"] = registry.get(kind, registered).source_sha256
    folder = save(root, record).parent
    np.savez_compressed(folder / "predictions.npz", **predictions)
    point = {"phase": 0, "name": "validation", "step": recipe.steps, "score": 0.9}
    point["train_step"] = recipe.steps
    (folder / "train.jsonl").write_text(json.dumps(point) + "\n")
    record["files"] = {
        file: storage.sha256(folder / file) for file in ("predictions.npz", "train.jsonl")
    }
    save(root, record)
    return folder
