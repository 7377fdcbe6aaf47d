"""Building and loading of compiled ops, with a kernel of the test's own and a cache of its own."""

from __future__ import annotations

import logging
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.kernels import loader, toolchain
from tfhet.native import kernels, library

KERNEL = """
#include "op.h"
namespace {
struct Doubled {
  explicit Doubled(const tfhet::Attributes&) {}
  void compute(tfhet::Context& context) const {
    const auto values = context.input(0);
    float* to = context.output<float>(0, values.shape);
    for (int64_t i = 0; i < tfhet::elements(values.shape); ++i) to[i] = 2 * values.data<float>()[i];
  }
};
const tfhet::Op<Doubled> op{"TfhetTestDoubled", {"values: float"}, {"result: float"}};
}  // namespace
"""


needs_compiler = pytest.mark.skipif(not kernels.compiler(environment()), reason="compiled ops cannot be built here")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where the kernels are: only `doubled`. The cache is empty, the ops of other tests are not loaded."""
    (tmp_path / "kernels").mkdir()
    for header in kernels.HERE.glob("*.h"):
        (tmp_path / "kernels" / header.name).write_bytes(header.read_bytes())
    (tmp_path / "kernels" / "doubled.cc").write_text(KERNEL)
    monkeypatch.setattr(kernels, "HERE", tmp_path / "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TFHET_NATIVE", raising=False)
    library._loaded.cache_clear()
    yield tmp_path / "kernels"
    library._loaded.cache_clear()


@needs_compiler
def test_kernel_is_built_once_and_leftovers_removed(folder, monkeypatch):
    place = kernels.folder(environment())
    assert place == folder.parent / "cache" / "tfhet" / "native"
    for name, age_s in (("doubled", 0.0), ("other", 1e6)):  # as after a jump of the clock
        (place / f".build-{name}-x").mkdir(parents=True)
        os.utime(place / f".build-{name}-x", (time.time() - age_s,) * 2)
    path = library.build("doubled")
    assert library.ops("doubled").tfhet_test_doubled([1.0, 2.5]).numpy().tolist() == [2.0, 5.0]
    assert sorted(each.name for each in place.iterdir()) == sorted([".build-other-x", "doubled.lock", path.name])
    monkeypatch.setattr(library, "compile_into", lambda *_: pytest.fail("built again"))
    assert library.build("doubled") == path


def test_missing_compiler_is_logged_once(folder, monkeypatch, caplog):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with caplog.at_level(logging.WARNING, library.log.name):
        assert library.ops("doubled") is None
        assert not library.available("doubled")
        assert library.load_all() == ()
    assert len(caplog.records) == 1
    assert "no C++ compiler" in caplog.text
    monkeypatch.setenv("TFHET_NATIVE", "on")
    with pytest.raises(UsageError, match=r"compiled op 'doubled' .* no C\+\+ compiler"):
        library.ops("doubled")


@pytest.fixture
def of_wheel(folder, monkeypatch) -> Path:
    """A kernel of a wheel for a CPU of level 3, and a CPU that has it."""
    monkeypatch.setattr(kernels, "cpu", lambda: "x86_64 flags\t\t: fpu " + " ".join(kernels.LEVELS["x86-64-v3"]))
    path = kernels.of_wheels() / "x86-64-v3" / "doubled.so"
    path.parent.mkdir(parents=True)
    return path


@needs_compiler
def test_kernel_of_the_wheel_needs_no_compiler(folder, of_wheel, monkeypatch):
    library.compile_into(of_wheel, library.build_command("doubled", ["-march=x86-64-v3"]))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert kernels.built(environment()) == {"doubled": of_wheel}
    assert library.load_all() == ("doubled",)
    assert not list(kernels.folder(environment()).glob("*.so"))
    assert kernels.built(environment()) == {"doubled": of_wheel}


@needs_compiler
def test_broken_kernel_of_the_wheel_is_rebuilt(folder, of_wheel):
    of_wheel.write_bytes(b"of another machine")
    assert library.load_all() == ("doubled",)
    (path,) = kernels.folder(environment()).glob("*.so")
    assert kernels.built(environment()) == {"doubled": path}
    path.unlink()  # as where somebody empties the cache
    assert kernels.built(environment()) == {"doubled": of_wheel}


def test_wheel_serves_the_highest_level_of_the_cpu(folder, of_wheel, monkeypatch):
    higher = of_wheel.parents[1] / "x86-64-v4" / "doubled.so"
    higher.parent.mkdir()
    of_wheel.touch()
    higher.touch()
    assert kernels.of_wheel("doubled") == of_wheel
    assert kernels.of_wheel("other") is None
    four = "x86_64 flags : " + " ".join(kernels.LEVELS["x86-64-v4"])
    monkeypatch.setattr(kernels, "cpu", lambda: four)
    assert kernels.of_wheel("doubled") == higher
    monkeypatch.setattr(kernels, "cpu", lambda: four.replace("avx2", ""))
    assert kernels.of_wheel("doubled") is None
    monkeypatch.setattr(kernels, "cpu", lambda: four)
    monkeypatch.setattr(kernels, "version", lambda package: "2.99.0")
    assert kernels.of_wheel("doubled") is None


def test_wheel_serves_every_aarch64_machine(folder, of_wheel, monkeypatch):
    arm = of_wheel.parents[1] / "aarch64" / "doubled.so"
    arm.parent.mkdir()
    arm.touch()
    assert kernels.of_wheel("doubled") is None  # the machine is x86-64
    monkeypatch.setattr(kernels, "cpu", lambda: "aarch64 Features\t: fp asimd")
    assert kernels.of_wheel("doubled") == arm


@pytest.mark.slow
@needs_compiler
def test_wheel_has_kernels_for_every_level(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    import wheel_kernels

    assert {level for levels in wheel_kernels.FLAGS.values() for level in levels} == set(kernels.LEVELS)
    (folder / "wire").mkdir()
    (folder / "wire" / "wire.cc").write_text("extern int nothing;\n")
    (folder.parent / "core").mkdir()
    (folder.parent / "core" / "abi.cc").write_text("extern int nothing;\n")
    monkeypatch.setattr(loader, "HERE", folder.parent / "core")
    monkeypatch.setattr(loader, "WHEEL", folder / "ahead" / "core")
    levels = wheel_kernels.FLAGS[platform.machine()]
    wheel_kernels.build(platform.machine())
    ops, ahead = kernels.of_wheels().name, folder / "ahead"
    assert {str(path.relative_to(ahead)) for path in ahead.rglob("*.so")} == {
        *(f"core/{level}/core.so" for level in levels),
        *(f"{ops}/{level}/doubled.so" for level in levels if level != wheel_kernels.VBMI),
        f"{ops}/{next(iter(levels))}/wire.so",
    }


@needs_compiler
@pytest.mark.parametrize(
    ("source", "named"), [("#error so it is\n", "so it is"), ("#include <no_such.h>\n", "no_such.h: No such file")]
)
def test_compiler_error_is_passed_on(folder, source, named):
    (folder / "doubled.cc").write_text(source)
    with pytest.raises(library.BuildError, match=named):
        library.build("doubled")
    assert [each.name for each in kernels.folder(environment()).iterdir()] == ["doubled.lock"]
    assert library.ops("doubled") is None


@needs_compiler
def test_cache_that_is_no_folder_is_named(folder):
    (folder.parent / "cache").write_text("a file")
    with pytest.raises(library.BuildError, match=f"{folder.parent}/cache"):
        library.build("doubled")


@needs_compiler
def test_compiler_that_never_ends_is_stopped(folder, monkeypatch):
    monkeypatch.setattr(toolchain, "BUILD_LIMIT_S", 0.01)
    with pytest.raises(library.BuildError, match=r"0\.01 s"):
        library.build("doubled")


def test_switched_off_nothing_is_built(folder, monkeypatch):
    monkeypatch.setenv("TFHET_NATIVE", "off")
    monkeypatch.setattr(library, "build", lambda name: pytest.fail("built"))
    assert library.ops("doubled") is None
    assert library.load_all() == ()


def test_only_named_kernels_and_the_chain_are_used(folder, monkeypatch):
    for name in ("chain", "other"):
        (folder / f"{name}.cc").write_text("")
    assert library.permitted({}) == library.permitted({"TFHET_NATIVE": "auto"}) == ("chain", "doubled", "other")
    assert library.permitted({"TFHET_NATIVE": "other"}) == ("chain", "other")
    assert library.permitted({"TFHET_NATIVE": "off"}) == ("chain",)
    monkeypatch.setenv("TFHET_NATIVE", "other")
    assert library.ops("doubled") is None


def test_unknown_setting_is_refused(folder, monkeypatch):
    monkeypatch.setenv("TFHET_NATIVE", "rubbish")
    with pytest.raises(UsageError, match="TFHET_NATIVE .*doubled.*'rubbish'"):
        library.ops("doubled")


@pytest.mark.slow
@needs_compiler
def test_one_of_concurrent_processes_builds(folder):
    code = (
        "import sys; from pathlib import Path; from tfhet.native import kernels, library\n"
        "kernels.HERE = Path(sys.argv[1])\n"
        "compile_, built = library.compile_into, []\n"
        "library.compile_into = lambda *given: (built.append(1), compile_(*given))\n"
        "print(library.ops('doubled').tfhet_test_doubled([3.0]).numpy()[0], len(built))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    racers = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [racer.communicate(timeout=120)[0].split() for racer in racers]
    assert [answer[0] for answer in answers] == ["6.0", "6.0"]
    # One builds and the other waits, or comes when all is done.
    assert sorted(answer[1] for answer in answers) == ["0", "1"]


@needs_compiler
@pytest.mark.parametrize("name", library.names())
def test_every_kernel_of_the_package_is_built(name):
    assert library.available(name)
