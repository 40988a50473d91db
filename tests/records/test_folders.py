from pathlib import Path

from sdgbench.records.folders import record_files_below, run_folders


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_run_folders_come_in_order_and_can_be_chosen_by_a_file(tmp_path):
    touch(
        tmp_path / "b" / "erm" / "2" / "record.json",
        tmp_path / "b" / "erm" / "10" / "record.json",
        tmp_path / "a" / "mada" / "1" / "queued.json",
        tmp_path / "a" / "mada" / "file",  # no folder
        tmp_path / "a" / "mada" / "1" / "deeper" / "record.json",
    )
    everything = run_folders(tmp_path)
    assert everything == [f"{tmp_path}/{name}" for name in ("a/mada/1", "b/erm/10", "b/erm/2")]
    assert everything == list(map(str, sorted(Path(folder) for folder in everything)))
    assert run_folders(tmp_path, containing="record.json") == everything[1:]
    assert run_folders(tmp_path / "nowhere") == []
    assert run_folders(tmp_path / "a" / "mada" / "file") == []


def test_records_are_found_below_any_folder(tmp_path):
    record = tmp_path / "runs" / "b" / "erm" / "2" / "record.json"
    touch(record)
    for folder in (tmp_path, tmp_path / "runs", record.parent.parent, record.parent):
        assert record_files_below(folder) == [record]
