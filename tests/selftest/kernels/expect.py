"""What should be said of each kernel. Writes EXPECT.jsonl, with the numbers of measured.json (selfcheck.py)."""
import json
import pathlib

import gen

HERE = pathlib.Path(__file__).parent
F, G, N, CL, SW, RI, AM, OV = "NUMERIC.FORWARD", "NUMERIC.GRADIENT", "NAN.ORIGIN", "CAUSALITY.LEAK", "SELECTION.WRONG", "RANGE.INVALID", "ALIAS.MUTATED", "OVERFLOW.INDEX"
WIN, SEL, CMP = ["win", "attend_win"], ["sel", "attend_sel"], ["cmp", "attend_cmp"]
# laws: words that fit a law's name or its sentence. Nothing need be named; a law that has none of `ok` and one of `bad` misleads.
WINDOW, HEADS, SCALE, MASK = ["longer", "shorter", "window of"], ["head", "group", "tiled"], ["scale", "factor"], ["mask", "top_left", "causal", "first key"]
STRIDES, SENT, SEQ = ["strides"], ["empty", "slot", "sentinel"], ["sequence", "batch", "neighbour"]
EVERYTHING = WINDOW + HEADS + SCALE + MASK + STRIDES + SENT + SEQ
E = {}


def row(key, codes, where, place, ok=(), bad=None, when="default", rule=None, heads=None, tensors=None, first=None, note=None, issue=None):
    bad = [w for w in EVERYTHING if w not in ok] if bad is None else bad
    E[key] = dict(right_code=codes, right_branch=where, place=place, law_ok=list(ok), law_misleads=bad, default_or_thorough=when,
                  row_rule=rule, head_rule=heads, tensors=tensors, note=note, issue=issue)


# row_rule / head_rule: a Python expression of t (row) or h (head) that every row (head) named in the site must fulfil
row("k01", [F], WIN, "rows 24 and later, all heads and sequences; sequences of up to 24 tokens are right", ["longer", "window of w + 1", "window of"], rule="t >= 24", issue="huggingface/transformers#39408")
row("k02", [N, F], WIN, "fp16 only: rows with a score beyond 11.09 (large logits), which are NaN; other rows right. A row whose scores are all below about -10 may be off too (underflow), then NUMERIC.FORWARD", ["overflow", "exp", "maximum"], note="NAN.ORIGIN is the better code; these rows have keys")
row("k03", [G], WIN, "dk and dv alone, every row; dq and output right", HEADS, tensors=["dk", "dv"], issue="XunhaoLai/native-sparse-attention-triton#27 (first defect)")
row("k04", [F], WIN, "rows from 16 on whose maximum does not lie in their first tile of 16 keys (about half of them): output and lse; rows 0 to 15 right", ["rescale", "maximum", "tile"], rule="t >= 16", issue="meta-pytorch/MSLK#242")
row("k05", [F], WIN, "the log-sum-exp alone, every row and head; output and gradients right (fp32 and bf16)", ["maximum", "max"], bad=["base", "longer", "shorter", "head", "strides"], note="the finding must be about the sums; a statement that calls the output wrong misleads", issue="Dao-AILab/flash-attention#404")
row("k06", [G], WIN, "dq, dk and dv; the output is right. The layout bshd makes the incoming gradient a transposed view", ["strides", "contiguous", "transposed"], bad=WINDOW + MASK + SENT, tensors=["dq", "dk", "dv"], issue="Dao-AILab/flash-attention#355")
row("k07", [F], WIN, "rows from (S // 64) * 64 on, only where S is no multiple of 64 (all rows are zeros where S < 64)", ["tail", "partial", "multiple", "tile"], note="lengths that are multiples of 64 are right", issue="pytorch/pytorch#159247")
row("k08", [G], WIN, "dq alone, of sequence 1 (not 0) of a batch, only where (S - 1) // 64 is even (for example S up to 64, 129 to 192)", ["sequence", "batch", "padded", "tile"], tensors=["dq"], note="a batch of one is right", issue="Dao-AILab/flash-attention#2337")
row("k09", [F], WIN, "rows 8, 16, 24 ... (t mod 8 = 0, t > 0), all heads", ["own key", "diagonal", "itself", "self"], rule="t % 8 == 0", bad=["longer", "shorter", "head", "scale", "strides"])
row("k10", [F], WIN, "sequences other than 0; rows from 16 on; sequence 0 and a batch of one are right", SEQ, rule="t >= 16", issue="vllm-project/flash-attention#176")
row("k11", [F, OV], WIN, "rows 4096 and later", ["4096", "power of two", "offset", "begin again"], when="thorough", rule="t >= 4096")
row("k12", [F], SEL, "heads 1 to 6 of 8 in every row; heads 0 and 7 right", HEADS + ["order"], heads="0 < h < 7", issue="onnx/onnx#7274")
row("k13", [F], SEL, "output and lse of rows with more than two blocks in their list (from row 16 on with the usual lists); rows 0 to 15 right", ["base", "log", "merge"], rule="t >= 16", note="with lists given from outside only the number of blocks counts", issue="meta-pytorch/attention-gym#205")
row("k14", [RI, F], SEL, "rows 8 to 23 (lists with empty slots and more than block 0)", SENT, rule="8 <= t < 24", issue="vllm-project/vllm#45324")
row("k15", [RI, F], SEL, "rows of the last block of a sequence whose list has an empty slot, and more than that block", SENT + ["last block"], bad=["longer", "head", "scale", "strides", "block 0", "block_zero", "key_zero"], issue="deepseek-ai/FlashMLA#109")
row("k16", [F, N], SEL, "only where values are not contiguous (gaps in memory), every row", ["strides"], note="strides_ignored is the right law", issue="flagos-ai/FlagGems#5896")
row("k17", [G, CL, N], SEL, "gradients alone (dq, dk, dv); rows that are not the last of their block, keys that are not the first of theirs (dk: all)", ["mask", "causal", "later"], bad=["scale", "head", "strides", "empty"], tensors=["dq", "dk", "dv"], issue="triton-lang/triton#7216")
row("k18", [G], SEL, "dq alone, every row but row 0: 8 times too large (width 64)", SCALE, tensors=["dq"], issue="fla-org/flash-linear-attention#47")
row("k19", [OV, F], SEL, "rows that attend to tokens from element 4096 of k on (token 128 of the batch: in sequence b from 128 - b * S on)", ["offset", "begin again", "power of two", "4096", "wraps"], bad=WINDOW + MASK + SENT + ["head", "scale", "strides"], issue="fla-org/flash-linear-attention#1080")
row("k20", [F], SEL, "bf16, all rows a little, above all with large logits (1.6 times the error of a right kernel)", ["rounded", "query", "bf16"], note="marginal: your-kernel.md says 1.5 to 2 times the limit")
row("k21", [G], SEL, "dq and dk, about 1e-3; dv and output right", ["rounded", "delta", "output"], tensors=["dq", "dk"])
row("k22", [F], SEL, "sequence 0 (all but the last of a batch), its last tile of 32 rows; the last sequence and a batch of one are right", SEQ, note="a site that lists rows without the sequence is weaker")
row("k23", [F], SEL, "rows 128 and later", ["128", "earlier row", "begin again", "power of two", "offset"], rule="t >= 128")
row("k24", [F, RI], SEL, "rows 1000 and later", ["125", "1000", "clamp"], when="thorough", rule="t >= 1000")
row("k25", [F], SEL, "the last row of a sequence, only where S is no multiple of 8 (and S > 1)", ["last key", "repeated", "clamp"], note="all other rows right; fp32 and fp16 fail alike")
row("k26", [AM], SEL, "picks is written to (empty slots become 0); output and gradients of the call are right", [], bad=["longer", "head", "scale", "strides"], note="NUMERIC.FORWARD or RANGE.INVALID alone misleads: block 0 is read once, whatever the list says")
row("k27", [G], SEL, "dv alone, keys from (S // 32) * 32 on, only where S is no multiple of 32", ["tail", "partial", "tile", "last"], bad=WINDOW + ["head", "scale", "strides", "value_split"] + SENT, tensors=["dv"], issue="OpenNLPLab/lightning-attention#28")
row("k28", [N], CMP, "rows 0 to 6, where the sequence has a compressed key at all (S >= 8): rows without a key", ["without a key", "empty"], rule="t < 7", issue="tracel-ai/burn#4694")
row("k29", [F], CMP, "bf16, all rows a little, above all with large logits (2.2 times the error of a right kernel, 4 times the largest)", ["rounded", "scores", "logits", "bf16"])
row("k30", [F, N], CMP, "fp16, all rows a little, above all with large logits (2.4 times the error of a right kernel); not finite only beyond 65504", ["rounded", "scores", "logits", "fp16"], issue="PaddlePaddle/Paddle#41933")
row("k31", [F], CMP, "the first call of the process alone, rows from 7 on: twice the right output. Second and later calls right", ["first call", "call 1", "factor", "twice"], bad=["longer", "head", "strides", "rows"], note="the finding should say that the first call alone is wrong", issue="triton-lang/triton#781")
row("k32", [G], CMP, "dk alone, from the second backward of a shape on", ["second", "call", "earlier"], bad=["head", "scale", "strides", "mask"], tensors=["dk"], note="the first backward of each shape is right")
row("k33", [CL, F, "MASK.ABSENT", "MASK.ALIGNMENT"], CMP, "rows in which a compressed key has begun and is not complete: all but the last ones of a sequence", ["begins", "first token", "early", "start", "incomplete", "complete", "future"], bad=["head", "scale", "strides", "longer"], issue="tilde-research/nsa-release#3")
row("k34", [G], CMP, "dk and dv, every row; dq and output right", HEADS + ["sum"], tensors=["dk", "dv"], issue="marin-community/levanter#449")
row("k35", [F, N], CMP, "rows 64 and later (rows 64 to 70 are zeros)", ["64", "begin again", "power of two", "offset"], rule="t >= 64")
row("k36", [SW], ["score"], "scores of rows 19 and later: keys that straddle two blocks of 16", ["begin", "share", "overlap", "fraction", "eq9"], rule="t >= 19")
row("k37", [SW, CL], ["score"], "nearly all rows, from row 3 on: scores of keys that are not complete", ["begin", "early", "complete", "future", "causal", "stride"], bad=["head", "scale", "strides_ignored"])
row("k38", [SW], ["select"], "rows with equal scores at the border of the choice (from row 48 on), nothing else", ["tie", "equal", "last"], rule="t >= 48")
row("k39", [SW], ["select"], "rows with more than 64 free blocks in one octave of scores; later ones are dropped (from row 264 on)", ["candidates", "dropped", "many"], when="thorough", rule="t >= 264", issue="vllm-project/vllm#51782")
row("k40", [SW], ["select"], "rows with more than five blocks (from row 48 on), half of them or more", ["octave", "rounded", "bits", "precision"], rule="t >= 48")
row("k41", [SW], ["select"], "rows whose scores at the border of the choice lie within 1e-3 (2 % of rows with uniform scores)", ["close", "rounded", "approximate", "precision", "near"], rule="t >= 48")
row("k42", [SW], ["select"], "rows from 32 on in which the block before the query's own does not win by its score", ["forced", "own", "local"], rule="t >= 32")
row("k43", [RI, SW], ["select"], "rows 1 to 23: lists hold blocks after the query", ["after", "future", "later"], rule="1 <= t < 24", issue="XunhaoLai/native-sparse-attention-triton#25")
row("k44", [F], CMP + ["attention"], "the compressed branch from row 11 on (rows with two or more compressed keys); the choice and so sel may follow", ["mean", "average", "shorter", "l - 1", "length"], bad=["head", "scale", "strides", "gate"], rule="t >= 11")
row("k45", [F], CMP + SEL + ["attention"], "cmp and sel have each other's gate, every row; win right (bf16)", ["gate"], bad=["longer", "head", "scale", "strides"])
row("k46", [F], SEL + ["attention"], "the selected branch, rows 8 to 15 alone", ["twice", "duplicate", "forced"], rule="8 <= t < 16")
row("k47", [F], SEL + ["attention"], "the selected branch from the second call of a shape with other numbers on, rows from 32 on; first calls right", ["earlier call", "call", "kept", "cached"], bad=["longer", "head", "scale", "strides", "gate"], note="CAUSALITY.LEAK would mislead. The trial with another future has the same numbers in front of it, so only its later rows can differ")
row("k48", [F], WIN + ["attention"], "the window branch from row 15 on", ["shorter", "w - 1", "window of"], rule="t >= 15")

if __name__ == "__main__":
    measured = json.loads((HERE / "measured.json").read_text())
    with open(HERE / "EXPECT.jsonl", "w") as f:
        for name, doc, *_ in gen.FILES:
            m = {k: v for k, v in measured.get(name, {}).items() if k != "bad"}
            bad = measured.get(name, {}).get("bad")
            if name[0] == "r":
                e = dict(right_code=[], right_branch=[], place="", law_ok=[], law_misleads=[], default_or_thorough="default", row_rule=None, head_rule=None, tensors=None, note=None, issue=None)
            else:
                e = E[name[:3]]
            f.write(json.dumps({"name": name, "kind": "right" if name[0] == "r" else "wrong", **e, "measured": m, "selfcheck": "ok" if bad == [] else bad}) + "\n")
