"""What stands between a training and this package: an error of ours is reported once and never reaches the training, and in a
process that the training forks nothing of ours runs."""

import functools
import os
import sys
import traceback


class Hook(functools.partial):
    """A hook of ours that the script's module holds. In a copy of the module, also in a pickled one that is read without this package, a
    function of the standard library that does nothing stands in its place."""

    def __reduce__(self):
        return functools.partial, (sys.audit, "nsa_harness.hook")


class Guard:
    """`report` is called with the name of what failed and the error, once for each function that fails. It is not called again."""

    def __init__(self, report):
        self.is_on = True
        self._report = report
        self._failed = set()
        os.register_at_fork(after_in_child=self._let_go)

    def _let_go(self):
        self.is_on = False

    def __call__(self, function, otherwise=None):
        """`function`, which gives `otherwise` in place of raising an Exception."""
        name = function.__name__.strip("_")

        @functools.wraps(function)
        def guarded(*args, **kwargs):
            if not self.is_on or name in self._failed:
                return otherwise
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001: whatever it is, the training goes on
                self.failed(name, error)
            return otherwise

        return guarded

    def failed(self, name, error):
        """For what catches its errors itself."""
        if name in self._failed:
            return
        self._failed.add(name)
        try:
            self._report(name, error)
        except Exception:  # noqa: BLE001: then nothing can be reported
            self.is_on = False


def words_of(error):
    """Type, first line of the message and place of an error of ours, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    first = str(error).split("\n", 1)[0]
    return f"{type(error).__name__}{': ' if first else ''}{first[:300]}{place}"
