import numpy as np
import pytest
import torch

from sdgbench.errors import UserError
from sdgbench.training.pool import Pool


@pytest.fixture
def pool(tmp_path):
    return Pool(tmp_path / "run" / "pool", (3, 4, 4), ())


def images(count, value=0.0):
    return torch.arange(count * 48, dtype=torch.float32).view(count, 3, 4, 4) + value


def test_pixels_are_kept_as_they_are(pool):
    pool.add(images(3, -7.25), torch.tensor([1, 2, 3]))
    pool.add(images(2, 1e6), torch.tensor([4, 5]))
    got, labels = pool.gather(np.array([4, 0]))
    assert torch.equal(got, torch.stack([images(2, 1e6)[1], images(3, -7.25)[0]]))
    assert labels.tolist() == [5, 1]
    assert len(pool) == 5


def test_labels_may_be_maps(tmp_path):
    pool = Pool(tmp_path, (3, 4, 4), (4, 4))
    maps = torch.randint(0, 14, (2, 4, 4))
    pool.add(images(2), maps)
    assert torch.equal(pool.gather(np.array([0, 1]))[1], maps)


@pytest.mark.parametrize(("classes", "name"), [(300, "labels.i16"), (40_000, "labels.i32")])
def test_labels_of_many_classes_are_kept(classes, name, tmp_path):
    labels = torch.tensor([0, 255, 256, classes - 1])
    pool = Pool(tmp_path, (3, 4, 4), (), classes)
    pool.add(images(4), labels)
    state = pool.state_dict()
    pool.add(images(4), labels)
    assert pool.files[1].name == name
    again = Pool(tmp_path, (3, 4, 4), (), classes)
    again.load_state_dict(state)
    assert again.gather(np.arange(4))[1].tolist() == labels.tolist()


def test_a_checkpoint_cuts_back_what_came_after(pool, tmp_path):
    pool.add(images(3), torch.zeros(3))
    state = pool.state_dict()
    pool.add(images(4, 9.0), torch.ones(4))
    again = Pool(pool.folder, (3, 4, 4), ())
    again.load_state_dict(state)
    again.add(images(1, 5.0), torch.tensor([8]))
    got, labels = again.gather(np.arange(4))
    assert torch.equal(got[:3], images(3))
    assert torch.equal(got[3:], images(1, 5.0))
    assert labels.tolist() == [0, 0, 0, 8]


def test_a_lost_or_short_file_is_named(pool):
    pool.add(images(3), torch.zeros(3))
    state = pool.state_dict()
    pool.files[0].write_bytes(pool.files[0].read_bytes()[:-1])
    with pytest.raises(UserError, match=r"images\.f32 is too short"):
        Pool(pool.folder, (3, 4, 4), ()).load_state_dict(state)
    pool.files[0].unlink()
    with pytest.raises(UserError, match=r"images\.f32 is missing"):
        Pool(pool.folder, (3, 4, 4), ()).load_state_dict(state)


def test_wrong_shapes_are_refused(pool):
    with pytest.raises(ValueError, match="takes images of"):
        pool.add(torch.zeros(2, 3, 5, 4), torch.zeros(2))
    assert len(pool) == 0
