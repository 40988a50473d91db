import pickle

import pytest
import torch
from helpers import Everything, erm, make

from sdgbench.errors import UserError
from sdgbench.method import Method
from sdgbench.training import checkpoint

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
