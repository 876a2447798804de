#!/usr/bin/env python3
"""Ranks that launchers start, tried with the launchers themselves: Open MPI, torchrun, Slurm, and two hosts made of network namespaces.

  several_hosts.py NSA_HARNESS [--with mpirun,torchrun,srun,namespaces] [--kills 3] [--seed 1] [--torchrun PROGRAM]

NSA_HARNESS: the program, built or installed, with its worker. In each way a small ddp_onestep must pass, a rank that is killed must be
named, and what only a launcher or a network can do must be told as that and never as a crash of a rank. After each trial no process of
it may be left. Slurm's daemons are started here and stopped again. What is missing on this machine is told and skipped; nothing is
installed. Exit: 0 all as it must be, 1 not, 77 everything was skipped.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
SMALL = ["--set", "model={use: toy, n_layers: 2, n_sel: 4, w: 128}", "--profile", "base"]
LONG = SMALL + ["--set", "training.steps=400", "--set", "checks=[process_clean, progress]"]
DEADLINE = 180  # seconds of any trial


def processes_with(words):
    """pid -> command line of all live processes whose command line or environment holds one of the words."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            line = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(word.encode() in line + environment for word in words):
            found[int(folder.name)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Trial:
    """One run of the program, in a folder of its own."""

    def __init__(self, where, args, launcher, more=()):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(where) / self.mark
        self.folder.mkdir()
        environment = dict(os.environ, NSA_HARNESS_DB=str(self.folder / "runs.db"), NSA_TRIAL=self.mark, **launcher.environment)
        command = [*launcher.prefix, args.program, "run", str(TREE / "scenarios/ddp_onestep.yaml"), *more, "--json", "--quiet",
                   "--out", str(self.folder / "runs"), "--launcher", launcher.words, *launcher.options]
        self.out = open(self.folder / "out", "w+")
        self.err = open(self.folder / "err", "w+")
        self.process = subprocess.Popen(command, stdout=self.out, stderr=self.err, env=environment, start_new_session=True)
        self.began = time.monotonic()

    def ranks(self, count):
        """The pids of the ranks, once all have begun."""
        while time.monotonic() - self.began < DEADLINE and self.process.poll() is None:
            found = {}
            for pid, line in processes_with([str(self.folder / "runs")]).items():
                words = line.split()
                if words and "nsa-harness-worker" in words[0] and "--rank" in words:
                    found[int(words[words.index("--rank") + 1])] = pid
            if len(found) == count:
                return found
            time.sleep(0.02)
        raise RuntimeError("the ranks did not start: " + self.text("err"))

    def wait_for_training(self):
        """Until a rank has begun its second step."""
        while time.monotonic() - self.began < DEADLINE and self.process.poll() is None:
            for events in (self.folder / "runs").glob("*/*/events.jsonl"):
                if '"step":2}' in events.read_text():
                    return
            time.sleep(0.05)
        raise RuntimeError("the ranks did not begin to train: " + self.text("err"))

    def text(self, name):
        return (self.folder / name).read_text()[-2000:]

    def end(self):
        """(exit code, outcome, reason, findings) once it has ended."""
        try:
            code = self.process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None, "TIMEOUT", self.text("err"), []
        try:
            case = json.loads((self.folder / "out").read_text())["cases"][0]
        except (ValueError, KeyError, IndexError):
            return code, "NONE", self.text("err"), []
        return code, case["outcome"], case["reason"], case["findings"]

    def left(self, within=25.0):
        """What is left of it after so many seconds, and after how many nothing was."""
        began = time.monotonic()
        while True:
            left = processes_with([self.mark])
            if not left or time.monotonic() - began > within:
                return left, time.monotonic() - began
            time.sleep(0.1)


class Launcher:
    def __init__(self, name, words, options=(), prefix=(), environment=None):
        self.name, self.words, self.options, self.prefix = name, words, list(options), list(prefix)
        self.environment = environment or {}


class Report:
    def __init__(self):
        self.bad = 0

    def tell(self, launcher, what, good, text, seconds, left):
        good = good and not left
        self.bad += not good
        print(f"{'ok ' if good else 'BAD'}  {launcher:<11} {what:<26} {seconds:6.1f} s  {text}"
              + (f"  LEFT: {left}" if left else ""), flush=True)


def try_healthy(args, launcher, report):
    trial = Trial(args.folder, args, launcher, SMALL)
    code, outcome, reason, _ = trial.end()
    seconds = time.monotonic() - trial.began
    left, _ = trial.left()
    report.tell(launcher.name, "healthy", code == 0 and outcome == "PASS", f"exit {code}, {outcome}: {reason[:300]}", seconds, left)


def disturbed(args, launcher, report, what, action, judge, ranks=2):
    """action(trial, pids) does something to a long run; judge(code, outcome, reason, findings) says whether that is told rightly."""
    trial = Trial(args.folder, args, launcher, [*LONG, "--set", f"parallel.ranks={ranks}"])
    try:
        pids = trial.ranks(ranks)
        if args.random.random() < 0.75:  # else while it loads its libraries, or meets the others
            trial.wait_for_training()
        time.sleep(args.random.uniform(0.0, 1.5))
        action(trial, pids)
    except (RuntimeError, OSError) as error:
        trial.process.kill()
        report.tell(launcher.name, what, False, str(error), 0.0, {})
        return
    began = time.monotonic()
    code, outcome, reason, findings = trial.end()
    seconds = time.monotonic() - began
    left, until = trial.left()
    text = f"exit {code}, {outcome}: {reason[:230]}"
    report.tell(launcher.name, what, judge(code, outcome, reason, findings), f"{text} (nothing left after {until:.1f} s)", seconds, left)


def is_error(*words):
    return lambda code, outcome, reason, findings: (code == 6 and outcome == "ERROR" and not findings
                                                    and all(word in reason for word in words))


def try_kills(args, launcher, report):
    for _ in range(args.kills):
        ranks = args.random.choice([2, 3])
        rank = args.random.randrange(ranks)

        def named(code, outcome, reason, findings, rank=rank):
            first = findings[0] if findings else {}
            return (code == 1 and outcome == "CRASH" and first.get("code") == "CRASH.SIGNAL"
                    and first.get("site", {}).get("ranks") == [rank])

        disturbed(args, launcher, report, f"rank {rank} of {ranks} killed",
                  lambda trial, pids, rank=rank: os.kill(pids[rank], signal.SIGKILL), named, ranks)


def kill_launcher(trial, pids):
    keeper = next(pid for pid, line in processes_with([trial.mark]).items() if "--keep-command" in line)
    child = next(pid for pid in processes_with([trial.mark]) if parent_of(pid) == keeper)
    os.kill(child, signal.SIGKILL)


def try_ends(args, launcher, report):
    rank = args.random.randrange(2)
    disturbed(args, launcher, report, f"agent of rank {rank} killed",
              lambda trial, pids: os.kill(parent_of(pids[rank]), signal.SIGKILL), is_error(f"the link was lost to rank {rank}"))
    disturbed(args, launcher, report, "launcher killed", kill_launcher, is_error("launcher"))
    disturbed(args, launcher, report, "controller interrupted",
              lambda trial, pids: os.kill(controller_of(trial), signal.SIGINT),
              lambda code, outcome, reason, findings: code == 5 and reason == "interrupted")
    disturbed(args, launcher, report, "controller killed",
              lambda trial, pids: os.kill(controller_of(trial), signal.SIGKILL),
              lambda code, outcome, reason, findings: outcome == "NONE")


def controller_of(trial):
    """Behind `ip netns exec` it is the same process."""
    return trial.process.pid


# ---- Slurm ---------------------------------------------------------------------------------------------------------------


class Slurm:
    """A cluster of this one machine: munged, slurmctld, slurmd, with all they need in one folder."""

    NEEDED = ["munged", "mungekey", "slurmctld", "slurmd", "srun", "sinfo", "scontrol"]

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        (self.folder / "state").mkdir()
        (self.folder / "spool").mkdir()
        self.folder.chmod(0o755)
        self.config = self.folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        ports = [free_port(), free_port()]
        self.config.write_text(f"""ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
""")
        self.environment = {"SLURM_CONF": str(self.config)}

    def start(self):
        key = self.folder / "munge.key"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        self.run("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                 f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munged.log")
        self.run("slurmctld", "-D", "-f", str(self.config))
        self.run("slurmd", "-D", "-f", str(self.config))
        until = time.monotonic() + 60
        while time.monotonic() < until:
            told = subprocess.run(["sinfo", "--noheader", "--format=%t"], env=dict(os.environ, **self.environment),
                                  capture_output=True, text=True, timeout=30)
            if told.stdout.strip() == "idle":
                return
            time.sleep(0.5)
        raise RuntimeError("Slurm did not come up: " + told.stdout + told.stderr + (self.folder / "slurmctld.log").read_text()[-1500:])

    def run(self, *command):
        log = open(self.folder / (command[0] + ".out"), "w")
        self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,
                                             env=dict(os.environ, **self.environment)))
        time.sleep(0.5)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# ---- two hosts -----------------------------------------------------------------------------------------------------------


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Hosts:
    """Two network namespaces with a cable between them. The controller is on the first, rank 0 too, all other ranks on the second."""

    def __init__(self, folder):
        self.names = [f"nsa-{os.getpid()}-a", f"nsa-{os.getpid()}-b"]
        self.addresses = ["10.177.0.1", "10.177.0.2"]
        self.script = pathlib.Path(folder) / "two_hosts.sh"

    def start(self):
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns", self.names[1])
        for name, address in zip(self.names, self.addresses):
            ip("-n", name, "addr", "add", address + "/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
        # As a launcher for several hosts does it: each process learns which rank it is, and where it runs is not its concern.
        self.script.write_text(f"""#!/bin/sh
world=$1; shift
rank=0
while [ "$rank" -lt "$world" ]; do
  host={self.names[1]}; [ "$rank" = 0 ] && host={self.names[0]}
  RANK=$rank WORLD_SIZE=$world ip netns exec "$host" "$@" &
  rank=$((rank + 1))
done
wait
""")
        self.script.chmod(0o755)

    def mpirun(self):
        """Open MPI over both hosts: what it would start by ssh, it starts by a script."""
        remote = self.script.with_name("remote.sh")
        remote.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {self.names[1]} unshare --uts sh -c "hostname {self.names[1]}; $*"\n')
        remote.chmod(0o755)
        words = (f"mpirun --allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent {remote} --mca oob_tcp_if_include cable "
                 f"-H {self.addresses[0]}:1,{self.addresses[1]}:2 -n {{ranks}} -x NSA_HARNESS_CONTROLLER -x NSA_HARNESS_TOKEN")
        enter = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", f'hostname {self.names[0]}; exec "$@"', "sh"]
        return Launcher("two mpirun", words, ["--listen", self.addresses[0]], enter)

    def cut(self, up=False):
        ip("-n", self.names[1], "link", "set", "cable", "up" if up else "down")

    def stop(self):
        for name in self.names:
            ip("netns", "delete", name, check=False)

    def launcher(self):
        return Launcher("namespaces", f"{self.script} {{ranks}}", ["--listen", self.addresses[0]],
                        ["ip", "netns", "exec", self.names[0]])


def try_cut(args, hosts, launcher, report):
    disturbed(args, launcher, report, "cable cut", lambda trial, pids: hosts.cut(), is_error("the link was lost to rank 1"))
    hosts.cut(up=True)


def try_cable(args, hosts, report):
    launcher = hosts.launcher()
    try_cut(args, hosts, launcher, report)

    def cut_briefly(trial, pids):
        hosts.cut()
        time.sleep(4)
        hosts.cut(up=True)
        os.kill(pids[1], signal.SIGKILL)

    disturbed(args, launcher, report, "cable cut for 4 s, rank 1 killed", cut_briefly,
              lambda code, outcome, reason, findings: outcome == "CRASH" and findings[0]["site"].get("ranks") == [1])
    unlisted = Trial(args.folder, args, Launcher("namespaces", launcher.words, ["--join-within", "8"], launcher.prefix), SMALL)
    code, outcome, reason, findings = unlisted.end()
    report.tell("namespaces", "without --listen", is_error("rank 1")(code, outcome, reason, findings),
                f"exit {code}, {outcome}: {reason[:200]}", time.monotonic() - unlisted.began, unlisted.left()[0])


def try_own_folder(args, hosts, report):
    """The second host sees another folder under the same path."""
    script = hosts.script.with_name("own_folder.sh")
    other = tempfile.mkdtemp(prefix="several_hosts_")
    script.write_text(f"""#!/bin/sh
world=$1; shift
RANK=0 WORLD_SIZE=$world ip netns exec {hosts.names[0]} "$@" &
RANK=1 WORLD_SIZE=$world ip netns exec {hosts.names[1]} unshare -m sh -c '
  cp -a {args.folder}/. {other} && mount --bind {other} {args.folder} && exec "$@"' sh "$@" &
wait
""")
    script.chmod(0o755)
    launcher = hosts.launcher()
    trial = Trial(args.folder, args, Launcher("namespaces", f"{script} {{ranks}}", launcher.options, launcher.prefix), SMALL)
    code, outcome, reason, findings = trial.end()
    report.tell("namespaces", "folder not shared", is_error("rank 1", "all hosts share")(code, outcome, reason, findings),
                f"exit {code}, {outcome}: {reason[:300]}", time.monotonic() - trial.began, trial.left()[0])
    shutil.rmtree(other)


def missing(*programs):
    return [program for program in programs if shutil.which(program) is None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--with", dest="ways", default="mpirun,torchrun,srun,namespaces")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torchrun", default="torchrun")
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    args.random = random.Random(args.seed)
    os.environ.setdefault("NSA_HARNESS_TREE", str(TREE))
    report, tried = Report(), 0
    with tempfile.TemporaryDirectory(prefix="several_hosts_") as folder:
        args.folder = folder
        for way in args.ways.split(","):
            needed = {"mpirun": ["mpirun"], "torchrun": [args.torchrun], "srun": Slurm.NEEDED, "namespaces": ["ip", "unshare"]}[way]
            lacking = missing(*needed)
            if way in ("srun", "namespaces") and os.geteuid() != 0:
                lacking.append("root's rights")
            if lacking:
                print(f"skip {way}: not here: {', '.join(lacking)}")
                continue
            tried += 1
            try_way(way, args, report)
    return 77 if not tried else int(report.bad > 0)


def try_way(way, args, report):
    place = tempfile.mkdtemp(dir=args.folder)
    if way == "mpirun":
        words = "mpirun --oversubscribe --bind-to none -n {ranks}" + (" --allow-run-as-root" if os.geteuid() == 0 else "")
        everything(args, Launcher(way, words), report)
    elif way == "torchrun":
        words = f"{args.torchrun} --no-python --nproc-per-node {{ranks}} --master-port {free_port()}"
        everything(args, Launcher(way, words), report)
    elif way == "srun":
        cluster = Slurm(place)
        try:
            cluster.start()
            words = "srun --overcommit --ntasks {ranks} --export ALL"
            everything(args, Launcher(way, words, environment=cluster.environment), report)
        finally:
            cluster.stop()
    else:
        hosts = Hosts(place)
        try:
            hosts.start()
            everything(args, hosts.launcher(), report)
            try_cable(args, hosts, report)
            try_own_folder(args, hosts, report)
            if missing("mpirun"):
                print("skip mpirun over two namespaces: not here: mpirun")
            else:
                everything(args, hosts.mpirun(), report)
                try_cut(args, hosts, hosts.mpirun(), report)
        finally:
            hosts.stop()


def everything(args, launcher, report):
    try_healthy(args, launcher, report)
    try_kills(args, launcher, report)
    try_ends(args, launcher, report)


if __name__ == "__main__":
    sys.exit(main())
