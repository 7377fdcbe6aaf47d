"""The rules of the package that no linter has. Ruff and import-linter check the others: see pyproject.toml."""

from __future__ import annotations

import ast
import importlib.util
import re
import statistics
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import grimp
import pytest
from markdown_links import dead_links

MODULE_LINES, MEDIAN_LINES = 300, 130
"""Maximum lines of a module, and of the median module without `__init__.py`."""
# fmt: off
TOP_LEVEL = {
    ".dockerignore", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Dockerfile", "Dockerfile.aws",
    "LICENSE", "README.md", "SECURITY.md", "pyproject.toml", "requirements-classic.lock", "requirements.lock",
    "setup.cfg",
}
"""Files in the root of the repository. A new one belongs here; a download or a build does not belong there."""
# fmt: on
LARGEST_BYTES = 512 * 1024
"""Maximum size of a file, so that a clone stays small."""
EMPTY_NAMES = {"util", "utils", "common", "misc", "helper", "helpers", "base", "core", "manager"}
# fmt: off
QUICK = [
    "tfhet", "tfhet.record", "tfhet.cluster", "tfhet.catalogue", "tfhet.control", "tfhet.messages", "tfhet.telemetry",
    "tfhet.strategies", "tfhet.plan", "tfhet.report", "tfhet.bench", "tfhet.doctor", "tfhet.follow", "tfhet.launch",
    "tfhet.submit", "tfhet.simulate", "tfhet.__main__",
]
"""Modules whose public names load no heavy package."""
# fmt: on
HEAVY = ["tensorflow", "keras", "horovod.tensorflow", "tensorflow_addons", "torch", "ray"]
SLOW = ["asyncio", "ssl", "logging", "ctypes", "psutil", "numpy", "rich", "yaml", "jinja2"]
"""Packages that cost more CPU time than the help of a command has: 0.15 s of one core."""
SHOW_HELP = f"""
import contextlib, io, sys
from tfhet.__main__ import _parser, main
(commands,) = (action.choices for action in _parser()._actions if action.dest == "name")
for name in commands.keys() - {{"bench"}}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main([name, "--help"])
    print(name, *[slow for slow in {SLOW} if slow in sys.modules])
"""
"""Prints each command with the slow packages that are loaded after its help."""
WITH_TENSORFLOW = (
    *(
        "native.library",
        "datasets*",
        "pipeline.lowering",
        "pipeline.reading",
        "pipeline.stream",
        "planes.distribution",
        "planes.feed.rank_side",
        "planes.reader",
    ),
    *("planes.tf_service.reader", "planes.tf_service.transport", "planes.validation", "profile.anatomy"),
    *("profile.parts", "profile.rounds", "source.damage", "source.digits"),
    *("source.photos", "steps.callback"),
    *("steps.continued", "steps.keras_weights", "steps.noted", "strategies.horovod.*"),
    *("strategies.tensorflow.collective", "trainer.*", "horovod.*"),
)
"""Patterns of the modules that need TensorFlow (or Horovod). All others work in an environment without it."""
IMPORT_ALL = """
import importlib, pathlib, sys
blocked = ["tensorflow", "keras", "tf_keras", "tensorflow_addons", "horovod", "ray", *sys.argv[1:]]
sys.modules.update(dict.fromkeys(blocked))
for path in sorted(pathlib.Path("tfhet").rglob("*.py")):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    of_torch = name.startswith(("tfhet.torch", "tfhet.steps.torch_weights"))
    if "templates" in path.parts or (of_torch and "torch" in blocked):
        continue
    try:
        importlib.import_module(name)
    except Exception as error:
        print(f"{name}: {error}")
"""
"""Imports every module, and prints the names of those that fail."""
NEUTRAL = ("record", "cluster", "control", "launch", "telemetry", "plan")
"""Subpackages that work with any data plane and strategy, so they name none in code, docstrings or comments."""
PLANES_AND_STRATEGIES = re.compile(
    r"worker|dispatcher|tf[._]data|horovod|tensorflow|\bmpi|mpirun|torch|gloo|nccl|\bray\b", re.IGNORECASE
)
FOREIGN_TEXTS = {
    "status code: ": "obstore, the status of an HTTP answer",
    "No space left": "C library, full disk",
    "OOM when allocating": "TensorFlow, Python and C library, out of memory",
    "Unable to register cu": "TensorFlow's log",
    "Horovod has been shut down": "Horovod and Gloo, another rank has died",
    "Collective ops is aborted": "TensorFlow, another task has ended",
    "Gloo connectFullMesh failed": "PyTorch, another rank has died or hangs",
    "Exception raised from ": "PyTorch, before a stack of C++",
    "not found": "tf.data service",
    "Iteration id": "tf.data service",
    "Failed to send task updates": "tf.data service",
    "singleton tf.Variables": "tf.function",
    "created on a non-first call": "tf.function",
    "user code:": "AutoGraph",
    " of example 0 of the block": "kernels/example.h, which can raise a text only",
    "The above exception was the direct cause": "Python, chained exceptions",
    "Traceback ": "Python",
    "Exception ignored ": "Python",
    "Exception in ": "Python's threading",
    "Original exception was:": "Python",
    "most recent call first": "Python's faulthandler",
    "Fatal Python error: ": "Python",
    "INFO": "Python's logging",
    "root error": "TensorFlow",
    "Graph execution error": "TensorFlow",
    "CUDA kernel errors": "PyTorch",
    "Root Cause": "PyTorch's elastic launcher",
    "Primary job  terminated normally": "mpirun",
    "MPI_ERR": "MPI",
    "exit ?code": "SageMaker's failure reason",
    "Command failed": "iproute2",
    "PRIVATE KEY": "ssh-keygen",
}
"""Texts of other programs that tfhet has to parse, and their origin."""
_SENTENCE = re.compile(r"[A-Za-z]{2,}(?: |\\s[+*]?| \?)[A-Za-z]+|\[tfhet")
_TEXT_CALLS = {"startswith", "endswith", "partition", "rpartition", "find", "index", "split", "rsplit"} | {
    *("removeprefix", "removesuffix", "replace")
}
_PATTERN_CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}


@pytest.fixture(scope="module")
def texts(repository: Path) -> dict[str, str]:
    """Every text file of the repository, by path."""
    found = {}
    for name in files_of(repository):
        try:
            found[name] = (repository / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@pytest.fixture(scope="module")
def modules(texts: dict[str, str]) -> dict[str, str]:
    """Every Python module of the package, by path, without templates."""
    return {path: text for path, text in texts.items() if re.match(r"tfhet/(?!.*/templates/).*\.py$", path)}


def files_of(repository: Path) -> list[str]:
    """The files that git tracks or would add; without git, all files outside of build directories."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = listing.stdout.split("\0")
    else:
        made = re.compile(  # what is built here
            r"(^|/)(\.venv[^/]*|\.git|runs|build|dist|__pycache__|\.\w+_cache|\.hypothesis|[^/]*\.egg-info)(/|$)"
        )
        paths = (path.relative_to(repository).as_posix() for path in repository.rglob("*"))
        names = [name for name in paths if not made.search(name)]
    return sorted(name for name in names if name and (repository / name).is_file())


def test_modules_are_short(modules):
    lengths = {path: len(text.splitlines()) for path, text in modules.items()}
    assert {path: length for path, length in lengths.items() if length > MODULE_LINES} == {}
    assert statistics.median(n for path, n in lengths.items() if not path.endswith("__init__.py")) <= MEDIAN_LINES


def test_names_say_what_is_inside(texts):
    stems = {path: PurePosixPath(path).stem.lower().removeprefix("test_") for path in texts}
    assert [path for path, stem in stems.items() if stem in EMPTY_NAMES] == []
    # A setup.py would switch SageMaker's toolkit into package mode.
    assert [path for path in texts if PurePosixPath(path).name == "setup.py"] == []


def test_root_has_known_files_only(repository):
    assert {name for name in files_of(repository) if "/" not in name} == TOP_LEVEL


def test_no_file_is_large(repository):
    sizes = {name: (repository / name).stat().st_size for name in files_of(repository)}
    assert {name: size for name, size in sizes.items() if size > LARGEST_BYTES} == {}


def test_no_file_names_a_package_index(texts):
    assert [path for path, text in texts.items() if re.search(r"https?://[^ \"]*/simple\b", text)] == []


@pytest.mark.parametrize("subpackage", NEUTRAL)
def test_neutral_subpackages_name_no_plane_and_no_strategy(subpackage, modules):
    lines = [
        f"{path}:{number}: {line.strip()}"
        for path, text in modules.items()
        if path.startswith(f"tfhet/{subpackage}/")
        for number, line in enumerate(text.splitlines(), start=1)
        if PLANES_AND_STRATEGIES.search(line)
    ]
    assert lines == []


def test_subpackages_are_used_through_their_public_names(repository):
    """`from tfhet.plan.decision import Plan` is for tfhet.plan only: other subpackages import it from tfhet.plan."""
    graph = grimp.build_graph("tfhet")
    breaches = []
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            parts = imported.split(".")
            own = ".".join(parts[:2])
            if (
                len(parts) > 2
                and own != "tfhet.cli"
                and not importer.startswith(own)
                and not is_public(repository, imported)
            ):
                breaches.append(f"{importer} imports {imported}")
    assert sorted(breaches) == []


def is_public(repository: Path, module: str) -> bool:
    """Whether a module is a package (a data plane, a strategy), or a public name of the package that contains it."""
    path = repository / module.replace(".", "/")
    stub = path.parent / "__init__.pyi"
    listed = stub if stub.exists() else path.parent / "__init__.py"
    names = rf"^from \S+ import (?:\([^)]*|.*)\b{path.name}\b"
    return path.is_dir() or bool(re.search(names, listed.read_text(), re.MULTILINE))


def sentences_read(text: str) -> list[str]:
    """The texts of two words and more that a module searches for, without texts of other programs."""
    found = []
    for node in ast.walk(ast.parse(text)):
        sought: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_pattern = ast.unparse(node.func.value) == "re" and node.func.attr in _PATTERN_CALLS
            sought = node.args[0] if is_pattern or node.func.attr in _TEXT_CALLS else None
        elif isinstance(node, ast.Compare) and any(isinstance(each, ast.In | ast.NotIn) for each in node.ops):
            sought = node.left if isinstance(node.left, ast.Constant | ast.JoinedStr) else None
        parts = [each.value for each in ast.walk(sought) if isinstance(each, ast.Constant)] if sought else []
        words = "".join(part for part in parts if isinstance(part, str))
        if _SENTENCE.search(words) and not any(foreign in words for foreign in FOREIGN_TEXTS):
            found.append(words)
    return found


def test_no_module_parses_a_sentence_of_tfhet(modules):
    """Processes exchange messages and log lines of tfhet.messages; nothing else may be parsed."""
    found = {path: sentences_read(text) for path, text in modules.items() if not path.startswith("tfhet/messages/")}
    assert {path: sentences for path, sentences in found.items() if sentences} == {}


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('re.compile(r"the job ended with exit code (\\d+)")', True),
        ('re.search("delivers data", x)', True),
        ('"starting it again" in x', True),
        ('x.startswith("not a member")', True),
        ('re.compile(r"[a-z]+-\\d+ *= *")', False),
        ('x.startswith("rank-") or "steps" in x', False),
        ('re.compile("Horovod has been shut down|HorovodInternalError")', False),
    ],
)
def test_parsed_sentences_are_found(source, is_found):
    assert bool(sentences_read(source)) == is_found


def test_links_of_documents_exist(repository, texts):
    def read(path: str) -> str | None:
        return texts.get(path, "") if (repository / path).exists() else None

    documents = {path: text for path, text in texts.items() if path.endswith(".md")}
    assert [breach for path, text in documents.items() for breach in dead_links(path, text, read)] == []


def test_map_of_the_package_names_existing_modules(repository):
    places = [repository / "tfhet", repository]
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|cc|json))`", (places[0] / "README.md").read_text())
    assert named and [path for path in named if not any((place / path).exists() for place in places)] == []


def test_lanes_name_existing_tests(repository):
    specification = importlib.util.spec_from_file_location("lanes", repository / "scripts" / "lanes.py")
    sys.modules["lanes"] = lanes = importlib.util.module_from_spec(specification)  # dataclasses look it up
    specification.loader.exec_module(lanes)
    named = {*lanes.TORCH, *lanes.RAY}
    assert sorted(path for path in named if not (repository / path).exists()) == []


def loaded_by(statement: str, repository: Path) -> list[str]:
    """The heavy packages that a new interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120, check=True)
    return result.stdout.split()


def test_quick_modules_load_no_framework(repository):
    statements = {name: f"from {name} import *" for name in QUICK[1:]}
    if loaded_by("; ".join(["import tfhet", *statements.values()]), repository):
        pytest.fail(str({name: loaded_by(statement, repository) for name, statement in statements.items()}))


def test_help_of_commands_loads_no_slow_package(repository):
    command = [sys.executable, "-c", SHOW_HELP]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120, check=True)
    loaded = {name: slow for name, *slow in map(str.split, result.stdout.splitlines())}
    assert {"launch", "simulate", "report"} <= loaded.keys()
    assert {name: slow for name, slow in loaded.items() if slow} == {}


def test_planes_and_strategies_of_a_launcher_load_no_framework(repository):
    of_planes = "[planes.get(name).settings() for name in planes.names()]"
    of_strategies = "[strategies.get(name).sources for name in strategies.names()]"
    assert loaded_by(f"from tfhet import planes, strategies; {of_planes}; {of_strategies}", repository) == []


def test_modules_need_no_tensorflow(repository):
    """All modules except those in WITH_TENSORFLOW are imported while no framework but PyTorch can be."""
    command = [sys.executable, "-c", IMPORT_ALL, *(["torch"] if importlib.util.find_spec("torch") is None else [])]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120, check=True)
    failed = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    needed = {name for name in failed if any(fnmatch(name, f"tfhet.{pattern}") for pattern in WITH_TENSORFLOW)}
    assert {name: error for name, error in failed.items() if name not in needed} == {}
    assert [each for each in WITH_TENSORFLOW if not any(fnmatch(name, f"tfhet.{each}") for name in needed)] == []
