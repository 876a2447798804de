#!/usr/bin/env python3
"""Draws failures from scenarios/faults (file, place, seeds, strength), family after family, runs each in the model toy, diagnoses it
and compares what was established with what was planted.

    tests/selftest/diagnose.py NSA_HARNESS [--count 60] [--seed 1] [--budget 120] [--fault NAME ...]

Prints one line a failure, and a table. Right is told in three shares, with 95 % intervals (Wilson), and as their sum: *removed*, what is
established by taking it away; *recorded*, what one rank's own lines show; *reproduced*, a known mistake that gives the numbers.
Exit 1 when the sum is below 75 %, when more than 2 % of all are told wrong, or when the median takes longer than 60 s. What no check
saw, and what this machine cannot run, is told and drawn anew.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 900  # seconds of one command

CHECKPOINTING = "activation checkpointing"
ACCUMULATION = "gradient accumulation"
# What each file's name says that its failure depends on, beside the layers that it names.
OPTIONS = {
    "bucket_size_lost": ["the size of buckets"],
    "batch_variant": ["several sequences in a batch"],
    "clip_discarded": ["clipping"],  # of the norm that others get wrong nothing can be removed: it is computed in every step
    "doc_leak_compressed": ["packed documents"],
    "doc_leak_compressed_selected": ["packed documents"],
    "drop_partial_block": ["a last block that is not whole"],
    "flag_not_routed": ["sdpa in seam attend_cmp"],
    "fused_gate_ignores_override": ["the override of the gate"],
    "gc_autocast": [CHECKPOINTING],
    "gc_late_binding": [CHECKPOINTING],
    "gc_late_binding_nested": [CHECKPOINTING, "layer 2"],  # the last one, whose weights are bound
    "gc_nested": [CHECKPOINTING, "find_unused"],
    "gc_selection_flip": [CHECKPOINTING],
    "head_group_off_by_one": ["several groups of heads"],
    "heads_scrambled": ["several groups of heads", "several heads in a group"],
    "hook_dropped": ["compression between ranks"],
    "loss_mask_ignored": ["the mask of the loss"],
    "lr_microsteps": [ACCUMULATION],
    "missing_dk_tail": ["a last block that is not whole"],
    "no_sync_misplaced": [ACCUMULATION],
    "noncausal_pcmp": ["several heads in a group"],  # of one head the order of the scores is right
    "phi_v_wrong": ["the form of phi"],
    "rebuild_loses_accumulated": [ACCUMULATION],
    "rng_recompute": [CHECKPOINTING, "residual dropout"],
    "rng_same_on_ranks": ["residual dropout"],
    "rope_scale_ignored": ["rope_scale"],
    "scaler_skips": ["precision fp16"],
    "scaler_wrong": ["precision fp16"],  # no other type has a loss scale
    "scaler_wrong_growth": ["precision fp16"],
    "sched_on_skip": ["precision fp16"],
    "select_nondeterministic": ["the kind of inputs"],
    "silent_fallback": ["packed in seam attend_sel"],
    "static_accum": ["static_graph", ACCUMULATION],
    "static_no_delay": ["static_graph"],
    "tie_bias": ["the kind of inputs"],
    "tied_copy": ["the tied head"],
    "token_weighting": ["the mask of the loss", ACCUMULATION],
    "uninit_buffer": ["a last block that is not whole"],
    "uninit_buffer_backward": ["a last block that is not whole"],
    "uninit_buffer_varlen": ["sdpa in seam attend_win"],
    "varlen_tail": ["packed documents"],
    "window_trim_leak": ["the end of the window"],
}
# The law that makes the mistake of each file, where its expectation does not name it: read from the fault's source (harness/faults),
# not from what the tool answers. Several: each of them says the same mistake, of another stage or in another library of laws.
LAWS = {
    "average_missing": ["ranks_summed"],
    "averaged_twice": ["ranks_averaged_twice"],
    "bf16_params": ["p_kept_narrow"],
    "bypass_wrapper": ["rank_alone"],
    "comm_corrupt_rank": ["own_addends"],
    "doc_leak_compressed": ["compressed_of_other_documents"],
    "doc_leak_compressed_selected": ["blocks_of_sequence"],
    "double_rope": ["rope_twice"],
    "drop_partial_block": ["incomplete_current_left_out"],
    "dtype_promoted": ["rope_in_bfloat16"],
    "dtype_promoted_pooling": ["rounded_to_bfloat16"],
    "duplicate_pick_race": ["last_pick_only"],
    "eq9_shift": ["map_plus_n"],
    "eq9_sign": ["map_as_printed"],
    "finite_sentinel": ["finite_sentinel"],
    "first_key": ["top_left"],
    "flat_q_rope": ["rope_flat_heads"],
    "forced_dedup": ["forced_listed_twice"],
    "fp16_params": ["p_kept_narrow"],
    "fused_gate_ignores_override": ["learned"],
    "gate_zero_init": ["init_zero"],
    "head_group_off_by_one": ["next_groups_keys"],  # of the last head of each group
    "heads_scrambled": ["heads_as_rows"],
    "index_int32": ["offsets_begin_again"],
    "index_int32_keys": ["offsets_begin_again"],
    "lr_floor": ["never_falls", "lr_does_not_fall"],
    "lr_microsteps": ["micro_steps", "lr_of_micro_steps_before"],
    "mask_absent_short": ["no_mask"],
    "mask_polarity": ["inverted"],
    "no_learning": ["zero"],
    "noncausal_pcmp": ["normalised_over_all"],
    "optimizer_lazy_state": ["optimizer_restarted"],
    "param_init_skipped": ["init_zero"],
    "param_not_in_optimizer": ["step_skipped"],
    "phi_v_wrong": ["phi_exchanged"],  # of the values alone
    "rebuild_loses_accumulated": ["micro_alone_divided"],  # the last one of those before it is all that is left
    "rng_same_on_ranks": ["dropout_of_rank"],
    "rope_scale_ignored": ["rope_scale_ignored"],
    "same_data": ["data_rank_ignored"],
    "scaler_skips": ["step_skipped"],
    "sched_on_skip": ["skipped_steps", "lr_counts_skipped"],
    "score_bf16": ["scores_in_bfloat16"],
    "shared_kv": ["weights_of_win"],
    "tie_bias": ["ties_to_the_higher"],
    "transposed_lists_reused": ["lists_transposed"],
    "unshifted_labels": ["loss_of_same_token"],
    "value_split_delta": ["delta_twice"],
}
# The seam that each file's fault stands in (harness/faults), where there is a second implementation of it.
STAGES = {
    "attend_cmp": "doc_leak_compressed empty_row_nan empty_row_nan_backward finite_sentinel zero_grad_keys",
    "attend_sel": "autotune_pollutes doc_leak_compressed_selected duplicate_pick_race first_key head_group_off_by_one index_int32 "
                  "index_int32_keys invalid_pick_unmasked invalid_pick_unmasked_key mask_absent_short missing_dk_tail rank_graph "
                  "ranges_mutated transposed_lists_reused uninit_buffer uninit_buffer_backward value_split_delta wrong_dv_scale",
    "attend_win": "batch_variant heads_scrambled heads_scrambled_decode mask_polarity uninit_buffer_varlen varlen_tail "
                  "window_trim_leak",
    "compress": "dtype_promoted_pooling inplace_pack kcmp_detached phi_v_wrong rope_scale_ignored",
    "grad_sync": "average_missing averaged_twice buckets_crossed bypass_wrapper mismatch_completes no_sync_misplaced "
                 "rebuild_loses_accumulated reduce_low_precision reduce_low_precision_addends reduce_op_differs static_accum "
                 "static_no_delay",
    "score": "eq9_shift eq9_sign gc_selection_flip noncausal_pcmp score_bf16 score_cubed_fp16",
    "select": "drop_partial_block forced_dedup ranges_oob select_nondeterministic select_rank_differs tie_bias",
}
OF_TRANSPORT = ["comm_corrupt", "comm_corrupt_bucket", "comm_corrupt_rank"]
# Families of failures, by the code that a file expects. The first that fits.
FAMILIES = {
    "hang": "HANG SLOW DESYNC.MISSING CRASH",
    "ranks": "DESYNC COMM GRAD.NOT_REDUCED GRAD.SCALE GRAD.HOOK GRAD.NOT_FINALIZED STATE INFRA",
    "gradient": "NUMERIC.GRADIENT GRAD CKPT INPLACE",
    "memory": "MEM OOM",
    "determinism": "DETERMINISM RACE OBSERVER",
    "numeric": "DECODE NUMERIC MASK SELECTION CAUSALITY NAN ROUTE GATE RANGE ALIAS OVERFLOW",
    "data": "",
}
# The branch that stands in `fault.form`, where no finding names it.
BRANCHES = {"heads_scrambled_decode": "branch win"}
# How a cause that is told is known, by the status of its diagnosis.
HOW = {"established": "removed", "recorded": "recorded", "reproduced": "reproduced"}
# One rank does it, which its own record tells.
OF_ONE_RANK = ["data_exhausted", "host_memory", "loader_raises", "loader_repeats", "rank_killed", "rank_stopped",
               "rendezvous_incomplete", "slow_loader", "stale_build"]


def family(file):
    code = re.search(r"^expect:.*code: ([A-Z_.]+)", file.read_text(), re.M)
    begins = code.group(1) if code else ""
    return next(name for name, words in FAMILIES.items() if not words or begins.startswith(tuple(words.split())))


def interleaved(files):
    """One of each family, then the next one of each: a part of the list has all families."""
    families = {}
    for file in files:
        families.setdefault(family(file), []).append(file)
    rows = itertools.zip_longest(*families.values())
    return [file for row in rows for file in row if file is not None]


def share(part, whole):
    """"21 of 28, 75 % (57 to 87)" with the interval of Wilson."""
    if whole == 0:
        return "0 of 0"
    z, p = 1.96, part / whole
    middle, half = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    ends = [100 * (middle + sign * half) / (1 + z * z / whole) for sign in (-1, 1)]
    return f"{part} of {whole}, {100 * p:.0f} % ({max(ends[0], 0):.0f} to {min(ends[1], 100):.0f})"


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def said(words, folder):
    """The object that a command prints with --json, and its exit code; None where it printed none."""
    done = subprocess.run(words + ["--json"], capture_output=True, text=True, timeout=LONGEST, cwd=folder)
    try:
        return json.loads(done.stdout), done.returncode, done.stderr
    except ValueError:
        return None, done.returncode, done.stderr


def drawn(label, path):
    """The numbers that a case's label gives for `path`."""
    found = re.search(re.escape(path) + r"=\[?([0-9, ]+)", label)
    return [int(number) for number in found.group(1).replace(",", " ").split()] if found else []


def truth(name, text, label):
    """What may be told."""
    written = re.search(r"^fault:.*layers: \[([0-9, ]+)\]", text, re.M)
    layers = drawn(label, "fault.layers") or ([int(n) for n in written.group(1).split(",")] if written else [])
    allowed = list(OPTIONS.get(name, []))
    if name in BRANCHES:
        allowed.append(BRANCHES[name])
    if name in OF_ONE_RANK:
        ranks = drawn(label, "fault.rank") or [int(n) for n in re.findall(r"^fault:.*rank: ([0-9]+)", text, re.M)]
        allowed += [f"rank {rank}" for rank in ranks]
    if len(layers) == 1 and layers[0] > 0:
        allowed.append(f"layer {layers[0]}")
    allowed += [f"the code of {seam}" for seam, names in STAGES.items() if name in names.split()]
    if name in OF_TRANSPORT:
        allowed.append("the transport's own sums")
    # The mistake itself, where the file says which law it is.
    return allowed + [f"law {law}" for law in re.findall(r"^expect:.*law: (\w+)", text, re.M) + LAWS.get(name, [])]


def told(diagnosis):
    """What is told as the cause."""
    found = [one["removes"] for one in diagnosis["questions"] if one["answer"] == "established"]
    for sentence in diagnosis["because"]:
        by_record = re.match(r"It is (rank [0-9]+), as its own record shows", sentence)
        if by_record:
            found.append(by_record.group(1))
        by_law = re.match(r"The mistake is in .* itself: the (law \w+) gives", sentence)
        if by_law:
            found.append(by_law.group(1))
    return found


def diagnosed(program, file, seed, folder, budget):
    """What came of one drawn failure; a text where there was none."""
    where = ["--db", str(folder / "runs.db"), "--out", str(folder / "runs")]
    run, _, error = said([program, "selftest", str(file), "--seed", str(seed), "--quiet"] + where, folder)
    if run is None:
        return "cannot run: " + error.strip()[-150:]
    planted = run["cases"][0]
    begin, used = time.monotonic(), processor_seconds()
    object_, code, error = said([program, "diagnose", run["run"], "1", "--budget", str(budget), "--quiet"] + where, folder)
    if object_ is None:
        return f"no failure ({planted['outcome']}): " + error.strip()[-150:]
    took = time.monotonic() - begin
    if not object_.get("diagnoses"):
        return "not diagnosed: " + object_["cases"][0]["reason"][:150]
    diagnosis = object_["diagnoses"][0]
    allowed = truth(file.stem, file.read_text(), planted["case"])
    found = told(diagnosis)
    status = diagnosis["status"]
    if bool(found) != (status in HOW):
        sys.exit(f"{file.stem}: {status} does not fit {found}")
    wrong = [one for one in found if one not in allowed]
    verdict = "WRONG" if wrong else HOW.get(status, status)
    return {
        "verdict": verdict,
        "symptom": diagnosis["symptom"],
        "found": found,
        "allowed": allowed,
        "seconds": took,
        "processor": processor_seconds() - used,
        "family": family(file),
        "runs": sum(len(one["runs"]) for one in diagnosis["questions"]) + len(diagnosis["repeats"]),
        "finished": diagnosis["finished"],
        "because": diagnosis["because"],
        "unclear": [f"{one['removes']}: {one['says']}" for one in diagnosis["questions"] if one["answer"] == "unclear"],
        "code": code,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    files = sorted((ROOT / "scenarios/faults").glob("*.yaml"))
    files = [file for file in files if "\nparallel: {ranks: 1, device: cuda}" not in file.read_text()]
    if given.fault:
        files = [file for file in files if file.stem in given.fault]
    random_.shuffle(files)
    files = interleaved(files)
    rows = []
    for number in range(3 * max(given.count, len(files))):
        if len(rows) == given.count:
            break
        file = files[number % len(files)]
        with tempfile.TemporaryDirectory() as folder:
            row = diagnosed(os.path.abspath(given.program), file, random_.randrange(1000), pathlib.Path(folder), given.budget)
        if isinstance(row, str):
            print(f"-          {file.stem}: {row}", flush=True)
            continue
        rows.append(row)
        words = ", ".join(row["found"]) or "; ".join(row["because"])[:160]
        print(f"{row['verdict']:<10} {file.stem}: {row['symptom']}: {words} (of {', '.join(row['allowed']) or 'nothing'}) "
              f"{row['runs']} runs, {row['seconds']:.0f} s, {row['processor']:.0f} s of processor{'' if row['finished'] else ', NOT FINISHED'}"
              f"{' | ' + ' | '.join(row['unclear'])[:300] if row['unclear'] else ''}", flush=True)
    if not rows:
        sys.exit("nothing failed")
    wrong = sum(row["verdict"] == "WRONG" for row in rows)
    right = sum(row["verdict"] in HOW.values() for row in rows)
    median = statistics.median(row["seconds"] for row in rows)
    verdicts = [*HOW.values(), "WRONG", "supported", "unknown"]
    print(f"\n{'family':<12} {'all':>4} " + " ".join(f"{word:>10}" for word in verdicts) + f" {'median s':>9} {'processor s':>12}")
    for name in list(FAMILIES) + ["all"]:
        some = [row for row in rows if name in (row["family"], "all")]
        if some:
            counts = [sum(row["verdict"] == word for row in some) for word in verdicts]
            times = [statistics.median(row[key] for row in some) for key in ("seconds", "processor")]
            print(f"{name:<12} {len(some):>4} " + " ".join(f"{count:>10}" for count in counts) + f" {times[0]:>9.0f} {times[1]:>12.0f}")
    for word in HOW.values():
        print(f"right, {word}: {share(sum(row['verdict'] == word for row in rows), len(rows))}")
    print(f"right, of all: {share(right, len(rows))}\n"
          f"wrong, of all: {share(wrong, len(rows))}\n"
          f"no answer, of all: {share(len(rows) - right - wrong, len(rows))}\n"
          f"seconds: median {median:.0f}, longest {max(row['seconds'] for row in rows):.0f}")
    sys.exit(1 if 100 * right < 75 * len(rows) or 50 * wrong > len(rows) or median > 60 else 0)


main()
