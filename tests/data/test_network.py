"""What ``sdgbench data`` says without a network, and what there is to download."""

import errno
import http.server
import re
import socket
import threading

import pytest

from sdgbench.cli import text
from sdgbench.data import network, obtain_splits
from sdgbench.data.download import download
from sdgbench.data.splits import File
from sdgbench.errors import UserError
from sdgbench.reporter import Silent


@pytest.fixture
def offline(monkeypatch):
    """No name can be looked up; the addresses that were tried."""
    tried = []

    def connect(address, timeout):
        tried.append(address)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(network.socket, "create_connection", connect)
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return tried


def test_without_a_network_prepare_says_so_and_downloads_nothing(
    offline, cli, tmp_path, monkeypatch
):
    monkeypatch.setattr(obtain_splits, "download", lambda *_: pytest.fail("tried to download"))
    done = cli("data", "prepare", "digits", "--data", "d")
    assert (done.code, done.out) == (2, "")
    assert "No network: no server of mnist-train, mnist-test" in done.err
    assert "yann.lecun.com: Name or service not known" in done.err
    assert "sdgbench data import digits DIR" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "d").exists()
    assert len(offline) == len(set(offline)) == 6  # each server once


def test_a_server_that_does_not_answer_is_given_up(monkeypatch):
    silent = threading.Event()

    def connect(address, timeout):
        if address[0] == "slow.org":
            silent.wait(60)
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(network.socket, "create_connection", connect)
    urls = ["http://slow.org/a", "https://far.org/b"]
    failures = network.unreachable_hosts(urls, seconds=0.2)
    silent.set()
    assert failures["slow.org"] == "no answer within 0.2 s"
    assert failures["far.org"] in ("Network is unreachable", "no answer within 0.2 s")


def test_servers_are_tried_where_requests_go(offline, monkeypatch):
    network.unreachable_hosts(["https://a.org/x", "http://b.org:8080/x"])
    assert sorted(offline) == [("a.org", 443), ("b.org", 8080)]
    offline.clear()
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    network.unreachable_hosts(["https://a.org/x"])
    assert offline == [("proxy.example", 3128)]


def test_a_server_that_answers_is_reachable():
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    url = f"http://127.0.0.1:{server.server_port}/x"
    assert network.unreachable_hosts([url], seconds=60) == {}
    server.server_close()


def test_one_server_that_is_down_does_not_stop_the_others(cli, monkeypatch):
    monkeypatch.setattr(
        obtain_splits, "unreachable_hosts", lambda urls: {"ufldl.stanford.edu": "down"}
    )

    def refuse(file, *_):
        raise UserError(f"{file.name} was tried")

    monkeypatch.setattr(obtain_splits, "download", refuse)
    done = cli("data", "prepare", "digits", "--data", "d")
    assert "The server of train_32x32.mat cannot be reached (ufldl.stanford.edu: down)" in done.out
    assert "usps.bz2 was tried" in done.out
    assert "Nothing was downloaded" in done.err


def test_a_name_that_is_not_known_is_not_tried_again(tmp_path, monkeypatch):
    tried = []

    def lookup(host, *_, **__):
        tried.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(UserError, match="Name or service not known"):
        download(File("x", ("http://gone.example/x",), md5="0"), tmp_path, Silent(), pause=60)
    assert tried == ["gone.example"]


def test_status_shows_what_there_is_to_download(cli):
    digits = cli("data", "status", "digits", "--data", "d").out
    assert re.search(r"svhn-train +missing +73,257 +182.0 MB", digits)
    assert re.search(r"syn-test +missing +9,553 +17.9 MB", digits)
    assert "to download: 1.2 GB in 11 files" in digits
    cifar = cli("data", "status", "cifar10c", "--data", "d").out
    assert len(re.findall("2.9 GB", cifar)) == 1
    assert "to download: 3.1 GB in 2 files" in cifar
    assert max(map(len, (digits + cifar).splitlines())) <= 80


def test_verify_with_nothing_stored_is_an_error(cli):
    done = cli("data", "verify", "digits", "--data", "d")
    assert done.code == 2
    assert "Nothing of digits is in the folder 'd'" in done.err


def test_long_lines_break_between_words_on_a_terminal(monkeypatch, capsys):
    words = "https://example.org/" + "a" * 70 + " is-a-very long line " * 8
    text.echo(words)
    assert capsys.readouterr().out == words + "\n"  # a file or a pipe: one line
    monkeypatch.setattr(text.sys.stdout, "isatty", lambda: True)
    text.echo(words)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert " ".join(" ".join(lines).split()) == " ".join(words.split())
    assert max(map(len, lines[1:])) <= 80
