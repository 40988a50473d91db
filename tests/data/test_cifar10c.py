"""CIFAR-10-C from small files in the public formats, and made by the generator."""

import hashlib
import http.server
import json
import pickle
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest

from sdgbench import registry
from sdgbench.corruptions.names import ALL_19
from sdgbench.data.obtain_splits import fetch_splits
from sdgbench.data.splits import File, SplitStore
from sdgbench.datasets import cifar10c
from sdgbench.reporter import Silent
from sdgbench.spec import parameters

COUNT = 40  # images per batch


@pytest.fixture
def small(monkeypatch):
    cls = registry.get("dataset", "cifar10c").load()
    shrunk = tuple(
        replace(split, count=COUNT * (5 if split.name.startswith("cifar10c-") else 1))
        for split in cls.splits
    )
    monkeypatch.setattr(cls, "splits", shrunk)
    return cls


@pytest.fixture
def files(tmp_path):
    """Two training batches, the test batch, and the released arrays of two corruptions."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "mine" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        rows = rng.integers(0, 256, (COUNT, 3072), dtype=np.uint8)
        content = {b"data": rows, b"labels": rng.integers(0, 10, COUNT).tolist()}
        (folder / name).write_bytes(pickle.dumps(content, 2))
    arrays = tmp_path / "mine" / "CIFAR-10-C"
    arrays.mkdir()
    for name in ("fog", "snow"):
        np.save(
            arrays / f"{name}.npy", rng.integers(0, 256, (5 * COUNT, 32, 32, 3), dtype=np.uint8)
        )
    np.save(arrays / "labels.npy", np.tile(rng.integers(0, 10, COUNT), 5))
    return tmp_path / "mine"


def make(cls, root, preset="smoke", **options):
    return cls(root, parameters.build(cls.Options, options), cls.recipe(preset))


def test_import_and_run(small, files, cli, tmp_path, monkeypatch):
    assert cli("data", "import", "cifar10c", files, "--data", "d", "--trust").code == 0
    monkeypatch.setattr(small, "Options", replace_holdout(small.Options, 20))
    done = cli(
        "run", "--method", "erm", "--dataset", "cifar10c", "--preset", "smoke", "--data", "d"
    )
    assert done.code == 0, done.err + done.out
    record = json.loads(next(tmp_path.glob("runs/*/*/*/record.json")).read_text())
    assert len(record["domains"]) == 1 + 2 * 5
    assert record["source"]["train"]["count"] == 60
    assert record["flags"]["incomplete_source"] == "2 of 5 training batches"
    averages = record["results"]["last"]["averages"]
    assert averages["acc19_L5"]["domains"] == 2
    assert averages["clean"]["domains"] == 1
    shown = cli("compare").out
    assert "acc19_L5" in shown
    assert "incomplete source: 2 of 5 training batches" in shown
    assert "mCE2_L5_vs_erm" in shown
    assert "1.000" in shown  # ERM against itself


def replace_holdout(cls, images):
    from dataclasses import dataclass

    from sdgbench.spec.parameters import param

    @dataclass(frozen=True)
    class Options:
        """As the original, for few images."""

        holdout: int = param(images, "held out")

    return Options


def test_blocks_are_severities_in_order(small, files, cli, tmp_path):
    cli("data", "import", "cifar10c", files, "--data", "d", "--trust")
    dataset = make(small, tmp_path / "d")
    raw = np.load(files / "CIFAR-10-C" / "fog.npy")
    labels = np.load(files / "CIFAR-10-C" / "labels.npy")
    for severity in (1, 5):
        domain = dataset.target(f"fog/{severity}")
        block = raw[(severity - 1) * COUNT : severity * COUNT]
        assert np.array_equal(domain.images, block.transpose(0, 3, 1, 2))
        assert np.array_equal(domain.labels, labels[:COUNT])
    images, _ = dataset.load_split("cifar10c-fog")
    assert isinstance(images, np.memmap)  # never 3 GB in memory


def test_held_out_images_are_not_trained_on(small, files, cli, tmp_path):
    cli("data", "import", "cifar10c", files, "--data", "d", "--trust")
    dataset = make(small, tmp_path / "d")
    dataset.options = replace_holdout(small.Options, 20)()
    train, val = dataset.source("train"), dataset.source("val")
    assert (len(train), len(val)) == (60, 20)
    assert not {i.tobytes() for i in train.images} & {i.tobytes() for i in val.images}


def test_generated_arrays_say_so(small, files, cli, tmp_path, monkeypatch):
    for array in (files / "CIFAR-10-C").iterdir():
        array.unlink()
    cli("data", "import", "cifar10c", files, "--data", "d", "--trust")
    monkeypatch.setattr(cifar10c, "FROST", ())
    monkeypatch.setattr(cifar10c, "ALL_19", ("fog", "frost"))
    done = cli("data", "prepare", "cifar10c", "--generate", "--data", "d")
    assert done.code == 0, done.err
    stored = SplitStore(tmp_path / "d").get("cifar10c-frost")
    assert stored.state == "regenerated"
    assert stored.metadata["frost"] == "procedural"
    assert stored.metadata["count"] == 5 * COUNT
    dataset = make(small, tmp_path / "d")
    dataset.target("frost/5")
    assert dataset.data_flags()["regenerated"] == ["cifar10c-frost"]
    assert dataset.data_flags()["frost_overlays"] == ["procedural"]
    from sdgbench.corruptions.generator import corrupt

    clean = dataset.target("clean").images.transpose(0, 2, 3, 1)
    expected = corrupt(np.ascontiguousarray(clean), "fog", 3)
    assert np.array_equal(dataset.target("fog/3").images, expected.transpose(0, 3, 1, 2))


def test_nothing_is_generated_from_nothing(small, cli):
    done = cli("data", "prepare", "cifar10c", "--generate", "--data", "d")
    assert done.code == 2
    assert "generated from the CIFAR-10 test set, which is missing" in done.err


def test_released_overlays_are_imported_by_their_hash(small, cli, tmp_path, monkeypatch):
    content = b"a picture"
    overlay = File("frost1.png", sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(cifar10c, "FROST", (overlay,))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "frost1.png").write_bytes(content)
    cli("data", "import", "cifar10c", tmp_path / "mine", "--data", "d")
    assert (tmp_path / "d" / "frost" / "frost1.png").read_bytes() == content
    (tmp_path / "mine" / "frost1.png").write_bytes(b"another picture")
    cli("data", "import", "cifar10c", tmp_path / "mine", "--data", "e")
    assert not (tmp_path / "e" / "frost").exists()


def test_archives_are_fetched_once_and_trusted_by_their_checksum(
    small, files, tmp_path, monkeypatch
):
    """The whole way: a server, a tar file, several splits out of it."""
    site = tmp_path / "site"
    site.mkdir()
    with tarfile.open(site / "cifar.tar.gz", "w:gz") as archive:
        archive.add(files / "cifar-10-batches-py", "cifar-10-batches-py")
    served = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(site), **options)

        def log_message(self, *_):
            served.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/cifar.tar.gz"
    md5 = hashlib.md5((site / "cifar.tar.gz").read_bytes()).hexdigest()
    archive = File("cifar.tar.gz", (url,), md5=md5)
    splits = [replace(p, archive=archive) for p in small.splits if "batch" in p.name]
    monkeypatch.setattr(small, "splits", tuple(splits))
    outcomes = {
        split.name: (stored, remark)
        for split, stored, remark, _ in fetch_splits(small, tmp_path / "d", Silent(), pause=0.0)
    }
    server.shutdown()
    assert served == ["/cifar.tar.gz"]
    assert outcomes["cifar10-data_batch_1"][0].state == "verified"
    assert outcomes["cifar10-test_batch"][0].state == "verified"
    assert outcomes["cifar10-data_batch_3"][0] is None
    assert not (tmp_path / "d" / "downloads" / "cifar10c" / "unpacked").exists()


def test_torchvision_agrees_on_addresses_and_checksums():
    from torchvision.datasets import CIFAR10

    assert CIFAR10.url in cifar10c.CIFAR.urls
    assert cifar10c.CIFAR.md5 == CIFAR10.tgz_md5
    for name, md5 in [*CIFAR10.train_list, *CIFAR10.test_list]:
        assert cifar10c.BATCHES[name][0] == md5


def test_the_protocol():
    cls = registry.get("dataset", "cifar10c").load()
    tags = cls.target_tags(None)
    assert len(tags) == 1 + 19 * 5
    assert tags["fog/5"] == {"corruption": "fog", "severity": 5}
    groups = cls.averages(list(tags))
    assert next(iter(groups)) == "acc19_L5"
    assert len(groups["acc19_L5"]) == 19
    assert len(groups["acc15_L5"]) == 15
    assert len(groups["acc15_all"]) == 75
    assert {name.split("/")[0] for name in groups["acc19_L2"]} == set(ALL_19)
    recipe = cls.recipe("paper")
    assert (recipe.network, recipe.epochs, recipe.batch, recipe.lr) == ("wrn-16-4", 200, 128, 0.1)
    assert (recipe.schedule, recipe.augment, recipe.weight_decay) == ("linear", "crop-flip", 5e-4)


def test_info_works_without_data(cli):
    done = cli("info", "cifar10c")
    assert done.code == 0, done.err
    assert "sdgbench data prepare cifar10c" in done.out
    assert "no data" in done.out
