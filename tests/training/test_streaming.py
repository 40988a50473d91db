import shutil
import threading
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from data.test_synthia import write_sequence
from helpers import RECIPE, Everything, assert_same_weights, erm, make, toy_domain, weights

from sdgbench import registry
from sdgbench.data import domain as domain_module
from sdgbench.data.domain import Domain, LazyRows
from sdgbench.data.splits import SplitStore
from sdgbench.dataset import Dataset
from sdgbench.datasets import synthia
from sdgbench.errors import Interrupted
from sdgbench.evaluation.evaluator import evaluate, score_domain
from sdgbench.method import MethodContext, Read
from sdgbench.reporter import Silent
from sdgbench.spec import parameters
from sdgbench.task import Classification, Segmentation
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages, Feed
from sdgbench.training.pool import Pool
from sdgbench.training.streaming import PREFETCH_BATCHES, Prefetcher, StreamedImages, open_images
from sdgbench.training.trainer import Trainer

CPU = Device("cpu")
HASH_8_ROWS = 8 * 3 * 32 * 32 * 8
PATIENCE = 60  # seconds until a test that waits for a thread counts as failed


class Watched:
    """An array that writes down what is read by whom, and refuses to be read as a whole."""

    def __init__(self, array, most=None, broken=None):
        self.array, self.most, self.broken = array, most or len(array), broken
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.reads, self.readers, self.news = [], [], threading.Condition()

    def __len__(self):
        return len(self.array)

    def __getitem__(self, key):
        rows = np.atleast_1d(np.arange(len(self))[key])
        with self.news:
            self.reads.append(rows.tolist())
            self.readers.append(threading.current_thread().name)
            self.news.notify_all()
        if self.broken in rows:
            raise OSError(f"row {self.broken} is gone")
        assert len(rows) <= self.most, "read as a whole"
        return self.array[key].copy()

    def wait_for(self, count):
        with self.news:
            assert self.news.wait_for(lambda: len(self.reads) >= count, PATIENCE)


def streamed(domain):
    return replace(domain, streams=True)


def watched(domain, **options):
    return replace(streamed(domain), images=Watched(domain.images, **options))


def workers():
    return [thread for thread in threading.enumerate() if "stream" in thread.name]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert not workers()


@pytest.fixture
def pool(tmp_path):
    found = Pool(tmp_path / "pool", (3, 32, 32), ())
    found.add(torch.full((13, 3, 32, 32), -2.0), torch.full((13,), 7))
    return found


def feed_of(images, pool, read, augment="crop-flip"):
    return Feed("train/0", read, images, pool, replace(RECIPE, augment=augment), 0)


def assert_same_batches(first, second, count):
    for _ in range(count):
        for one, other in zip(first.next(), second.next(), strict=True):
            assert torch.equal(one, other)
            assert one.dtype == other.dtype
            assert one.stride() == other.stride()


READS = {
    "source": Read(),
    "larger than the domain": Read(batch=50),
    "counted": Read(images=45),
    "counted, several laps in a batch": Read(images=150, batch=50),
    "source and pool": Read("source+pool", batch=4),
    "stretches of the pool": Read("source+pool", only=((1, 3), (6, 13))),
    "pool": Read("pool", batch=4),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_batches_are_those_of_an_array_on_the_device(read, pool):
    domain = toy_domain(count=21)
    with closing(StreamedImages(domain, CPU)) as images:
        feeds = [feed_of(one, pool, read) for one in (images, DeviceImages(domain, CPU))]
        for _ in range(2):
            for feed in feeds:
                feed.begin()
            assert_same_batches(*feeds, 2 if read.images else 9)
        pool.add(torch.ones(5, 3, 32, 32), torch.ones(5))  # what was prefetched is obsolete
        assert_same_batches(*feeds, 1 if read.images else 9)
        assert feeds[0].state_dict() == feeds[1].state_dict()


def test_channels_last_on_disk_is_channels_first_in_a_batch(pool):
    domain = toy_domain(count=21)
    turned = np.ascontiguousarray(domain.images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    with closing(StreamedImages(replace(domain, images=turned), CPU)) as images:
        assert_same_batches(
            feed_of(images, pool, Read()), feed_of(DeviceImages(domain, CPU), pool, Read()), 4
        )
        assert images.span(0, 8).is_contiguous()


def test_a_feed_has_its_next_batches_read_before_they_are_drawn(pool):
    domain = watched(toy_domain(count=40))
    order = feed_of(DeviceImages(toy_domain(count=40), CPU), pool, Read())._upcoming(
        2 * PREFETCH_BATCHES
    )
    expected = [batch.tolist() for batch in order]
    reads = domain.images.reads
    with closing(open_images(domain, CPU)) as images:
        feed = feed_of(images, pool, Read())
        for drawn in range(1, PREFETCH_BATCHES + 1):
            feed.next()
            domain.images.wait_for(drawn + PREFETCH_BATCHES - 1)
            assert sorted(reads) == sorted(
                expected[: drawn + PREFETCH_BATCHES - 1]
            )  # each of them once
    assert all("stream" in name for name in domain.images.readers)


def test_looking_ahead_moves_nothing(pool):
    feed = feed_of(DeviceImages(toy_domain(), CPU), pool, Read("source+pool"))
    feed.next()
    before = feed.state_dict()
    feed._upcoming(50)
    assert feed.state_dict() == before


def test_evaluation_has_the_next_stretches_read(tmp_path):
    domain = watched(toy_domain(count=37))
    with closing(open_images(domain, CPU)) as images:
        images.span(0, 5)
        domain.images.wait_for(PREFETCH_BATCHES)
        firsts = sorted(read[0] for read in domain.images.reads)
        assert firsts == [5 * position for position in range(PREFETCH_BATCHES)]
        for start in range(5, 37, 5):
            images.span(start, start + 5)
        assert sorted(row for read in domain.images.reads for row in read) == list(range(37))
    assert all("stream" in name for name in domain.images.readers)


def test_batches_are_made_ready_for_the_device_by_the_workers(pool):
    class Pinning(Device):
        def __init__(self):
            super().__init__("cpu")
            self.pinned, self.moved_by = {}, set()

        def pin(self, tensor):
            self.pinned.setdefault(tensor.data_ptr(), threading.current_thread().name)
            return tensor

        def to_device(self, tensor):
            assert "stream" in self.pinned[tensor.data_ptr()]
            self.moved_by.add(threading.current_thread().name)
            return tensor

    device = Pinning()
    with closing(StreamedImages(toy_domain(), device)) as images:
        feed_of(images, pool, Read(augment=False)).next()
        images.span(0, 8)
    assert device.moved_by == {threading.current_thread().name}  # not every device allows others


def test_what_was_not_prefetched_is_read_at_once():
    domain = watched(toy_domain())
    images = open_images(domain, CPU)
    found, labels = images.gather(np.array([3, 1]))
    assert torch.equal(found, torch.from_numpy(domain.images.array[[3, 1]]).float() / 255)
    assert labels.tolist() == domain.labels[[3, 1]].tolist()
    assert domain.images.readers == [threading.current_thread().name]


def test_obsolete_jobs_are_cancelled():
    gate, done = threading.Event(), []
    prefetcher = Prefetcher()
    with closing(prefetcher):
        blocked = dict.fromkeys(range(8), gate.wait)  # more than there are threads
        prefetcher.submit("a", {**blocked, "late": lambda: done.append("late")})
        prefetcher.submit("b", {"other": lambda: done.append("other")})
        prefetcher.submit("a", {})
        gate.set()
        prefetcher.take("other", lambda: done.append("again"))
    assert done == ["other"]


def test_a_workers_error_reaches_whoever_draws_the_batch(pool):
    plain = toy_domain(count=40)
    order = feed_of(DeviceImages(plain, CPU), pool, Read())._upcoming(3)
    domain = watched(plain, broken=order[2][0])
    with closing(open_images(domain, CPU)) as images:
        feed = feed_of(images, pool, Read())
        feed.next()
        domain.images.wait_for(3)  # it has happened, but the second batch is whole
        feed.next()
        with pytest.raises(OSError, match=f"row {order[2][0]} is gone"):
            feed.next()
    assert all("stream" in name for name in domain.images.readers)


def train(cls, folder, source, **options):
    method = make(cls, folder, replace(RECIPE, augment="crop-flip"))
    folder.mkdir(parents=True, exist_ok=True)
    held_out = replace(toy_domain(seed=1), streams=source.streams)
    run = Trainer(method, source, held_out, folder, "toy-run", Silent(), **options)
    return method, run


@pytest.mark.parametrize("cls", [erm(), Everything], ids=["erm", "everything"])
def test_training_and_going_on_give_the_weights_of_a_domain_in_memory(cls, tmp_path):
    plain, run = train(cls, tmp_path / "plain", toy_domain())
    expected = run.run()
    method, run = train(cls, tmp_path / "streamed", streamed(toy_domain()))
    assert isinstance(run.source, StreamedImages)
    found = run.run()
    assert_same_weights(weights(plain), weights(method))
    assert found.best["score"] == expected.best["score"]
    for _ in range(1 + sum(phase.steps for phase in method.plan())):
        part, run = train(cls, tmp_path / "parts", streamed(toy_domain()), should_stop=lambda: True)
        try:
            run.run()
            break
        except Interrupted:
            assert not workers()
    else:
        pytest.fail("it never came to its end")
    assert_same_weights(weights(plain), weights(part))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_no_thread_outlives_a_run_that_breaks_off(error, tmp_path):
    running = []

    def stop():
        running.extend(workers())
        raise error

    _, run = train(erm(), tmp_path, streamed(toy_domain()), should_stop=stop)
    with pytest.raises(error):
        run.run()
    assert running
    assert not workers()


class Targets(Dataset):
    """Two targets in memory, streamed or not."""

    name = "targets"
    task = Classification(10)

    def __init__(self, change):
        self.options, self.recipe_used, self.change = None, RECIPE, change

    @classmethod
    def target_tags(cls, options):
        return {"near": {}, "far": {}}

    def target(self, name):
        return self.change(toy_domain(name, count=50, seed=len(name)))


@pytest.mark.parametrize("most", [None, 20])
def test_evaluation_scores_are_equal(most, tmp_path, monkeypatch):
    monkeypatch.setattr(domain_module, "BYTES_AT_ONCE", HASH_8_ROWS)
    method = make(erm(), tmp_path, replace(RECIPE, test_images=most))
    choices = {"last": checkpoint.copy_weights(method), "val": checkpoint.copy_weights(method)}
    found = [
        evaluate(method, Targets(change), ["near", "far"], choices, Silent())
        for change in (lambda domain: domain, lambda domain: watched(domain, most=16))
    ]
    assert found[0].results == found[1].results
    for key, decided in found[0].predictions.items():
        assert np.array_equal(decided, found[1].predictions[key])
    assert found[0].domains == found[1].domains  # the hashes too


def test_labels_of_every_pixel_are_never_read_as_a_whole():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (37, 32, 32))
    plain = Domain("streets", toy_domain(count=37).images, labels)
    domain = replace(watched(plain, most=8), labels=Watched(labels, most=8))
    level = torch.arange(5).reshape(1, 5, 1, 1) / 5
    method = SimpleNamespace(task=Segmentation(5), predict=lambda x: -(x[:, :1] - level).abs())
    expected, decided = score_domain(method, DeviceImages(plain, CPU), 37)
    with closing(open_images(domain, CPU)) as images:
        found, again = score_domain(method, images, 8)
    assert found == expected
    assert np.array_equal(decided, again)


def test_training_never_reads_the_domain_as_a_whole(tmp_path):
    source = replace(watched(toy_domain(), most=8), labels=Watched(toy_domain().labels, most=8))
    _, run = train(erm(), tmp_path, source)
    run.run()
    assert len(source.images.reads) >= RECIPE.steps


def test_hashes_and_choices_are_made_in_pieces(monkeypatch):
    plain = toy_domain(count=50)
    expected, few = plain.sha256(), plain.subsample(20)
    monkeypatch.setattr(domain_module, "BYTES_AT_ONCE", HASH_8_ROWS)
    domain = watched(plain, most=8)
    assert domain.sha256() == expected
    taken = domain.subsample(20)
    assert taken.streams
    assert taken.sha256() == few.sha256()
    assert taken.subsample(5).sha256() == few.subsample(5).sha256()


def test_rows_read_like_the_array_they_stand_for():
    array = np.arange(60).reshape(5, 4, 3)
    rows = LazyRows(array, np.array([4, 0, 2]), lambda read: 2 * read[:, ::2])
    whole = 2 * array[[4, 0, 2], ::2]
    assert (rows.shape, rows.dtype, rows.ndim) == (whole.shape, whole.dtype, whole.ndim)
    picked = np.array([2, 0, 0])
    for key in (0, -1, slice(1, 3), picked, (1, 1, 2), (slice(None), 0), [True, False, True]):
        assert np.array_equal(rows[key], whole[key])
    assert np.array_equal(np.stack(list(rows)), whole)
    assert np.array_equal(np.asarray(rows), whole)


def test_a_large_domain_is_streamed_unasked(monkeypatch):
    domain = toy_domain()
    size = domain.images.nbytes + domain.labels.nbytes
    for limit, expected in ((size, DeviceImages), (size - 1, StreamedImages)):
        monkeypatch.setattr(domain_module, "STREAMED_ABOVE", limit)
        assert type(open_images(domain, CPU)) is expected


@pytest.fixture
def highway(tmp_path):
    """SYNTHIA's source, of which only the decoded cache is left."""
    folder = write_sequence(tmp_path / "mine", "SYNTHIA-SEQS-01-DAWN", 12)
    store, part = SplitStore(tmp_path / "d"), synthia.split_name("highway/dawn")
    store.save(part, synthia.read_sequence(folder), "unverified", "a test")
    shutil.rmtree(folder)
    cls = registry.get("dataset", "synthia").load()
    return lambda recipe: cls(tmp_path / "d", parameters.build(cls.Options, {}), recipe)


def test_synthia_trains_for_epochs_on_its_decoded_cache(highway, tmp_path):
    recipe = registry.get("dataset", "synthia").load().recipe("smoke")  # 4 steps of 4, 10 frames
    source, held_out = (highway(recipe).source(split) for split in ("train", "val"))
    assert source.streams
    found = []
    for streams in (True, False):
        folder = tmp_path / f"streams {streams}"
        pool = Pool(folder / "pool", source.images.shape[1:], source.labels.shape[1:])
        method = erm()(MethodContext(None, synthia.Synthia.task, recipe, CPU, 0, len(source), pool))
        domains = [replace(domain, streams=streams) for domain in (source, held_out)]
        folder.mkdir()
        position = Trainer(method, *domains, folder, "run", Silent()).run()
        found.append((weights(method), position.last_score))
    assert_same_weights(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_synthia_stays_memory_mapped(preset, highway):
    recipe = registry.get("dataset", "synthia").load().recipe(preset)
    for domain in (highway(recipe).source("train"), highway(recipe).target("highway/dawn")):
        assert domain.streams
        for array in (domain.images, domain.labels, domain.subsample(3).images):
            while isinstance(array, LazyRows):
                array = array.array
            assert isinstance(array, np.memmap)


def test_half_size_frames_are_rounded_means():
    frames = np.random.default_rng(0).integers(0, 256, (3, 8, 12, 3), np.uint8)
    means = frames.reshape(3, 4, 2, 6, 2, 3).mean((2, 4))
    assert np.array_equal(synthia.halve(frames), np.floor(means + 0.5).transpose(0, 3, 1, 2))
