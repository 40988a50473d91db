import os
import sys

import pytest

from sdgbench import registry
from sdgbench.errors import UserError

METHOD = '''
from sdgbench.method import Method
from sdgbench.registry import register_method

@register_method("{name}", paper="Someone, 2026")
class Mine(Method):
    """Does {name}."""

    def train_step(self, x, y):
        return self.optimise(self.task.loss(self.network(x), y))
'''


@pytest.fixture
def plugin(tmp_path):
    def write(name="mine", text=METHOD, file="plugin.py"):
        path = tmp_path / file
        path.write_text(text.replace("{name}", name))
        return path

    return write


def test_built_ins_are_found_by_their_folder():
    entry = registry.get("method", "erm")
    assert entry.origin == "built-in"
    assert entry.doc.startswith("Minimise the empirical risk")
    assert entry.details["paper"].startswith("Vapnik")
    assert entry.load().name == "erm"
    assert {"digits-mini", "streets-mini"} <= set(registry.entries("dataset"))


def test_the_display_name_is_the_title_or_the_name_of_the_class(plugin):
    assert registry.get("method", "mada").title == "M-ADA"
    assert registry.get("method", "erm").title == "ERM"
    titled = METHOD.replace('"{name}", paper', '"{name}", title="My Idea", paper')
    registry.add_plugin(plugin("my-idea", titled))
    assert registry.get("method", "my-idea").title == "My Idea"
    assert registry.get("method", "my-idea").load().name == "my-idea"


def test_a_plugin_file_is_listed_without_being_imported(plugin):
    path = plugin(text=METHOD + "\nraise RuntimeError('imported')")
    registry.add_plugin(path)
    entry = registry.get("method", "mine")
    assert (entry.doc, entry.origin) == ("Does mine.", "plugin plugin.py")
    with pytest.raises(UserError, match=r"plugin\.py cannot be imported: RuntimeError: imported"):
        entry.load()


def test_a_plugin_file_brings_a_working_method(plugin, cli):
    done = cli(
        "run",
        "--method",
        "mine",
        "--plugin",
        plugin(),
        "--dataset",
        "digits-mini",
        "--preset",
        "smoke",
    )
    assert done.code == 0
    assert "mine on digits-mini" in done.out


def test_plugins_of_the_environment(plugin, monkeypatch):
    first, second = plugin("one", file="one.py"), plugin("two", file="two.py")
    monkeypatch.setenv("SDGBENCH_PLUGINS", os.pathsep.join([str(first), str(second)]))
    registry.entries.cache_clear()
    assert {"one", "two", "erm"} <= set(registry.entries("method"))


def test_a_plugin_given_twice_is_one(plugin, monkeypatch):
    monkeypatch.setenv("SDGBENCH_PLUGINS", str(plugin()))
    registry.add_plugin(plugin())
    assert "mine" in registry.entries("method")


def test_a_duplicate_name_names_both_files(plugin):
    registry.add_plugin(plugin("erm"))
    with pytest.raises(UserError, match=r'"erm" is taken twice: by .*erm\.py and by .*plugin\.py'):
        registry.entries("method")


def test_a_syntax_error_names_file_and_line(plugin):
    registry.add_plugin(plugin(text="x = 1\ndef broken(:\n"))
    with pytest.raises(UserError, match=r"plugin\.py:2 is not valid Python"):
        registry.entries("method")


def test_a_missing_plugin_file_is_named(tmp_path):
    registry.add_plugin(tmp_path / "gone.py")
    with pytest.raises(UserError, match=r"Cannot read the plugin .*gone\.py"):
        registry.entries("method")


def test_a_missing_base_class_names_the_file(plugin):
    registry.add_plugin(plugin(text=METHOD.replace("Mine(Method)", "Mine")))
    with pytest.raises(UserError, match=r"plugin\.py: the method .mine. must inherit from"):
        registry.get("method", "mine").load()


def test_a_computed_name_is_refused(plugin):
    registry.add_plugin(plugin(text=METHOD.replace('"{name}"', "str(1)")))
    with pytest.raises(UserError, match=r"plugin\.py:5: register_method takes literal arguments"):
        registry.entries("method")


@pytest.mark.parametrize("name", ["../evil", "a,b", "", "a b", "recipe", "<b>"])
def test_names_must_be_fit_for_a_path_and_a_command_line(name, plugin):
    registry.add_plugin(plugin(name))
    with pytest.raises(UserError, match=r"plugin\.py:5: .* cannot be a name"):
        registry.entries("method")


def test_unknown_names_get_a_suggestion():
    with pytest.raises(UserError, match='No method "emr". Did you mean "erm"'):
        registry.get("method", "emr")


def test_installed_packages_register_through_entry_points(tmp_path, monkeypatch):
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mixing.py").write_text(METHOD.replace("{name}", "theirs"))
    meta = tmp_path / "their_package-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(
        "[sdgbench.methods]\ntheirs = their_package.mixing\ngone = their_package.nowhere\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    registry.entries.cache_clear()
    methods = registry.entries("method")
    assert methods["theirs"].origin == "package their-package"
    assert methods["theirs"].load().name == "theirs"
    # A broken package does not stop the others; asking for it does.
    assert "erm" in methods
    with pytest.raises(UserError, match='"gone" of the package their-package cannot be read'):
        methods["gone"].load()


def test_listing_imports_no_torch(python):
    code = (
        "import sys; from sdgbench.cli.app import main\n"
        "try: main(['list'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules, 'pandas' in sys.modules)"
    )
    done = python("-c", code)
    assert done.stdout.splitlines()[-1] == "False False False", done.stderr
    assert "digits-mini" in done.stdout
