"""nsa_harness.validate on kernels that are right and kernels with one mistake each, by the built controller and this Python's
torch. Without arguments the rows that stand for all; with --all the whole table, which is also printed."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

import kernels  # noqa: E402
import nsa_harness  # noqa: E402

WIN = dict(level="attend_win", heads=4, groups=2, d_k=8, d_v=6, window=12)
SEL = dict(level="attend_sel", heads=4, groups=2, d_k=8, d_v=8, block=8, top_n=4)
CMP = dict(level="attend_cmp", heads=4, groups=2, d_k=8, d_v=8, compress_length=8, compress_stride=4)
CMP_128 = dict(CMP, heads=16, d_k=128, d_v=128, compress_length=32, compress_stride=32, dtypes="bf16")
SCORE = dict(level="score", heads=4, groups=2, d_k=8, compress_length=8, compress_stride=4, block=8)
CHOICE = dict(level="select", heads=4, groups=2, block=8, top_n=4)
WHOLE = dict(level="attention", heads=4, groups=2, d_k=8, d_v=8, block=8, top_n=4, window=12, compress_length=8, compress_stride=4)
ALL_TYPES = ("fp64", "fp32", "bf16")

# kernel, spec, outcome, code, what site or statement must say; the last column: judged without --all too.
TABLE = [
    (kernels.win_right, dict(WIN, dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.win_right, dict(WIN, dtypes=("fp32", "fp16")), "PASS", "", "", True),
    (kernels.win_right_bhsd, dict(WIN, layout="bhtd"), "PASS", "", "", False),
    (kernels.win_right_with_lse, dict(WIN, lse="e", dtypes=("fp32", "bf16")), "PASS", "", "", False),
    (kernels.sel_right, dict(SEL, picks_dtype="int32", picks_order="any", dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.sel_right_bhsd, dict(SEL, layout="bhsd", picks_per="head"), "PASS", "", "", False),
    (kernels.sel_right_sentinel_99, dict(SEL, sentinel=99, scale=8**-0.5), "PASS", "", "", False),
    (kernels.cmp_right, dict(CMP, dtypes=("fp64", "fp32", "bf16", "fp16")), "PASS", "", "", False),
    (kernels.win_scale_missing, WIN, "FAIL", "NUMERIC.FORWARD", "scale_missing", False),
    (kernels.win_one_more, dict(WIN, dtypes=("bf16",)), "FAIL", "NUMERIC.FORWARD", "one_longer", True),
    (kernels.win_right, dict(WIN, window_counts_self=False), "FAIL", "NUMERIC.FORWARD", "one_shorter", False),
    (kernels.win_sees_next, WIN, "FAIL", "CAUSALITY.LEAK", "forward", False),
    (kernels.win_softmax_before_mask, WIN, "FAIL", "NUMERIC.FORWARD", "normalised_over_all", False),
    (kernels.win_lse_base_two, dict(WIN, lse="e"), "FAIL", "NUMERIC.FORWARD", "logarithm_to_base_two", False),
    (kernels.win_last_row_zero, WIN, "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.win_groups_interleaved, WIN, "FAIL", "NUMERIC.FORWARD", "heads_interleaved", False),
    (kernels.win_keys_repeated, WIN, "FAIL", "NUMERIC.FORWARD", "keys_interleaved", False),
    (kernels.win_queries_as_heads_by_groups, dict(WIN, heads=6), "FAIL", "NUMERIC.FORWARD", "queries_group_minor", False),
    (kernels.win_tiled, WIN, "PASS", "", "", False),
    (kernels.win_accumulator_not_rescaled, WIN, "FAIL", "NUMERIC.FORWARD", "accumulator_not_rescaled", True),
    (kernels.win_parts_merged, WIN, "PASS", "", "", False),
    (kernels.win_parts_merged_with_base_e, WIN, "FAIL", "NUMERIC.FORWARD", "merged_with_base_e", False),
    (kernels.win_scaled_query_rounded, dict(WIN, dtypes="bf16"), "FAIL", "NUMERIC.FORWARD", "scaled_query_rounded", True),
    (kernels.win_scaled_query_rounded, dict(WIN, dtypes="bf16", allow="scaled_query_rounded"), "PASS", "", "", True),
    (kernels.win_scores_rounded, dict(WIN, d_k=32, dtypes="bf16", gradients=False), "FAIL", "NUMERIC.FORWARD", "scores_rounded", False),
    (kernels.win_scores_rounded, dict(WIN, d_k=32, dtypes="bf16", gradients=False, allow="scores_rounded"), "PASS", "", "", False),
    (kernels.sel_blocks_twice_as_long, SEL, "FAIL", "NUMERIC.FORWARD", "blocks_twice_as_long", False),
    (kernels.sel_picks_kept_by_shape, SEL, "FAIL", "NUMERIC.FORWARD", "lists_of_an_earlier_call", False),
    (kernels.win_half_dk_of_head_0, WIN, "FAIL", "NUMERIC.GRADIENT", "head 0 counts 0.5", True),
    (kernels.sel_picks_of_head_0, SEL, "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.sel_first_pick_lost, SEL, "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.sel_future_in_own_block, SEL, "FAIL", "CAUSALITY.LEAK", "forward", False),
    (kernels.sel_sentinel_is_block_0, SEL, "FAIL", "RANGE.INVALID", "empty_slots_block_zero", False),
    (kernels.cmp_seen_when_begun, CMP, "FAIL", "CAUSALITY.LEAK", "forward", False),
    (kernels.cmp_seen_one_late, CMP, "FAIL", "NUMERIC.FORWARD", "seen_one_late", False),
    (kernels.cmp_scaled_last, CMP_128, "PASS", "", "", True),
    (kernels.cmp_scaled_last, dict(CMP_128, dtypes="fp16"), "PASS", "", "", False),
    (kernels.cmp_dq_too_large, CMP_128, "FAIL", "NUMERIC.GRADIENT", "dq", False),
    (kernels.cmp_dq_too_small, CMP_128, "FAIL", "NUMERIC.GRADIENT", "dq", False),
    (kernels.cmp_dq_noisy, CMP_128, "FAIL", "NUMERIC.GRADIENT", "dq", False),
    (kernels.cmp_dq_without_last_row, CMP_128, "FAIL", "NUMERIC.GRADIENT", "dq", False),
    (kernels.sel_right, dict(SEL, select="external", forced_first=0, forced_last=0, dtypes=("fp32", "bf16")), "PASS", "", "", True),
    (kernels.sel_reads_full_lists, SEL, "PASS", "", "", False),
    (kernels.sel_reads_full_lists, dict(SEL, select="external", forced_first=0), "FAIL", "NUMERIC.FORWARD", "", True),
    (kernels.sel_adds_own_block, SEL, "PASS", "", "", False),
    (kernels.sel_adds_own_block, dict(SEL, select="external", forced_last=0), "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.score_right, dict(SCORE, dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.score_right, SCORE, "PASS", "", "", True),
    (kernels.score_right_bhsd, dict(SCORE, layout="bhsd", eq9="fractional", scale=8**-0.5), "PASS", "", "", False),
    (kernels.score_overlap, dict(SCORE, eq9="overlap"), "PASS", "", "", False),
    (kernels.score_overlap, SCORE, "FAIL", "SELECTION.WRONG", "score", True),
    (kernels.score_scale_missing, SCORE, "FAIL", "SELECTION.WRONG", "score", False),
    (kernels.score_of_head_0, SCORE, "FAIL", "SELECTION.WRONG", "score", False),
    (kernels.score_sees_begun, SCORE, "FAIL", "CAUSALITY.LEAK", "scores", False),
    (kernels.score_in_bf16, SCORE, "FAIL", "SELECTION.WRONG", "score", False),
    (kernels.score_given_in_bf16, dict(SCORE, dtypes="bf16"), "CRASH", "CRASH.EXCEPTION", "torch.bfloat16, wanted torch.float32", False),
    (kernels.select_right, dict(CHOICE, dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.select_right, CHOICE, "PASS", "", "", True),
    (kernels.select_right_any_order, dict(CHOICE, picks_order="any", picks_dtype="int32", sentinel=99), "PASS", "", "", False),
    (kernels.select_right_any_order, CHOICE, "CRASH", "CRASH.EXCEPTION", "torch.int32, wanted torch.int64", False),
    (kernels.select_ties_high, CHOICE, "FAIL", "SELECTION.WRONG", "blocks of equal score", True),
    (kernels.select_lowest, CHOICE, "FAIL", "SELECTION.WRONG", "select", False),
    (kernels.select_forgets_first, CHOICE, "FAIL", "SELECTION.WRONG", "select", False),
    (kernels.select_one_after, CHOICE, "FAIL", "RANGE.INVALID", "after the query", False),
    (kernels.select_unsorted, CHOICE, "FAIL", "SELECTION.WRONG", "no valid list", False),
    (kernels.attention_right, dict(WHOLE, dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.attention_right, dict(WHOLE, dtypes="bf16"), "PASS", "", "", True),
    (kernels.attention_right_bhsd, dict(WHOLE, layout="bhsd", scale=8**-0.5), "PASS", "", "", False),
    (kernels.attention_separate, dict(WHOLE, keys="separate"), "PASS", "", "", False),
    (kernels.attention_with_picks, dict(WHOLE, select="external", dtypes=("fp32", "bf16")), "PASS", "", "", False),
    (kernels.attention_window_one_more, WHOLE, "FAIL", "NUMERIC.FORWARD", "one_longer", True),
    (kernels.attention_gates_turned, WHOLE, "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.attention_averages_seven, WHOLE, "FAIL", "NUMERIC.FORWARD", "", False),
    (kernels.attention_keys_of_sel_for_win, dict(WHOLE, keys="separate"), "FAIL", "NUMERIC.FORWARD", "win", False),
    (kernels.attention_first_blocks, WHOLE, "FAIL", "NUMERIC.FORWARD", "sel", False),
    (kernels.attention_detached_averages, WHOLE, "FAIL", "NUMERIC.GRADIENT", "cmp", False),
    (kernels.win_wrong_from_64, WIN, "FAIL", "NUMERIC.FORWARD", "length_65", True),
    (kernels.sel_wrong_from_128, SEL, "FAIL", "NUMERIC.FORWARD", "length_129", False),
    (kernels.attention_wrong_from_128, WHOLE, "FAIL", "NUMERIC.FORWARD", "length_129", False),
    (kernels.win_takes_from_first_sequence, WIN, "FAIL", "CAUSALITY.LEAK", "of sequence 1 where sequence 0 changed", True),
    (kernels.sel_keeps_picks, SEL, "FAIL", "NUMERIC.FORWARD", "is right alone, as the first call of a fresh process", True),
    (kernels.win_sums_in_half, dict(WIN, dtypes="fp16"), "FAIL", "NAN.ORIGIN", "just_held", True),
    (kernels.select_by_all_digits, dict(CHOICE, dtypes=ALL_TYPES), "PASS", "", "", False),
    (kernels.select_by_digits, CHOICE, "FAIL", "SELECTION.WRONG", "units", True),
    (kernels.win_right, dict(WIN, widths=((16, 4), (4, 16)), tile=(48, 96)), "PASS", "", "", False),
    (kernels.sel_detached_keys, SEL, "FAIL", "GRAD.MISSING", "no dk came back", True),
    (kernels.win_summed_in_any_order, WIN, "PASS", "", "", True),
    (kernels.wrong_shape, WIN, "CRASH", "CRASH.EXCEPTION", "found shape", True),
    (kernels.wrong_dtype, WIN, "CRASH", "CRASH.EXCEPTION", "torch.float64, wanted torch.float32", False),
    (kernels.raises, WIN, "CRASH", "CRASH.EXCEPTION", "no tile for this width (in the trial normal: q [", False),
    (kernels.kills_itself, WIN, "CRASH", "CRASH.SIGNAL", "SIGSEGV", False),
    (kernels.hangs, WIN, "HANG", "HANG.HOST", "", False),
    (kernels.writes_into_q, WIN, "FAIL", "ALIAS.MUTATED", "", False),
    (kernels.no_gradient, WIN, "CRASH", "CRASH.EXCEPTION", "gradients=False", False),
]

# Kernels that are wrong in a part of the rows alone: no law is named, since the others refute it.
PARTLY = [
    (kernels.win_one_more_in_every_eighth_row, WIN, "All that is wrong lies here: rows = 0 mod 8."),
    (kernels.sel_first_row_of_a_block_loses_its_key, SEL, "All that is wrong lies here: rows = 0 mod 8."),
    (kernels.win_scale_missing_from_row_20, WIN, "rows from 20 on. There, and nowhere else, the result is what the law scale_missing gives."),
    (kernels.win_scale_missing_in_head_3, WIN, "head 3. There, and nowhere else, the result is what the law scale_missing gives."),
    (kernels.win_half_of_sequence_1, WIN, "sequence 1 of a batch. The first wrong row is row 0 of head 0 in sequence 1"),
    (kernels.win_half_of_the_last_tile, WIN, "the rows behind the last full tile of"),
]


def code_below(comment):
    """What the page docs/your-kernel.md shows below this comment."""
    with open(os.path.join(ROOT, "docs", "your-kernel.md"), encoding="utf-8") as file:
        return re.search(comment + r"\n```\w+\n(.*?)```", file.read(), re.S).group(1)


def judged(row, folder):
    fn, spec = row[:2]
    name = f"{fn.__name__}_{TABLE.index(row)}"
    return nsa_harness.validate(fn, spec, out=os.path.join(folder, name), db=os.path.join(folder, name + ".db"))


class Validate(unittest.TestCase):
    def test_table(self):
        rows = [row for row in TABLE if row[-1] or "--all" in ASKED]
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(lambda row: judged(row, folder), rows))
        for (fn, spec, outcome, code, words, _), verdict in zip(rows, verdicts):
            with self.subTest(kernel=fn.__name__, spec=spec):
                codes = [finding.code for finding in verdict.findings]
                text = " ".join(f"{one.site} {one.statement}" for one in verdict.findings)
                law = {one.site.get("detail", {}).get("law", "") for one in verdict.findings}
                print(f"{fn.__name__}: {[case.outcome for case in verdict.cases]} {codes} {sorted(law)}", flush=True)
                self.assertEqual({case.outcome for case in verdict.cases}, {outcome}, str(verdict))
                self.assertEqual(bool(verdict), outcome == "PASS")
                types = spec.get("dtypes", "fp32")
                self.assertEqual(len(verdict.cases), 1 if isinstance(types, str) else len(types))
                if code:
                    self.assertIn(code, codes, str(verdict))
                    self.assertIn(words, text, str(verdict))

    def test_a_pass_says_what_was_tried_and_what_was_not(self):
        row = (kernels.win_wrong_from_1000, WIN)
        with tempfile.TemporaryDirectory() as folder:
            verdict = nsa_harness.validate(*row, out=folder, db=os.path.join(folder, "runs.db"))
        self.assertTrue(verdict, str(verdict))
        for words in ("trials in fp32, lengths 1 to 257, d_k and d_v 8 and 6, batches up to 2", "not tried: lengths above 257, other widths"):
            self.assertIn(words, str(verdict))

    @unittest.skipUnless("--all" in sys.argv, "takes a minute; --all")
    def test_thorough_trials_are_in_the_thousands(self):
        for kernel in (kernels.win_wrong_from_1000, kernels.win_wrong_from_4096):
            with self.subTest(kernel=kernel.__name__), tempfile.TemporaryDirectory() as folder:
                verdict = nsa_harness.validate(kernel, WIN, thorough=True, out=folder, db=os.path.join(folder, "runs.db"))
                self.assertEqual([finding.code for finding in verdict.findings], ["NUMERIC.FORWARD"], str(verdict))

    def test_a_printed_spec_is_code(self):
        for fields in (WIN, SEL, dict(CMP_128, layout="bhtd", tile=64, widths=[(32, 16)]), SCORE, CHOICE, dict(WHOLE, dtypes=ALL_TYPES, scale=0.3)):
            spec = nsa_harness.Spec(**fields)
            self.assertEqual(eval(str(spec), {"nsa_harness": nsa_harness}), spec)  # noqa: S307
        self.assertEqual(str(nsa_harness.Spec(**CHOICE)), "nsa_harness.Spec(level='select', heads=4, groups=2, block=8, top_n=4)")
    def test_no_law_is_named_that_a_right_row_refutes(self):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(lambda row: nsa_harness.validate(row[0], row[1], out=os.path.join(folder, row[0].__name__), db=os.path.join(folder, row[0].__name__ + ".db")), PARTLY))
        for (fn, _, words), verdict in zip(PARTLY, verdicts):
            with self.subTest(kernel=fn.__name__):
                self.assertEqual([one.code for one in verdict.findings], ["NUMERIC.FORWARD"], str(verdict))
                finding = verdict.findings[0]
                self.assertFalse({"law", "laws"} & set(finding.site["detail"]), str(verdict))
                self.assertIn(words, finding.statement)

    def test_the_page_runs(self):
        lines = self.printed_by("<!-- tests/python/validate_test.py runs this -->")
        self.assertTrue(lines[0].startswith("PASS  window_attention"), lines)
        self.assertTrue(any(line.startswith("FAIL  one_key_too_many") for line in lines), lines)
        self.assertIn("a query sees a window of w + 1", "\n".join(lines))

    def test_the_pages_whole_attention_runs(self):
        lines = self.printed_by("<!-- tests/python/validate_test.py runs this, too -->")
        self.assertTrue(lines[0].startswith("PASS  nsa:"), lines)
        findings = [line for line in lines if line.startswith("  NUMERIC.FORWARD")]
        self.assertEqual(len(findings), 1, lines)
        self.assertIn("law sel_win_exchanged", "\n".join(lines))

    @unittest.skipUnless(shutil.which("ninja"), "no ninja is on PATH, by which torch builds an operator")
    def test_the_pages_operator_in_cpp_runs(self):
        lines = self.printed_by("<!-- tests/python/validate_test.py runs this with it -->", {"window.cpp": "<!-- tests/python/validate_test.py builds this -->"})
        self.assertTrue(any(line.startswith("PASS  window_attention") for line in lines), lines)
        self.assertIn("law one_longer", "\n".join(lines))

    def test_chance_is_no_look_into_the_future(self):
        with tempfile.TemporaryDirectory() as folder:
            verdict = nsa_harness.validate(kernels.win_with_dropout, dict(WIN), out=folder, db=os.path.join(folder, "runs.db"))
            with open(verdict.report, encoding="utf-8") as file:
                report = file.read()
            again = re.search(r"env NSA_HARNESS_PYTHON=\S+ \S+ run (\S+/win_with_dropout\.yaml)", report)
            self.assertTrue(again and os.path.exists(again.group(1)), report)
        self.assertEqual([finding.code for finding in verdict.findings], ["NUMERIC.FORWARD"], str(verdict))
        self.assertIn("Two calls with the same inputs gave different outputs", str(verdict))

    def test_a_compiler_is_no_hang(self):
        rows = {
            kernels.compiles_in_a_child: (60.0, "SLOW", "SLOW.COMPILE", "The children are ptxas"),
            kernels.compiles_itself: (60.0, "SLOW", "SLOW.COMPILE", "rank 0 compiled until"),
            kernels.compiles_in_a_child_for_a_while: (300.0, "PASS", "", ""),
            kernels.waits_for_another_that_compiles: (300.0, "PASS", "", ""),
        }
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:

            def verdict_of(kernel):
                out = os.path.join(folder, kernel.__name__)
                return nsa_harness.validate(kernel, dict(WIN, seconds=rows[kernel][0]), out=out, db=out + ".db")

            verdicts = dict(zip(rows, pool.map(verdict_of, rows)))
        for kernel, (_, outcome, code, words) in rows.items():
            with self.subTest(kernel=kernel.__name__):
                verdict = verdicts[kernel]
                self.assertEqual([case.outcome for case in verdict.cases], [outcome], str(verdict))
                self.assertEqual([finding.code for finding in verdict.findings][:1], [code] if code else [], str(verdict))
                self.assertIn(words, str(verdict))

    def test_no_process_outlives_the_case(self):
        for kernel in (kernels.leaves_a_process, kernels.leaves_a_bare_process):
            with self.subTest(kernel=kernel.__name__), tempfile.TemporaryDirectory() as folder:
                verdict = nsa_harness.validate(kernel, dict(WIN), out=folder, db=os.path.join(folder, "runs.db"))
                self.assertTrue(verdict, str(verdict))
                with open(verdict.report, encoding="utf-8") as file:
                    self.assertIn("processes that they left behind were ended: sleep", file.read())
        left = subprocess.run(["pgrep", "-f", "sleep 8612[34]"], capture_output=True, text=True, check=False)
        self.assertEqual(left.stdout, "")

    def printed_by(self, comment, beside=None):
        """The lines that the code of the page below this comment prints; `beside`: files of its folder, by the comments above them."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "my-kernel.py")  # a name that no import statement can say
            for name, above in {script: comment, **(beside or {})}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(code_below(above))
            environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), NSA_HARNESS_DB=os.path.join(folder, "runs.db"), TORCH_EXTENSIONS_DIR=os.path.join(folder, "built"))
            done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_what_a_spec_says_wrongly_is_told_in_its_own_words(self):
        for field, value in (("d_k", 10**9), ("window", 10**9), ("scale", "x"), ("seconds", float("inf")), ("gradients", "yes"), ("allow", "rounded"), ("seed", 2**70), ("tile", 1), ("tile", "x"), ("widths", (8, 6)), ("widths", ((7, 6),)), ("widths", ((8, 6),))):
            with self.subTest(field=field), self.assertRaises(nsa_harness.SpecError) as caught:
                nsa_harness.validate(kernels.win_right, dict(WIN, **{field: value}))
            self.assertTrue(str(caught.exception).startswith(f"spec: {field}: found "), str(caught.exception))
            self.assertNotIn("worker", str(caught.exception))


if __name__ == "__main__":
    ASKED = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=0)
else:
    ASKED = []
