"""What validate() refuses before anything runs: needs neither torch nor a controller."""

import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from nsa_harness import Spec, SpecError  # noqa: E402
from nsa_harness.validate import locate  # noqa: E402

WIN = dict(level="attend_win", heads=4, groups=2, d_k=8, d_v=6, window=12)
SEL = dict(level="attend_sel", heads=4, groups=2, d_k=8, d_v=8, block=8, top_n=4)
SCORE = dict(level="score", heads=4, groups=2, d_k=8, compress_length=8, compress_stride=4, block=8)
WHOLE = dict(level="attention", heads=4, groups=2, d_k=8, d_v=8, block=8, top_n=4, window=12, compress_length=8, compress_stride=4)
CHOICE = dict(level="select", heads=4, groups=2, block=8, top_n=4)

# what is changed in a spec that is right, and what the message must say
REFUSED = [
    (WIN, dict(level="gate"), "level: found 'gate', wanted one of attend_sel, attend_win, attend_cmp, score, select, attention"),
    (WIN, dict(heads=3), "heads: found 3, wanted a multiple of groups, which is 2"),
    (WIN, dict(d_k=7), "d_k: found 7, wanted an even number"),
    (WIN, dict(window=None), "window is missing: attend_win needs it"),
    (WIN, dict(window=0), "window: found 0, wanted a whole number of at least 1"),
    (WIN, dict(block=8), "block belongs to attend_sel, score, select, attention, but level is attend_win"),
    (WIN, dict(sentinel=99), "sentinel belongs to attend_sel, select, attention, but level is attend_win"),
    (WIN, dict(select="external"), "select belongs to attend_sel, attention, but level is attend_win"),
    (SEL, dict(select="extern"), "select: found 'extern', wanted one of own, external"),
    (SEL, dict(forced_last=0), "forced_last: found 0, wanted a whole number of at least 1"),
    (SCORE, dict(d_v=8), "d_v belongs to attend_sel, attend_win, attend_cmp, attention, but level is score"),
    (SCORE, dict(lse="e"), "lse belongs to attend_sel, attend_win, attend_cmp, but level is score"),
    (SCORE, dict(block=6), "block: found 6, wanted a multiple of compress_stride, 4"),
    (SCORE, dict(eq9="sum"), "eq9: found 'sum', wanted one of fractional, overlap"),
    (CHOICE, dict(picks_per="head"), "picks_per belongs to attend_sel, attention, but level is select"),
    (CHOICE, dict(d_k=8), "d_k belongs to attend_sel, attend_win, attend_cmp, score, attention, but level is select"),
    (WHOLE, dict(window=None), "window is missing: attention needs it"),
    (WHOLE, dict(lse="e"), "lse belongs to attend_sel, attend_win, attend_cmp, but level is attention"),
    (WHOLE, dict(sentinel=99), "sentinel belongs to select 'external'"),
    (WHOLE, dict(keys="two"), "keys: found 'two', wanted one of shared, separate"),
    (CHOICE, dict(top_n=None), "top_n is missing: select needs it"),
    (WIN, dict(layout="bnsd"), "layout: found 'bnsd', wanted b, s (or t), h and d"),
    (WIN, dict(dtypes=("fp32", "fp32")), "dtypes: found ('fp32', 'fp32'), wanted some of"),
    (WIN, dict(scale=0.0), "scale: found 0.0, wanted a number above 0"),
    (WIN, dict(lse=2), "lse: found 2, wanted one of None, e, 2"),
    (WIN, dict(windows=3), "unknown field 'windows', wanted 'window'?"),
    (SEL, dict(top_n=2), "top_n: found 2, wanted at least forced_first + forced_last, 3"),
    (SEL, dict(sentinel=6), "sentinel: found 6, wanted -1, or a number that no block has"),
    (SEL, dict(window_counts_self=False), "window_counts_self belongs to attend_win, attention, but level is attend_sel"),
]


def outer():
    def inner():
        pass

    return inner


def decorated():
    pass


plain, decorated = decorated, types.SimpleNamespace()


class Refused(unittest.TestCase):
    def test_a_spec_that_contradicts_itself(self):
        for good, change, words in REFUSED:
            with self.subTest(change=change), self.assertRaises(SpecError) as caught:
                Spec.of(dict(good, **change))
            self.assertIn(words, str(caught.exception))

    def test_a_spec_that_lacks_a_field(self):
        with self.assertRaisesRegex(SpecError, "d_v is missing"):
            Spec.of({name: value for name, value in WIN.items() if name != "d_v"})
        with self.assertRaisesRegex(SpecError, "found list, wanted a Spec or a dict"):
            Spec.of([])

    def test_what_is_right_is_taken(self):
        for good in (WIN, SEL, SCORE, CHOICE, WHOLE, dict(SEL, select="external", forced_first=0, forced_last=0, top_n=1)):
            Spec.of(good)
        self.assertFalse(Spec.of(SCORE).document("n", "m:n")["kernel"]["gradients"])
        self.assertEqual(Spec.of(dict(WIN, layout="BHTD", dtypes="bf16")).layout, "bhsd")
        self.assertEqual(Spec.of(dict(WIN, window_counts_self=False)).document("n", "m:n")["model"]["w"], 13)

    def test_a_callable_that_no_other_process_finds(self):
        for fn, words in (
            (lambda: 0, "no other process can import"),
            (outer(), "no other process can import"),
            (plain, "is another object than the one given"),
            (3, "has no name to import it by"),
            ("module.name", "wanted module:name"),
        ):
            with self.subTest(fn=fn), self.assertRaisesRegex(SpecError, words):
                locate(fn)
        self.assertEqual(locate("a.b:c"), ("a.b:c", ""))
        self.assertEqual(locate(outer)[0], f"{__name__}:outer")


if __name__ == "__main__":
    unittest.main()
