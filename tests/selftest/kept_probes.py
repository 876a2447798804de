#!/usr/bin/env python3
"""What an adversary does to records: files of one run in another's folder, flipped bits, pipes and links at every position, secrets
in many forms, full disks, limits and signals; as root and as an ordinary user where this is root.

  tests/selftest/kept_probes.py NSA_HARNESS [--seed N]

A probe is wrong where a failed run looks better than it was, where something is destroyed, waited for or shown, or where the program
ends in a code that docs/commands.md does not give for it. Prints each wrong one, and "N probes, M wrong"; exit code 1 where M > 0."""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

SECRET = "q7Zk2Lr9Xw3hunter2"
CODES = {0, 1, 2, 3, 4, 5, 6}
FORMS = [
    "https://me:X@host/a", "postgresql://app:X@db:5432/r", "redis://:X@cache/0", "//svc:X@host", "see ftp://a:X@b now",
    "https://X0123456789@github.com/a", "Authorization: Bearer X", "authorization: bearer X", "Authorization: Basic X==",
    "Bearer X", "Proxy-Authorization: X", '{"Authorization": "token X"}', "Cookie: X", "ghp_X0123456789abcdefghijkl",
    "gho_X0123456789abcdefghijkl", "ghs_X0123456789abcdefghijkl", "github_pat_11AX0123456789abcdefgh", "glpat-X0123456789ab",
    "sk-X0123456789abcdef", "sk-proj-X0123456789abcdef", "sk-ant-X0123456789abcdef", "hf_X0123456789abcdefghijkl",
    "AKIAX0123456789ABCDEF", "xoxb-123-X0123456789", "xoxp-123-X0123456789", "npm_X0123456789abcdefghijklmnop",
    "pypi-AgX0123456789abcdefghij", "eyJhbGciOiJIUzI1NiJ9.eyJX0123.X0123456789", "AIzaX0123456789abcdefghijklmnop",
    "ya29.X0123456789abcdefghij", "sk_live_X0123456789", "SG.X0123456789abcdef.x", "dckr_pat_X0123456789abcd",
    "nvapi-X0123456789abcdef", "hvs.X0123456789abcdef", "https://hooks.slack.com/services/T0/B0/X",
    "-----BEGIN PRIVATE KEY-----\nX\n-----END PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nX", "--api-key=X",
    "--auth-token=X", "--password=X", "--token=X", "PASSWORD=X", "DB_PASSWORD='X'", "WANDB_API_KEY=X", "HF_TOKEN=X",
    "AWS_SECRET_ACCESS_KEY=X/a+b", '{"password": "X"}', "{'client_secret': 'X'}", "password: X", "secretKey=X", "dbPassword = X",
    "AccountKey=X==;Suffix=a", "https://a/b?sig=X&se=1", "access_token=X&e=1", "refresh_token: X", "auth=X", 'session_token="X"',
    "jwt=X", "dsn=X", "login failed (password='X')", "export MY_TOKEN=X; true",
]  # fmt: skip


class Probes:
    def __init__(self, program, seed):
        self.random = random.Random(seed)
        self.root = tempfile.mkdtemp(prefix="nsa_probes_")
        os.chmod(self.root, 0o755)
        self.program = os.path.join(self.root, "nsa-harness")
        shutil.copy(program, self.program)
        os.chmod(self.program, 0o755)
        self.count = 0
        self.wrong = 0
        self.user = None  # None: as who started this
        self.number = 0

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- tools ---------------------------------------------------------------------------------------------------------

    def home(self):
        self.number += 1
        path = os.path.join(self.root, f"home_{self.number}")
        os.mkdir(path)
        if self.user:
            os.chown(path, self.user, self.user)
        return path

    def start(self, words, home, variables=None, before=(), **more):
        environment = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, **(variables or {})}
        as_user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        return subprocess.Popen(
            [*before, *as_user, self.program, *words],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )

    def run(self, words, home, **more):
        """(exit code, stdout, stderr); code None: it did not end."""
        process = self.start(words, home, **more)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return None, out.decode(errors="replace"), err.decode(errors="replace")
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def probe(self, what, right, said=""):
        self.count += 1
        if not right:
            self.wrong += 1
            who = f"user {self.user}" if self.user else "me"
            print(f"WRONG ({who}) {what}\n  {said[:600]}")

    def command_run(self, home, script="exit 0", words=()):
        code, out, err = self.run(["run", "--quiet", "--", "sh", "-c", script, "sh", *words], home)
        return code, os.path.dirname(out.strip()), err

    def decision(self, home, *words):
        code, out, err = self.run(["report", "--format", "json", *words], home)
        return code, json.loads(out)["decision"] if code == 0 else "", err

    # ---- swapped files -------------------------------------------------------------------------------------------------

    def swapped(self, rounds):
        home = self.home()
        runs = {}
        for name, script in (("passed", "exit 0"), ("failed", "exit 3"), ("other", "exit 0"), ("killed", "kill -9 $$")):
            runs[name] = self.command_run(home, script)[1]
        parts = [
            ["01_sh/verdicts.jsonl"],
            ["01_sh/events.jsonl.zst"],
            ["01_sh/events.jsonl.zst", "01_sh/events.jsonl.hash"],
            ["01_sh/events.jsonl.zst", "01_sh/events.jsonl.hash", "01_sh/verdicts.jsonl"],
            ["01_sh/verdicts.jsonl", "end.json"],
            ["end.json"],
            ["run.json"],
            ["01_sh"],
            ["01_sh", "end.json"],
        ]
        for i in range(rounds):
            source, target = self.random.sample(sorted(runs), 2)
            part = parts[i % len(parts)]
            kept = runs[target] + ".kept"
            shutil.copytree(runs[target], kept)
            for name in part:
                at = os.path.join(runs[target], name)
                if os.path.isdir(at):
                    shutil.rmtree(at)
                    shutil.copytree(os.path.join(runs[source], name), at)
                else:
                    shutil.copy(os.path.join(runs[source], name), at)
            what = f"{part} of {source} in {target}"
            database = os.path.join(home, f"swapped_{i}.db")
            code, out, err = self.run(["db", "rebuild", runs[target], "--db", database], home)
            self.probe("db rebuild: " + what, code == 6 and runs[target] in err, f"{code} {out}{err}")
            code, out, err = self.run(["report", "--verify", runs[target] + "/report.md"], home)
            self.probe("verify: " + what, code == 6 and "DIFFERS" in out, f"{code} {out}{err}")
            before = self.decision(home, os.path.basename(runs[target]))[1]
            code, out, err = self.run(["judge", os.path.basename(runs[target])], home)
            touches = any(name not in ("end.json", "run.json") for name in part)
            self.probe("judge: " + what, code == 6 or not touches, f"{code} {out}{err}")
            if touches:
                after = self.decision(home, os.path.basename(runs[target]))[1]
                self.probe("decision after judge: " + what, before == after, f"{before} {after}")
            shutil.rmtree(runs[target])
            os.rename(kept, runs[target])

    # ---- flipped bits --------------------------------------------------------------------------------------------------

    def flip(self, path, first=0):
        with open(path, "r+b") as file:
            size = os.path.getsize(path)
            at = self.random.randrange(min(first, size - 1), size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << self.random.randrange(8))]))
        return at

    def flipped(self, rounds):
        home = self.home()
        for script in ("exit 0", "exit 3", "exit 0"):
            folder = self.command_run(home, script)[1]
        database = os.path.join(home, ".local/share/nsa-harness/runs.db")
        copy = os.path.join(home, "flipped.db")
        shutil.copy(database, copy)
        wanted = {verb: self.run([*verb, "--db", copy], home)[1] for verb in (("report",), ("explain", "2", "1"))}
        for _ in range(rounds):
            for beside in ("-wal", "-shm"):
                if os.path.exists(copy + beside):
                    os.remove(copy + beside)
            shutil.copy(database, copy)
            at = self.flip(copy, 100)
            for verb, text in wanted.items():
                code, out, err = self.run([*verb, "--db", copy], home)
                right = (code == 3 and copy in err) or (code == 0 and out == text)
                self.probe(f"{verb[0]}, byte {at} of the database", right, f"{code} {err}")
            check, out, err = self.run(["db", "check", "--db", copy], home)
            self.probe(f"db check, byte {at}", check in (0, 3), f"{check} {out}{err}")
        names = ["01_sh/verdicts.jsonl", "01_sh/events.jsonl.zst", "01_sh/events.jsonl.hash", "end.json", "run.json"]
        for i in range(rounds):
            path = os.path.join(folder, names[i % len(names)])
            shutil.copy(path, path + ".kept")
            at = self.flip(path)
            code, out, err = self.run(["db", "rebuild", folder, "--db", os.path.join(home, f"again_{i}.db")], home)
            self.probe(f"db rebuild, byte {at} of {path}", code in (3, 6) and folder in err, f"{code} {out}{err}")
            os.replace(path + ".kept", path)

    # ---- pipes, links and devices --------------------------------------------------------------------------------------

    def place(self, kind, at, victim):
        if kind == "pipe":
            os.mkfifo(at)
        elif kind == "link":
            os.symlink(victim, at)
        elif kind == "linked pipe":
            os.mkfifo(at + ".pipe")
            os.symlink(at + ".pipe", at)
        elif kind == "zero":
            os.symlink("/dev/zero", at)
        elif kind == "folder":
            os.mkdir(at)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                here = os.getcwd()
                os.chdir(os.path.dirname(at))
                listener.bind(os.path.basename(at))
                os.chdir(here)
        elif kind == "device":
            os.mknod(at, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.chmod(at, 0o666)

    @staticmethod
    def remove(at):
        for path in (at, at + ".pipe"):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.remove(path)

    def positions(self):
        home = self.home()
        folder = self.command_run(home, "exit 3")[1]
        victim = os.path.join(home, "victim")
        with open(victim, "w") as file:
            file.write("old")
        names = [os.path.relpath(os.path.join(at, name), folder) for at, _, found in os.walk(folder) for name in found]
        verbs = [
            ["judge", "last"],
            ["db", "rebuild", folder],
            ["report", "--verify", folder + "/report.md"],
            ["report", "--html", os.path.join(home, "page.html")],
            ["report", "--format", "perfetto"],
            ["explain", "last", "1"],
        ]
        for name in sorted(names):
            path = os.path.join(folder, name)
            for kind in ("pipe", "link", "linked pipe", "zero", "folder", "socket"):
                os.rename(path, path + ".kept")
                self.place(kind, path, victim)
                self.number += 1
                for verb in self.random.sample(verbs, 2):
                    more = ["--db", os.path.join(home, f"position_{self.number}.db")] if verb[1] == "rebuild" else []
                    code, out, err = self.run(verb + more, home)
                    with open(victim) as file:
                        whole = file.read() == "old"
                    self.probe(f"{verb[0]} {verb[1]}, {kind} as {name}", code in CODES and whole, f"{code} {out}{err}")
                self.remove(path)
                os.rename(path + ".kept", path)

    def outputs(self):
        home = self.home()
        self.command_run(home, "exit 3")
        out = os.path.join(home, "out")
        victim = os.path.join(home, "victim")
        kinds = ["pipe", "link", "folder", "socket", "linked pipe"] + ([] if os.geteuid() != 0 else ["device"])
        verbs = [
            ["report", "--out"],
            ["report", "--html"],
            ["report", "--format", "junit", "--out"],
            ["report", "--format", "perfetto", "--out"],
            ["db", "export", "1", "--out"],
        ]
        for verb in verbs:
            for kind in kinds:
                for planted in (out, out + ".part"):
                    with open(victim, "w") as file:
                        file.write("old")
                    os.chmod(victim, 0o666)
                    self.place(kind, planted, victim)
                    before = os.lstat(planted)
                    code, told, err = self.run([*verb, out], home)
                    after = os.lstat(planted)
                    with open(victim) as file:
                        whole = file.read() == "old"
                    same = (before.st_mode, before.st_ino, before.st_rdev) == (after.st_mode, after.st_ino, after.st_rdev)
                    written = kind == "device" and verb[0] != "db"
                    wanted = 0 if planted != out or written else 3
                    self.probe(f"{verb}, {kind} as {planted}", code == wanted and same and whole, f"{code} {told}{err}")
                    self.remove(planted)
                    self.remove(out)

    # ---- secrets -------------------------------------------------------------------------------------------------------

    def kept_bytes(self, home):
        kept = b""
        for at, _, names in os.walk(os.path.join(home, ".local")):
            for name in names:
                path = os.path.join(at, name)
                if name in ("command.out", "command.err") or not os.path.isfile(path):
                    continue  # what the command printed is its own
                with open(path, "rb") as file:
                    content = file.read()
                if name.endswith(".zst") and shutil.which("zstd"):
                    content = subprocess.run(["zstd", "-dcq"], input=content, stdout=subprocess.PIPE, check=True).stdout
                kept += content
        return kept

    def secrets(self):
        for form in FORMS:
            text = form.replace("X", SECRET)
            for where in ("argument", "variable"):
                home = self.home()
                words = [text] if where == "argument" else []
                variables = {"NCCL_EXTRA": text} if where == "variable" else None
                code, out, err = self.run(
                    ["run", "--quiet", "--", "sh", "-c", "exit 3", "sh", *words], home, variables=variables
                )
                shown = out + err
                for more in (["report"], ["report", "--format", "json"], ["explain", "last", "1"]):
                    shown += "".join(self.run(more, home)[1:])
                hidden = SECRET not in shown and SECRET.encode() not in self.kept_bytes(home)
                self.probe(f"{where} {form!r}", code == 1 and hidden, shown[-300:])
                shutil.rmtree(home)

    # ---- full disks, limits, signals -------------------------------------------------------------------------------------

    def disks(self):
        home = self.home()
        folder = self.command_run(home, "exit 0")[1]
        small = os.path.join(home, "small")
        os.mkdir(small)
        mounted = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", small], check=False, capture_output=True)
        if mounted.returncode != 0:
            print("no file system can be mounted here: full disks were not tried")
            return
        verbs = [
            ["run", "--quiet", "--db", small + "/x.db", "--", "true"],
            ["run", "--quiet", "--out", small + "/runs", "--", "true"],
            ["report", "--out", small + "/r"],
            ["report", "--html", small + "/r"],
            ["db", "export", "1", "--out", small + "/x.db"],
            ["db", "rebuild", folder, "--db", small + "/x.db"],
            ["db", "merge", os.path.join(home, ".local/share/nsa-harness/runs.db"), "--db", small + "/x.db"],
        ]
        for verb in verbs:
            for size in ("4k", "16k", "40k", "80k", "200k"):
                mount = f'mount -t tmpfs -o mode=777,size={size} tmpfs "{small}" && exec "$@"'
                code, out, err = self.run(verb, home, before=["unshare", "-m", "sh", "-c", mount, "sh"])
                small_enough = size != "4k" or verb[:2] == ["report", "--out"]  # a report may have less
                allowed = {5, 0} if small_enough else {5}
                self.probe(f"{verb} on {size}", code in allowed and (code == 0 or err != ""), f"{code} {out}{err}")

    def limits(self):
        home = self.home()
        folder = self.command_run(home, "exit 0")[1]
        verbs = [
            ["run", "--quiet", "--", "true"],
            ["report", "--out", home + "/r"],
            ["report", "--html", home + "/r"],
            ["db", "export", "1", "--out", home + "/x.db"],
            ["db", "rebuild", folder, "--db", home + "/y.db"],
        ]
        for verb in verbs:
            for blocks in (0, 1, 2, 8, 64):
                code, out, err = self.run(verb, home, before=["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh"])
                self.probe(f"{verb} with ulimit -f {blocks}", code in (0, 5) and (code == 0 or err), f"{code} {out}{err}")
                for name in ("r", "x.db", "y.db", "y.db-wal", "y.db-shm"):
                    self.remove(os.path.join(home, name))

    def signals(self, rounds):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            for ignored in (True, False):
                home = self.home()
                name = number.name.removeprefix("SIG")
                before = ["sh", "-c", f"trap '' {name}; exec \"$@\"", "sh"] if ignored else []
                process = self.start(["run", "--quiet", "--", "sleep", "1"], home, before=before)
                time.sleep(0.4)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                wanted = 0 if ignored else 5
                self.probe(f"{name}, ignored: {ignored}", process.returncode == wanted, f"{process.returncode} {out}{err}")
        for _ in range(rounds):
            home = self.home()
            process = self.start(["run", "--quiet", "--", "sleep", "0.2"], home, start_new_session=True)
            time.sleep(self.random.uniform(0.0, 0.4))
            process.kill()
            process.communicate(timeout=60)
            data = os.path.join(home, ".local/share/nsa-harness")
            if not os.path.exists(data + "/runs.db"):
                continue
            code, out, err = self.run(["db", "check"], home)
            self.probe("db check after a kill", code in (0, 3) and "internal" not in err, f"{code} {out}{err}")
            for name in os.listdir(data + "/runs") if os.path.isdir(data + "/runs") else []:
                if not os.path.exists(f"{data}/runs/{name}/run.json"):
                    continue
                code, out, err = self.run(["db", "rebuild", f"{data}/runs/{name}", "--db", home + "/x.db"], home)
                self.probe("db rebuild after a kill", code == 0, f"{code} {out}{err}")
        for harm in ('rm -f "$D"*', 'mv "$D" "$D.old"; cp "$D.old" "$D"', ': > "$D"'):
            home = self.home()
            variables = {"D": os.path.join(home, ".local/share/nsa-harness/runs.db")}
            code, out, err = self.run(["run", "--quiet", "--", "sh", "-c", harm], home, variables=variables)
            self.probe(f"a command that does {harm}", code == 5, f"{code} {out}{err}")

    def all(self, share):
        self.swapped(9 * share)
        self.flipped(25 * share)
        self.positions()
        self.outputs()
        self.limits()
        self.signals(5 * share)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    probes = Probes(os.path.abspath(given.program), given.seed)
    try:
        probes.all(2)
        probes.secrets()
        probes.disks()
        if os.geteuid() == 0:
            probes.user = 65534
            probes.all(1)
    finally:
        probes.close()
    print(f"{probes.count} probes, {probes.wrong} wrong (seed {given.seed})")
    return 1 if probes.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
