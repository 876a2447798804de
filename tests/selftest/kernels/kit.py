"""What the main guards share: asks validate, prints one JSON object a line. The kernels themselves do not import it.
BATTERY_THOROUGH=1 asks for the thorough trials. If validate or Spec name that otherwise, change `ask`."""
import inspect
import json
import os
import time
import traceback


def plain(x):
    if isinstance(x, (str, int, float, bool)) or x is None:
        return x
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, set)):
        return [plain(v) for v in x]
    if hasattr(x, "__dict__") and vars(x):
        return {k: plain(v) for k, v in vars(x).items() if not k.startswith("_")}
    return str(x)


def ask(fn, spec):
    import nsa_harness
    if not int(os.environ.get("BATTERY_THOROUGH", "0")):
        return nsa_harness.validate(fn, spec)
    if "thorough" in inspect.signature(nsa_harness.validate).parameters:
        return nsa_harness.validate(fn, spec, thorough=True)
    import dataclasses
    return nsa_harness.validate(fn, dataclasses.replace(spec, thorough=True))


def tell(fn, spec):
    begin = time.time()
    row = {"kind": "verdict", "function": fn.__name__}
    try:
        verdict = ask(fn, spec)
    except Exception as error:                        # SpecError, RuntimeError: no verdict
        print(json.dumps({**row, "passed": None, "error": type(error).__name__, "message": str(error)[:2000]}), flush=True)
        traceback.print_exc()
        return
    row.update(passed=bool(verdict), seconds=round(time.time() - begin, 1), spec=str(spec)[:600],
               cases=plain(getattr(verdict, "cases", None)), report=str(getattr(verdict, "report", "")), run=str(getattr(verdict, "run", "")))
    print(json.dumps(row), flush=True)
    for f in verdict.findings:
        print(json.dumps({"kind": "finding", "function": fn.__name__, "code": str(f.code), "site": plain(f.site), "site_text": str(f.site),
                          "statement": str(f.statement), "trials": plain(f.trials)}), flush=True)
    print("# " + str(verdict).replace("\n", "\n# "), flush=True)
