"""The rules of the house, as functions from a source to what is wrong with it. tfhet/README.md shows the house.

Every rule takes the path of a file, as the repository has it, and its text, and returns one line per breach.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# fmt: off
ROOMS = (
    "lazy", "errors", "units", "clock", "aws", "events", "writer", "deadline", "process", "registry", "arguments",
    "yaml_file", "command_line", "versions",
    "record", "cluster", "catalogue", "control", "messages", "telemetry",
    "native", "source", "stages", "placement", "strategies", "steps", "planes", "torch", "ray", "trainer", "profile",
    "plan", "advice", "report", "submit", "follow", "launch", "container", "simulate", "bench", "doctor", "__main__",
)
# fmt: on
"""Each imports only those before it. A new folder or top-level module needs a place here, and in tfhet/README.md."""

COMMAND = "command"
"""tfhet/ROOM/command.py: a room's part of the command line. It stands where `__main__` does: it may import every room,
and no other room imports it."""

PROOFS = "benchmarks"
"""The package of proofs beside tfhet: it imports tfhet, and no room imports it."""

FACADE = "__init__"
"""tfhet/__init__.py offers names of all rooms, loaded when asked for; no room imports it."""

TENSORFLOW = ("tensorflow", "keras", "tf_keras")
TENSORFLOW_ROOMS = {"native", "source", "stages", "placement", "strategies", "steps", "planes", "trainer", "profile"}
TENSORFLOW_WHEN_CALLED = {"bench", "ray"}
"""These import TensorFlow inside functions only: their tables and arguments are there in a moment."""

ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "horovod": ("tfhet/strategies/horovod/",),
    "torch": ("tfhet/strategies/torch/", "tfhet/torch.py"),
    "ray": ("tfhet/planes/ray/", "tfhet/ray.py"),
    "tensorflow_addons": ("tfhet/stages/",),
    "sagemaker_training": ("tfhet/cluster/",),
    "boto3": ("tfhet/aws.py",),
    "botocore": ("tfhet/aws.py",),
    "time": ("tfhet/clock.py",),
}
"""Packages, and the files that may import them: a folder ends with a slash."""

ENVIRONMENT_READER = "tfhet/cluster/environment.py"
ENVIRONMENT_NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
CLOCK_READS = {"now", "utcnow", "today"}

FOREIGN_TEXTS: Mapping[str, str] = {
    "No space left": "the C library, for a full disk",
    "OOM when allocating": "TensorFlow, Python and the C library, when memory is short",
    "Unable to register cu": "TensorFlow's log",
    "Horovod has been shut down": "Horovod and Gloo, when another rank has died",
    "Collective ops is aborted": "TensorFlow, when another task has ended",
    "Gloo connectFullMesh failed": "PyTorch, when another rank has died or hangs",
    "Exception raised from ": "PyTorch, before a stack of C++",
    "not found": "tf.data service",
    "Iteration id": "tf.data service",
    "Failed to send task updates": "tf.data service",
    "singleton tf.Variables": "tf.function",
    "created on a non-first call": "tf.function",
    "user code:": "AutoGraph",
    " of example 0 of the block": "the kernel native/records.cc, which can raise nothing but a text",
    "The above exception was the direct cause": "Python, between an exception and the one that it caused",
    "exit ?code": "SageMaker's failure reason",
    "Command failed": "iproute2",
    "PRIVATE KEY": "ssh-keygen",
}
"""Texts that other programs write and ours have to read, and which programs those are."""

EMPTY_NAMES = {"util", "utils", "common", "misc", "helper", "helpers", "base", "core", "manager"}
MODULE_LINES = 300
MEDIAN_LINES = 110
FILES_OF_A_FOLDER = 25
"""At most, except in stages/, which has one family of operations in each file."""
FLAGS = 90
"""At most, of the whole command line; arguments of launcher, trainer and planes are fields of dataclasses."""


@dataclass(frozen=True)
class Import:
    """One imported module, with where it is imported."""

    module: str
    line: int
    in_function: bool
    for_types: bool
    """Under `if TYPE_CHECKING`, so never when running."""


def imports(path: str, text: str) -> Iterator[Import]:
    """All imports of a source, also `import_module("name")`; `from tfhet import a` counts as tfhet.a."""
    package = list(PurePosixPath(path).parent.parts)

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found = [f"{module}.{name.name}" for name in node.names] if module == "tfhet" else [module]
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("import_module", "__import__") and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found = [argument.value]
        for module in found:
            yield Import(module, getattr(node, "lineno", 0), in_function, for_types)
        if isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
            for child in node.body:
                yield from walk(child, in_function, True)
            for child in node.orelse:
                yield from walk(child, in_function, for_types)
            return
        inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside, for_types)

    yield from walk(ast.parse(text, path), False, False)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def room_of(path: str) -> str:
    """tfhet/stages/blur.py -> stages; tfhet/clock.py -> clock."""
    return PurePosixPath(path).parts[1].removesuffix(".py")


def is_within(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of some packages, or inside one."""
    return module.split(".")[0] in packages


def known_room(path: str, text: str) -> list[str]:
    """A file of the package stands in a room that is in the list."""
    room = room_of(path)
    return (
        [] if room in ROOMS or room == FACADE else [f"{path}: {room!r} is not a room of the house: {', '.join(ROOMS)}"]
    )


def room_order(path: str, text: str) -> list[str]:
    """A room imports only rooms above it, and never the facade."""
    own, breaches = room_of(path), []
    if own not in ROOMS:  # the facade; unknown rooms are told by `known_room`
        return []
    room = "__main__" if PurePosixPath(path).stem == COMMAND else own
    for each in imports(path, text):
        parts = each.module.split(".")
        if parts[0] == PROOFS:
            breaches.append(f"{path}:{each.line}: the package imports {PROOFS}, which stands beside it")
        if parts[0] != "tfhet":
            continue
        other = parts[1] if len(parts) > 1 else ""
        if other == own or other == "__version__":
            continue
        if parts[2:3] == [COMMAND]:
            other = "__main__"
        if other == room or (other in ROOMS and ROOMS.index(other) < ROOMS.index(room)):
            continue
        what = f"room {other}, which is not above it" if other in ROOMS else f"the facade ({each.module})"
        breaches.append(f"{path}:{each.line}: room {room} imports {what}")
    return breaches


def tensorflow_place(path: str, text: str) -> list[str]:
    """TensorFlow and Keras are imported only in the rooms that need them, and in some only inside functions."""
    room = room_of(path)
    return [
        f"{path}:{each.line}: {each.module} is imported in room {room}"
        for each in imports(path, text)
        if is_within(each.module, TENSORFLOW)
        and not each.for_types
        and room not in TENSORFLOW_ROOMS
        and not (room in TENSORFLOW_WHEN_CALLED and each.in_function)
    ]


def package_place(path: str, text: str) -> list[str]:
    """The packages of ONLY_IN are imported only by the files that it names."""
    return [
        f"{path}:{each.line}: {each.module} is imported only in {' and '.join(places)}"
        for each in imports(path, text)
        for package, places in ONLY_IN.items()
        if is_within(each.module, (package,)) and not any(_is_in(path, place) for place in places)
    ]


def _is_in(path: str, place: str) -> bool:
    return path.startswith(place) if place.endswith("/") else path == place


def environment_read(path: str, text: str) -> list[str]:
    """The environment is read in one file, and handed on as a mapping."""
    if path == ENVIRONMENT_READER:
        return []
    tree = ast.parse(text, path)
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            lines += [node.lineno for name in node.names if name.name in ENVIRONMENT_NAMES]
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in ENVIRONMENT_NAMES
            and _last_name(node.value) in _os_names(tree)
        ):
            lines.append(node.lineno)
    return [f"{path}:{line}: only {ENVIRONMENT_READER} reads the environment" for line in sorted(lines)]


def _os_names(tree: ast.AST) -> set[str]:
    """The names that a source has for the module os."""
    return {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name == "os"
    }


def clock_read(path: str, text: str) -> list[str]:
    """The time of day comes from tfhet.clock too, not from datetime (the module time: see `package_place`)."""
    return [
        f"{path}:{node.lineno}: reads the time by {ast.unparse(node.func)}(); take a Clock"
        for node in ast.walk(ast.parse(text, path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCK_READS
        and _last_name(node.func.value) in ("datetime", "date")
    ]


_SENTENCE = re.compile(r"[A-Za-z]{2,}(?: |\\s[+*]?| \?)[A-Za-z]+|\[tfhet")
"""Two words with a blank, or what would find one, between them; and the mark of the lines that programs may read."""
_PATTERN_CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}
_TEXT_CALLS = {
    *("startswith", "endswith", "partition", "rpartition", "find", "index", "split", "rsplit"),
    *("removeprefix", "removesuffix", "replace"),
}


def sentence_read(path: str, text: str) -> list[str]:
    """No program reads a sentence: whatever one process says to another stands in tfhet/messages, where it is read too.

    Found are regular expressions, and comparisons with a part of a text, that hold two words or more; those of other
    programs (FOREIGN_TEXTS) cannot be had otherwise.
    """
    if path.startswith("tfhet/messages/"):
        return []
    breaches = []
    for node in ast.walk(ast.parse(text, path)):
        sought: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_pattern = _last_name(node.func.value) == "re" and node.func.attr in _PATTERN_CALLS
            sought = node.args[0] if is_pattern or node.func.attr in _TEXT_CALLS else None
        elif isinstance(node, ast.Compare) and any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops):
            sought = node.left if isinstance(node.left, (ast.Constant, ast.JoinedStr)) else None
        parts = [each.value for each in ast.walk(sought) if isinstance(each, ast.Constant)] if sought else []
        words = "".join(part for part in parts if isinstance(part, str))
        if _SENTENCE.search(words) and not any(foreign in words for foreign in FOREIGN_TEXTS):
            breaches.append(
                f"{path}:{node.lineno}: reads the sentence {words[:60]!r}; say it by a message or a log line"
            )
    return breaches


def has_docstring(path: str, text: str) -> list[str]:
    """Every module says what it is."""
    return [] if ast.get_docstring(ast.parse(text, path)) else [f"{path}: has no docstring"]


def module_length(path: str, text: str) -> list[str]:
    """One noun per file: no module is longer than the limit."""
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, more than {MODULE_LINES}"] if lines > MODULE_LINES else []


def median_length(texts: Mapping[str, str]) -> list[str]:
    """The modules are short in the middle too; package files (`__init__`), which only re-export, do not count."""
    lengths = [len(text.splitlines()) for path, text in texts.items() if not path.endswith("__init__.py")]
    median = statistics.median(lengths) if lengths else 0
    return [f"the median module has {median:g} lines, more than {MEDIAN_LINES}"] if median > MEDIAN_LINES else []


def telling_name(path: str, text: str = "") -> list[str]:
    """No name that says nothing, and no setup.py: it would switch SageMaker's toolkit into package mode."""
    parts = PurePosixPath(path).parts
    stems = [part.split(".")[0].lower().strip("_").removeprefix("test_") if part[0] != "." else part for part in parts]
    breaches = [f"{path}: {stem!r} says nothing about what is in it" for stem in stems if stem in EMPTY_NAMES]
    return breaches + ([f"{path}: there is never a setup.py"] if parts[-1] == "setup.py" else [])


def registry_address(path: str, text: str) -> list[str]:
    """No file names a package index: that is for each machine to configure."""
    found = re.finditer(r"https?://[^ ]*/simple", text)
    return [f"{path}:{text.count(chr(10), 0, each.start()) + 1}: names a package index" for each in found]


def off_the_map(path: str, house_map: str) -> list[str]:
    """A module that tfhet/README.md, `house_map`, does not name in its room. Faces, commands, `__main__`, templates and
    families of stages need not be named."""
    parts = PurePosixPath(path).parts
    if parts[-1] in ("__init__.py", "__main__.py", "command.py") or "templates" in parts or room_of(path) == "stages":
        return []
    rooms = house_map.partition("## The rooms")[2].partition("\n## ")[0]
    blocks = re.split(r"^  (?=\w)", rooms, flags=re.MULTILINE)
    its_own = [block for block in blocks if len(parts) == 2 or block.startswith(f"{parts[1]}/")]
    is_named = any(re.search(rf"(?<![\w.]){re.escape(parts[-1])}", block) for block in its_own)
    return [] if is_named else [f"{path}: tfhet/README.md does not name it in its room"]


def dead_links(path: str, text: str, read: Callable[[str], str | None]) -> list[str]:
    """Links of a Markdown file to files and headings that are not there.

    `read` gives the text of a file of the repository, "" for a folder or what is not text, None for what is missing.
    """
    breaches = []
    for target in re.findall(r"\]\(<?([^)>\s]+)>?[^)]*\)", _without_code(text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        there = _normal(PurePosixPath(path).parent / file) if file else path
        content = read(there)
        if content is None:
            breaches.append(f"{path}: links to {target}, which is not there")
        elif anchor and there.endswith(".md") and anchor not in heading_anchors(content):
            breaches.append(f"{path}: links to {target}, which has no such heading")
    return breaches


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def heading_anchors(markdown: str) -> set[str]:
    """The anchors that GitHub gives the headings of a Markdown text."""
    anchors: set[str] = set()
    for title in re.findall(r"^#+ +(.+?) *#* *$", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S), flags=re.M):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(numbered)
    return anchors


def words_to_replace(glossary: str) -> dict[str, str]:
    """The words that the glossary replaces, and what it says instead: the code in the left cells of a table, and the
    right cells."""
    rows = re.findall(r"^\| *(`[^|]*`) *\| *([^|]*?) *\|$", glossary, flags=re.MULTILINE)
    return {word: instead for left, instead in rows for word in re.findall(r"`([^`]+)`", left)}


def replaced_words(path: str, text: str, words: Mapping[str, str]) -> list[str]:
    """Words of a document, outside of code and comments, for which the glossary has others.

    words: each with what to say instead.
    """
    blank = re.sub(
        r"^```.*?^```|<!--.*?-->|`[^`\n]*`|\]\([^)\s]*\)",
        lambda match: "\n" * match[0].count("\n"),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    any_word = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return [
        f"{path}:{number}: {found[0]!r}; the glossary says: {words[found[0].lower()]}"
        for number, line in enumerate(blank.splitlines(), start=1)
        for found in re.finditer(rf"(?<![\w-])(?:{any_word})(?![\w-])", line, flags=re.IGNORECASE)
    ]


def named_scripts(text: str) -> list[str]:
    """The commands of this repository that a text names: scripts/... and .ci/..."""
    return sorted(set(re.findall(r"(?<![\w./-])(?:\./)?((?:scripts|\.ci)/\w[\w-]*(?:\.(?:py|sh))?)", text)))


def files_of(repository: Path) -> list[str]:
    """The files that belong to the repository: those git knows or would add; without git, all but what is made here.

    One that is deleted, which git still knows, is none of them.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name and (repository / name).exists()]
    else:
        made = {".venv", ".git", "runs", "build", "dist", "__pycache__"}
        names = [
            path.relative_to(repository).as_posix()
            for path in repository.rglob("*")
            if not any(
                part in made or part.endswith((".egg-info", "_cache", ".hypothesis"))
                for part in path.relative_to(repository).parts
            )
        ]
    return sorted(name for name in names if (repository / name).is_file())


# The doors: planes and strategies, and the rooms that know none of them


NEUTRAL_ROOMS = ("record", "cluster", "control", "launch", "telemetry", "plan")
"""Rooms that name no data plane and no strategy in code, docstrings or comments: another plane changes none of them."""
TENANTS = re.compile(
    r"worker|dispatcher|tf[._]data|horovod|tensorflow|\bmpi|mpirun|torch|gloo|nccl|\bray\b", re.IGNORECASE
)
"""Words of the planes and strategies that tfhet ships."""


def neutral(path: str, text: str) -> list[str]:
    """A room that knows no plane and no strategy has no word of theirs."""
    if room_of(path) not in NEUTRAL_ROOMS:
        return []
    return [
        f"{path}:{number}: {found.group()!r} is a word of a data plane or a strategy"
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := TENANTS.search(line))
    ]


def past_the_face(path: str, text: str, modules: Mapping[str, str]) -> list[str]:
    """A room is imported by others through its face: by names that its `__init__` imports from its modules, among which
    a sub-module may be. A folder in a room (a data plane, a strategy) has a face of its own.

    modules: the paths and texts of all modules.
    """
    rooms = {PurePosixPath(one).parts[1] for one in modules if one.count("/") == 2 and one.endswith("/__init__.py")}
    public = {f"tfhet.{room}.{name}" for room in rooms for name in _public(modules[f"tfhet/{room}/__init__.py"])}
    own = room_of(path)
    return [
        f"{path}:{line}: imports {module}, past the face of the room {parts[1]}"
        for module, line in _imported(path, text, modules, public)
        if len(parts := module.split(".")) > 2 and parts[1] in rooms - {own} and parts[2] != COMMAND
        if f"{module.replace('.', '/')}/__init__.py" not in modules
    ]


def _public(face: str) -> set[str]:
    """The names that a face imports from modules of the package."""
    imports = (node for node in ast.walk(ast.parse(face)) if isinstance(node, ast.ImportFrom))
    return {name.name for node in imports if str(node.module).startswith("tfhet.") for name in node.names}


def import_cycles(texts: Mapping[str, str]) -> list[list[str]]:
    """The modules that import each other in a circle, imports for types and in functions counted: one list a circle.

    What a module imports by importing a module of another package, the packages around it, does not count.
    """
    above = {_module(path): {name for name, _ in _imported(path, text, texts)} for path, text in texts.items()}
    found, index, low, stack = [], dict[str, int](), dict[str, int](), list[str]()

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(above.get(module, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            at = stack.index(module)
            circle, stack[at:] = sorted(stack[at:]), []
            if len(circle) > 1 or module in above.get(module, ()):
                found.append(circle)

    for module in sorted(above):
        if module not in index:
            visit(module)
    return found


def classes_in_several_rooms(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of public classes that more than one room defines, and the rooms."""
    rooms: dict[str, set[str]] = {}
    for path, text in texts.items():
        for node in ast.parse(text, path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms.setdefault(node.name, set()).add(room_of(path))
    return {name: sorted(there) for name, there in sorted(rooms.items()) if len(there) > 1}


MOST_SHARED_NAMES = 5
"""Names of classes that may be defined in more than one room."""


def _module(path: str) -> str:
    """tfhet/stages/blur.py -> tfhet.stages.blur; tfhet/stages/__init__.py -> tfhet.stages."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(path: str, text: str, modules: Collection[str], public: Collection[str] = ()) -> list[tuple[str, int]]:
    """The modules of the package that a module imports, and where.

    public: names that stand for the module from which they are imported, even where a sub-module has the name too.
    """
    known = {_module(one) for one in modules}
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(text, path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{name.name}" for name in node.names]
            names = [name if name in known and name not in public else node.module for name in inside]
        found += [(name, node.lineno) for name in dict.fromkeys(names) if name in known]
    return found
