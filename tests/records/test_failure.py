import json

import pytest

from sdgbench.errors import UserError
from sdgbench.records.failure import read_failure, write_failure


def test_a_failure_survives_a_round_trip(tmp_path):
    write_failure(tmp_path, "3f2a", ValueError("first line\nsecond line"))
    content = json.loads((tmp_path / "failed.json").read_text())
    assert list(content) == [
        "schema",
        "id",
        "time",
        "error",
        "message",
        "traceback",
        "method_file_sha256",
    ]
    failure = read_failure(tmp_path)
    assert (failure.id, failure.error, failure.message) == ("3f2a", "ValueError", "first line")
    assert "second line" in failure.traceback
    assert str(failure) == "ValueError: first line"


def test_a_damaged_file_is_named(tmp_path):
    for text in ('{"half', '{"error": 3}', "[]"):
        (tmp_path / "failed.json").write_text(text)
        with pytest.raises(UserError, match=r"failed\.json is damaged"):
            read_failure(tmp_path)
