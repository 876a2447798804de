"""`nsa-harness run -- COMMAND` on commands of the shell and of Python without torch: real processes that end, fail, are killed,
stopped, stuck or slow. The controller that NSA_HARNESS_PROGRAM names."""

import concurrent.futures
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

PROGRAM = os.environ["NSA_HARNESS_PROGRAM"]

# Two ranks as a launcher would start them, in sessions of their own; the first that fails is told apart from the one that is ended.
LAUNCHER = """
import os, signal, subprocess, sys, time
environment = dict(os.environ, WORLD_SIZE="2")
ranks = [subprocess.Popen([sys.executable, "-c", code], env=dict(environment, RANK=str(rank)), start_new_session=True)
         for rank, code in enumerate(sys.argv[1:])]
while all(rank.poll() is None for rank in ranks):
    time.sleep(0.1)
failed = [rank for rank in ranks if rank.poll()]
for rank in ranks:
    if failed and rank.poll() is None:
        rank.send_signal(signal.SIGTERM)
sys.exit(1 if any([rank.wait() for rank in ranks]) else 0)
"""
# Two ranks in up to three lives, as torchrun starts them with --max-restarts 2.
RESTARTS = """
import os, subprocess, sys, time
for life in range(3):
    environment = dict(os.environ, WORLD_SIZE="2", TORCHELASTIC_RESTART_COUNT=str(life), TORCHELASTIC_MAX_RESTARTS="2")
    ranks = [subprocess.Popen([sys.executable, "-c", code], env=dict(environment, RANK=str(rank))) for rank, code in enumerate(sys.argv[1:])]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.1)
    if not any(rank.poll() for rank in ranks) and not any([rank.wait() for rank in ranks]):
        sys.exit(0)
    time.sleep(7)  # longer than peers are waited for if a rank has failed for good
    for rank in ranks:
        rank.terminate()
        rank.wait()
    time.sleep(7)
sys.exit(1)
"""
LIVES = "import os, time; time.sleep(1); life = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
WAIT = "import time; time.sleep(60)"
STUCK = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
RAISES = "import time; time.sleep(1); raise ValueError('bad batch')"
KILLED = "import os, time; time.sleep(1); os.kill(os.getpid(), 9)"
STOPPED = "import os, signal, time; time.sleep(1); os.kill(os.getpid(), signal.SIGSTOP)"
UNANSWERED = """
import socket
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(1)
socket.create_connection(server.getsockname()).recv(1)
"""
# Three children of a fork, each in a function of its own; their faulthandlers write to the file of their parent.
FORKS = """
import multiprocessing, time
def first():
    time.sleep(5000)
def second():
    time.sleep(5000)
def third():
    time.sleep(5000)
forks = [multiprocessing.get_context("fork").Process(target=one) for one in (first, second, third)]
for fork in forks:
    fork.start()
for fork in forks:
    fork.join()
"""
KILLS_KEEPER = """
import os, signal, subprocess, time
subprocess.Popen(['sleep', '613.25'], start_new_session=True)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
"""
# Started by somebody who is gone, in a session of its own, without an environment.
BARE = """
import os, signal, sys, time
def leave_bare(seconds):
    told, tells = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.closerange(3, tells)
        os.execve("/bin/sleep", ["sleep", seconds], {})  # closes `tells`
    os.close(tells)
    os.read(told, 1)
def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
"""
KILLS_KEEPER_OF_BARE = BARE + """
leave_bare("613.5")
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
"""
KILLS_ALL_ABOVE = BARE + """
leave_bare("613.75")
keeper = os.getppid()
controller = parent_of(keeper)
os.kill(keeper, signal.SIGSTOP)  # it does not learn of the controller's end
os.kill(controller, signal.SIGKILL)
os.kill(keeper, signal.SIGKILL)
time.sleep(60)
"""
# Ends a rank because another one failed, while the controller looks away.
ENDS_UNSEEN = BARE + """
import subprocess
controller = parent_of(os.getppid())
environment = dict(os.environ, WORLD_SIZE="2")
def rank(number, code):
    return subprocess.Popen([sys.executable, "-c", code], env=dict(environment, RANK=str(number)), stdin=subprocess.PIPE)
waits, raises = rank(0, "import time; time.sleep(60)"), rank(1, "import sys; sys.stdin.read(); raise ValueError('bad batch')")
time.sleep(2)  # the controller has met both
os.kill(controller, signal.SIGSTOP)
raises.stdin.close()
raises.wait()
waits.terminate()
waits.wait()
os.kill(controller, signal.SIGCONT)
time.sleep(1)
sys.exit(1)
"""
LEAVES = "import subprocess; subprocess.Popen(['sleep', '600.25'], start_new_session=True)"

# A rank that answers like PyTorch with NCCL: RECORDS are (sequence, elements, state); then it does REST.
ANSWERS = """
import os, pickle, sys, threading, time
rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
os.mkfifo(pipe)
asked = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
def answer():
    while True:
        time.sleep(0.2)
        if not os.read(asked, 128):
            continue
        print("preparing to dump debug info", file=sys.stderr, flush=True)
        entries = [{{"process_group": ("0", "default_pg"), "collective_seq_id": sequence, "profiling_name": "nccl:all_reduce",
                    "input_sizes": [[elements]], "input_dtypes": ["Float"], "state": state}} for sequence, elements, state in {records}]
        with open(os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] + rank, "wb") as file:
            pickle.dump({{"version": "2.10", "entries": entries}}, file, protocol=2)
threading.Thread(target=answer, daemon=True).start()
{rest}
"""
SPINS = "while True: pass"
COMPUTES = "end = time.monotonic() + 20\nwhile time.monotonic() < end: pass\nos._exit(0)"
# Its main thread never gives up the processor by itself, and outside Python; it prints more often than a silence lasts.
TALKS = """
import hashlib
def talk():
    while True:
        print("still here", flush=True)
        time.sleep(1.5)
threading.Thread(target=talk, daemon=True).start()
end = time.monotonic() + 9
while time.monotonic() < end:
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 300000)
os._exit(0)
"""
DONE, WAITS, OTHER = (1, 8, "completed"), (2, 8, "scheduled"), (2, 5, "started")


def answers(records, rest):
    return ANSWERS.format(records=records, rest=rest)


def ranks(*codes):
    return [sys.executable, "-c", LAUNCHER, *codes]


def again(*codes):
    return [sys.executable, "-c", RESTARTS, *codes]


FAILS_ONCE = LIVES + "assert life == 1, 'no shard'"
FAILS_TWICE = LIVES + "assert life == 2, 'no shard'"
FAILS_ALWAYS = LIVES + "raise ValueError('shard %d' % life)"


def python(code):
    return [sys.executable, "-c", textwrap.dedent(code)]


AT_ONCE = 6  # commands: with more, a rank that lives for a second is over before a busy controller has found it
# command, outcome, code, ranks of the first finding
TABLE = {
    "good": (python("pass"), "PASS", None, None),
    "exits_with_3": (["sh", "-c", "exit 3"], "CRASH", "CRASH.EXCEPTION", [0]),
    "raises": (ranks(WAIT, RAISES), "CRASH", "CRASH.EXCEPTION", [1]),
    "killed": (ranks(WAIT, KILLED), "CRASH", "CRASH.SIGNAL", [1]),
    "stopped": (ranks(WAIT, STOPPED), "HANG", "HANG.HOST", [1]),
    "stuck": (ranks(STUCK, STUCK), "HANG", "HANG.HOST", [0, 1]),
    "unanswered": (python(UNANSWERED), "HANG", "HANG.HOST", [0]),
    "sleeps": (python("import time; time.sleep(16)"), "PASS", None, None),
    "waits_for_a_child": (python("import subprocess; subprocess.run(['sh', '-c', 'sleep 16'])"), "PASS", None, None),
    "leaves_a_child": (python(LEAVES), "INCONCLUSIVE", None, None),
    "spins_for_a_peer": (ranks(answers([DONE, WAITS], SPINS), answers([DONE], STUCK)), "HANG", "HANG.HOST", [1]),
    "spins_for_another": (ranks(answers([DONE, WAITS], SPINS), answers([DONE, OTHER], SPINS)), "FAIL", "DESYNC.SIZE", None),
    "computes_beside_one_that_waits": (ranks(answers([DONE, WAITS], COMPUTES), answers([DONE], COMPUTES)), "PASS", None, None),
    "no_text": (python("import sys, time; sys.stderr.reconfigure(errors='surrogateescape'); raise OSError('caf\\udce9/shard')"), "CRASH", "CRASH.EXCEPTION", [0]),
    "wrapped": (["sh", "-c", f"{sys.executable} -c \"import time; time.sleep(2); raise ValueError('bad shard')\"; exit 4"], "CRASH", "CRASH.EXCEPTION", [0]),
    "wrapped_to_a_file": (["sh", "-c", f"{sys.executable} -c \"import time; time.sleep(2); raise ValueError('in a file')\" > FOLDER/printed 2>&1; exit 4"], "CRASH", "CRASH.EXCEPTION", [0]),
    "good_in_its_third_life": (again(FAILS_TWICE, FAILS_TWICE), "PASS", None, None),
    "good_in_its_second_life": (again(LIVES + "time.sleep(60 if life == 0 else 0)", FAILS_ONCE), "PASS", None, None),
    "fails_in_each_life": (again(LIVES, FAILS_ALWAYS), "CRASH", "CRASH.EXCEPTION", [1]),
    "cannot_start": (["without_interpreter"], "CRASH", "CRASH.EXCEPTION", [0]),
}


def without_interpreter(folder):
    """A script that may be executed, and that no system can start."""
    path = os.path.join(folder, "without_interpreter")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/no/such/interpreter\n")
    os.chmod(path, 0o755)
    return path


def judged(name, command, folder):
    if command == ["without_interpreter"]:
        command = [without_interpreter(folder)]
    command = [word.replace("FOLDER", folder) for word in command]
    options = ["--out", os.path.join(folder, name), "--db", os.path.join(folder, name + ".db"), "--json", "--quiet"]
    done = subprocess.run([PROGRAM, "run", *options, "--", *command], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{name}: exit {done.returncode}: {done.stderr}") from None


def running(word):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                found += [pid] if word in file.read() else []
        except OSError:
            pass
    return found


class Command(unittest.TestCase):
    def test_table(self):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            told = dict(zip(TABLE, pool.map(lambda name: judged(name, TABLE[name][0], folder), TABLE)))
        for name, (_, outcome, code, of_ranks) in TABLE.items():
            with self.subTest(name):
                (case,) = told[name]["cases"]
                self.assertEqual(case["outcome"], outcome, case)
                first = case["findings"][0] if case["findings"] else {"code": None, "site": {}}
                self.assertEqual(first["code"], code, case)
                self.assertEqual(first["site"].get("ranks"), of_ranks, case)
        self.assertIn("ValueError: bad batch", told["raises"]["cases"][0]["reason"])
        self.assertIn("rank 0: all_reduce, collective 2 of group default", told["spins_for_a_peer"]["cases"][0]["reason"])
        self.assertRegex(json.dumps(told["leaves_a_child"]), r"without nohup and &: \d+ \(sleep 600.25\)")
        self.assertEqual(running("600.25"), [])
        self.assertIn("ValueError: bad shard", told["wrapped"]["cases"][0]["reason"])
        self.assertIn("ValueError: in a file", told["wrapped_to_a_file"]["cases"][0]["reason"])
        self.assertIn("OSError: caf\ufffd/shard", told["no_text"]["cases"][0]["reason"])
        again_after = "the launcher had started the ranks again after rank "
        for name, lives in (("good_in_its_third_life", 2), ("good_in_its_second_life", 1), ("fails_in_each_life", 2)):
            reason = told[name]["cases"][0]["reason"]
            self.assertIn(again_after, reason)
            self.assertEqual(reason.count(", then after "), lives - 1, reason)
        self.assertRegex(told["fails_in_each_life"]["cases"][0]["reason"], "ValueError: shard 2.* Before that, .*ValueError: shard 0")

    def test_a_stall_is_asked_about_before_the_command_counts_as_silent(self):
        with tempfile.TemporaryDirectory() as folder:
            (case,) = judged("talks", ranks(answers([DONE], TALKS), answers([DONE], TALKS)), folder)["cases"]
            (path,) = glob.glob(os.path.join(folder, "talks", "*", "*", "command.err"))
            with open(path, encoding="utf-8") as file:
                self.assertIn("preparing to dump debug info", file.read())
        self.assertEqual(case["outcome"], "PASS", case)

    def test_who_was_ended_in_the_moment_in_which_another_one_failed_is_not_blamed(self):
        with tempfile.TemporaryDirectory() as folder:
            (case,) = judged("unseen", [sys.executable, "-c", ENDS_UNSEEN], folder)["cases"]
        causes = [(found["code"], found["site"].get("ranks")) for found in case["findings"] if found["role"] == "initiating"]
        self.assertEqual(causes, [("CRASH.EXCEPTION", [1])], case)

    def test_a_program_that_is_not_there_is_a_slip_and_no_crash(self):
        for word in ("torchrum", "/no/such/program", "/tmp"):
            with tempfile.TemporaryDirectory() as folder:
                command = [PROGRAM, "run", "--out", folder, "--db", os.path.join(folder, "runs.db"), "--", word, "train.py"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 3, done)
            self.assertEqual(len(done.stderr.splitlines()), 1, done)
            self.assertIn(f"-- COMMAND: found {word}, wanted a program", done.stderr)
            self.assertNotIn("worker", done.stderr)

    def test_children_of_a_fork_are_not_taken_for_each_other_or_for_their_parent(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "train.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(FORKS)
            (case,) = judged("forks", [sys.executable, script], folder)["cases"]
        self.assertIn("Rank 0: <module> (train.py:13): fork.join()", case["reason"])
        self.assertRegex(case["reason"], r"its child python\S* \d+ waits in clock_nanosleep for \d+ s more, in first \(train.py:4\)")
        self.assertRegex(case["reason"], r"and child python\S* \d+ waits in clock_nanosleep for \d+ s more, in second \(train.py:6\)")

    def test_attach_tells_what_stands_still_from_what_computes(self):
        commands = [python("print(flush=True); " + STUCK), python("print(flush=True)\nwhile True: pass")]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
        try:
            for process in processes:
                process.stdout.readline()
            wanted = {(0,): (1, "HANG.HOST @ rank 0"), (0, 1): (0, "no standstill")}
            for which, (code, words) in wanted.items():
                pids = [str(processes[number].pid) for number in which]
                done = subprocess.run([PROGRAM, "attach", "--seconds", "1", *pids], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(words, done.stdout)
                done = subprocess.run([PROGRAM, "attach", "--json", "--seconds", "1", *pids], capture_output=True, text=True, check=False)
                told = json.loads(done.stdout)
                self.assertEqual((told["exit_code"], told["ranks_seen"]), (code, len(which)))
                self.assertEqual([one["pid"] for one in told["ranks"]], [processes[number].pid for number in which])
        finally:
            for process in processes:
                process.kill()
                process.communicate()

    def test_what_a_command_leaves_that_killed_its_keeper_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run(
                [PROGRAM, "run", "--quiet", "--json", "--out", folder, "--db", folder + "/runs.db", "--", sys.executable, "-c", KILLS_KEEPER],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            (case,) = json.loads(told.stdout)["cases"]
            self.assertNotEqual(case["outcome"], "PASS", case)
        self.assertEqual(running("613.25"), [])

    def test_a_killed_keeper_is_told_as_such_and_nothing_is_left_below_it(self):
        with tempfile.TemporaryDirectory() as folder:
            (case,) = judged("keeper", [sys.executable, "-c", KILLS_KEEPER_OF_BARE], folder)["cases"]
        self.assertEqual(running("613.5"), [])
        self.assertEqual(case["outcome"], "ERROR", case)
        self.assertIn("the process of nsa-harness that keeps the command was ended by signal 9", case["reason"])
        self.assertEqual(case["findings"], [])

    def test_nothing_outlives_a_controller_that_is_killed_together_with_the_keeper(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [PROGRAM, "run", "--quiet", "--out", folder, "--db", folder + "/x.db", "--", sys.executable, "-c", KILLS_ALL_ABOVE]
            done = subprocess.run(command, timeout=60, check=False)
            self.assertEqual(done.returncode, -signal.SIGKILL)
            deadline = time.monotonic() + 60
            while running("613.75") and time.monotonic() < deadline:
                time.sleep(0.1)
        self.assertEqual(running("613.75"), [])

    def test_a_command_whose_controller_died_before_it_heard_of_it_is_ended(self):
        reader, writer = os.pipe()
        os.close(reader)
        keeper = ["bash", "-c", f'exec "$0" --keep-command sleep 600.875 3>&{writer}', PROGRAM]
        done = subprocess.run(keeper, pass_fds=[writer], timeout=60, check=False)
        os.close(writer)
        self.assertEqual(running("600.875"), [])
        self.assertEqual(done.returncode, -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main(verbosity=0)
