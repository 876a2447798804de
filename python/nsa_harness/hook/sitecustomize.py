# Python imports a module of this name when it starts. `nsa-harness run --watch` puts this folder in front of PYTHONPATH, so it is this
# one. It waits until PyTorch's optimisers are imported and goes on in nsa_harness/first_forward.py, and until torch.distributed is, to say
# which rank the process is to be; then it imports the sitecustomize that Python would have found without it. Whatever is wrong here, the
# program starts as it would: an older Python may read this file.
import sys

OPTIMIZERS = "torch.optim.optimizer"
GROUPS = "torch.distributed.distributed_c10d"
SPAWN = "torch.multiprocessing.spawn"


class AfterImport(object):
    """Calls `after` with the module `wanted` once it was imported. Of a fork's child it does nothing."""

    def __init__(self, wanted, after):
        self.wanted = wanted
        self.after = after
        self.pid = os.getpid()
        self.is_asked = True

    def find_spec(self, name, path=None, target=None):
        if name != self.wanted or not self.is_asked or os.getpid() != self.pid:
            return None
        self.is_asked = False
        try:
            return self.watched(name, path, target)
        except Exception:
            return None  # the finders behind this one are asked

    def watched(self, name, path, target):
        specs = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if hasattr(finder, "find_spec"))
        spec = next(found for found in specs if found is not None)
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module):
            try:
                del loader.exec_module
                sys.meta_path.remove(self)
            except Exception:
                pass
            execute(module)
            try:
                self.after(module)
            except Exception:
                pass

        loader.exec_module = exec_module
        return spec


def package():
    """nsa_harness of the controller, also where this Python has none or another one. Its folder is never put where a script imports from."""
    import importlib.util

    if "nsa_harness" not in sys.modules:
        folder = os.path.dirname(OWN)
        spec = importlib.util.spec_from_file_location(
            "nsa_harness", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        module = sys.modules["nsa_harness"] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop("nsa_harness", None)
            raise
    import nsa_harness.first_forward

    return nsa_harness.first_forward


def alone(name):
    """A module of the package that needs none of the others."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("nsa_harness_" + name, os.path.join(os.path.dirname(OWN), name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arm_stacks():
    """The controller may ask for the stacks of every process of the command, also of loader workers and of what trains nothing."""
    alone("stacks").arm(os.environ["NSA_HARNESS_SOCKET"])


def announce_ranks(module):
    """A process whose environment has no RANK, such as a child of torch.multiprocessing.spawn, says its rank before it waits for its peers."""
    import functools

    join = module.init_process_group

    @functools.wraps(join)
    def init_process_group(*args, **kwargs):
        try:
            alone("rank_of_process").announce(args, kwargs)
        except Exception:
            pass
        return join(*args, **kwargs)

    module.init_process_group = init_process_group


def tell_errors_of_spawn(module):
    """An exception in a child of torch.multiprocessing.spawn never comes to sys.excepthook, and of several the parent prints one."""
    import functools

    wrap = module._wrap  # it ends a child whose function raised by SystemExit, when the traceback is written

    @functools.wraps(wrap)  # its name is what the parent sends to the child
    def _wrap(*args):
        try:
            return wrap(*args)
        except SystemExit as end:
            tell = getattr(sys.excepthook, "of_nsa_harness", None)
            if tell and isinstance(end.__context__, Exception):
                tell(end.__context__)
            raise

    module._wrap = _wrap


def watch_optimizers(module):
    """Reports each optimiser that a script makes to first_forward.py. A process that makes none, such as a launcher, loads nothing of ours."""
    import functools

    make, pid = module.Optimizer.__init__, os.getpid()

    @functools.wraps(make)
    def __init__(optimizer, *args, **kwargs):
        make(optimizer, *args, **kwargs)
        if os.getpid() != pid:
            return
        try:
            package().made(optimizer)
        except Exception:
            pass

    module.Optimizer.__init__ = __init__


try:
    import os

    OWN = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != OWN]
    if os.environ.get("NSA_HARNESS_SOCKET") and sys.version_info >= (3, 10) and OPTIMIZERS not in sys.modules:
        sys.meta_path.insert(0, AfterImport(OPTIMIZERS, watch_optimizers))
        sys.meta_path.insert(0, AfterImport(GROUPS, announce_ranks))
        sys.meta_path.insert(0, AfterImport(SPAWN, tell_errors_of_spawn))
        arm_stacks()
except Exception:
    pass

# The next one stands in the place of this one. Where there is none, the import fails, as it would without this one.
if sys.modules.get("sitecustomize") is not None:
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: E402, F401
