import csv
import io
import json
import re
import shutil
import subprocess

import pytest
import sample_records as records

from sdgbench.leaderboard import FORMATS, VIEWS

METHODS = ("erm", "gud", "mada")


@pytest.fixture
def runs(tmp_path):
    records.write(tmp_path / "runs", METHODS, range(3), ("digits", "synthia"))
    return tmp_path / "runs"


@pytest.fixture
def wide(runs):
    records.write(runs, ("erm", "mada"), range(2), ("cifar10c",))
    return runs


def rows(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_of_every_view(style, wide, cli):
    for view in VIEWS:
        done = cli("compare", "--view", view, "--format", style)
        assert (done.code, done.err) == (0, "")
        assert ("M-ADA" if style == "latex" else "mada") in done.out
        assert "\x1b" not in done.out


def test_a_plugin_gives_its_method_the_display_name(cli, tmp_path):
    records.write(tmp_path / "runs", ("erm", "mine"), range(2), ("digits",))
    (tmp_path / "mine.py").write_text(
        "from sdgbench.method import Method\nfrom sdgbench.registry import register_method\n"
        '@register_method("mine", title="My Idea")\nclass Mine(Method):\n    """Mine."""\n'
    )
    assert "\nmine & 2" in cli("compare", "--format", "latex").out
    assert "\nMy Idea & 2" in cli("compare", "--format", "latex", "--plugin", "mine.py").out


def test_views_are_shown_for_the_datasets_that_have_them(wide, cli):
    datasets = {
        view: {row["dataset"] for row in rows(cli("compare", "--view", view, "--format", "json"))}
        for view in VIEWS
    }
    assert datasets["severity"] == datasets["corruptions"] == {"cifar10c"}
    every = {"digits", "synthia", "cifar10c"}
    assert datasets["domains"] == datasets["classes"] == datasets["cost"] == every


def test_filters(runs, cli):
    found = rows(cli("compare", "--methods", "mada,gud", "--dataset", "digits", "--format", "json"))
    assert [row["method"] for row in found] == ["mada", "gud"]
    assert found[0]["gain_vs_erm"] > found[1]["gain_vs_erm"] > 0  # erm is hidden, not forgotten
    records.write(runs, ("erm",), range(1), ("digits",), "smoke")
    assert {row["preset"] for row in rows(cli("compare", "--format", "json"))} == {"quick", "smoke"}
    found = rows(cli("compare", "--preset", "smoke", "--format", "json"))
    assert [row["preset"] for row in found] == ["smoke"]


def test_sorting(runs, cli):
    def order(*more):
        return [
            r["method"]
            for r in rows(cli("compare", "--dataset", "digits", "--format", "json", *more))
        ]

    assert order() == ["mada", "gud", "erm"]
    assert order("--sort", "method") == ["erm", "gud", "mada"]
    fastest = rows(
        cli(
            "compare",
            "--dataset",
            "digits",
            "--view",
            "cost",
            "--sort",
            "train_s",
            "--format",
            "json",
        )
    )
    times = [row["train_s"] for row in fastest]
    assert times == sorted(times)
    assert len(set(times)) == 3
    # A column of one table sorts that one; the others keep their order.
    assert cli("compare", "--sort", "svhn").code == 0


def test_another_baseline(runs, cli):
    found = rows(cli("compare", "--dataset", "digits", "--baseline", "gud", "--format", "json"))
    assert {row["method"]: row["gain_vs_gud"] for row in found}["erm"] < 0


def test_several_folders_merge(runs, cli, tmp_path):
    records.write(tmp_path / "more", ("erm", "new"), range(3, 5), ("digits",))
    found = rows(
        cli(
            "compare",
            "--runs",
            runs,
            "--runs",
            tmp_path / "more",
            "--dataset",
            "digits",
            "--format",
            "json",
        )
    )
    assert {row["method"]: row["n"] for row in found} == {"erm": 5, "gud": 3, "mada": 3, "new": 2}
    done = cli("compare", "--runs", runs, "--runs", tmp_path / "none")
    assert done.code == 0
    assert done.err == f"There are no finished runs in {tmp_path / 'none'}.\n"


def test_folders_from_the_environment(runs, cli, tmp_path, monkeypatch):
    records.write(tmp_path / "more", ("new",), range(2), ("digits",))
    monkeypatch.setenv("SDGBENCH_RUNS", f"{runs}:{tmp_path / 'more'}")
    methods = {row["method"] for row in rows(cli("compare", "--format", "json"))}
    assert methods == {*METHODS, "new"}


BAD = {
    "method": (("--methods", "mad"), 'No finished run of the method "mad". Did you mean "mada"?'),
    "dataset": (("--dataset", "digit"), 'Did you mean "digits"?'),
    "preset": (("--preset", "quik"), 'Did you mean "quick"?'),
    "sort": (("--sort", "averag"), 'No column "averag". Did you mean "average"?'),
    "baseline": (("--baseline", "er"), 'No finished run of the baseline "er". Did you mean "erm"?'),
    "view": (
        ("--view", "severity"),
        "Nothing here has the view severity. There is: domains, classes",
    ),
    "suffix": (
        ("--output", "table.pdf"),
        'suffix of "table.pdf" names no format. Use .txt, .md, .tex',
    ),
    "empty": (("--methods", ","), "--methods is empty"),
    "no folder": (("--runs", "nowhere"), "No finished runs match in nowhere"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, runs, cli):
    done = cli("compare", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--view", "x"), ("--format", "pdf"), ("--choice", "best")])
def test_unknown_choices_are_refused(arguments, runs, cli):
    assert cli("compare", *arguments).code == 2


def test_broken_records_are_named_and_the_table_still_comes(runs, cli):
    paths = sorted(runs.rglob("record.json"))
    paths[0].write_text(paths[0].read_text()[:500])
    paths[1].write_text('{"schema": 1, "id": "x", "spec": {}, "results": {}, "domains": {}}')
    paths[2].write_text("[]")
    done = cli("compare", "--format", "json")
    assert done.code == 1
    assert len(json.loads(done.out)) == 5  # erm of digits had these three seeds
    assert done.err.count("Skipped: ") == 3
    for path in paths[:3]:
        assert str(path.relative_to(runs.parent)) in done.err


def test_a_flood_of_broken_records_is_counted(runs, cli):
    for number in range(30):
        path = runs / "d" / "m" / str(number) / "record.json"
        path.parent.mkdir(parents=True)
        path.write_text("{")
    done = cli("compare")
    assert done.code == 1
    assert done.err.count("\n") == 21
    assert "Skipped: 10 more records." in done.err


def test_output_goes_to_a_file_in_the_format_of_its_suffix(runs, cli, tmp_path):
    for name, start in (
        ("a.md", "**digits"),
        ("a.tex", "% needs"),
        ("a.csv", "dataset,preset"),
        ("a.json", "["),
        ("a.html", "<!doctype"),
        ("a.txt", "digits, quick"),
    ):
        done = cli("compare", "--output", f"new/{name}")
        assert (done.code, done.out) == (0, "")
        assert done.err == f"Wrote new/{name}.\n"
        assert (tmp_path / "new" / name).read_text().startswith(start)
    assert len(list((tmp_path / "new").iterdir())) == 6  # no temporary file is left
    assert cli("compare", "--output", "table.md", "--format", "csv").code == 0
    assert (tmp_path / "table.md").read_text().startswith("dataset,preset")


def test_a_file_stays_whole_when_it_cannot_be_replaced(runs, cli, tmp_path):
    (tmp_path / "a.md").mkdir()
    done = cli("compare", "--output", "a.md")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert not list(tmp_path.glob(".a.md*"))


def test_the_paper_beside_ours(runs, cli):
    done = cli("compare", "--paper", "--dataset", "digits")
    assert "reduced scale: not comparable" in done.out
    assert "not ranked" in done.out
    assert "Qiao, Zhao, Peng" in done.out
    kinds = {row["table"] for row in rows(cli("compare", "--paper", "--format", "json"))}
    assert kinds == {"domains", "paper", "published", "later"}
    once = cli("compare", "--paper", "--dataset", "digits").out
    records.write(runs, ("erm",), range(1), ("digits",), "smoke")
    twice = cli("compare", "--paper", "--dataset", "digits").out
    assert (once.count("compared with the paper"), twice.count("compared with the paper")) == (3, 6)
    assert once.count("not ranked") == twice.count("not ranked") == 2
    records.write(runs, ("erm",), range(2), ("digits-mini",))
    done = cli("compare", "--paper", "--dataset", "digits-mini")
    assert done.code == 0
    assert done.err == "Nothing is published for digits-mini.\n"


def test_csv_is_one_table_that_any_reader_takes(wide, cli):
    text = cli("compare", "--format", "csv", "--paper").out
    found = list(csv.DictReader(io.StringIO(text)))
    assert None not in found[0]
    assert {row["dataset"] for row in found} == {"digits", "synthia", "cifar10c"}


def test_80_columns(wide, cli):
    for view in VIEWS:
        shown = cli("compare", "--view", view, "--paper").out
        number = re.compile(r"^[\w().,/+-]+( +\S+)* +\d+\.\d")
        for line in shown.splitlines():
            if number.match(line) and ":" not in line:
                assert len(line) <= 80, line


def test_compare_imports_neither_torch_nor_pandas_nor_scipy(runs, python):
    code = (
        "import sys; from sdgbench.cli.app import main\n"
        "try: main(['compare', '--paper', '--runs', sys.argv[1]])\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = python("-c", code, runs)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert "mada" in done.stdout


def test_help_has_examples(cli):
    done = cli("compare", "--help")
    assert "sdgbench compare --dataset cifar10c --view corruptions" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


EVIL = "\\input{x} %$#&_{}~^<>|\"'`--[x]*é中\x1b\n"


def test_latex_compiles(wide, cli, tmp_path):
    """With Debian's TeX: texlive-latex-base, texlive-latex-recommended (booktabs)."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no TeX here")
    scores = dict.fromkeys((EVIL, "[a]", "*", "n"), 0.5)
    for method in ("erm", EVIL, "[x]", "*y"):
        for seed in range(2):
            record = records.make(method, seed, EVIL, scores=scores, flags={EVIL: True})
            records.save(wide, record | {"id": f"{seed}"})
    text = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}" + "\n"
    for view in ("domains", "corruptions", "severity", "classes", "efficiency", "cost"):
        assert cli("compare", "--view", view, "--paper", "--output", f"{view}.tex").code == 0
        text += rf"\input{{{view}}}\clearpage" + "\n"
    (tmp_path / "all.tex").write_text(text + r"\end{document}")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 10_000
    assert "Overfull" not in done.stdout, "a table is wider than the text"
