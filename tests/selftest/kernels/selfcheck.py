"""Runs every kernel against a float64 reference that is written here from the documents, and measures where it is wrong.
Writes measured.json. python selfcheck.py [name ...]"""
import importlib.util
import json
import pathlib
import sys
import types
import warnings

import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
OUTSIDE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 3e-3}          # errors over the largest number that count as right
INSIDE = {"fp32": 1e-4, "bf16": 3e-2, "fp16": 5e-3}           # ... as wrong


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def per_head(x, heads):
    return x.repeat_interleave(heads // x.shape[1], dim=1)


# ---------------------------------------------------------------- reference, all tensors [B, heads, S, width], float64
def ref_attend(q, k, v, seen, scale):
    s = (q @ per_head(k, q.shape[1]).transpose(-1, -2)) * scale
    s = torch.where(seen, s, torch.full((), -1e300, dtype=s.dtype))
    p = torch.softmax(s, -1) * seen
    return p @ per_head(v, q.shape[1]), torch.logsumexp(s, -1)


def win_seen(S, w):
    t = torch.arange(S)
    back = t[:, None] - t
    return (back >= 0) & (back < w)


def cmp_seen(S, n, l, d):
    return torch.arange(n) * d + l - 1 <= torch.arange(S)[:, None]


def sel_seen(picks, S, block, sentinel):
    t = torch.arange(S)
    seen = torch.zeros(*picks.shape[:3], S, dtype=torch.bool)
    for slot in range(picks.shape[3]):
        p = picks[..., slot].long()
        seen |= (p != sentinel)[..., None] & (t // block == p[..., None])
    return seen & (t[:, None] >= t)


def count(keys):
    return max(0, keys)


def compressed(S, l, d):
    return max(0, (S - l) // d + 1)


def ref_scores(q, k, c):                              # k: compressed keys
    s, S, n = c.spec, q.shape[2], k.shape[2]
    l, d, block = s["compress_length"], s["compress_stride"], s["block"]
    seen = cmp_seen(S, n, l, d)
    logits = torch.where(seen, q @ per_head(k, q.shape[1]).transpose(-1, -2) * c.scale, torch.full((), -1e300, dtype=q.dtype))
    p = torch.softmax(logits, -1) * seen
    share = torch.zeros(n, -(-S // block), dtype=torch.float64)
    for i in range(n):
        for token in range(i * d, i * d + l):
            share[i, token // block] += 1 / (d if s.get("eq9") == "overlap" else l)
    return (p @ share).unflatten(1, (k.shape[1], -1)).sum(2)


def ref_select(scores, s):                            # [B,G,S,blocks] -> lists, from the words of your-kernel.md
    B, G, S, blocks = scores.shape
    block, top, sentinel = s["block"], s["top_n"], s.get("sentinel", -1)
    first, last = s.get("forced_first", 1), s.get("forced_last", 2)
    out = torch.full((B, G, S, top), sentinel, dtype=torch.int64)
    rows = scores.tolist()
    for b in range(B):
        for g in range(G):
            for t in range(S):
                own = t // block
                chosen = [i for i in range(own + 1) if i < first or i > own - last]
                rest = sorted((i for i in range(own + 1) if i not in chosen), key=lambda i: (-rows[b][g][t][i], i))
                chosen = sorted((chosen + rest)[:top])
                out[b, g, t, : len(chosen)] = torch.tensor(chosen)
    return out


def random_scores(gen, B, G, S, blocks, kind="normal"):
    x = torch.rand(B, G, S, blocks, generator=gen)
    if kind == "ties":
        x = torch.randint(0, 4, (B, G, S, blocks), generator=gen) / 4
    if kind == "softmax":
        x = torch.softmax(torch.randn(B, G, S, blocks, generator=gen) * 2, -1)
    own = torch.arange(S)[:, None] // 1
    return x


# ---------------------------------------------------------------- one call
def build(module, spec, dtype, B, S, kind, seed):
    gen = torch.Generator().manual_seed(seed)
    c = types.SimpleNamespace(spec=spec, B=B, S=S, H=spec["heads"], G=spec["groups"], kind=kind, dtype=dtype, t=torch.arange(S), level=spec["level"])
    c.d_k, c.d_v = spec.get("d_k"), spec.get("d_v")
    c.scale = c.d_k ** -0.5 if c.d_k else None
    c.block = spec.get("block")
    T = TYPES[dtype]
    rand = lambda *shape: torch.randn(*shape, generator=gen).to(T)
    big = 5 if kind == "large" else 1
    q = (torch.randn(B, c.H, S, c.d_k, generator=gen) * big).to(T) if c.d_k else None
    keys = compressed(S, spec["compress_length"], spec["compress_stride"]) if c.level in ("attend_cmp", "score") else S
    c.keys = keys
    if c.level == "select":
        blocks = -(-S // c.block)
        x = random_scores(gen, B, c.G, S, blocks, kind)
        x = torch.where(torch.arange(blocks) <= torch.arange(S)[:, None] // c.block, x, torch.zeros(()))
        c.inputs = {"scores": x}
    elif c.level == "score":
        c.inputs = {"q": q, "k": rand(B, c.G, keys, c.d_k)}
    elif c.level == "attention" and spec.get("keys") == "separate":
        c.inputs = {"q": q, **{f"{x}_{b}": rand(B, c.G, S, c.d_k if x == "k" else c.d_v) for b in ("cmp", "sel", "win") for x in "kv"},
                    "gates": torch.rand(B, c.H, S, 3, generator=gen).to(T)}
    else:
        c.inputs = {"q": q, "k": rand(B, c.G, keys, c.d_k), "v": rand(B, c.G, keys, c.d_v)}
        if c.level == "attention":
            c.inputs["gates"] = torch.rand(B, c.H, S, 3, generator=gen).to(T)
    if c.level == "attend_sel" or (c.level == "attention" and spec.get("select") == "external"):
        X = c.H if spec.get("picks_per") == "head" else c.G
        top, sentinel = spec["top_n"], spec.get("sentinel", -1)
        if spec.get("select") == "external":
            picks = torch.full((B, X, S, top), sentinel)
            for b in range(B):
                for x in range(X):
                    for t in range(S):
                        own = t // c.block
                        n = int(torch.randint(1, min(top, own + 1) + 1, (), generator=gen))
                        p = torch.randperm(own + 1, generator=gen)[:n]
                        picks[b, x, t, :n] = p if spec.get("picks_order") == "any" else p.sort().values
        else:
            picks = ref_select(random_scores(gen, B, X, S, -(-S // c.block)), spec)
        c.picks = picks
        c.inputs["picks"] = picks.to({"int32": torch.int32}.get(spec.get("picks_dtype"), torch.int64))
    return c


def reference(c):
    x = {n: (y.double().requires_grad_() if y.is_floating_point() and c.level != "select" else y) for n, y in c.inputs.items()}
    S, s = c.S, c.spec
    T = TYPES[c.dtype]
    lse = None
    if c.level == "attend_win":
        out, lse = ref_attend(x["q"], x["k"], x["v"], win_seen(S, s["window"]), c.scale)
    elif c.level == "attend_cmp":
        out, lse = ref_attend(x["q"], x["k"], x["v"], cmp_seen(S, c.keys, s["compress_length"], s["compress_stride"]), c.scale)
    elif c.level == "attend_sel":
        c.seen = per_head(sel_seen(c.picks, S, c.block, s.get("sentinel", -1)), c.H)
        out, lse = ref_attend(x["q"], x["k"], x["v"], c.seen, c.scale)
    elif c.level == "score":
        out = ref_scores(x["q"], x["k"], c)
    elif c.level == "select":
        out = ref_select(x["scores"], s)
    else:
        l, d = s["compress_length"], s["compress_stride"]
        n = compressed(S, l, d)
        token = torch.arange(n)[:, None] * d + torch.arange(l)
        get = lambda name, b: x[f"{name}_{b}"] if s.get("keys") == "separate" else x[name]
        mean = lambda y: y[:, :, token].mean(3)
        rounded = lambda y: y + (y.detach().to(T).double() - y.detach())        # the averages are stored in T
        ck, cv = rounded(mean(get("k", "cmp"))), rounded(mean(get("v", "cmp")))
        if "picks" in c.inputs:
            picks = c.picks
        else:
            picks = c.picks = ref_select(ref_scores(x["q"].detach(), ck.detach(), c), s)
        c.branch = (ref_attend(x["q"], ck, cv, cmp_seen(S, n, l, d), c.scale)[0],
                    ref_attend(x["q"], get("k", "sel"), get("v", "sel"), per_head(sel_seen(picks, S, c.block, s.get("sentinel", -1)), c.H), c.scale)[0],
                    ref_attend(x["q"], get("k", "win"), get("v", "win"), win_seen(S, s["window"]), c.scale)[0])
        out = sum(x["gates"][..., i : i + 1] * c.branch[i] for i in range(3))
    c.ref = {"out": out}
    if s.get("lse"):
        c.ref["lse"] = lse / (0.6931471805599453 if s["lse"] == "2" else 1)
    if c.level not in ("select", "score") and c.wants:
        out.backward(c.do.double())
        for n, y in x.items():
            if y.is_floating_point():
                c.ref["d" + n] = torch.zeros_like(y) if y.grad is None else y.grad
    return c


def gaps(x):                                          # NaNs after each row in memory
    wide = torch.full((*x.shape[:-1], x.shape[-1] + 3), float("nan"), dtype=x.dtype)
    wide[..., : x.shape[-1]] = x
    return wide


def call(module, fn, c):
    layout = c.spec.get("layout", "bshd").replace("t", "s")
    outward = lambda x: x.permute(["bhsd".index(a) for a in layout])
    inward = lambda x, l: x.permute([l.index(a) for a in "bhsd" if a in l])
    args, leaves = [], {}
    for n, y in c.inputs.items():
        y = outward(y)
        if c.kind == "gaps" and y.is_floating_point():
            y = gaps(y).detach()[..., : y.shape[-1]]
        else:
            y = y.contiguous()
        if y.is_floating_point() and c.level != "select":
            y = y.detach().requires_grad_()
            leaves[n] = y
        args.append(y)
    c.args = args
    result = fn(*args)
    out, lse = result if isinstance(result, tuple) else (result, None)
    c.got = {"out": inward(out.detach(), layout)}
    assert c.level in ("select", "score") or out.dtype == TYPES[c.dtype], out.dtype
    if lse is not None:
        c.got["lse"] = inward(lse.detach(), layout.replace("d", ""))[..., None]
    if c.level not in ("select", "score") and c.wants:
        out.backward(outward(c.do).to(out.dtype).contiguous())
        for n, y in leaves.items():
            c.got["d" + n] = inward(torch.zeros_like(y) if y.grad is None else y.grad, layout)
    return c


def run(module, fn, spec, dtype, B, S, kind="normal", seed=0, grads=True):
    c = build(module, spec, dtype, B, S, kind, seed)
    c.wants = grads
    if c.d_v:
        c.do = torch.randn(B, c.H, S, c.d_v, generator=torch.Generator().manual_seed(seed + 77)).to(TYPES[dtype])
    c = reference(call(module, fn, c))
    c.err = {}
    for n, ref in c.ref.items():
        ref = ref.detach()
        if n == "lse":
            ref = ref[..., None]
        if not ref.numel():
            continue
        got = c.got[n]
        if c.level == "select":
            if spec.get("picks_order") == "any":
                got, ref = got.sort(-1).values, ref.sort(-1).values
            c.err[n] = (got != ref).any(-1).double()
        else:
            size = float(ref.abs().max())              # gradients of rows with one key are zero: then as it is
            e = (got.double() - ref).abs() / (size if size > 1e-9 else 1.0)
            c.err[n] = torch.where(torch.isfinite(e), e, torch.full((), 1e9, dtype=e.dtype)).amax(-1)
    return c


# ---------------------------------------------------------------- where each wrong kernel is wrong
def rows(f):
    return lambda c: {"out": f(c)}


def later_max(c):                                     # k04: a later tile moves the running maximum, by less than 8 ln 2
    q, k = c.inputs["q"].double(), per_head(c.inputs["k"].double(), c.H)
    s = (q @ k.transpose(-1, -2) * c.scale).masked_fill(~win_seen(c.S, 48), -1e30)
    m = torch.full(s.shape[:3], -1e30, dtype=torch.float64)
    wrong = torch.zeros(s.shape[:3], dtype=torch.bool)
    for b in range(0, c.S, 16):
        new = torch.maximum(m, s[..., b : b + 16].amax(-1))
        skip = new - m <= 8 * 0.6931471805599453
        wrong |= skip & (new > m)
        m = torch.where(skip, m, new)
    return wrong


def over(c):                                          # k02: exp overflows or all underflow in fp16
    q, k = c.inputs["q"].double(), per_head(c.inputs["k"].double(), c.H)
    s = (q @ k.transpose(-1, -2) * c.scale).masked_fill(~win_seen(c.S, 16), -1e30).amax(-1)
    return (s > 11.0) | (s < -6)


def all_of(c, heads):
    return torch.ones(c.B, heads, 1, dtype=torch.bool)


def seq(c, f):
    return f(torch.arange(c.B))[:, None, None]


def own_listed(c):
    return (c.picks == (c.t // c.block)[:, None]).any(-1)


def dup_last(c):                                      # k15
    nb = -(-c.S // c.block)
    empty = (c.picks == c.spec["sentinel"]).any(-1)
    only_own = ((c.picks == c.spec["sentinel"]) | (c.picks == nb - 1)).all(-1)
    return per_head(empty & ~only_own & (c.t // c.block == nb - 1), c.H)


def halves(c):                                        # k13
    s = c.spec.get("sentinel", -1)
    half = c.picks.shape[-1] // 2
    return per_head((c.picks[..., :half] != s).any(-1) & (c.picks[..., half:] != s).any(-1), c.H)


def wraps(c):                                         # k19
    key = torch.arange(c.B)[:, None] * c.S + c.t      # token of the batch
    bad = (key * c.G * c.d_k >= 4096 - 0)
    last = ((key + 1) * c.G * c.d_k > 4096)
    return (c.seen & last[:, None, None, :]).any(-1)


def exists_pending(c):                                # k33, k37: a key that has begun and is not complete
    d, l = c.spec["compress_stride"], c.spec["compress_length"]
    first = torch.arange(c.keys) * d
    since = first if c.level == "attend_cmp" else first + d - 1
    return ((since <= c.t[:, None]) & (first + l - 1 > c.t[:, None])).any(-1)


def several(c):                                       # rows with more than one compressed key
    d, l = c.spec["compress_stride"], c.spec["compress_length"]
    return (c.t >= l - 1)


PLACE = {
    "k01": [dict(S=(16, 24, 47, 130), grads=False), rows(lambda c: c.t >= 24)],
    "k02": [dict(S=(33, 70), kinds=("normal", "large"), grads=False), rows(over), dict(share=0.3)],
    "k03": [dict(S=(17, 70)), lambda c: {"dk": all_of(c, 2), "dv": all_of(c, 2)}],
    "k04": [dict(S=(16, 47, 100), grads=False), lambda c: {"out": later_max(c), "lse": later_max(c)}],
    "k05": [dict(S=(17, 70)), lambda c: {"lse": all_of(c, c.H)}],
    "k06": [dict(S=(17, 70)), lambda c: {n: all_of(c, 1) for n in ("dq", "dk", "dv")}],
    "k07": [dict(S=(64, 47, 100, 130), grads=False), rows(lambda c: (c.t >= c.S // 64 * 64) & torch.tensor(c.S % 64 != 0))],
    "k08": [dict(S=(60, 64, 65, 128, 150, 200)), lambda c: {"dq": seq(c, lambda b: b >= 1) & torch.tensor(-(-c.S // 64) % 2 == 1)}],
    "k09": [dict(S=(8, 33, 100), grads=False), rows(lambda c: (c.t % 8 == 0) & (c.t > 0))],
    "k10": [dict(S=(16, 47, 100), grads=False), rows(lambda c: seq(c, lambda b: b >= 1) & (c.t >= 16))],
    "k11": [dict(S=(200, 4120), B=1, grads=False), rows(lambda c: c.t >= 4096)],
    "k12": [dict(S=(33, 100), grads=False), rows(lambda c: ((torch.arange(8) > 0) & (torch.arange(8) < 7))[None, :, None])],
    "k13": [dict(S=(16, 33, 100), grads=False), lambda c: {"out": halves(c), "lse": halves(c)}],
    "k14": [dict(S=(8, 24, 33, 100), grads=False), rows(lambda c: (c.t >= 8) & (c.t < 24))],
    "k15": [dict(S=(33, 101), grads=False), rows(dup_last)],
    "k16": [dict(S=(33, 64), kinds=("normal", "gaps"), grads=False), rows(lambda c: all_of(c, 1) & torch.tensor(c.kind == "gaps"))],
    "k17": [dict(S=(33, 64)), lambda c: {"dq": (c.t % 8 != 7) & (c.t < c.S - 1), "dk": c.t > 0, "dv": c.t % 8 != 0}],
    "k18": [dict(S=(33, 64)), lambda c: {"dq": c.t > 0}],
    "k19": [dict(S=(33, 64, 100), grads=False), rows(wraps)],
    "k21": [dict(S=(33, 64)), lambda c: {"dq": all_of(c, 1), "dk": all_of(c, 1)}, dict(share=0.8, inside=3e-5)],
    "k22": [dict(S=(20, 33, 64, 100), grads=False), rows(lambda c: seq(c, lambda b: b < c.B - 1) & (c.t >= (c.S - 1) // 32 * 32))],
    "k23": [dict(S=(100, 150, 273), grads=False), rows(lambda c: c.t >= 128)],
    "k24": [dict(S=(200, 1040), B=1, grads=False), rows(lambda c: c.t >= 1000)],
    "k25": [dict(S=(32, 33, 47, 101), grads=False), rows(lambda c: (c.t == c.S - 1) & torch.tensor(c.S % 8 != 0))],
    "k27": [dict(S=(20, 64, 101)), lambda c: {"dv": (c.t >= c.S // 32 * 32)}],
    "k28": [dict(S=(5, 8, 33, 100), grads=False), rows(lambda c: (c.t < 7) & torch.tensor(c.keys > 0))],
    "k31": [dict(S=(33,), grads=False, calls=2), lambda c: {"out": (c.t >= 7) & torch.tensor(c.call == 0)}],
    "k32": [dict(S=(33,), calls=2), lambda c: {"dk": all_of(c, 1) & torch.tensor(c.call > 0)}],
    "k33": [dict(S=(7, 33, 100), grads=False), rows(exists_pending)],
    "k34": [dict(S=(33, 100)), lambda c: {"dk": all_of(c, 1), "dv": all_of(c, 1)}],
    "k35": [dict(S=(33, 64, 130), grads=False), rows(lambda c: c.t >= 64)],
    "k36": [dict(S=(19, 33, 100)), rows(lambda c: c.t >= 19)],
    "k37": [dict(S=(33, 100)), rows(exists_pending)],
    "k38": [dict(S=(100, 200), kinds=("normal", "ties")), rows(lambda c: (c.t >= 48) & torch.tensor(c.kind == "ties"))],
    "k39": [dict(S=(200, 256, 700), B=1, kinds=("normal",)), rows(lambda c: c.t // 4 - 1 > 64), dict(share=0.02)],
    "k40": [dict(S=(100, 200), kinds=("normal", "softmax")), rows(lambda c: c.t >= 48), dict(share=0.4)],
    "k41": [dict(S=(100, 273), kinds=("normal", "softmax")), rows(lambda c: c.t >= 48), dict(share=0.0005)],
    "k42": [dict(S=(24, 100, 200)), rows(lambda c: c.t >= 32), dict(share=0.3)],
    "k43": [dict(S=(24, 33, 100)), rows(lambda c: (c.t >= 1) & (c.t < 24))],
    "k44": [dict(S=(11, 33, 100), grads=False), rows(lambda c: c.t >= 11)],
    "k45": [dict(S=(33, 100), grads=False), rows(lambda c: all_of(c, 1))],
    "k46": [dict(S=(8, 16, 33, 100), grads=False), rows(lambda c: (c.t >= 8) & (c.t < 16))],
    "k47": [dict(S=(33, 100), grads=False, calls=2), lambda c: {"out": (c.t >= 32) & torch.tensor(c.call > 0)}, dict(share=0.2)],
    "k48": [dict(S=(16, 33, 100), grads=False), rows(lambda c: c.t >= 15)],
}


def check_wrong(name):
    module = load(name)
    key = name[:3]
    how, place, *rest = PLACE[key]
    want = {"share": 0.5, **(rest[0] if rest else {})}
    fn = getattr(module, FN[name])
    result = {"wrong_max": 0.0, "right_max": 0.0, "wrong_rows": 0, "marked_rows": 0, "right_rows": 0, "bad": []}
    for dtype in module.SPEC.get("dtypes", ("fp32",)):
        for S in how["S"]:
            for kind in how.get("kinds", ("normal",)):
                module = load(name)
                fn = getattr(module, FN[name])
                for turn in range(how.get("calls", 1)):
                    c = run(module, fn, module.SPEC, dtype, how.get("B", 2), S, kind, seed=S + 13 * turn, grads=how.get("grads", True))
                    c.call = turn
                    marks = place(c)
                    if key == "k47":
                        c.first = c
                    for n, e in c.err.items():
                        mark = marks.get(n, torch.zeros((), dtype=torch.bool)).expand(e.shape)
                        wrong = e > (0.5 if c.level == "select" else want.get("inside", INSIDE[dtype]))
                        outside = e[~mark]
                        if outside.numel():
                            worst = float(outside.max())
                            result["right_max"] = max(result["right_max"], worst)
                            result["right_rows"] += outside.numel()
                            if worst > (0.5 if c.level == "select" else OUTSIDE[dtype]):
                                result["bad"].append(f"{dtype} S={S} {kind} call {turn}: {n} wrong outside of its place, {worst:.3g}, {int((outside > OUTSIDE[dtype]).sum())} rows")
                        if mark.any():
                            result["wrong_max"] = max(result["wrong_max"], float(e[mark].max()))
                            result["marked_rows"] += int(mark.sum())
                            result["wrong_rows"] += int((wrong & mark).sum())
    share = result["wrong_rows"] / max(1, result["marked_rows"])
    result["share_of_place_wrong"] = round(share, 4)
    if share < want["share"]:
        result["bad"].append(f"only {share:.3f} of the stated rows are wrong")
    return result


def check_rounding(name):
    """Kernels that only lose digits: root mean square and largest error over those of the same kernel without the mistake."""
    module, result = load(name), {"bad": []}
    dtype = module.SPEC["dtypes"][0]
    plain = load("r07_copies_and_scaled_query") if module.SPEC["level"] == "attend_sel" else load("r04_chunks_of_rows")
    for kind in ("normal", "large"):
        c = run(module, getattr(module, FN[name]), module.SPEC, dtype, 2, 130, kind, seed=5, grads=False)
        r = right_twin(c)
        e, f = (c.got["out"].double() - c.ref["out"]).detach(), (r - c.ref["out"]).detach()
        result[kind] = {"rms_ratio": round(float(e.square().mean().sqrt() / f.square().mean().sqrt()), 2),
                        "max_ratio": round(float(e.abs().max() / f.abs().max()), 2), "relative_max": float(e.abs().max() / c.ref["out"].abs().max())}
    if result["large"]["rms_ratio"] < 1.5:
        result["bad"].append("hardly worse than a right kernel")
    return result


def right_twin(c):
    T, x = TYPES[c.dtype], c.inputs
    s = x["q"].float() @ per_head(x["k"].float(), c.H).transpose(-1, -2) * c.scale
    seen = c.seen if c.level == "attend_sel" else cmp_seen(c.S, c.keys, c.spec["compress_length"], c.spec["compress_stride"])
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
    return (p.to(T).float() @ per_head(x["v"].float(), c.H)).to(T).double()


def check_mutation(name):
    module = load(name)
    c = run(module, getattr(module, FN[name]), module.SPEC, "fp32", 2, 33, seed=3)
    moved = int((c.args[3].permute(0, 2, 1, 3) != c.picks).sum())
    c2 = {n: float(e.max()) for n, e in c.err.items()}
    again = module.selected(*c.args).detach().permute(0, 2, 1, 3).double()
    e = ((again - c.ref["out"]).abs() / c.ref["out"].abs().max()).amax(-1)
    return {"entries_of_picks_changed": moved, "first_call": c2, "second_call_with_the_same_tensors_max": float(e.max()),
            "bad": [] if moved and max(c2.values()) < 1e-5 else ["not mutated, or wrong"]}


RIGHT = {                                             # function, changes of its spec; as in the main guards
    "r01_online_tiles": [("online", {}), ("online_bhsd", {"layout": "bhsd"}), ("online_sbhd", {"layout": "sbhd"}), ("online_hbsd", {"layout": "hbsd"}), ("online_bhds", {"layout": "bhds", "dtypes": ("fp32",)})],
    "r02_split_keys": [("split", {}), ("split_bhsd", {"layout": "bhsd"}), ("split_sbhd", {"layout": "sbhd"})],
    "r03_sdpa": [("sdpa", {}), ("sdpa_bhsd", {"layout": "bhsd"}), ("sdpa_wide", {"layout": "bhsd"})],
    "r04_chunks_of_rows": [("chunks", {}), ("chunks_bhsd", {"layout": "bhsd"}), ("chunks_sbhd", {"layout": "sbhd"})],
    "r05_gathered_lists": [("gathered", {}), ("gathered_bhsd", {"layout": "bhsd"}), ("gathered_group", {"picks_per": "group"})],
    "r06_flash_backward": [("flash", {}), ("flash_bhsd", {"layout": "bhsd"}), ("flash_sbhd", {"layout": "sbhd"}), ("flash_hbsd", {"layout": "hbsd"})],
    "r07_copies_and_scaled_query": [("copies", {}), ("copies_bhsd", {"layout": "bhsd", "d_k": 16, "d_v": 24}), ("copies_sbhd", {"layout": "sbhd", "d_k": 16, "d_v": 16})],
    "r08_scores": [("score", {}), ("score_bhsd", {"layout": "bhsd"}), ("score_sbhd", {"layout": "sbhd"}), ("score_overlap", {"eq9": "overlap"})],
    "r09_selection": [("choose", {}), ("choose_bhsd", {"layout": "bhsd"}), ("choose_other", {"layout": "bhsd", "forced_first": 0, "forced_last": 1, "top_n": 4, "sentinel": -7, "picks_dtype": "int32"})],
    "r10_whole": [("nsa", {}), ("nsa_bhsd", {"layout": "bhsd"}), ("nsa_separate", {"keys": "separate"}), ("nsa_external", {"select": "external", "forced_first": 0, "forced_last": 0})],
}
# in narrow types: rms of the error over the rms of the numbers; a unit roundoff is 2**-9 (bf16), 2**-12 (fp16)
RMS = {"fp32": 2e-6, "bf16": 1.2e-2, "fp16": 1.5e-3}


def check_right(name):
    module, result = load(name), {"bad": [], "worst": {}}
    for fn, changes in RIGHT[name]:
        spec = {**module.SPEC, **changes}
        for dtype in spec.get("dtypes", ("fp32",)):
            for S in (1, 5, 16, 33, 101):
                for kind in (("normal", "ties", "softmax") if spec["level"] == "select" else ("normal", "large", "gaps")):
                    c = run(module, getattr(module, fn), spec, dtype, 2, S, kind, seed=S)
                    for n, e in c.err.items():
                        worst = float(e.max())
                        k = f"{dtype} {n}"
                        flips = 0
                        limit = 0.5 if spec["level"] == "select" else 3 * OUTSIDE[dtype] if n[0] == "d" or kind == "large" else OUTSIDE[dtype]
                        if spec["level"] == "score":
                            limit = 2e-6
                        if worst > limit and spec["level"] == "attention" and dtype != "fp32":
                            flips = int((e > limit).sum())
                            continue_note = f"{fn} {dtype} S={S} {kind} {n}: {flips} of {e.numel()} rows beyond {limit:.2g} ({worst:.3g})"
                            result.setdefault("notes", []).append(continue_note)
                            continue
                        result["worst"][k] = max(result["worst"].get(k, 0), worst)
                        if worst > limit:
                            result["bad"].append(f"{fn} {dtype} S={S} {kind}: {n} {worst:.3g} > {limit:.2g}")
    return result


import gen                                            # names of the functions  # noqa: E402
FN = {name: fn for name, _, _, _, fn, _, _ in gen.FILES}

if __name__ == "__main__":
    path = HERE / "measured.json"
    measured = json.loads(path.read_text()) if path.exists() else {}
    names = [n for n in sorted(FN) if not sys.argv[1:] or any(n.startswith(a) for a in sys.argv[1:])]
    for name in names:
        key = name[:3]
        check = (check_right if name[0] == "r" else check_mutation if key == "k26" else check_rounding if key in ("k20", "k29", "k30") else check_wrong)
        try:
            measured[name] = check(name)
        except Exception as error:
            measured[name] = {"bad": [f"{type(error).__name__}: {error}"]}
            if len(names) < 4:
                raise
        m = measured[name]
        print(name, "BAD" if m["bad"] else "ok", {k: (f"{v:.3g}" if isinstance(v, float) else v) for k, v in m.items() if k not in ("bad",)}, flush=True)
        for line in m["bad"][:6]:
            print("     ", line, flush=True)
        path.write_text(json.dumps(measured, indent=1))
