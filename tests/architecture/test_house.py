"""The house keeps its rules (house.py), all of it; test_rules.py shows that each rule finds what it is for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

import house
import pytest

# fmt: off
QUICK_ROOMS = [
    "record", "cluster", "catalogue", "control", "messages", "telemetry", "strategies", "plan", "report",
    "submit", "follow", "launch", "simulate", "__main__",
]
# fmt: on
"""They start in a moment, because nothing that they load needs TensorFlow."""

HEAVY = ["tensorflow", "keras", "horovod.tensorflow", "tensorflow_addons", "torch", "ray"]


@pytest.fixture(scope="module")
def texts(repository: Path) -> dict[str, str]:
    """Every text file of the repository, by path."""
    found = {}
    for name in house.files_of(repository):
        try:
            found[name] = (repository / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@pytest.fixture(scope="module")
def modules(texts: dict[str, str]) -> dict[str, str]:
    """Every Python module of the package, by path. Files in a folder `templates` are data: a user's, once copied."""
    names = [name for name in texts if name.startswith("tfhet/") and name.endswith(".py") and "/templates/" not in name]
    return {name: texts[name] for name in names}


@pytest.mark.parametrize(
    "rule",
    [
        house.known_room,
        house.room_order,
        house.tensorflow_place,
        house.package_place,
        house.environment_read,
        house.clock_read,
        house.has_docstring,
        house.module_length,
        house.sentence_read,
    ],
    ids=lambda rule: rule.__name__,
)
def test_every_module_of_the_package_keeps_the_rule(rule, modules):
    assert modules, "no modules were found"
    breaches = [breach for path, text in modules.items() for breach in rule(path, text)]
    assert not breaches, "\n" + "\n".join(breaches)


@pytest.mark.parametrize("room", house.NEUTRAL_ROOMS)
def test_a_room_that_knows_no_plane_and_no_strategy_names_none(room, modules):
    there = {path: text for path, text in modules.items() if house.room_of(path) == room}
    assert there, f"no modules of {room} were found"
    breaches = [breach for path, text in there.items() for breach in house.neutral(path, text)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_modules_import_each_other_in_a_circle_type_imports_counted(modules):
    assert house.import_cycles(modules) == []


def test_hardly_a_class_name_means_two_things(modules):
    shared = house.classes_in_several_rooms(modules)
    assert len(shared) <= house.MOST_SHARED_NAMES, shared


def test_no_room_is_imported_past_its_face(modules):
    breaches = [breach for path, text in modules.items() for breach in house.past_the_face(path, text, modules)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_folder_is_crowded(texts):
    folders = Counter(str(PurePosixPath(path).parent) for path in texts if path.endswith(".py"))
    crowded = {folder: count for folder, count in folders.items() if count > house.FILES_OF_A_FOLDER}
    assert not [folder for folder in crowded if folder.startswith(("tfhet", "benchmarks"))], crowded


def test_the_command_line_has_few_flags(modules):
    flags = sum(len(re.findall(r"add_argument\(\s*\"--", text)) for text in modules.values())
    assert 0 < flags <= house.FLAGS


def test_the_modules_are_short(modules):
    assert not house.median_length(modules)


def test_scripts_in_python_say_what_they_are(texts):
    scripts = {path: text for path, text in texts.items() if path.startswith("scripts/") and path.endswith(".py")}
    assert not [breach for path, text in scripts.items() for breach in house.has_docstring(path, text)]


def test_every_name_says_what_is_in_it_and_there_is_no_setup_py(repository):
    breaches = [breach for path in house.files_of(repository) for breach in house.telling_name(path)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_file_names_a_package_index(texts):
    breaches = [breach for path, text in texts.items() for breach in house.registry_address(path, text)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_map_of_the_house_names_each_module(modules, texts):
    breaches = [breach for path in modules for breach in house.off_the_map(path, texts["tfhet/README.md"])]
    assert not breaches, "\n" + "\n".join(breaches)


def test_links_of_the_documents_lead_somewhere(repository, texts):
    def read(path: str) -> str | None:
        return texts.get(path, "") if (repository / path).exists() else None

    documents = {path: text for path, text in texts.items() if path.endswith(".md")}
    assert "README.md" in documents
    breaches = [breach for path, text in documents.items() for breach in house.dead_links(path, text, read)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_documents_say_one_word_for_one_thing(texts):
    words = house.words_to_replace(texts["docs/glossary.md"])
    assert {"nobody", "mini-batch"} <= set(words)
    documents = {path: text for path, text in texts.items() if path.endswith(".md") and path != "CHANGELOG.md"}
    breaches = [breach for path, text in documents.items() for breach in house.replaced_words(path, text, words)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_commands_that_the_readme_names_are_there(repository, texts):
    named = house.named_scripts(texts["README.md"])
    assert {"scripts/demo", "scripts/test"} <= set(named)
    missing = [name for name in named if not (repository / name).is_file()]
    assert not missing, f"README.md names {missing}"
    unready = [name for name in named if "." not in name.split("/")[-1] and not os.access(repository / name, os.X_OK)]
    assert not unready, f"not executable: {unready}"


def loaded_by(statement: str, repository: Path) -> list[str]:
    """Which of the heavy packages a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_importing_tfhet_loads_neither_tensorflow_nor_horovod(repository):
    assert loaded_by("import tfhet", repository) == []


def test_the_quick_rooms_load_no_tensorflow(repository):
    package = repository / "tfhet"
    there = [room for room in QUICK_ROOMS if (package / room).is_dir() or (package / f"{room}.py").is_file()]
    assert there
    names = {room: f"from tfhet.{room} import *" for room in there}  # each public name: some are loaded when asked for
    if loaded_by("; ".join(names.values()), repository):
        guilty = {room: heavy for room in there if (heavy := loaded_by(names[room], repository))}
        pytest.fail(f"rooms that load what they must not: {guilty}")


def test_what_a_launcher_needs_of_planes_and_strategies_loads_no_tensorflow(repository):
    of_planes = "[planes.get(name).settings() for name in planes.names()]"
    of_strategies = "[strategies.get(name).sources for name in strategies.names()]"
    assert loaded_by(f"from tfhet import planes, strategies; {of_planes}; {of_strategies}", repository) == []


def test_the_check_for_loaded_packages_sees_a_loaded_package(repository):
    assert loaded_by("import types; sys.modules['keras'] = types.ModuleType('keras')", repository) == ["keras"]
