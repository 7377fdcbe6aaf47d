"""Python imports this module at its start, because `tfhet watch` puts its folder first on PYTHONPATH.

It installs the hooks of `tfhet.watching.inside`, and then runs the `sitecustomize` that would have run without it.
"""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STUBS = ("tfhet", "tfhet.watching", "tfhet.watching.inside")


def _install() -> None:
    """Imports the hooks by their file, because this environment may have no tfhet, or a slow disk."""
    inside = os.path.dirname(HERE)
    stub = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(STUBS[-1], None, is_package=True))
    stub.__path__ = [inside]
    sys.modules[STUBS[-1]] = stub
    for name in STUBS[:2]:
        sys.modules[name] = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, is_package=True))
    try:
        from tfhet.watching.inside import hooks

        is_trial = "TFHET_TRY" in os.environ
        hooks.install(os.environ["TFHET_WATCH"], hooks.TRIAL_HOOKS if is_trial else hooks.HOOKS)
    finally:
        for name in STUBS[:2]:  # an `import tfhet` of the script finds the real package
            del sys.modules[name]


def _continue() -> None:
    """Runs the next `sitecustomize` on the path in the place of this one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE or not path]
    del sys.modules["sitecustomize"]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        sys.modules["sitecustomize"] = _this
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_this = sys.modules[__name__]
if __name__ == "sitecustomize" and os.environ.get("TFHET_WATCH"):
    try:
        _install()
    except Exception as error:  # the script must run in any case
        try:
            with open(os.path.join(os.environ["TFHET_WATCH"], "errors.log"), "a", encoding="utf-8") as file:
                file.write(f"process {os.getpid()}: hooks were not installed: {type(error).__name__}: {error}\n")
        except OSError:
            pass
if __name__ == "sitecustomize":
    _continue()
