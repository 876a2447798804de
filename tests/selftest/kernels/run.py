"""Runs each file in a process of its own and keeps what it printed.
    python run.py TREE [--thorough] [--jobs N] [--timeout SECONDS] [name ...]
PYTHONPATH is TREE/python; the rest of the environment (NSA_HARNESS_PROGRAM, NSA_HARNESS_DB, ...) is handed on as it is. Python:
BATTERY_PYTHON, else this one. Output: out/NAME.txt (out/thorough/NAME.txt). Names are prefixes."""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def one(path, args):
    folder = HERE / "out" / ("thorough" if args.thorough else "")
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": f"{pathlib.Path(args.tree).resolve()}/python", "BATTERY_THOROUGH": str(int(args.thorough))}
    begin, late = time.time(), False
    child = subprocess.Popen([os.environ.get("BATTERY_PYTHON", sys.executable), path.name], cwd=HERE, env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        out, _ = child.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        late = True
        os.killpg(child.pid, signal.SIGTERM)          # its own session: what we started here, nothing else
        try:
            out, _ = child.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
    seconds = time.time() - begin
    (folder / f"{path.stem}.txt").write_text(out + f"\n# exit {child.returncode}{' (timeout)' if late else ''} after {seconds:.1f} s\n")
    return path.stem, child.returncode, late, seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tree")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=400)
    args = parser.parse_intermixed_args()
    files = sorted(f for f in list(HERE.glob("k[0-9][0-9]_*.py")) + list(HERE.glob("r[0-9][0-9]_*.py"))
                   if not args.names or any(f.stem.startswith(n) for n in args.names))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, code, late, seconds in pool.map(lambda f: one(f, args), files):
            print(f"{name:36} exit {code}{' TIMEOUT' if late else ''} {seconds:6.1f} s", flush=True)
