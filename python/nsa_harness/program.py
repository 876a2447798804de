"""The controller that came with this package."""

import os
import sys


def path():
    """NSA_HARNESS_PROGRAM, or the one in the package."""
    given = os.environ.get("NSA_HARNESS_PROGRAM")
    found = given or os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nsa-harness")
    if not os.access(found, os.X_OK):
        raise RuntimeError(f"{found}: there is no such program" + ("" if given else "; NSA_HARNESS_PROGRAM names another one"))
    return found


def main():
    """The console script nsa-harness: becomes the controller."""
    program = path()
    environment = dict(os.environ)
    environment.setdefault("NSA_HARNESS_PYTHON", sys.executable)
    try:
        os.execve(program, [program] + sys.argv[1:], environment)
    except OSError as error:
        sys.exit(f"nsa-harness: {program}: {error.strerror}")
