"""The pytest plugin of the package on verdicts that a program in the controller's place gives: this Python needs pytest, no torch."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

KERNEL = """
import nsa_harness
def window_attention(q, k, v):
    raise NotImplementedError
spec = nsa_harness.Spec(level="attend_win", heads=4, groups=2, d_k=16, d_v=16, window=16, dtypes=("fp32", "bf16", "fp16", "fp64"))
"""

REFUSES = """
def test_refused(nsa_validate):
    nsa_validate("my_kernel:window_attention", {"level": "attend_win"})
"""

# What the controller says of a case, by its type.
TOLD = {
    "fp32": (0, "PASS", "5 checks passed", []),
    "bf16": (1, "FAIL", "one check failed", [{"code": "NUMERIC.FORWARD", "site": {}, "statement": "a query sees a window of w + 1"}]),
    "fp16": (4, "SKIP", "needs 1 GPU, found none", []),
    "fp64": (2, "INCONCLUSIVE", "evidence is missing", []),
}

CONTROLLER = """
import json, sys
with open(sys.argv[2]) as file:
    told = json.load(file)
dtype = told["training"]["precision"]
exit, outcome, reason, findings = {told!r}[dtype]
reason += " thoroughly" if told["kernel"].get("thorough") else ""
case = {{"case": "window_attention/" + dtype, "outcome": outcome, "reason": reason, "findings": findings}}
print(json.dumps({{"exit": exit, "cases": [case], "report": "/reports/" + dtype + ".md", "run": "r"}}))
sys.exit(exit)
"""


def page():
    with open(os.path.join(ROOT, "docs", "your-kernel.md"), encoding="utf-8") as file:
        return re.search(r"<!-- tests/python/pytest_test.py runs this -->\n```python\n(.*?)```", file.read(), re.S).group(1)


class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        folder = cls.holder.name

        def write(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
            return path

        write("my_kernel.py", KERNEL)
        write("test_my_kernel.py", page() + REFUSES)
        program = write("controller", f"#!{sys.executable}\n" + CONTROLLER.format(told=TOLD))
        cls.junit = os.path.join(folder, "junit.xml")
        # An installed package is found by its entry point; this one is a folder on the path. Where a wheel is installed too, pytest
        # would load the same module twice, and refuse; other plugins may change what is printed.
        environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), NSA_HARNESS_PROGRAM=program)
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        environment.pop("PYTEST_ADDOPTS", None)
        command = [sys.executable, "-m", "pytest", "-p", "nsa_harness.pytest_plugin", "--junitxml", cls.junit, folder]

        def output_of(command):
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
            return done.stdout + done.stderr

        cls.output = output_of(command)
        cls.thorough = output_of([*command[:5], "--nsa-thorough", "-k", "fp32", folder])

    def test_each_case_is_a_test_of_its_own(self):
        self.assertIn("3 failed, 1 passed, 1 skipped", self.output)

    def test_a_failure_is_told_with_its_code_and_without_a_traceback(self):
        failures = self.output.split("= FAILURES =")[1].split("= nsa-harness =")[0]
        self.assertIn("FAIL  window_attention/bf16: one check failed\n  NUMERIC.FORWARD: a query sees a window of w + 1\n", failures)
        self.assertIn("INCONCLUSIVE  window_attention/fp64", failures)
        self.assertIn("spec: heads is missing", failures)
        self.assertNotIn("Traceback", failures)
        self.assertNotIn("pytest_plugin.py", failures)

    def test_the_summary_tells_what_passed_too(self):
        summary = self.output.split("= nsa-harness =")[1]
        self.assertIn("PASS  window_attention/fp32: 5 checks passed", summary)
        self.assertIn("/reports/fp32.md", summary)

    def test_thorough_trials_are_asked_for_on_the_command_line(self):
        self.assertIn("PASS  window_attention/fp32: 5 checks passed thoroughly", self.thorough)
        self.assertNotIn("thoroughly", self.output)

    def test_junit_has_codes_and_report(self):
        found = {}
        for case in xml.etree.ElementTree.parse(self.junit).iter("testcase"):
            found[case.get("name")] = {one.get("name"): one.get("value") for one in case.iter("property")}
        self.assertEqual(
            found["test_window_attention[bf16]"],
            {"nsa_harness_report": "/reports/bf16.md", "nsa_harness_codes": "NUMERIC.FORWARD"},
        )
        self.assertEqual(found["test_window_attention[fp32]"]["nsa_harness_codes"], "")


if __name__ == "__main__":
    unittest.main()
