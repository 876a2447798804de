#!/usr/bin/env python3
"""Does the oracle's test suite notice a wrong term? One mutant, one wrong term.

Patches a copy of oracles/ in a temporary folder, compiles the oracle and its tests there (g++ -O1)
and runs them: killed if a test fails or the program dies, survived if all pass. Objects that a
mutant does not touch are compiled once. Needs the built nsa_base of a build tree (the tests read the
golden files through it).

    tests/oracles/mutants.py [--build build/full] [--lock FILE] [--jobs 2] [--only PART] [--keep DIR]

Ends with 1 where a mutant survived, and with 2 where one no longer fits the sources."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-w"]
LIBRARIES = ["-lgtest", "-lgmock", "-lgtest_main", "-lyaml-cpp"]
RUN_LIMIT_S = 600  # a run takes seconds; a mutant may loop

# (file in oracles/, text that occurs exactly once, what stands there instead)
MUTANTS = [
    # attend: forward
    ("attention/attend.cpp", "logit /= root;", "logit /= 1;"),
    ("attention/attend.cpp", "std::exp(*p - largest)", "std::exp(*p)"),
    ("attention/attend.cpp", "*p /= sum;", "*p /= sum + 1e-9;"),
    # attend: backward
    ("attention/attend.cpp", "(dp_hK[k] - mean) / root", "(dp_hK[k] - mean)"),
    ("attention/attend.cpp", "(dp_hK[k] - mean) / root", "dp_hK[k] / root"),
    ("attention/attend.cpp", "multiply_add(transposed(p), do_hV, rows_of(gradients.dv_NV, piece, bank.d_v()));", ""),
    ("attention/attend.cpp", "multiply_add(transposed(ds), q_hD, rows_of(gradients.dk_ND, piece, bank.d_k()));", ""),
    ("attention/attend.cpp", "multiply_add(ds, bank.keys(piece), gradients.dq_hD);", ""),
    # backward
    ("attention/backward.cpp", "for (const Branch branch : kBranches) {\n        run_row(",
     "for (const Branch branch : {Branch::cmp, Branch::sel}) {\n        run_row("),
    ("attention/backward.cpp", "for (const Branch branch : kBranches) {\n        run_row(",
     "for (const Branch branch : {Branch::sel, Branch::win}) {\n        run_row("),
    ("attention/backward.cpp", "for (const Branch branch : kBranches) {\n        run_row(",
     "for (const Branch branch : {Branch::cmp, Branch::win}) {\n        run_row("),
    ("attention/backward.cpp", "row = lane; row <", "row = lane + kLanes; row <"),
    ("attention/backward.cpp", "result.gate.data[g] * d_o.data[c];", "d_o.data[c];"),
    ("attention/backward.cpp", "gradients.gate.data[g] += d_o", "gradients.gate.data[g] = d_o"),
    ("attention/backward.cpp", "rotate(dz, config, rows, Turn::backward);", "rotate(dz, config, rows, Turn::forward);"),
    ("attention/backward.cpp", "rotate(dz, config, rows, Turn::backward);", ""),
    ("attention/backward.cpp", "unrotated(dq, layer.config, in.rows)", "dq"),
    ("attention/backward.cpp", "if (gate_is_constant) {", "if (false) {"),
    ("attention/backward.cpp", "add_input_gradient(merged, layer.weight(name), dx, layer.threads);", ""),
    ("attention/backward.cpp", "scatter_rows(dx_rows, in.rows, gradients.x);", ""),
    # block scores
    ("attention/block_scores.cpp", "Eq9::fractional ? config.l : config.d", "Eq9::fractional ? config.l_sel : config.d"),
    ("attention/block_scores.cpp", "Eq9::fractional ? config.l : config.d", "Eq9::fractional ? config.l : config.l"),
    ("attention/block_scores.cpp", "first = i * config.d / config.l_sel;", "first = i * config.d / config.l_sel + 1;"),
    ("attention/block_scores.cpp", "p_hC[head * count + c] * entry.weight", "p_hC[c] * entry.weight"),
    # compression
    ("attention/compress.cpp", "sum : sum / static_cast<double>(config.l)", "sum : sum / static_cast<double>(config.d)"),
    ("attention/compress.cpp", "share = 1 / static_cast<double>(config.l)", "share = 1 / static_cast<double>(config.d)"),
    ("attention/compress.cpp", "dconv->data[c * config.l + j] +=", "dconv->data[c * config.l + j] ="),
    ("attention/compress.cpp", "conv->data[c * config.l + j] * value : value", "conv->data[(c + 1) * config.l - 1 - j] * value : value"),
    ("attention/compress.cpp", "dpe.data[k] += ", "dpe.data[k] = "),
    ("attention/compress.cpp", "raw.data[from + k] + pe.data[k]", "raw.data[from + k]"),
    ("attention/compress.cpp", 'which == PhiOf::keys ? "phi_k" : "phi_v"', 'which == PhiOf::keys ? "phi_k" : "phi_k"'),
    # gate
    ("attention/gate.cpp", "std::exp((*value - largest) / temperature)", "std::exp(*value - largest)"),
    ("attention/gate.cpp", "(dgate.data[k] - mean) / temperature", "(dgate.data[k] - mean)"),
    ("attention/gate.cpp", "(dgate.data[k] - mean) / temperature", "dgate.data[k] / temperature"),
    ("attention/gate.cpp", "add_mean_gradient(dmean, dq_BGhRD);", ""),
    ("attention/gate.cpp", "dmean_BGRD.data[group * size + k] / static_cast<double>(heads);", "dmean_BGRD.data[group * size + k];"),
    ("attention/gate.cpp", "gate_value.data[i] * (1 - gate_value.data[i])", "gate_value.data[i]"),
    ("attention/gate.cpp", 'add_input_gradient(projected, layer.weight("gate.proj.weight"), dx_BRE, layer.threads);', ""),
    ("silu.h", "return s * (1 + z * (1 - s));", "return s * (1 + z * s);"),
    # keys
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w), t + 1);"),
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w + 2), t + 1);"),
    ("attention/keys.cpp", "t - config.w + 1), t + 1);", "t - config.w + 1), t);"),
    ("attention/keys.cpp", "(t + 1 - config.l) / config.d + 1", "(t - config.l) / config.d + 1"),
    ("attention/keys.cpp", "(t + 1 - config.l) / config.d + 1", "(t + 1 - config.l) / config.d"),
    ("attention/keys.cpp", "std::min((block + 1) * config.l_sel, t + 1)", "(block + 1) * config.l_sel"),
    # selection
    ("attention/selection.cpp", "block > current - config.local_blocks", "block >= current - config.local_blocks"),
    ("attention/selection.cpp", "block < config.init_blocks", "block <= config.init_blocks"),
    ("attention/selection.cpp", "ordering_score(scores_N[a]) > ordering_score(scores_N[b])",
     "ordering_score(scores_N[a]) < ordering_score(scores_N[b])"),
    ("attention/selection.cpp", "std::stable_sort(candidates.begin(), candidates.end(),",
     "std::reverse(candidates.begin(), candidates.end());\n  std::stable_sort(candidates.begin(), candidates.end(),"),
    ("attention/selection.cpp", "scores_N[candidates[taken - 1]] -", "scores_N[candidates[0]] -"),
    # rope
    ("attention/rope.cpp", "-2.0 * static_cast<double>(c)", "-1.0 * static_cast<double>(c)"),
    ("attention/rope.cpp", "static_cast<double>(t) / config.rope_scale", "static_cast<double>(t)"),
    ("attention/rope.cpp", "even * cosines[table + c] - odd * sines", "even * cosines[table + c] + odd * sines"),
    # projections, forward
    ("attention/projections.cpp", "rotate(raw.k, config, all_positions(x.shape[1]), Turn::forward);", ""),
    ("attention/projections.cpp", "rotate(q, config, out.rows, Turn::forward);",
     "rotate(q, config, all_positions(out.sizes.rows), Turn::forward);"),
    ("attention/projections.cpp", '"W_V_" + name', '"W_V_cmp" + name.substr(3)'),
    ("attention/forward.cpp", "g[0] * result.o_cmp.data[c] + g[1] * result.o_sel.data[c]",
     "g[1] * result.o_cmp.data[c] + g[0] * result.o_sel.data[c]"),
    ("attention/forward.cpp", "if (!options.replay) {\n    state.attended = out.blocks;",
     "if (true) {\n    state.attended = out.blocks;"),
    # language model
    ("model/rms_norm.cpp", "kEpsilon = 1e-6", "kEpsilon = 1e-5"),
    ("model/rms_norm.cpp", " - pull * z.data[row + i];", ";"),
    ("model/rms_norm.cpp", "dgain.data[i] += ", "dgain.data[i] = "),
    ("model/rms_norm.cpp", "dz.data[row + i] += ", "dz.data[row + i] = "),
    ("model/cross_entropy.cpp", "tokens_BS.data[row + 1]", "tokens_BS.data[row]"),
    ("model/cross_entropy.cpp", "tokens_BS.shape.at(0) * (length - 1)", "tokens_BS.shape.at(0) * length"),
    ("model/cross_entropy.cpp", "(v == target ? 1 : 0)", "0"),
    ("model/cross_entropy.cpp", "(z[target] - largest)", "z[target]"),
    ("model/lm.cpp", "add(x, mlp(layer, x));", "x = mlp(layer, x);"),
    ("model/lm.cpp", "+= *from++", "= *from++"),
    ("model/lm.cpp", 'add_mlp_gradients(prefix, result.mlp_inputs[layer]', 'add_mlp_gradients(prefix, result.inputs[layer]'),
    ("model/lm.cpp", "options.replay = options_.replay[layer];", "options.replay = options_.replay[0];"),
    # training
    ("training/optimizer.cpp", "(1 - rate * config.weight_decay)", "1"),
    ("training/optimizer.cpp", "(1 - rate * config.weight_decay)", "(1 - config.weight_decay)"),
    ("training/optimizer.cpp", "decayed - rate * direction", "parameter.data[i] - rate * direction"),
    ("training/optimizer.cpp", "(std::sqrt(v.data[i] / second) + config.eps)", "std::sqrt(v.data[i] / second + config.eps)"),
    ("training/optimizer.cpp", "(m.data[i] / first)", "m.data[i]"),
    ("training/optimizer.cpp", "std::sqrt(v.data[i] / second)", "std::sqrt(v.data[i])"),
    ("training/optimizer.cpp", "max_norm / (norm + 1e-6)", "max_norm / norm"),
    ("training/optimizer.cpp", "std::min(1.0, max_norm / (norm + 1e-6))", "max_norm / (norm + 1e-6)"),
    ("training/optimizer.cpp", "step <= config.warmup", "step < config.warmup"),
    ("training/optimizer.cpp", "static_cast<double>(step - 1 - config.warmup)", "static_cast<double>(step - config.warmup)"),
    ("training/optimizer.cpp", "g *= factor;", ""),
    # bounds on the scores: too small, a term at a time
    ("attention/bounded.cpp", "z.error.data[i] + g * factor.data[i];", "z.error.data[i];"),
    ("attention/bounded.cpp", "z.error.data[i] + g * factor.data[i];", "g * factor.data[i];"),
    ("attention/bounded.cpp", "raw.error.data[i] + g * factor.data[i];", "raw.error.data[i];"),
    ("attention/bounded.cpp", "raw.error.data[i] + g * factor.data[i];", "g * factor.data[i];"),
    ("attention/bounded.cpp", "error[0] * cosine + error[1] * sine + turned", "error[0] * cosine + turned"),
    ("attention/bounded.cpp", "const double turned = (top[0] + top[1]) * e;", "const double turned = 0;"),
    ("attention/bounded.cpp", "arithmetic.summed += own;", ""),
    ("attention/score_bound.cpp", "k.error.data[i] + g * (size + k.error.data[i])", "k.error.data[i]"),
    ("attention/score_bound.cpp", "add(q_.error.data, head, k_size_, group, logits.error);", ""),
    ("attention/score_bound.cpp", "add(q_reach_, head, k_error_, group, logits.error);", ""),
    ("attention/score_bound.cpp", "error[c] + (6 + 6 * z) * u + common", "(6 + 6 * z) * u + common"),
    ("attention/score_bound.cpp", "(std::expm1(slack_[c]) + fall_) / lowest_", "std::expm1(slack_[c]) / lowest_"),
    ("attention/score_bound.cpp", "return sums + stores + sums * stores;", "return stores;"),
    ("attention/score_bound.cpp", "return sums + stores + sums * stores;", "return sums;"),
    # wrong laws that are wrong in another way than they say
    ("stage_projections.cpp", "pair.head * (config.d_k / 2) + pair.c", "pair.c"),
    ("stage_projections.cpp", "std::cos(a) * before - std::sin(a) * second", "std::cos(a) * before + std::sin(a) * second"),
    ("stage_projections.cpp", "own % (heads / groups) * groups + own / (heads / groups)", "own"),
    ("stage_compression.cpp", "j * width + c];", "k % span];"),
    ("stage_compression.cpp", "positions.push_back(i * in.config.d);", "positions.push_back(i);"),
    ("stage_scores.cpp", "left_out = law_.masked_late && ", "left_out = false && "),
    ("stage_scores.cpp", "kSentinel = -10000", "kSentinel = -1"),
    ("stage_scores.cpp", "c.l_sel / c.d * j + sm * m + sn * n == i", "c.l_sel / c.d * j + sm * m == i"),
    ("stage_choices.cpp", "other.init_blocks = 0;", ""),
    ("stage_choices.cpp", "fewer.n_sel -= 1;", ""),
    ("stage_attend.cpp", "std::log(2.0)", "1"),
    ("stage_attend.cpp", "right_root(in_.config) / law_.root(in_.config)", "law_.root(in_.config) / right_root(in_.config)"),
    ("stage_attend.cpp", "row % count + shift, 0,", "row % count - shift, 0,"),
    ("stage_gate.cpp", "(group + 1) % groups", "group % groups"),
    ("stage_gate.cpp", "k * in.config.n_heads + head;", "3 * head + k;"),
    ("stage_gate.cpp", "(gated ? r.gate.data[at + k] : 1)", "r.gate.data[at + k]"),
]


def run(command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


class Tree:
    """A copy of the oracle and its tests, and its objects."""

    def __init__(self, folder, build, jobs):
        self.folder, self.build, self.jobs = folder, build, jobs
        for part in ("oracles", "tests/oracles"):
            shutil.copytree(ROOT / part, folder / part)
        sources = sorted((folder / "oracles").rglob("*.cpp")) + sorted((folder / "tests/oracles").rglob("*_test.cpp"))
        self.objects = {source: folder / "objects" / (source.stem + ".o") for source in sources}
        (folder / "objects").mkdir()

    def compile(self, source, to, first_include=None):
        includes = [first_include] if first_include else []
        command = ["nice", "g++", *FLAGS, f'-DNSA_TEST_ROOT="{ROOT}"', f'-DNSA_TEST_BIN="{self.build}/bin"']
        for folder in [*includes, self.folder, ROOT]:
            command += ["-I", folder]
        done = run([*command, "-MMD", "-c", source, "-o", to])
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile:\n{done.stderr[-2000:]}")

    def compile_all(self):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda item: self.compile(*item), self.objects.items()))

    def link(self, objects, to):
        done = run(["g++", "-pthread", *objects, self.build / "nsa/libnsa_base.a", *LIBRARIES, "-o", to])
        if done.returncode != 0:
            raise RuntimeError(f"{to.name} does not link:\n{done.stderr[-2000:]}")

    def includers(self, name):
        """Sources that see oracles/`name`, itself included, from the compiler's dependency files."""
        wanted = f"oracles/{name}"
        for source, made in self.objects.items():
            if re.search(rf"(^|[/\s]){re.escape(wanted)}(\s|$)", made.with_suffix(".d").read_text()):
                yield source

    def mutated(self, number, name, old, new):
        """The program with one mutant. The patched file stands first among the include paths, and for a
        header every source that sees it is compiled again."""
        own = self.folder / f"mutant{number}"
        patched = own / "oracles" / name
        patched.parent.mkdir(parents=True)
        text = (self.folder / "oracles" / name).read_text()
        patched.write_text(text.replace(old, new))
        objects = dict(self.objects)
        for source in list(self.includers(name)):
            objects[source] = own / (source.stem + ".o")
            whole = self.folder / "oracles" / name
            self.compile(patched if source == whole else source, objects[source], own)
        self.link(objects.values(), own / "tests")
        return own / "tests"


def stale(mutants):
    found = []
    for name, old, _ in mutants:
        count = (ROOT / "oracles" / name).read_text().count(old)
        if count != 1:
            found.append(f"{name}: {count} times: {old}")
    return found


def verdict(program):
    """(killed?, by what)"""
    try:
        done = run([program, "--gtest_brief=1", "--gtest_fail_fast"], timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        return True, "still running"
    if done.returncode == 0:
        return False, ""
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
    return True, failed.group(1).rstrip(",") if failed else f"ended with {done.returncode}"


@contextlib.contextmanager
def locked(path):
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/full")
    options.add_argument("--lock", help="a file that is locked while compiling, not while testing")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", action="append", help="mutants of files whose name contains this")
    options.add_argument("--keep", type=pathlib.Path, help="work in this new folder and leave it")
    chosen = options.parse_args()
    mutants = [m for m in MUTANTS if not chosen.only or any(part in m[0] for part in chosen.only)]
    unfit = stale(mutants)
    if unfit:
        print("\n".join(["do not fit the sources:", *unfit]))
        return 2
    with contextlib.ExitStack() as stack:
        folder = chosen.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        return judge_all(folder, chosen, mutants)


def judge_all(folder, chosen, mutants):
    with locked(chosen.lock):
        begin = time.time()
        tree = Tree(folder, chosen.build.resolve(), chosen.jobs)
        tree.compile_all()
        tree.link(tree.objects.values(), tree.folder / "tests_right")
        with concurrent.futures.ThreadPoolExecutor(tree.jobs) as pool:
            programs = list(pool.map(lambda item: tree.mutated(item[0], *item[1]), enumerate(mutants)))
    print(f"{len(mutants)} mutants compiled in {time.time() - begin:.0f} s", flush=True)
    failed, by = verdict(tree.folder / "tests_right")
    if failed:
        print(f"the tests fail without a mutant: {by}")
        return 2
    survivors = 0
    for (name, old, new), program in zip(mutants, programs):
        killed, by = verdict(program)
        survivors += not killed
        print(f"{'killed  ' if killed else 'SURVIVED'} {name}: {old!r} -> {new!r} {by}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} killed, {time.time() - begin:.0f} s in all")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
