"""Missing data: offered on a terminal, fetched with --download, otherwise only explained."""

import hashlib
import http.server
import io
import threading

import numpy as np
import pytest

from sdgbench.cli import fetch

PLUGIN = '''
from functools import partial
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.splits import Candidate, DataSplit, File, paths_named
from sdgbench.datasets import _recipes as recipes
from sdgbench.data.domain import Domain
from sdgbench.registry import register_dataset
from sdgbench.task import Classification
import numpy as np


def read(path):
    images = np.load(path)
    return images, np.arange(len(images)) % 3


def split(name, digest):
    def candidates(folder):
        for path in paths_named(folder, (f"{name}.npy",)):
            yield Candidate((path,), partial(read, path))

    file = File(f"{name}.npy", (f"URL/{name}.npy",), sha256=digest, about=2_000_000)
    return DataSplit(name, 24, candidates, (file,))


@register_dataset("remote")
class Remote(DownloadedDataset):
    """Noise that a server has."""

    task = Classification(classes=3)
    twin = "digits-mini"
    splits = (split("near", "NEAR"), split("far", "FAR"), split("unused", "UNUSED"))

    @classmethod
    def recipes(cls):
        return dict(recipes.PACS)

    @classmethod
    def source_name(cls, options):
        return "near"

    @classmethod
    def target_tags(cls, options):
        return {"far": {}}

    @classmethod
    def source_splits(cls, options):
        return ["near"]

    @classmethod
    def target_splits(cls, options):
        return {"far": "far"}

    def source(self, split):
        return Domain("near", *self.load_split("near"))

    def target(self, name):
        return Domain(name, *self.load_split(name))
'''


@pytest.fixture
def remote(tmp_path):
    """A plugin whose data are on a local server; what was asked of the server."""
    files, asked = {}, []
    for number, name in enumerate(("near", "far", "unused")):
        out = io.BytesIO()
        rng = np.random.default_rng(number)
        np.save(out, rng.integers(0, 256, (24, 3, 32, 32), np.uint8))
        files[f"/{name}.npy"] = out.getvalue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[self.path])))
            self.end_headers()
            self.wfile.write(files[self.path])

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    text = PLUGIN.replace("URL", f"http://127.0.0.1:{server.server_port}")
    for path, content in files.items():
        name = path[1:-4].upper()
        text = text.replace(f'"{name}"', f'"{hashlib.sha256(content).hexdigest()}"')
    plugin = tmp_path / "remote.py"
    plugin.write_text(text)
    yield plugin, asked
    server.shutdown()


def run(cli, plugin, *more):
    arguments = ("--method", "erm", "--dataset", "remote", "--preset", "smoke", "--data", "d")
    return cli("run", *arguments, "--plugin", plugin, *more)


def test_download_fetches_what_the_run_needs_and_nothing_else(cli, remote):
    plugin, asked = remote
    done = run(cli, plugin, "--download")
    assert done.code == 0, done.out + done.err
    assert asked == ["/near.npy", "/far.npy"]
    assert "finished before" in run(cli, plugin, "--download").out
    assert len(asked) == 2


def test_without_a_terminal_it_says_what_to_type(cli, remote):
    plugin, asked = remote
    done = run(cli, plugin)
    assert done.code != 0
    assert "data prepare remote" in done.out + done.err
    assert asked == []


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_is_offered(cli, remote, monkeypatch, answer):
    plugin, asked = remote
    questions = []
    monkeypatch.setattr(fetch.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)

    def confirm(text, default):
        questions.append(text)
        return answer

    monkeypatch.setattr(fetch.click, "confirm", confirm)
    done = run(cli, plugin)
    assert questions == ["Download 4.0 MB to d?"]
    assert "remote lacks near, far." in done.out
    assert "near.npy  2.0 MB  http://127.0.0.1" in done.out
    assert (done.code == 0) == answer
    assert bool(asked) == answer
