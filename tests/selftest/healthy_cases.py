#!/usr/bin/env python3
"""Healthy cases of drawn configurations: every one must pass, or it is a false alarm.

    tests/selftest/healthy_cases.py NSA_HARNESS [--kind attention|training|decode] [--count 100] [--seed 1] [--keep FOLDER] [--narrow]
                                    [--packed] [--card]

Writes one scenario a configuration, runs them all and lists each with its outcome. Exit 1 on any outcome but PASS.
--narrow: 16-bit precisions alone. --card: on the first card, with widths and back ends that it has.
--packed: of training, sequences of several documents in every case, and what may be beside them.
attention: shapes, variants, inputs, gates, precision, poison, back end of the selected branch, length.
decode: shapes, variants, precision, back end of the selected branch, length, how much of it is the prompt.
training: shapes, variants, precision, steps, ranks, accumulation, static graph, search for unused parameters, bucket size and
view, compression, checkpointed layers, form and kept blocks, loss mask, packed documents, tied head, replicated
inputs, dropout.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile


def pick(numbers, *values):
    return numbers.choice(values)


def model(numbers):
    d = pick(numbers, 1, 2, 4, 8)
    l = d * pick(numbers, 1, 2, 4)
    l_sel = d * pick(numbers, 1, 2, 4, 8)
    groups = pick(numbers, 1, 2, 3)
    init, local = pick(numbers, 0, 1, 2), pick(numbers, 1, 2, 3)
    values = {
        "dim": pick(numbers, 8, 12, 24, 32), "n_layers": pick(numbers, 1, 2), "n_heads": groups * pick(numbers, 1, 2, 3),
        "n_kv_groups": groups, "d_k": pick(numbers, 4, 8, 16), "d_v": pick(numbers, 4, 8, 12), "l": l, "d": d, "l_sel": l_sel,
        "n_sel": init + local + pick(numbers, 0, 1, 2, 3), "w": pick(numbers, 1, 5, 16, 31), "init_blocks": init,
        "local_blocks": local, "rope_scale": pick(numbers, 1, 1, 2, 4), "gate": pick(numbers, "group_softmax", "group_softmax", "head_sigmoid"),
        "phi": pick(numbers, "avg", "conv", "mlp"), "eq9": pick(numbers, "fractional", "overlap"), "vocab_size": 256,
        "gate_temp": pick(numbers, 1, 0.5, 2)}
    return values


def length(numbers, m):
    edges = [1, m["l"] - 1, m["l"], m["l"] + 1, m["l_sel"] - 1, m["l_sel"], m["l_sel"] + 1, m["w"], m["w"] + 1, 2 * m["w"], 61, 127, 160]
    return max(1, pick(numbers, *edges))


def precision_of(numbers, options, *narrow):
    return pick(numbers, *narrow) if options.narrow or options.card else pick(numbers, "fp32", "fp32", "fp64", *narrow)


def requires(options):
    return "requires: {memory_gib: 2" + (", gpus: 1, gpu_memory_gib: 2}" if options.card else "}")


def training(name, numbers, options):
    m = model(numbers)
    m["n_layers"] = pick(numbers, 1, 2, 3)
    replicated = pick(numbers, "false", "false", "true")
    ranks = pick(numbers, 1, 2, 2, 3, 4)
    precision = precision_of(numbers, options, "bf16", "fp16", "bf16_autocast")
    m["tied_head"] = pick(numbers, "false", "true") if precision in ("fp32", "fp64") else "false"
    m["dropout"] = pick(numbers, 0, 0, 0.1, 0.5)
    static, unused = pick(numbers, "false", "true"), pick(numbers, "false", "true")
    layers = numbers.sample(range(m["n_layers"]), numbers.randrange(m["n_layers"] + 1))
    mode = pick(numbers, "functional", "nested")
    if unused == "true" and static == "false":
        mode = "functional"  # with a nested backward the reducer itself refuses: scenarios/ddp_static_graph.yaml
    accumulate = pick(numbers, 1, 1, 2, 3, 4)
    steps, batch_size = pick(numbers, 1, 2, 3), pick(numbers, 1, 2)
    seq_len, loss_mask = max(2, length(numbers, m)), pick(numbers, "none", "ragged")
    packed, of_packed = 1, random.Random(f"{options.seed} {name}")  # of its own: the other draws are what they were without it
    if options.packed:
        precision, loss_mask, layers, seq_len = pick(of_packed, "fp32", "fp64"), "none", [], max(4, seq_len)
    if seq_len >= 4 and loss_mask == "none" and not layers and precision in ("fp32", "fp64"):
        packed = of_packed.randrange(2 if options.packed else 1, min(8, seq_len // 2) + 1)
    if static == "true" and mode == "nested":
        accumulate = 1  # known there as well
    lines = [
        "version: 1", f"scenario: {name}", "about: A drawn configuration in which nothing is wrong.", "kind: training",
        "model: {" + ", ".join(f"{k}: {v}" for k, v in m.items()) + "}",
        f"training: {{steps: {steps}, batch_size: {batch_size}, seq_len: {seq_len}, "
        f"precision: {precision}, accumulate: {accumulate}, "
        f"data: {{loss_mask: {loss_mask}, replicated: {replicated}, packed: {packed}}}}}",
        f"parallel: {{{'device: cuda, ranks: 1' if options.card else f'ranks: {ranks}'}, ddp: {{static_graph: {static}, find_unused: {unused}, "
        f"bucket_mb: {pick(numbers, 25, 0.001, 0.01, 0.1)}, gradient_as_bucket_view: {pick(numbers, 'false', 'true')}, "
        f"compress: {pick(numbers, 'none', 'none', 'none', 'bf16')}}}, checkpoint: {{layers: {layers}, mode: {mode}, "
        f"keep_blocks: {pick(numbers, 'false', 'true')}}}}}",
        f"seed: {numbers.randrange(10000)}", "budget: {seconds: 90, cores: 2}", requires(options),
        f"checks: [{'decisions_agree, ' if replicated == 'true' and ranks > 1 and not options.card else ''}"
        f"{'buckets_as_asked, ' if steps > 2 else ''}"  # before, all gradients may be one bucket
        "checkpoint_equal, gradients_arrived, gradients_agree, matches_twin, collectives_agree, parameters_agree, "
        "data_distinct, close_to_oracle, step_is_oracle, selection_valid, unmutated, finite, optimizer_sound, "
        "machine_sound, repeats_equal, "
        "ran_route, process_clean, progress]"]
    return "\n".join(lines) + "\n"


def attention(name, numbers, options):
    m = model(numbers)
    route = pick(numbers, "reference", "reference", "masked", "packed", "gather")
    others = ["sdpa", "fa2", "fa2_varlen"] if options.card else ["reference", "sdpa"]
    win, cmp = pick(numbers, *others), pick(numbers, *others)
    if options.card:  # what FlashAttention-2 takes
        m["d_k"] = m["d_v"] = pick(numbers, 16, 32, 64)
    checks = ["repeats_equal", "close_to_oracle", "selection_valid", "causal", "finite", "unmutated", "ran_route", "process_clean", "progress"]
    if (route, win, cmp) != ("reference", "reference", "reference"):
        checks.insert(0, "close_to_reference")
    precision = precision_of(numbers, options, "bf16", "fp16")
    s = length(numbers, m)
    if s == 1:
        checks.remove("causal")  # one position has no future
    lines = [
        "version: 1", f"scenario: {name}", "about: A drawn configuration in which nothing is wrong.", "kind: attention",
        "model: {" + ", ".join(f"{k}: {v}" for k, v in m.items()) + "}",
        f"training: {{batch_size: {pick(numbers, 1, 2)}, seq_len: {s}, precision: {precision}}}",
        f"attention: {{inputs: {pick(numbers, 'normal', 'large_logits', 'ties', 'integers', 'one_hot', 'equal_keys')}, "
        f"gate: {pick(numbers, 'learned', 'learned', 'cmp', 'sel', 'win', 'all')}, poison: {pick(numbers, 'false', 'false', 'true')}, "
        f"prefix: {pick(numbers, 0.1, 0.5, 0.9)}}}",
        f"parallel: {{ranks: 1{', device: cuda' if options.card else ''}}}", f"route: {{attend_sel: {route}, attend_win: {win}, attend_cmp: {cmp}}}",
        f"seed: {numbers.randrange(10000)}", "budget: {seconds: 60, cores: 1}", requires(options),
        "checks: [" + ", ".join(checks) + "]"]
    return "\n".join(lines) + "\n"


def decode(name, numbers, options):
    m = model(numbers)
    if options.card:
        m["d_k"] = m["d_v"] = pick(numbers, 16, 32, 64)
    lines = [
        "version: 1", f"scenario: {name}", "about: A drawn configuration in which nothing is wrong.", "kind: decode",
        "model: {" + ", ".join(f"{k}: {v}" for k, v in m.items()) + "}",
        f"training: {{batch_size: {pick(numbers, 1, 2)}, seq_len: {max(3, length(numbers, m))}, "
        f"precision: {precision_of(numbers, options, 'bf16', 'fp16')}}}",
        f"attention: {{prefix: {pick(numbers, 0.01, 0.1, 0.5, 0.9)}}}",
        f"parallel: {{ranks: 1{', device: cuda' if options.card else ''}}}",
        f"route: {{attend_sel: {pick(numbers, 'reference', 'masked', 'packed', 'gather')}}}",
        f"seed: {numbers.randrange(10000)}", "budget: {seconds: 60, cores: 1}", requires(options),
        "checks: [decode_equal, close_to_oracle, selection_valid, reads_count, finite, unmutated, ran_route, process_clean, progress]"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kind", choices=["attention", "training", "decode"], default="attention")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="")
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--card", action="store_true")
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(options.count):
            name = f"healthy_{i:04d}"
            (folder / f"{name}.yaml").write_text(globals()[options.kind](name, numbers, options))
        done = subprocess.run([options.program, "run", str(folder), "--db", scratch + "/r.db", "--quiet", "--json"],
                              capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    cases = json.loads(done.stdout)["cases"]
    alarms = [case for case in cases if case["outcome"] != "PASS"]
    for case in cases:
        print(case["outcome"], case["scenario"], f"{case['seconds']:.1f}s", "" if case["outcome"] == "PASS" else case["reason"][:300])
    print(f"{len(cases)} healthy cases, {len(alarms)} alarms")
    sys.exit(1 if alarms or len(cases) != options.count else 0)


main()
