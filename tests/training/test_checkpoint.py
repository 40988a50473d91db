import pickle
from dataclasses import replace

import pytest
import torch
from helpers import Everything, erm, make

from sdgbench.errors import UserError
from sdgbench.method import Method
from sdgbench.training import checkpoint
from sdgbench.training.device import Device

CPU = torch.device("cpu")


def test_everything_without_an_underscore_is_saved(tmp_path):
    found = checkpoint.capture(make(Everything, tmp_path))
    assert set(found) == {
        "network",
        "optimizer",
        "updates",
        "critic",
        "critic_optimizer",
        "running",
        "history",
        "draws",
        "noise",
        "scaler",
        checkpoint.DEVICES,
    }


def test_what_cannot_be_saved_is_explained(tmp_path):
    class Odd(Method):
        def setup(self):
            self.helper = {"a": [object()]}
            self._cache = object()

    with pytest.raises(UserError, match=r"Odd\.helper\['a'\]\[0\] is a object, which cannot be"):
        checkpoint.capture(make(Odd, tmp_path))


def test_lists_of_modules_and_optimisers(tmp_path):
    class Members(Method):
        def setup(self):
            self.members = [self.new_network(i) for i in range(1, 3)]
            self.optimizers = [self.new_optimizer(member) for member in self.members]

    first, second = make(Members, tmp_path), make(Members, tmp_path, seed=1)
    assert set(checkpoint.modules(first)) == {"network", "members.0", "members.1"}
    assert "optimizers" not in checkpoint.capture(first, optimisers=False)
    checkpoint.restore(second, checkpoint.capture(first))
    for a, b in zip(first.members, second.members, strict=True):
        assert torch.equal(a.body[0].weight, b.body[0].weight)
    owned = {id(p) for p in second.members[1].parameters()}
    assert {id(p) for p in second.optimizers[1].param_groups[0]["params"]} == owned


class Placed(Method):
    """Keeps tensors on the run's device and on the CPU, some of which setup does not make."""

    name = "placed"

    def setup(self):
        self.table = torch.ones(2)
        self.running = torch.ones(2, device=self.device.torch)
        self.later = {}

    def fill(self):
        self.queue = [torch.zeros(3), torch.zeros(3, device=self.device.torch)]
        self.later = {"host": torch.zeros(1), "device": torch.zeros(1, device=self.device.torch)}


def on_second_device():
    """A device that is not the CPU; its tensors have no values."""
    device = Device("cpu")
    device.kind, device.torch = "meta", torch.device("meta")
    return device


def kinds(method):
    tensors = method.table, method.running, *method.queue, *method.later.values()
    return [tensor.device.type for tensor in tensors]


def placed(folder, device, filled=False):
    method = make(Placed, folder)
    method._context = replace(method._context, device=device)
    method.setup()
    if filled:
        method.fill()
    return method


def test_tensors_return_to_the_device_where_they_were(tmp_path):
    device = on_second_device()
    first = placed(tmp_path, device, filled=True)
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"run": "x", "method": checkpoint.capture(first)})
    second = placed(tmp_path, device)
    checkpoint.restore(second, checkpoint.load(path, CPU)["method"])
    assert kinds(second) == kinds(first) == ["cpu", "meta"] * 3


def test_a_run_that_changes_its_device_takes_its_tensors_along(tmp_path):
    state = checkpoint.capture(placed(tmp_path, Device("cpu"), filled=True))
    second = placed(tmp_path, on_second_device())
    checkpoint.restore(second, state)
    # Of those that setup makes it is known where they belong; the others follow the run.
    assert kinds(second) == ["cpu", "meta", "meta", "meta", "meta", "meta"]


def test_checkpoints_that_do_not_name_devices_still_load(tmp_path):
    state = checkpoint.capture(placed(tmp_path, Device("cpu"), filled=True))
    del state[checkpoint.DEVICES]
    second = placed(tmp_path, Device("cpu"))
    checkpoint.restore(second, state)
    assert kinds(second) == ["cpu"] * 6
    assert second.table.tolist() == [1.0, 1.0]


def test_weights_can_be_swapped_without_copying(tmp_path):
    method = make(erm(), tmp_path)
    before = checkpoint.copy_weights(method)
    with torch.no_grad():
        method.network.classifier.bias.fill_(9.0)
    after = checkpoint.copy_weights(method)
    checkpoint.assign_weights(method, before)
    assert method.network.classifier.bias.max() < 1
    held = before["network"]["classifier.bias"]
    assert method.network.classifier.bias.data_ptr() == held.data_ptr()
    checkpoint.assign_weights(method, after)
    assert (method.network.classifier.bias == 9).all()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"checkpoint\.pt is damaged. Delete it"):
        checkpoint.load(path, CPU)


def test_a_cut_file_is_named(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"weights": torch.rand(1000)})
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match="is damaged"):
        checkpoint.load(path, CPU)


def test_foreign_files_are_named(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save([1, 2], path)
    with pytest.raises(UserError, match="not a checkpoint of sdgbench"):
        checkpoint.load(path, CPU)
    torch.save({"format": 99}, path)
    with pytest.raises(UserError, match="another version"):
        checkpoint.load(path, CPU)


def test_a_checkpoint_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "pwned"), "w"))

    path = tmp_path / "checkpoint.pt"
    torch.save({"format": 1, "evil": Evil()}, path)
    with pytest.raises(UserError, match="is damaged"):
        checkpoint.load(path, CPU)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError, match="is damaged"):
        checkpoint.load(path, CPU)
    assert not (tmp_path / "pwned").exists()
