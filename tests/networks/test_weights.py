"""Weights from files and from a hub: matched completely, or refused."""

import hashlib
import http.server
import json
import threading
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from sdgbench import networks
from sdgbench.errors import UserError
from sdgbench.networks import weights
from sdgbench.spec.resolution import resolve

NAME = "timm:test_resnet"


@pytest.fixture
def model():
    """Another network of the same kind, with values of its own everywhere."""
    torch.manual_seed(1)
    model = timm.create_model("test_resnet")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.normal_()
    return model


def saved(path, tensors):
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)
    return str(path)


def renamed(model):
    """The same tensors in the same order, under names that share only their last part."""
    return {
        f"layer_{i:03}_{'x' * (i % 3)}.{name.rpartition('.')[2]}": tensor
        for i, (name, tensor) in enumerate(model.state_dict().items())
    }


def assert_loaded(network, model, but=("fc.weight", "fc.bias")):
    own = network.model.state_dict()
    for name, tensor in model.state_dict().items():
        if name not in but and not name.endswith("num_batches_tracked"):
            assert torch.equal(own[name], tensor), name


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_by_name(suffix, model, tmp_path):
    file = saved(tmp_path / f"w{suffix}", model.state_dict())
    network = networks.build(NAME, 7, (32, 32), weights=file)
    assert_loaded(network, model)
    origin = network.origin
    assert origin.sha256 == hashlib.sha256(Path(file).read_bytes()).hexdigest()
    assert (origin.name, origin.matched) == (f"w{suffix}", "by name")
    assert origin.new == ("fc.weight", "fc.bias")
    counted = [n for n in model.state_dict() if not n.endswith("num_batches_tracked")]
    assert origin.tensors == len(counted) - 2


def test_a_classifier_of_the_same_size_is_loaded(model, tmp_path):
    file = saved(tmp_path / "w.pt", model.state_dict())
    network = networks.build(NAME, 1000, (32, 32), weights=file)
    assert_loaded(network, model, but=())
    assert network.origin.new == ()


def test_wrappers_and_containers(model, tmp_path):
    inside = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    file = saved(tmp_path / "w.pt", {"epoch": 3, "state_dict": inside})
    assert_loaded(networks.build(NAME, 7, (32, 32), weights=file), model)


def test_by_order_and_shape(model, tmp_path):
    file = saved(tmp_path / "w.pt", renamed(model))
    network = networks.build(NAME, 7, (32, 32), weights=file)
    assert_loaded(network, model)
    assert network.origin.matched == "by order and shape"


def test_a_file_without_a_classifier_or_counters(model, tmp_path):
    tensors = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith("fc.") and not name.endswith("num_batches_tracked")
    }
    assert_loaded(
        networks.build(NAME, 7, (32, 32), weights=saved(tmp_path / "a.pt", tensors)), model
    )
    others = {f"x{i}.{n.rpartition('.')[2]}": t for i, (n, t) in enumerate(tensors.items())}
    assert_loaded(
        networks.build(NAME, 7, (32, 32), weights=saved(tmp_path / "b.pt", others)), model
    )


def without(tensors, name):
    return {key: tensor for key, tensor in tensors.items() if key != name}


def swapped(tensors):
    """A batch norm's mean and variance in the other order: shapes cannot tell."""
    names = list(tensors)
    i = next(i for i, name in enumerate(names) if name.endswith("running_mean"))
    names[i], names[i + 1] = names[i + 1], names[i]
    return {name: tensors[name] for name in names}


@pytest.mark.parametrize(
    ("change", "suffix", "message"),
    [
        (
            lambda m: without(m.state_dict(), "layer2.0.conv1.weight"),
            ".pt",
            r"part of a file is not loaded. By name: .* not layer2.0.conv1.weight",
        ),
        (lambda m: {**m.state_dict(), "extra": torch.zeros(3, 3, 3)}, ".pt", "has no extra"),
        (
            lambda m: {**m.state_dict(), "conv1.0.weight": torch.zeros(9, 3, 3, 3)},
            ".pt",
            "tensor 1 is conv1.0.weight",
        ),
        (lambda m: without(renamed(m), list(renamed(m))[3]), ".pt", "By order"),
        (lambda m: swapped(renamed(m)), ".pt", "running_var .*and the network's is .*running_mean"),
        (renamed, ".safetensors", "does not keep the order of its tensors"),
    ],
)
def test_part_of_a_match_is_refused(change, suffix, message, model, tmp_path):
    file = saved(tmp_path / f"w{suffix}", change(model))
    with pytest.raises(UserError, match=message):
        networks.build(NAME, 7, (32, 32), weights=file)


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


def test_files_that_are_no_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Bomb()}, "bomb.pt")
    for name, content in (("text.pt", b"hello"), ("text.safetensors", b"hello"), ("empty.pt", b"")):
        Path(name).write_bytes(content)
    torch.save([1, 2], "list.pt")
    for name, message in (
        ("bomb.pt", "might run code"),
        ("text.pt", "text.pt"),
        ("text.safetensors", "neither a safetensors nor a PyTorch file"),
        ("empty.pt", "empty.pt"),
        ("list.pt", "holds no weights by name"),
        ("missing.pt", "No such file"),
    ):
        with pytest.raises(UserError, match=message):
            networks.build(NAME, 7, (32, 32), weights=name)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("name", ["convnet-2", "wrn-10-1", "fcn32-tu-test_resnet"])
def test_other_networks_take_files_too(name, tmp_path):
    torch.manual_seed(1)
    other = networks.build(name, 5, (32, 32))
    module, classifier = other.loadable()
    file = saved(tmp_path / "w.pt", module.state_dict())
    torch.manual_seed(2)
    network = networks.build(name, 7, (32, 32), weights=file)
    for key, tensor in network.loadable()[0].state_dict().items():
        assert torch.equal(tensor, module.state_dict()[key]) or key in classifier
    assert set(network.origin.new) == set(classifier)


def test_an_encoder_takes_the_file_of_a_classification_network(model, tmp_path):
    """Its classifier is the only part that may be left over."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    network = networks.build(
        "smp:fpn-tu-test_resnet", 5, (64, 64), weights=saved(tmp_path / "w.pt", tensors)
    )
    assert torch.equal(network.encoder.model.layer1[0].conv1.weight, model.layer1[0].conv1.weight)


def test_a_transformer_for_another_size_resizes_its_positions(tmp_path):
    torch.manual_seed(1)
    native = timm.create_model("test_vit")
    file = saved(tmp_path / "w.safetensors", native.state_dict())
    plain, loaded = [], []
    for images in (plain, loaded):
        torch.manual_seed(2)
        network = networks.build(
            "timm:test_vit", 7, (64, 64), weights=file if images is loaded else ""
        )
        images.append(network.model)
    (random,), (model,) = plain, loaded
    assert torch.equal(model.blocks[0].attn.qkv.weight, native.blocks[0].attn.qkv.weight)
    assert torch.equal(model.head.weight, random.head.weight)  # what all methods share
    assert model.pos_embed.shape != native.pos_embed.shape
    reference = timm.layers.resample_abs_pos_embed(
        native.pos_embed, [4, 4], num_prefix_tokens=model.num_prefix_tokens
    )
    assert torch.allclose(model.pos_embed, reference, atol=1e-6)


# The hub -------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local server that answers as the hub does; returns its files and its log of requests."""
    files, log = {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            log.append((self.command, self.path))
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            if content is None:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", str(len(content or b"")))
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", f'"{hashlib.sha256(content or b"").hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    for module in ("constants", "file_download"):  # below 0.25, a copy in the second
        name = f"huggingface_hub.{module}.HF_HUB_CACHE"
        monkeypatch.setattr(name, str(tmp_path / "cache"), raising=False)
    weights._fetch.cache_clear()
    yield files, log
    server.shutdown()
    server.server_close()
    weights._fetch.cache_clear()


def test_pretrained_weights_come_from_the_hub_once(hub, model, tmp_path, cli):
    files, log = hub
    content = Path(saved(tmp_path / "m.safetensors", model.state_dict())).read_bytes()
    files["/timm/test_resnet.r160_in1k/resolve/main/model.safetensors"] = content
    network = networks.build(NAME, 10, (32, 32), pretrained=True)
    assert_loaded(network, model)
    networks.build(NAME, 10, (32, 32), pretrained=True)
    assert [method for method, _ in log].count("GET") == 1
    settings = ["recipe.pretrained=true", f"recipe.network={NAME}"]
    where = ["--dataset", "digits-mini", "--preset", "smoke", "--method", "erm"]
    done = cli("run", *where, *(part for s in settings for part in ("--set", s)))
    assert done.code == 0, done
    (path,) = tmp_path.glob("runs/**/record.json")
    record = json.loads(path.read_text())
    assert record["weights"]["name"] == "timm/test_resnet.r160_in1k/model.safetensors"
    assert record["weights"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert record["weights"]["new"] == ["fc.weight", "fc.bias"]
    assert record["flags"]["pretrained"] is True


def test_weights_that_cannot_be_fetched_are_one_line_with_a_fix(hub, cli):
    with pytest.raises(UserError, match=r"could not be fetched: .*recipe\.weights=FILE"):
        networks.build(NAME, 10, (32, 32), pretrained=True)


# The specification ---------------------------------------------------------------------------


def spec(*settings):
    pairs = [("recipe.network", NAME), *settings]
    return resolve("erm", "digits-mini", "smoke", 0, pairs)


def test_the_id_depends_on_the_content_and_not_on_the_folder(model, tmp_path):
    (tmp_path / "other").mkdir()
    first = saved(tmp_path / "w.pt", model.state_dict())
    second = tmp_path / "other" / "w.pt"
    second.write_bytes(Path(first).read_bytes())
    one, two = (spec(("recipe.weights", str(path))) for path in (first, second))
    assert one.id == two.id != spec().id
    assert one.recipe["weights_sha256"] == hashlib.sha256(second.read_bytes()).hexdigest()
    assert {"weights", "weights_sha256"}.isdisjoint(spec().recipe)
    second.write_bytes(b"other")
    assert spec(("recipe.weights", str(second))).id != one.id
    with pytest.raises(UserError, match=r"has the sha256 .*, not abc"):
        spec(("recipe.weights", first), ("recipe.weights_sha256", "abc"))
    with pytest.raises(UserError, match=r"Set one"):
        spec(("recipe.weights", first), ("recipe.pretrained", "true"))
    with pytest.raises(UserError, match=r"Cannot read the weights .*Correct recipe.weights"):
        spec(("recipe.weights", "nowhere.pt"))


def test_a_run_from_a_file_is_recorded_and_opened_without_it(model, tmp_path, cli):
    file = saved(tmp_path / "w.pt", renamed(model))
    where = ["--dataset", "digits-mini", "--preset", "smoke", "--method", "erm"]
    done = cli("run", *where, "--set", f"recipe.network={NAME}", "--set", f"recipe.weights={file}")
    assert done.code == 0, done
    (path,) = tmp_path.glob("runs/**/record.json")
    record = json.loads(path.read_text())
    assert record["weights"]["matched"] == "by order and shape"
    assert record["flags"]["pretrained"] is True
    Path(file).unlink()
    import sdgbench

    assert sdgbench.load_model(path.parent)(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    again = cli("compare", "--dataset", "digits-mini", "--preset", "smoke")
    assert "starts from pretrained weights" in " ".join(again.out.split())
