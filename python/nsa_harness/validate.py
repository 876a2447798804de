"""Hands a callable to the controller, which draws the cases, runs the callable in a process of its own and judges it."""

import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

from nsa_harness import program
from nsa_harness.spec import Spec, SpecError, told_of_spec

SERVING = "NSA_HARNESS_SERVING"  # set in the process that runs the kernel


@dataclasses.dataclass(frozen=True)
class Finding:
    code: str
    site: dict
    statement: str

    @property
    def trials(self):
        return self.site.get("detail", {}).get("trials", [])

    def __str__(self):
        return f"{self.code}: {self.statement}"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    outcome: str  # PASS, FAIL, CRASH, HANG, SLOW, OOM, ERROR, INCONCLUSIVE, SKIP
    reason: str
    findings: tuple

    def __str__(self):
        lines = [f"{self.outcome}  {self.name}: {self.reason}"]
        return "\n".join(lines + [f"  {finding}" for finding in self.findings])


@dataclasses.dataclass(frozen=True)
class Verdict:
    passed: bool  # every case passed
    cases: tuple
    report: str  # path of the report
    run: str  # its name in the database: nsa-harness explain RUN CASE

    def __bool__(self):
        return self.passed

    @property
    def findings(self):
        return [finding for case in self.cases for finding in case.findings]

    def __str__(self):
        return "\n".join([str(case) for case in self.cases] + [self.report])


def validate(fn, spec, *, thorough=False, out=None, db=None):
    """Judges `fn` (a callable that another process can import, or "module:name") against `spec`: a Spec or a dict.

    `thorough` tries lengths in the thousands, and takes a minute for each case on a CPU.
    `out` is the folder for this run's folder, `db` the database; without them they lie in your data folder.
    Raises SpecError where spec or callable cannot be used, RuntimeError where the harness itself could not run."""
    if os.environ.get(SERVING):
        raise RuntimeError(
            "validate() was called while the script was imported to find the kernel: "
            'put the call below `if __name__ == "__main__":`'
        )
    spec = Spec.of(spec)
    callable_name, origin = locate(fn)
    name = re.sub(r"[^a-z0-9_]", "_", callable_name.split(":")[1].lower())[:64]
    path = _kept(name, json.dumps(spec.document(name, callable_name, origin, thorough), indent=1), db)
    command = [program.path(), "run", path, "--json"]
    command += ["--out", out] if out else []
    command += ["--db", db] if db else []
    done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3:
        raise SpecError(told_of_spec(done.stderr))
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"nsa-harness ended with {done.returncode}: {done.stderr.strip()}") from None
    return _verdict(told)


def locate(fn):
    """("module:name", where it lies): the script if the module is __main__, else the folder that the module is imported from, "" if it is
    that of installed packages.

    Raises SpecError if no other process can import `fn`."""
    if isinstance(fn, str):
        if not re.fullmatch(r"[\w.]+:[\w.]+", fn):
            raise SpecError(f"callable: found {fn!r}, wanted module:name")
        return fn, _folder_of(fn.partition(":")[0])
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type):  # MyFunction.apply of an autograd.Function
        module, name = owner.__module__, f"{owner.__qualname__}.{fn.__name__}"
    else:
        module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not callable(fn) or not module or not name:
        raise SpecError(f"callable: found {fn!r}, which has no name to import it by; give it one in a module, or say 'module:name'")
    if "<lambda>" in name or "<locals>" in name:
        raise SpecError(f"callable: found {name}, which no other process can import; define it at the top of a module")
    found = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not fn and found != fn:
        raise SpecError(f"callable: {module}:{name} is another object than the one given; say 'module:name' of this one")
    if module != "__main__":
        return f"{module}:{name}", _folder_of(module)
    main = getattr(sys.modules["__main__"], "__file__", None)
    if not main:
        raise SpecError(f"callable: {name} is defined in an interactive session, which no other process can import; put it into a file")
    return f"__main__:{name}", os.path.abspath(main)


def _folder_of(module):
    """The folder that holds the module's top package; "" if it is installed, or found nowhere from here."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except ValueError:  # made without an import
        return ""
    packages = list(spec.submodule_search_locations or []) if spec else []
    file = packages[0] if packages else getattr(spec, "origin", None)
    folder = os.path.dirname(os.path.abspath(file)) if file and os.path.exists(file) else ""
    installed = [os.path.abspath(path) for path in sysconfig.get_paths().values()]
    return "" if folder in installed else folder


def _kept(name, text, db):
    """The path of a file with this text, beside the database: the report's commands run it again. Its name holds the text's hash."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    database = db or os.environ.get("NSA_HARNESS_DB") or os.path.join(data, "nsa-harness", "runs.db")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = os.path.join(os.path.dirname(os.path.abspath(database)), "kernels", digest)
    path = os.path.join(folder, name + ".yaml")
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise RuntimeError(f"cannot write {path}: {error.strerror}") from None
    return path


def _environment():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [here] + [os.path.abspath(folder) for folder in sys.path]
    return dict(os.environ, NSA_HARNESS_PYTHON=sys.executable, PYTHONPATH=os.pathsep.join(dict.fromkeys(folders)))


def _verdict(told):
    cases = tuple(
        Case(
            case["case"],
            case["outcome"],
            case["reason"],
            tuple(Finding(one["code"], one["site"], one["statement"]) for one in case["findings"]),
        )
        for case in told["cases"]
    )
    return Verdict(told["exit"] == 0, cases, told["report"], told["run"])
