import json

import pytest
import sample_records as records
from conftest import ROOT

import sdgbench
from sdgbench import registry, storage
from sdgbench.errors import UserError
from sdgbench.records import provenance
from sdgbench.records.reading import read
from sdgbench.records.schema import SCHEMA
from sdgbench.records.store import Store
from sdgbench.spec.resolution import resolve

SPEC = resolve("erm", "digits-mini", "smoke", 0)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_the_states_of_a_run(store):
    folder = store.folder(SPEC)
    assert folder.parts[-3:] == ("digits-mini", "erm", SPEC.id)
    assert store.state(SPEC) == "new"
    store.begin(SPEC)
    assert store.state(SPEC) == "new"
    (folder / "checkpoint.pt").write_text("")
    assert store.state(SPEC) == "interrupted"
    store.fail(SPEC, ValueError("two\nlines"))
    assert store.state(SPEC) == "failed"
    assert store.failure(SPEC) == "ValueError: two"
    assert "Traceback" not in store.failure(SPEC)
    store.begin(SPEC)
    assert store.state(SPEC) == "interrupted"
    storage.write_json(folder / "record.json", {})
    assert store.state(SPEC) == "done"


def test_what_was_asked_is_on_disk_before_anything_runs(store):
    store.begin(SPEC)
    asked = json.loads((store.folder(SPEC) / "spec.json").read_text())
    assert asked["id"] == SPEC.id
    assert asked["recipe"]["steps"] == 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "not a record"),
        ("{}", "not a record"),
        ('{"schema": "1"}', "not a record"),
        ('{"schema": 99}', rf"schema 99.0, newer than this sdgbench knows \({SCHEMA}\). Upgrade"),
        ('{"schema": "3.0"}', rf"schema 3.0, newer than this sdgbench knows \({SCHEMA}\). Upgrade"),
        ('{"schema": 1, "id": "x"}', "missing required field `spec`"),
        ('{"schema": "2.0", "id": 3}', "Expected `str`, got `int`"),
        ('{"schema": 1', "damaged or half-written"),
        ("\x00\x01", "damaged or half-written"),
    ],
)
def test_odd_records_are_named(content, message, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_bad_record_does_not_hide_the_good_ones(store):
    good = records.make()
    storage.write_json(store.root / "d" / "m" / "1" / "record.json", good)
    (store.root / "d" / "m" / "0").mkdir()
    (store.root / "d" / "m" / "0" / "record.json").write_text("{")
    found = list(store.records())
    assert isinstance(found[0], UserError)
    assert found[1] == records.typed(good)


def test_provenance_of_this_checkout():
    found = provenance.code()
    assert found.version == sdgbench.__version__
    if (ROOT / ".git").exists():
        assert len(found.commit) == 40
        assert found.dirty in (True, False)
    assert provenance.packages()["torch"] != "missing"


def test_the_hash_of_a_methods_file_changes_with_it(tmp_path):
    file = tmp_path / "m.py"
    text = "@register_method('m')\nclass M: ...\n"
    file.write_text(text)
    registry.add_plugin(file)
    before = registry.get("method", "m").source_sha256
    file.write_text(text + "# edited\n")
    assert registry.get("method", "m").source_sha256 != before
