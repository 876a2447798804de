"""Writes kNN_*.py and rNN_*.py beside it: each file is self-contained (kit.py serves only the main guard)."""
import pathlib
import textwrap

HERE = pathlib.Path(__file__).parent

HEAD = '''"""{doc}"""
{imports}import torch

try:
    import nsa_harness
except ImportError:
    nsa_harness = None

SPEC = dict({spec})
spec = nsa_harness.Spec(**SPEC) if nsa_harness else None
{body}

if __name__ == "__main__":
    import kit
{calls}
'''

LAYOUT = '''
LAYOUT = SPEC.get("layout", "bshd").replace("t", "s")


def inner(x):                                         # the caller's layout -> [B, heads, S, width]
    return x.permute(["bshd".index(c) if len(LAYOUT) == 0 else LAYOUT.index(c) for c in "bhsd"])


def outer(x):
    return x.permute(["bhsd".index(c) for c in LAYOUT])
'''.replace('["bshd".index(c) if len(LAYOUT) == 0 else LAYOUT.index(c) for c in "bhsd"]', '[LAYOUT.index(c) for c in "bhsd"]')

OUTER3 = '''

def outer3(x):                                        # [B, heads, S] -> the layout without its width
    rest = LAYOUT.replace("d", "")
    return x.permute(["bhs".index(c) for c in rest])
'''

PER_HEAD = '''
SCALE = SPEC["d_k"] ** -0.5


def per_head(x, heads):
    return x.repeat_interleave(heads // x.shape[1], dim=1)
'''

DENSE = '''

def attend(q, k, v, seen):                            # [B,H,S,D], [B,G,N,D], [B,G,N,V], seen [...,S,N]
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE
    p = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    return (p.to(v.dtype).to(wide) @ per_head(v.to(wide), q.shape[1])).to(v.dtype)
'''

FLASH = '''

class Attend(torch.autograd.Function):                # forward and backward as FlashAttention splits them
    @staticmethod
    def forward(ctx, q, k, v, seen):                  # [B,H,S,D], [B,G,N,D], [B,G,N,V], seen [...,S,N]
        wide = torch.promote_types(q.dtype, torch.float32)
        qw, kw, vw = q.to(wide), per_head(k.to(wide), q.shape[1]), per_head(v.to(wide), q.shape[1])
        scores = (qw @ kw.transpose(-1, -2) * SCALE).masked_fill(~seen, -1e30)
        lse = torch.logsumexp(scores, -1, keepdim=True)
        p = torch.exp(scores - lse) * seen
        o = (p.to(v.dtype).to(wide) @ vw).to(v.dtype)
        ctx.save_for_backward(q, k, v, o, lse, seen)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse, seen = ctx.saved_tensors
        wide = torch.promote_types(q.dtype, torch.float32)
        heads, groups = q.shape[1], k.shape[1]
        qw, kw, vw, dow = q.to(wide), per_head(k.to(wide), heads), per_head(v.to(wide), heads), do.to(wide)
        p = torch.exp((qw @ kw.transpose(-1, -2) * SCALE).masked_fill(~seen, -1e30) - lse) * seen
        delta = (dow * o.to(wide)).sum(-1, keepdim=True)
        ds = (p * (dow @ vw.transpose(-1, -2) - delta)).to(q.dtype).to(wide)
        dq = ds @ kw * SCALE
        dk = (ds.transpose(-1, -2) @ qw * SCALE).unflatten(1, (groups, -1)).sum(2)
        dv = (p.to(v.dtype).to(wide).transpose(-1, -2) @ dow).unflatten(1, (groups, -1)).sum(2)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None
'''

WIN = '''

def window_mask(length):
    t = torch.arange(length)
    back = t[:, None] - t
    return (back >= 0) & (back < SPEC["window"])
'''

CMP = '''

def complete(length, keys):                           # [S, keys]: compressed key i ends at i * stride + length - 1
    first = torch.arange(keys) * SPEC["compress_stride"]
    return first + SPEC["compress_length"] - 1 <= torch.arange(length)[:, None]
'''

SEL = '''
BLOCK, SENTINEL = SPEC["block"], SPEC.get("sentinel", -1)


def block_mask(picks, length):                        # [B,X,S,slots] -> [B,X,S,S], without causality
    blocks = -(-length // BLOCK)
    chosen = torch.zeros(*picks.shape[:3], blocks + 1, dtype=torch.bool)
    chosen.scatter_(-1, torch.where(picks == SENTINEL, blocks, picks).long(), True)
    return chosen[..., :blocks].repeat_interleave(BLOCK, -1)[..., :length]


def picked(picks, length):
    t = torch.arange(length)
    return block_mask(picks, length) & (t[:, None] >= t)
'''

GATHER = '''
BLOCK, SENTINEL = SPEC["block"], SPEC.get("sentinel", -1)


def attend_gathered(q, k, v, picks):                  # [B,H,S,D], [B,G,S,D], [B,G,S,V], [B,X,S,slots]
    wide = torch.promote_types(q.dtype, torch.float32)
    batch, heads, length, _ = q.shape
    t = torch.arange(length)
    token = (picks.long()[..., None] * BLOCK + torch.arange(BLOCK)).flatten(-2)
    seen = (picks != SENTINEL)[..., None].expand(*picks.shape, BLOCK).flatten(-2) & (token <= t[:, None])
    token = token.clamp(0, length - 1)
    token, seen = per_head(token, heads), per_head(seen, heads)
    b, h = torch.arange(batch)[:, None, None, None], torch.arange(heads)[:, None, None]
    keys, values = per_head(k.to(wide), heads)[b, h, token], per_head(v.to(wide), heads)[b, h, token]
    scores = torch.einsum("bhsd,bhsnd->bhsn", q.to(wide), keys) * SCALE
    p = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    return torch.einsum("bhsn,bhsnv->bhsv", p.to(v.dtype).to(wide), values).to(v.dtype)
'''

SELECT = '''
BLOCK, TOP, SENTINEL = SPEC["block"], SPEC["top_n"], SPEC.get("sentinel", -1)
FIRST, LAST = SPEC.get("forced_first", 1), SPEC.get("forced_last", 2)
PICKS = {"int64": torch.int64, "int32": torch.int32}[SPEC.get("picks_dtype", "int64")]


def as_lists(chosen):                                 # [B,G,S,blocks] of bool -> ascending lists, sentinels last
    blocks = chosen.shape[-1]
    index = torch.where(chosen, torch.arange(blocks), blocks).sort(-1).values
    index = torch.nn.functional.pad(index, (0, max(0, TOP - blocks)), value=blocks)[..., :TOP]
    return torch.where(index == blocks, SENTINEL, index).to(PICKS)


def rank(scores, forced, exists):                     # forced ones, then the best; of equal ones the first
    key = scores.masked_fill(forced, float("inf")).masked_fill(~exists, float("-inf"))
    order = key.sort(dim=-1, descending=True, stable=True).indices[..., :TOP]
    return torch.zeros_like(exists.expand(scores.shape)).scatter(-1, order, True) & exists


def table(length, blocks):
    own = torch.arange(length)[:, None] // BLOCK
    block = torch.arange(blocks)
    exists = block <= own
    return ((block < FIRST) | (block > own - LAST)) & exists, exists
'''

FILES = []


def add(name, doc, spec, body, fn, calls=None, imports=""):
    FILES.append((name, doc, spec, body, fn, calls or [f"kit.tell({fn}, spec)"], imports))


def swap(text, old, new):
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


W = 'level="attend_win", '
# ------------------------------------------------------------------------------------------------ attend_win
add("k01_window_inclusive_left", """The window of w keys is handed on as window_size=(w, 0), which counts the keys to the left of the query: w + 1 in all.
After huggingface/transformers#39408 (and zml/zml#763): off by one with a sliding window.""",
    W + 'heads=4, groups=2, d_k=16, d_v=24, window=24, layout="bhsd"',
    LAYOUT + PER_HEAD + DENSE + '''

def sliding(q, k, v):
    left, right = SPEC["window"], 0                   # should be SPEC["window"] - 1
    t = torch.arange(inner(q).shape[2])
    back = t[:, None] - t
    return outer(attend(inner(q), inner(k), inner(v), (back <= left) & (back >= -right)))
''', "sliding")

add("k02_exp_without_max", """Window attention in fp16 that takes exp(score) without subtracting the row's maximum and keeps it in fp16:
beyond a score of 11.09 it is infinite (and the row NaN). Small scores are right.""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=16, dtypes=("fp16",)',
    LAYOUT + PER_HEAD + WIN + '''

def window_fp16(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE
    e = (torch.exp(scores) * window_mask(q.shape[2])).to(v.dtype).to(wide)          # max 65504 in fp16
    o = (e @ per_head(v.to(wide), q.shape[1])) / e.sum(-1, keepdim=True)
    return outer(o.to(v.dtype))
''', "window_fp16")

add("k03_dkdv_heads_modulo", """The backward of keys and values takes head h for group h % G, the forward and dq for group h // (H / G).
After XunhaoLai/native-sparse-attention-triton#27, first defect (head count divided by the wrong number in dk/dv alone).""",
    W + 'heads=6, groups=2, d_k=32, d_v=8, window=16',
    LAYOUT + PER_HEAD + swap(swap(FLASH, "@ qw * SCALE).unflatten(1, (groups, -1)).sum(2)", "@ qw * SCALE).unflatten(1, (-1, groups)).sum(1)"),
                             "@ dow).unflatten(1, (groups, -1)).sum(2)", "@ dow).unflatten(1, (-1, groups)).sum(1)") + WIN + '''

def window(q, k, v):
    return outer(Attend.apply(inner(q), inner(k), inner(v), window_mask(q.shape[1])))
''', "window")

add("k04_rescale_skipped", """Online softmax over tiles of 16 keys. If the maximum moves by less than log2(256), the accumulator is not rescaled and the
old maximum stays; but the tile's p was taken with the new one. Rows whose maximum lies in their first tile are right.
After meta-pytorch/MSLK#242 (also ROCm/rocm-libraries#6498): conditional rescaling with p in the wrong frame.""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=48, lse="e"',
    LAYOUT + OUTER3 + PER_HEAD + WIN + '''
TILE, TAU = 16, 8 * 0.6931471805599453


def online(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    length = q.shape[2]
    kh, vh, seen = per_head(k, q.shape[1]), per_head(v, q.shape[1]), window_mask(length)
    m = q.new_full(q.shape[:3] + (1,), -1e30)
    total, acc = torch.zeros_like(m), q.new_zeros(q.shape[:3] + (v.shape[-1],))
    for begin in range(0, length, TILE):
        tile = slice(begin, min(begin + TILE, length))
        s = (q @ kh[:, :, tile].transpose(-1, -2) * SCALE).masked_fill(~seen[:, tile], -1e30)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new) * seen[:, tile]
        skip = m_new - m <= TAU
        alpha = torch.where(skip, torch.ones_like(m), torch.exp(m - m_new))
        acc, total = acc * alpha + p @ vh[:, :, tile], total * alpha + p.sum(-1, keepdim=True)
        m = torch.where(skip, m, m_new)               # p should be multiplied by exp(m_new - m) here
    return outer(acc / total), outer3((m + torch.log(total)).squeeze(-1))
''', "online")

add("k05_lse_without_max", """The output is right; the log-sum-exp that is returned beside it lacks the row's maximum: log of the sum of exp(s - max).
After Dao-AILab/flash-attention#404 (which of the two softmax_lse is).""",
    W + 'heads=4, groups=4, d_k=16, d_v=16, window=16, lse="e", dtypes=("fp32", "bf16")',
    LAYOUT + OUTER3 + PER_HEAD + WIN + '''

def with_lse(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    wide = torch.promote_types(q.dtype, torch.float32)
    seen = window_mask(q.shape[2])
    s = (q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE).masked_fill(~seen, -1e30)
    e = torch.exp(s - s.amax(-1, keepdim=True)) * seen
    total = e.sum(-1, keepdim=True)
    o = ((e / total).to(v.dtype).to(wide) @ per_head(v.to(wide), q.shape[1])).to(v.dtype)
    return outer(o), outer3(torch.log(total).squeeze(-1))             # should be + the maximum
''', "with_lse")

add("k06_dout_strides", """The backward reads the gradient of the output as if it were contiguous. The forward returns a transposed view, so the
gradient comes transposed as well: forward right, all gradients wrong.
After Dao-AILab/flash-attention#355: incorrect backward pass for non-contiguous output grads.""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=16',
    LAYOUT + PER_HEAD + swap(FLASH, "        q, k, v, o, lse, seen = ctx.saved_tensors\n", '''        q, k, v, o, lse, seen = ctx.saved_tensors
        if do.untyped_storage().nbytes() >= (do.storage_offset() + do.numel()) * do.element_size():
            do = do.as_strided(do.shape, torch.empty(do.shape).stride(), do.storage_offset())    # do.contiguous() is right
''') + WIN + '''

def window(q, k, v):
    return outer(Attend.apply(inner(q), inner(k), inner(v), window_mask(q.shape[1])))
''', "window")

add("k07_keys_tail_skipped", """The loop over tiles of 64 keys ends at the last whole tile: keys in a last, partial tile are never read. Rows before that
tile and lengths that are multiples of 64 are right.
After pytorch/pytorch#159247 (accuracy with a kv length that is no multiple of the block) and jax-ml/jax#27224.""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=32, layout="bhsd"',
    LAYOUT + PER_HEAD + DENSE + WIN + '''
TILE = 64


def window(q, k, v):
    length = inner(q).shape[2]
    seen = window_mask(length) & (torch.arange(length) < length // TILE * TILE)     # should round up
    return outer(attend(inner(q), inner(k), inner(v), seen))
''', "window")

add("k08_dq_accum_tile", """The float32 buffer of dq gives each sequence a multiple of 64 rows; the pass that converts it looks for a sequence at
multiples of 128. dq of the sequences after the first is moved (or zero), where the two paddings differ. dk, dv are right.
After Dao-AILab/flash-attention#2337 (SeqlenInfo.create has a tile parameter that defaults to 128).""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=16',
    LAYOUT + PER_HEAD + swap(FLASH, "        return dq.to(q.dtype), dk", '''        batch, length = dq.shape[0], dq.shape[2]
        padded, looked = -(-length // 64) * 64, -(-length // 128) * 128
        buffer = dq.new_zeros(heads, batch * looked, dq.shape[-1])
        for b in range(batch):
            buffer[:, b * padded : b * padded + length] = dq[b]
        dq = torch.stack([buffer[:, b * looked : b * looked + length] for b in range(batch)])
        return dq.to(q.dtype), dk''') + WIN + '''

def window(q, k, v):
    return outer(Attend.apply(inner(q), inner(k), inner(v), window_mask(q.shape[1])))
''', "window")

add("k09_diagonal_lost_mod_8", """The causal mask of a tile of 8 rows is built with < in place of <= for its first row: rows 8, 16, 24 ... do not see
their own key. (Row 0 would have no key; it is treated apart.)""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=16, layout="sbhd", dtypes=("bf16",)',
    LAYOUT + PER_HEAD + DENSE + WIN + '''

def window(q, k, v):
    length = inner(q).shape[2]
    t = torch.arange(length)
    own = (t[:, None] == t) & (t % 8 == 0)[:, None] & (t > 0)[:, None]
    return outer(attend(inner(q), inner(k), inner(v), window_mask(length) & ~own))
''', "window")

add("k10_combine_onto_sequence_0", """Two splits of the keys, merged by their log-sum-exp. The stride over the batch of the second split's partial output is 0:
every sequence merges the partial output of sequence 0. A batch of one is right, and so is sequence 0.
After vllm-project/flash-attention#176 (o_batch_stride stays 0 and the combine kernel folds every sequence onto sequence 0).""",
    W + 'heads=4, groups=2, d_k=16, d_v=16, window=32',
    LAYOUT + PER_HEAD + WIN + '''
TILE = 16


def piece(q, k, v, seen):
    s = (q @ k.transpose(-1, -2) * SCALE).masked_fill(~seen, -1e30)
    lse = torch.logsumexp(s, -1, keepdim=True)
    return (torch.exp(s - lse) * seen) @ v, torch.where(seen.any(-1, keepdim=True), lse, -1e30)


def window(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    k, v, seen = per_head(k, q.shape[1]), per_head(v, q.shape[1]), window_mask(q.shape[2])
    t = torch.arange(q.shape[2])
    near = seen & (t[:, None] // TILE == t // TILE)
    o1, l1 = piece(q, k, v, near)
    o2, l2 = piece(q, k, v, seen & ~near)
    o2 = o2[:1].expand_as(o2)                         # batch stride 0
    share = torch.sigmoid(l1 - l2)
    return outer(share * o1 + (1 - share) * o2)
''', "window")

GATHER_WIN = '''

def attend_window(q, k, v, place):                    # place [S]: the position that a row takes its window at
    wide = torch.promote_types(q.dtype, torch.float32)
    token = place[:, None] - torch.arange(SPEC["window"])
    seen, token = token >= 0, token.clamp(min=0)
    keys, values = per_head(k.to(wide), q.shape[1])[:, :, token], per_head(v.to(wide), q.shape[1])[:, :, token]
    scores = torch.einsum("bhsd,bhsnd->bhsn", q.to(wide), keys) * SCALE
    p = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    return torch.einsum("bhsn,bhsnv->bhsv", p.to(v.dtype).to(wide), values).to(v.dtype)
'''
add("k11_from_row_4096", """Positions are packed into 12 bits: row 4096 takes the window of row 0, row 4097 that of row 1. All shorter sequences are
right.""",
    W + 'heads=2, groups=1, d_k=16, d_v=16, window=16',
    LAYOUT + PER_HEAD + GATHER_WIN + '''

def window(q, k, v):
    place = torch.arange(inner(q).shape[2]) & 4095
    return outer(attend_window(inner(q), inner(k), inner(v), place))
''', "window")

# ------------------------------------------------------------------------------------------------ attend_sel
S_ = 'level="attend_sel", '
add("k12_kv_heads_tiled", """Keys and values are tiled over the query heads (g0 g1 g2 g3 g0 g1 g2 g3) in place of repeated one by one.
After onnx/onnx#7274 (Tile in place of repeat_interleave in grouped attention) and apple/axlearn#842.""",
    S_ + 'heads=8, groups=4, d_k=16, d_v=16, block=8, top_n=4, dtypes=("bf16",)',
    LAYOUT + PER_HEAD + swap(swap(DENSE, "per_head(k.to(wide), q.shape[1])", "tiled(k.to(wide), q.shape[1])"), "per_head(v.to(wide), q.shape[1])", "tiled(v.to(wide), q.shape[1])") + '''

def tiled(x, heads):
    return x.repeat(1, heads // x.shape[1], 1, 1)
''' + SEL + '''

def selected(q, k, v, picks):
    seen = per_head(picked(inner(picks), inner(q).shape[2]), inner(q).shape[1])
    return outer(attend(inner(q), inner(k), inner(v), seen))
''', "selected")

add("k13_merge_base2_as_e", """The slots of a list are worked on in two halves. Each gives its output and its log-sum-exp to base 2; they are merged, and the
sum itself is computed, as if the base were e. Rows with blocks in one half alone are right.
After meta-pytorch/attention-gym#205 (review: normalize FLASH LSE before exponentiating) and flashinfer-ai/flashinfer#2113.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, layout="bhsd", lse="2"',
    LAYOUT + OUTER3 + PER_HEAD + SEL + '''

def piece(q, k, v, seen):
    s = (q @ k.transpose(-1, -2) * (SCALE * 1.4426950408889634)).masked_fill(~seen, -1e30)
    top = s.amax(-1, keepdim=True)
    e = torch.exp2(s - top) * seen
    total = e.sum(-1, keepdim=True)
    return (e @ v) / total.clamp(min=1e-30), torch.where(total > 0, top + torch.log2(total.clamp(min=1e-30)), -1e30)


def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    k, v = per_head(k, q.shape[1]), per_head(v, q.shape[1])
    half = picks.shape[-1] // 2
    parts = [per_head(picked(p, q.shape[2]), q.shape[1]) for p in (picks[..., :half], picks[..., half:])]
    (o1, l1), (o2, l2) = (piece(q, k, v, seen) for seen in parts)
    top = torch.maximum(l1, l2)
    w1, w2 = torch.exp(l1 - top), torch.exp(l2 - top)                  # should be exp2
    return outer((w1 * o1 + w2 * o2) / (w1 + w2)), outer3((top + torch.log2(w1 + w2)).squeeze(-1))
''', "selected")

add("k14_sentinel_block_zero", """Slots without a block are converted to 0 in place of an invalid index: block 0 is attended to once more for each.
After vllm-project/vllm#45324 (sparse MLA: the kernel returns 0 instead of -1 for invalid slots).""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, picks_per="head", dtypes=("bf16",)',
    LAYOUT + PER_HEAD + GATHER + '''

def selected(q, k, v, picks):
    return outer(attend_gathered(inner(q), inner(k), inner(v), inner(picks).clamp(min=0)))
''', "selected")

add("k15_sentinel_clamped_to_last", """Slots without a block hold a large number. The kernel clamps it into the sequence and relies on causality to hide the last
block: in rows of the last block it does not.
After deepseek-ai/FlashMLA#109 (invalid indices 2147480000 need both bounds).""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, select="external", picks_dtype="int32", sentinel=1000000, forced_first=0, forced_last=0',
    LAYOUT + PER_HEAD + GATHER + '''

def selected(q, k, v, picks):
    last = -(-inner(q).shape[2] // BLOCK) - 1
    return outer(attend_gathered(inner(q), inner(k), inner(v), inner(picks).clamp(0, last)))
''', "selected")

add("k16_value_strides", """Values are read as if they were contiguous, queries and keys by their strides.
After flagos-ai/FlagGems#5896 (flash attention returns wrong output for non-contiguous value tensors).""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, layout="bhsd"',
    LAYOUT + PER_HEAD + DENSE + SEL + '''

def selected(q, k, v, picks):                         # all are [B, heads, S, width]
    v = v.as_strided(v.shape, torch.empty(v.shape).stride(), v.storage_offset())
    return attend(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1]))
''', "selected")

add("k17_backward_not_causal", """The forward masks later tokens in the query's own block, the backward does not: it takes p = exp(s - lse) of them too.
After triton-lang/triton#7216 (the tutorial's backward never applies the causal mask that the forward uses).""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4',
    LAYOUT + PER_HEAD + swap(swap(FLASH, "def forward(ctx, q, k, v, seen): ", "def forward(ctx, q, k, v, seen, blocks): "), "ctx.save_for_backward(q, k, v, o, lse, seen)",
                             "ctx.save_for_backward(q, k, v, o, lse, blocks)").replace("dv.to(v.dtype), None", "dv.to(v.dtype), None, None") + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    seen, blocks = (per_head(f(picks, q.shape[2]), q.shape[1]) for f in (picked, block_mask))
    return outer(Attend.apply(q, k, v, seen, blocks))
''', "selected")

add("k18_dq_scale_missing", """dq lacks the factor 1/sqrt(d_k); dk has it.
After fla-org/flash-linear-attention#47 (treatment of the scale in the gradient).""",
    S_ + 'heads=4, groups=2, d_k=64, d_v=64, block=8, top_n=4, dtypes=("bf16",)',
    LAYOUT + PER_HEAD + swap(FLASH, "dq = ds @ kw * SCALE", "dq = ds @ kw") + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    return outer(Attend.apply(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

add("k19_offset_wraps", """The offset of a key's element (sequence, token, group, channel) has 12 bits and begins again at 4096, as an int32 does at 2**31.
After fla-org/flash-linear-attention#1080 (int32 block-pointer offsets: silent output corruption).""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4',
    LAYOUT + PER_HEAD + DENSE + SEL + '''

def selected(q, k, v, picks):                         # k is [B,S,G,D]
    flat = k.reshape(-1)
    k = flat[torch.arange(flat.numel()) % 4096].reshape(k.shape)
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    return outer(attend(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

add("k20_scaled_query_rounded", """The query times 1/sqrt(32) is rounded to bf16 before the product with the keys (as fla-core's NSA kernels do at width 128).
Everything else is in float32.""",
    S_ + 'heads=4, groups=2, d_k=32, d_v=32, block=8, top_n=4, dtypes=("bf16",)',
    LAYOUT + PER_HEAD + swap(DENSE, "q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE",
                             "(q * SCALE).to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2)") + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    return outer(attend(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

add("k21_delta_from_bf16_output", """An fp32 kernel keeps its output in bf16 for the backward, to save memory: delta = dO . O has three digits. Output and dv
are right, dq and dk are off by about 1e-3.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4',
    LAYOUT + PER_HEAD + swap(FLASH, "ctx.save_for_backward(q, k, v, o, lse, seen)", "ctx.save_for_backward(q, k, v, o.to(torch.bfloat16), lse, seen)") + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    return outer(Attend.apply(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

add("k22_prefetch_next_sequence", """A persistent kernel fetches the values of the next work item too early: the last tile of 32 rows of a sequence reads the values
of the next sequence of the batch. The last sequence, and a batch of one, are right.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4',
    LAYOUT + PER_HEAD + DENSE + SEL + '''
TILE = 32


def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    seen = per_head(picked(picks, q.shape[2]), q.shape[1])
    last = (q.shape[2] - 1) // TILE * TILE
    early = attend(q[:, :, last:], k, torch.cat([v[1:], v[-1:]]), seen[:, :, last:])
    return outer(torch.cat([attend(q, k, v, seen)[:, :, :last], early], 2))
''', "selected")

add("k23_from_row_128", """The pointer to the lists of picks is advanced by the row inside of a tile of 128 rows, not by the row of the sequence: row
128 attends to the blocks of row 0.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, layout="bhsd"',
    LAYOUT + PER_HEAD + DENSE + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    picks = picks[:, :, torch.arange(q.shape[2]) % 128]
    return outer(attend(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

add("k24_from_row_1000", """A table of blocks has 125 entries; later blocks are clamped to the last one. With blocks of 8, rows 0 to 999 are right.""",
    S_ + 'heads=2, groups=1, d_k=16, d_v=16, block=8, top_n=4',
    LAYOUT + PER_HEAD + GATHER + '''
ENTRIES = 125


def selected(q, k, v, picks):
    return outer(attend_gathered(inner(q), inner(k), inner(v), inner(picks).clamp(max=ENTRIES - 1)))
''', "selected")

add("k25_last_key_repeated", """Token numbers are clamped to the sequence before they are compared with the query: if the last block is not full, the last
query sees the last key once more for every token that is missing. All other rows are right.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, dtypes=("fp32", "fp16")',
    LAYOUT + PER_HEAD + swap(swap(GATHER, "    token = token.clamp(0, length - 1)\n", ""), "torch.arange(BLOCK)).flatten(-2)\n",
                             "torch.arange(BLOCK)).flatten(-2).clamp(0, length - 1)\n") + '''

def selected(q, k, v, picks):
    return outer(attend_gathered(inner(q), inner(k), inner(v), inner(picks)))
''', "selected")

add("k26_picks_clamped_in_place", """The output is right, but the caller's lists are written to: empty slots become 0, so whoever uses the lists again attends to
block 0 more often.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, picks_dtype="int32"',
    LAYOUT + PER_HEAD + DENSE + SEL + '''

def selected(q, k, v, picks):
    valid = picks >= 0
    picks.clamp_(min=0)                               # the caller's tensor
    lists = torch.where(valid, picks, SENTINEL)
    q, k, v, lists = inner(q), inner(k), inner(v), inner(lists)
    return outer(attend(q, k, v, per_head(picked(lists, q.shape[2]), q.shape[1])))
''', "selected")

add("k27_dv_last_tile", """The grid of the pass for dv has S // 32 tiles of keys: a last, partial tile keeps the zeros of its buffer. dk has its own pass.
After OpenNLPLab/lightning-attention#28 (grids sized by a floor division) and lucidrains/native-sparse-attention-pytorch#33.""",
    S_ + 'heads=4, groups=2, d_k=16, d_v=32, block=8, top_n=4',
    LAYOUT + PER_HEAD + swap(FLASH, "        return dq.to(q.dtype), dk", '''        dv[:, :, dv.shape[2] // 32 * 32 :] = 0        # never launched
        return dq.to(q.dtype), dk''') + SEL + '''

def selected(q, k, v, picks):
    q, k, v, picks = inner(q), inner(k), inner(v), inner(picks)
    return outer(Attend.apply(q, k, v, per_head(picked(picks, q.shape[2]), q.shape[1])))
''', "selected")

# ------------------------------------------------------------------------------------------------ attend_cmp
C = 'level="attend_cmp", compress_length=8, compress_stride=4, '
add("k28_empty_rows_nan", """Queries before the first complete compressed key get NaN: all their scores are -inf.
After tracel-ai/burn#4694 and iree-org/iree#24175 (NaN for fully masked rows in place of zeros).""",
    C + 'heads=4, groups=1, d_k=16, d_v=16, dtypes=("bf16",)',
    LAYOUT + PER_HEAD + swap(DENSE, "masked_fill(~seen, -1e30), -1) * seen", 'masked_fill(~seen, float("-inf")), -1)') + CMP + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(attend(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k29_scores_bf16", """Scores are rounded to bf16 before the softmax (a plain q @ k in bf16).""",
    C + 'heads=4, groups=2, d_k=16, d_v=16, layout="bhsd", dtypes=("bf16",)',
    LAYOUT + PER_HEAD + swap(DENSE, ".transpose(-1, -2) * SCALE\n", ".transpose(-1, -2) * SCALE\n    scores = scores.to(q.dtype).to(wide)\n") + CMP + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(attend(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k30_product_before_scale_fp16", """q . k is stored in fp16 before it is scaled: infinite beyond 65504, and three digits of it are lost before the softmax.
After PaddlePaddle/Paddle#41933 (inf in fused_attention) and ultralytics/ultralytics#24990.""",
    C + 'heads=4, groups=2, d_k=64, d_v=64, dtypes=("fp16",)',
    LAYOUT + PER_HEAD + swap(DENSE, "q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE",
                             "(q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2)).to(q.dtype).to(wide) * SCALE") + CMP + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(attend(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k31_autotune_first_call", """The kernel adds to its output. The first call of the process tries a configuration before, and leaves what that wrote: the first
output is twice the right one, every later one is right.
After triton-lang/triton#781 (incorrect result from first-run autotune function) and #4217.""",
    C + 'heads=4, groups=2, d_k=16, d_v=16',
    LAYOUT + PER_HEAD + DENSE + CMP + '''
tuned = {}


def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    run = lambda: attend(q, k, v, complete(q.shape[2], k.shape[2]))
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=v.dtype)
    key = (q.shape[-1], v.shape[-1], q.dtype)
    if key not in tuned:
        tuned[key] = "BLOCK_M=64"
        out = out + run().detach()                    # the trial run; reset_to_zero was forgotten
    return outer(out + run())
''', "compressed")

add("k32_workspace_second_call", """The backward adds dk into a workspace that is kept for each shape and is zeroed only when it is made: the second backward of a
shape returns the first one's dk as well. dq and dv are right.""",
    C + 'heads=4, groups=2, d_k=16, d_v=16, layout="bhsd"',
    LAYOUT + PER_HEAD + '''
workspace = {}
''' + swap(FLASH, "        return dq.to(q.dtype), dk", '''        key = (tuple(dk.shape), dk.dtype)
        if key not in workspace:
            workspace[key] = torch.zeros_like(dk)     # later calls do not zero it
        dk = workspace[key].add_(dk).clone()
        return dq.to(q.dtype), dk''') + CMP + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(Attend.apply(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k33_compressed_from_first_token", """A query sees a compressed key from the key's first token on, so keys hold tokens after the query.
After tilde-research/nsa-release#3 (causality issue with compressive attention).""",
    C + 'heads=4, groups=2, d_k=16, d_v=16, dtypes=("fp16",)',
    LAYOUT + PER_HEAD + DENSE + swap(CMP, 'first + SPEC["compress_length"] - 1 <=', "first <=") + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(attend(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k34_dkdv_one_head", """dk and dv of a group are those of its last head alone: the sum over the heads that share the keys is missing.
After marin-community/levanter#449 (the flash backward does not undo the broadcast of K and V).""",
    C + 'heads=4, groups=2, d_k=16, d_v=16, layout="bhtd"',
    LAYOUT + PER_HEAD + FLASH.replace(".unflatten(1, (groups, -1)).sum(2)", ".unflatten(1, (groups, -1))[:, :, -1]") + CMP + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(Attend.apply(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

add("k35_from_row_64", """The mask compares a compressed key with the row inside of its tile of 64 rows, not with the row of the sequence.""",
    C + 'heads=4, groups=2, d_k=16, d_v=16',
    LAYOUT + PER_HEAD + DENSE + swap(CMP, "torch.arange(length)[:, None]", "torch.arange(length)[:, None] % 64") + '''

def compressed(q, k, v):
    q, k, v = inner(q), inner(k), inner(v)
    return outer(attend(q, k, v, complete(q.shape[2], k.shape[2])))
''', "compressed")

# ------------------------------------------------------------------------------------------------ score
SCORE = PER_HEAD + CMP + '''

def shares(length, keys):                             # [keys, blocks]: what a compressed key counts for a block
    first = torch.arange(keys)[:, None] * SPEC["compress_stride"]
    begin = torch.arange(-(-length // SPEC["block"])) * SPEC["block"]
    tokens = torch.minimum(first + SPEC["compress_length"], begin + SPEC["block"]) - torch.maximum(first, begin)
    return tokens.clamp(min=0) / SPEC["compress_length"]


def block_scores(q, k):
    q, k = inner(q), inner(k)
    wide = torch.promote_types(q.dtype, torch.float32)
    seen = complete(q.shape[2], k.shape[2])
    s = q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
    return outer((p @ shares(q.shape[2], k.shape[2]).to(wide)).unflatten(1, (k.shape[1], -1)).sum(2))
'''
O = 'level="score", compress_length=8, compress_stride=4, '
add("k36_block_of_first_token", """A compressed key counts in full for the block in which it begins, though some of its tokens lie in the next one.""",
    O + 'heads=4, groups=2, d_k=16, block=16',
    LAYOUT + swap(SCORE, '''    tokens = torch.minimum(first + SPEC["compress_length"], begin + SPEC["block"]) - torch.maximum(first, begin)
    return tokens.clamp(min=0) / SPEC["compress_length"]
''', '''    return (first // SPEC["block"] == begin // SPEC["block"]).float()
'''), "block_scores")
add("k37_stride_for_length", """The scores take a compressed key as complete after stride tokens in place of length tokens: p holds keys with later tokens.""",
    O + 'heads=4, groups=2, d_k=16, block=8, eq9="overlap", layout="bhsd", dtypes=("bf16",)',
    LAYOUT + swap(swap(SCORE, 'first + SPEC["compress_length"] - 1 <=', 'first + SPEC["compress_stride"] - 1 <='),
                  'tokens.clamp(min=0) / SPEC["compress_length"]', 'tokens.clamp(min=0) / SPEC["compress_stride"]'), "block_scores")

# ------------------------------------------------------------------------------------------------ select
L = 'level="select", '
CHOOSE = '''

def choose(scores):
    scores = inner(scores)
    forced, exists = table(*scores.shape[-2:])
    return outer(as_lists(rank(scores, forced, exists)))
'''
add("k38_ties_last", """Of equal scores the last block is taken.
After vllm-project/vllm#56749 and ROCm/aiter#4376 (top-k on equal scores).""",
    L + 'heads=4, groups=2, block=8, top_n=6',
    LAYOUT + SELECT + swap(CHOOSE, "rank(scores, forced, exists)", "rank(scores.flip(-1), forced.flip(-1), exists.flip(-1)).flip(-1)"), "choose")
add("k39_radix_stash", """A radix select: bins are the octaves of the scores. Of the bin that holds the last place, 64 candidates (16 times top_n) fit into
the buffer in which they are compared exactly; later ones are dropped. Rows with few candidates are right.
After vllm-project/vllm#51782 and sgl-project/sglang#36807 (top-k drops candidates when a bin overflows).""",
    L + 'heads=4, groups=2, block=4, top_n=4, forced_first=1, forced_last=1',
    LAYOUT + SELECT + '''
STASH = 16 * TOP


def choose(scores):
    scores = inner(scores)
    forced, exists = table(*scores.shape[-2:])
    free = (exists & ~forced).expand(scores.shape)
    octave = torch.where(free, torch.frexp(scores.float()).exponent, -10000)
    places = TOP - forced.sum(-1)                                       # free slots of a row
    ranked = octave.sort(-1, descending=True).values
    bin_ = ranked.gather(-1, (places - 1).clamp(0, ranked.shape[-1] - 1)[:, None].expand(*ranked.shape[:3], 1))
    inside = free & (octave == bin_)
    dropped = inside & (inside.cumsum(-1) > STASH)
    return outer(as_lists(rank(scores, forced, exists & ~dropped)))
''', "choose")
add("k40_octaves", """Scores are compared by the exponent of their 16-bit form alone (the first radix pass; the second one is missing): blocks whose
scores lie in one octave are taken in order.""",
    L + 'heads=4, groups=2, block=8, top_n=6, picks_order="any", picks_dtype="int32"',
    LAYOUT + SELECT + '''

def choose(scores):
    scores = inner(scores)
    forced, exists = table(*scores.shape[-2:])
    octave = torch.frexp(scores.to(torch.bfloat16).float()).exponent.to(scores.dtype)
    octave = torch.where(scores > 0, octave, -10000.0)
    return outer(as_lists(rank(octave, forced, exists)).flip(-1).sort(-1, descending=True).values)
''', "choose")
add("k41_approximate_1e_3", """An approximate top-k: scores are rounded to multiples of 1/1024 first; of blocks that are closer than that the first is taken.""",
    L + 'heads=4, groups=2, block=8, top_n=6, layout="bhsd"',
    LAYOUT + SELECT + swap(CHOOSE, "rank(scores, forced, exists)", "rank(torch.round(scores * 1024) / 1024, forced, exists)"), "choose")
add("k42_own_block_alone_forced", """Only the query's own block is forced at the end; the block before it must win by its score.""",
    L + 'heads=4, groups=2, block=8, top_n=4, sentinel=99999, picks_dtype="int32"',
    LAYOUT + swap(SELECT, 'SPEC.get("forced_last", 2)', '1') + CHOOSE, "choose")
add("k43_picks_after_the_query", """The best blocks of all are taken first, later ones removed after it; but the block is compared with the query's position, not with
its block. Lists of the first rows hold blocks after the query.
After XunhaoLai/native-sparse-attention-triton#25 (topk_idx[topk_idx > q_idx] = -1).""",
    L + 'heads=4, groups=2, block=8, top_n=4',
    LAYOUT + SELECT + '''

def choose(scores):
    scores = inner(scores)
    forced, exists = table(*scores.shape[-2:])
    key = scores.masked_fill(forced, float("inf"))
    order = key.sort(dim=-1, descending=True, stable=True).indices[..., :TOP]
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, True)
    t, block = torch.arange(scores.shape[2])[:, None], torch.arange(scores.shape[3])
    return outer(as_lists(chosen & (block <= t)))     # should be block <= t // BLOCK
''', "choose")

# ------------------------------------------------------------------------------------------------ attention
A = 'level="attention", heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, window=16, compress_length=8, compress_stride=4'
WHOLE = LAYOUT + PER_HEAD + DENSE + WIN + CMP + SELECT + '''

def averages(x):                                      # [B,G,S,D] -> [B,G,keys,D], rounded once
    length, stride = SPEC["compress_length"], SPEC["compress_stride"]
    keys = max(0, (x.shape[2] - length) // stride + 1)
    token = torch.arange(keys)[:, None] * stride + torch.arange(length)
    return x.to(torch.promote_types(x.dtype, torch.float32))[:, :, token].mean(3).to(x.dtype)


def block_scores(q, k):
    length, keys = q.shape[2], k.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    first = torch.arange(keys)[:, None] * SPEC["compress_stride"]
    begin = torch.arange(-(-length // BLOCK)) * BLOCK
    tokens = torch.minimum(first + SPEC["compress_length"], begin + BLOCK) - torch.maximum(first, begin)
    seen = complete(length, keys)
    s = q.to(wide) @ per_head(k.to(wide), q.shape[1]).transpose(-1, -2) * SCALE
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
    return (p @ (tokens.clamp(min=0) / SPEC["compress_length"]).to(wide)).unflatten(1, (k.shape[1], -1)).sum(2)


def choose(scores):                                   # [B,G,S,blocks] -> lists
    forced, exists = table(*scores.shape[-2:])
    return as_lists(rank(scores, forced, exists))


def attend_lists(q, k, v, picks):
    length = q.shape[2]
    blocks = -(-length // BLOCK)
    chosen = torch.zeros(*picks.shape[:3], blocks + 1, dtype=torch.bool)
    chosen.scatter_(-1, torch.where(picks == SENTINEL, blocks, picks).long(), True)
    t = torch.arange(length)
    seen = chosen[..., :blocks].repeat_interleave(BLOCK, -1)[..., :length] & (t[:, None] >= t)
    return attend(q, k, v, per_head(seen, q.shape[1]))


def whole(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates):        # keys of tokens, all [B,heads,S,width]
    wide = torch.promote_types(q.dtype, torch.float32)
    ck, cv = averages(k_cmp), averages(v_cmp)
    with torch.no_grad():
        picks = choose(block_scores(q, ck))
    o = (attend(q, ck, cv, complete(q.shape[2], ck.shape[2])), attend_lists(q, k_sel, v_sel, picks),
         attend(q, k_win, v_win, window_mask(q.shape[2])))
    return sum(gates[..., i : i + 1].to(wide) * o[i].to(wide) for i in range(3)).to(q.dtype)
'''
SHARED = '''

def nsa(q, k, v, gates):
    q, k, v, gates = (inner(x) for x in (q, k, v, gates))
    return outer(whole(q, k, v, k, v, k, v, gates))
'''
SEPARATE = '''

def nsa(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates):
    return outer(whole(*(inner(x) for x in (q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates))))
'''
add("k44_mean_of_length_minus_1", """Compressed keys are the mean of length - 1 tokens: the last one of each is missing. Compressed values are right.""",
    A, swap(WHOLE, "ck, cv = averages(k_cmp), averages(v_cmp)", "ck, cv = averages_of_keys(k_cmp), averages(v_cmp)") + '''

def averages_of_keys(x):
    length, stride = SPEC["compress_length"], SPEC["compress_stride"]
    keys = max(0, (x.shape[2] - length) // stride + 1)
    token = torch.arange(keys)[:, None] * stride + torch.arange(length - 1)
    return x[:, :, token].mean(3)
''' + SHARED, "nsa")
add("k45_gates_sel_cmp_win", """The gates are read in the order sel, cmp, win in place of cmp, sel, win.""",
    A + ', keys="separate", layout="bhsd", dtypes=("bf16",)', swap(WHOLE, "gates[..., i : i + 1]", "gates[..., j : j + 1]").replace("for i in range(3))", "for i, j in enumerate((1, 0, 2)))") + SEPARATE, "nsa")
add("k46_forced_twice", """The forced blocks are written into the list without a look at each other. In the second block the first block is forced as the first
one and as the one before the query's own: it stands twice in the list and is attended to twice (rows 8 to 15). In the first
block all entries are block 0, which changes nothing.""",
    A, swap(WHOLE, "    return attend(q, k, v, per_head(seen, q.shape[1]))\n", '''    own = t // BLOCK
    twice = ((own == 1)[:, None] & (t < BLOCK)).to(q.dtype)            # keys of block 0, for rows of block 1
    return attend(q, k, v, per_head(seen, q.shape[1]), twice * 0.6931471805599453)
''').replace("def attend(q, k, v, seen): ", "def attend(q, k, v, seen, bias=0): ").replace(
        "transpose(-1, -2) * SCALE\n    p = torch.softmax(scores.masked", "transpose(-1, -2) * SCALE + bias\n    p = torch.softmax(scores.masked") + SHARED, "nsa")
add("k47_selection_cached_by_shape", """The choice of blocks is kept for each shape and used again (as layers that share an index do): the second call of a shape attends
to the blocks of the first one. Other branches are right, and so is every first call of a shape.""",
    A + ', keys="separate"', swap(WHOLE, "        picks = choose(block_scores(q, ck))\n", '''        key = (tuple(q.shape), tuple(ck.shape), q.dtype)
        if key not in kept:                           # the numbers are not in the key
            kept[key] = choose(block_scores(q, ck))
        picks = kept[key]
''') + '''

kept = {}
''' + SEPARATE, "nsa")
add("k48_external_window_short", """External picks. The window branch of the whole operation sees window - 1 keys; selected and compressed branches are right.""",
    A.replace("top_n=4", "top_n=4, forced_first=0, forced_last=0") + ', select="external", picks_per="head", picks_dtype="int32"',
    swap(swap(swap(WHOLE, "k_win, v_win, gates):        #", "k_win, v_win, gates, picks):        #"), '''    with torch.no_grad():
        picks = choose(block_scores(q, ck))
''', ""), '(back < SPEC["window"])', '(back < SPEC["window"] - 1)') + '''

def nsa(q, k, v, gates, picks):
    q, k, v, gates, picks = (inner(x) for x in (q, k, v, gates, picks))
    return outer(whole(q, k, v, k, v, k, v, gates, picks))
''', "nsa")

# ================================================================================================ right ones
ALL = 'dtypes=("fp32", "bf16", "fp16")'


def more(fn, kinds):
    """One function for each further layout: validate must import it by name."""
    body, calls = "", [f"kit.tell({fn}, spec)"]
    for suffix, changes in kinds:
        args = "*x"
        body += f'''

def {fn}_{suffix}({args}):
    return {fn}_in({changes.get("layout", "bshd")!r}, *x)
'''
        calls.append(f"kit.tell({fn}_{suffix}, nsa_harness.Spec(**{{**SPEC, **{changes!r}}}))")
    return body, calls


RLAYOUT = '''

def inner(x, layout):                                 # the caller's layout -> [B, heads, S, width]
    return x.permute([layout.replace("t", "s").index(c) for c in "bhsd"])


def outer(x, layout):
    layout = layout.replace("t", "s")
    if x.dim() == 3:
        layout = layout.replace("d", "")
    return x.permute(["bhsd".index(c) for c in layout])
'''
# with x of three dimensions "bhs" has the same indices as "bhsd"


def right(name, doc, spec, body, fn, kinds, imports=""):
    tail, calls = more(fn, kinds)
    add(name, doc, spec, body + f'''

def {fn}(*x):
    return {fn}_in("bshd", *x)
''' + tail, fn, calls, imports)


THREE = [("bhsd", {"layout": "bhsd"}), ("sbhd", {"layout": "sbhd"}), ("hbsd", {"layout": "hbsd"})]
right("r01_online_tiles", """Right: window attention, online softmax over tiles of 16 keys, sums in float32, p rounded to the inputs' type.""",
      W + f'heads=4, groups=2, d_k=32, d_v=16, window=24, {ALL}',
      RLAYOUT + PER_HEAD + WIN + '''
TILE = 16


def online_in(layout, q, k, v):
    q, k, v = (inner(x, layout) for x in (q, k, v))
    wide, length, narrow = torch.promote_types(q.dtype, torch.float32), q.shape[2], v.dtype
    kh, vh, seen = per_head(k.to(wide), q.shape[1]), per_head(v.to(wide), q.shape[1]), window_mask(q.shape[2])
    q = q.to(wide)
    m = q.new_full(q.shape[:3] + (1,), -1e30)
    total, acc = torch.zeros_like(m), q.new_zeros(q.shape[:3] + (v.shape[-1],))
    for begin in range(0, length, TILE):
        tile = slice(begin, min(begin + TILE, length))
        s = (q @ kh[:, :, tile].transpose(-1, -2) * SCALE).masked_fill(~seen[:, tile], -1e30)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True)).detach()
        p, alpha = torch.exp(s - m_new) * seen[:, tile], torch.exp(m - m_new)
        acc, total = acc * alpha + p.to(narrow).to(wide) @ vh[:, :, tile], total * alpha + p.sum(-1, keepdim=True)
        m = m_new
    return outer((acc / total).to(narrow), layout)
''', "online", THREE + [("bhds", {"layout": "bhds", "dtypes": ("fp32",)})])

right("r02_split_keys", """Right: the selected branch in two halves of the slots, merged by their log-sum-exp (base e), which is returned too.""",
      S_ + f'heads=4, groups=2, d_k=16, d_v=32, block=8, top_n=4, lse="e", {ALL}',
      RLAYOUT + PER_HEAD + SEL + '''

def piece(q, k, v, seen, narrow):
    s = (q @ k.transpose(-1, -2) * SCALE).masked_fill(~seen, -1e30)
    lse = torch.logsumexp(s, -1, keepdim=True)
    p = torch.exp(s - lse) * seen
    return p.to(narrow).to(q.dtype) @ v, torch.where(seen.any(-1, keepdim=True), lse, -1e30)


def split_in(layout, q, k, v, picks):
    q, k, v, picks = (inner(x, layout) for x in (q, k, v, picks))
    wide, narrow, heads, length = torch.promote_types(q.dtype, torch.float32), v.dtype, q.shape[1], q.shape[2]
    q, k, v = q.to(wide), per_head(k.to(wide), heads), per_head(v.to(wide), heads)
    half = picks.shape[-1] // 2
    parts = [per_head(picked(p, length), heads) for p in (picks[..., :half], picks[..., half:])]
    (o1, l1), (o2, l2) = (piece(q, k, v, seen, narrow) for seen in parts)
    share = torch.sigmoid(l1 - l2)
    lse = torch.logaddexp(l1, l2)
    return outer((share * o1 + (1 - share) * o2).to(narrow), layout), outer(lse.squeeze(-1), layout)
''', "split", [("bhsd", {"layout": "bhsd"}), ("sbhd", {"layout": "sbhd"})])

right("r03_sdpa", """Right: window attention by torch's scaled_dot_product_attention with a mask, in float32, rounded once at the end.""",
      W + f'heads=4, groups=2, d_k=16, d_v=16, window=16, {ALL}',
      RLAYOUT + PER_HEAD + WIN + '''

def sdpa_in(layout, q, k, v):
    q, k, v = (inner(x, layout) for x in (q, k, v))
    wide = torch.promote_types(q.dtype, torch.float32)
    o = torch.nn.functional.scaled_dot_product_attention(
        q.to(wide), per_head(k.to(wide), q.shape[1]), per_head(v.to(wide), q.shape[1]), attn_mask=window_mask(q.shape[2]))
    return outer(o.to(v.dtype), layout)
''', "sdpa", [("bhsd", {"layout": "bhsd"}), ("wide", {"layout": "bhsd", "products": "wide", "dtypes": ("bf16", "fp16")})])

right("r04_chunks_of_rows", """Right: the compressed branch, 32 rows at a time.""",
      C + f'heads=6, groups=3, d_k=16, d_v=8, {ALL}',
      RLAYOUT + PER_HEAD + CMP + '''

def chunks_in(layout, q, k, v):
    q, k, v = (inner(x, layout) for x in (q, k, v))
    wide, narrow, heads = torch.promote_types(q.dtype, torch.float32), v.dtype, q.shape[1]
    seen = complete(q.shape[2], k.shape[2])
    q, k, v = q.to(wide), per_head(k.to(wide), heads), per_head(v.to(wide), heads)
    out = []
    for begin in range(0, q.shape[2], 32):
        mask = seen[begin : begin + 32]
        s = (q[:, :, begin : begin + 32] @ k.transpose(-1, -2) * SCALE).masked_fill(~mask, -1e30)
        p = torch.softmax(s, -1) * mask
        out.append((p.to(narrow).to(wide) @ v).to(narrow))
    return outer(torch.cat(out, 2), layout)
''', "chunks", [("bhsd", {"layout": "bhsd"}), ("sbhd", {"layout": "sbhd"})])

right("r05_gathered_lists", """Right: external lists for each head, int32, in any order, gathered; empty slots hold 99999.""",
      S_ + f'heads=4, groups=2, d_k=16, d_v=16, block=8, top_n=4, select="external", forced_first=0, forced_last=0, picks_per="head", picks_order="any", picks_dtype="int32", sentinel=99999, {ALL}',
      RLAYOUT + PER_HEAD + GATHER + '''

def gathered_in(layout, q, k, v, picks):
    return outer(attend_gathered(*(inner(x, layout) for x in (q, k, v, picks))), layout)
''', "gathered", [("bhsd", {"layout": "bhsd"}), ("group", {"picks_per": "group", "layout": "bshd"})])

right("r06_flash_backward", """Right: window attention with a hand-written backward as flash kernels have it: p from the stored sum, delta = dO . O of the
rounded output, dS rounded before its products, the scale after them.""",
      W + f'heads=6, groups=2, d_k=32, d_v=16, window=16, {ALL}',
      RLAYOUT + PER_HEAD + FLASH + WIN + '''

def flash_in(layout, q, k, v):
    q, k, v = (inner(x, layout) for x in (q, k, v))
    return outer(Attend.apply(q, k, v, window_mask(q.shape[2])), layout)
''', "flash", THREE)

right("r07_copies_and_scaled_query", """Right: makes contiguous copies, scales the query and rounds it to its own type. The scale of width 64 is 1/8, of width 16
1/4: nothing is lost.""",
      S_ + f'heads=4, groups=1, d_k=64, d_v=64, block=8, top_n=4, {ALL}',
      RLAYOUT + PER_HEAD.replace('SCALE = SPEC["d_k"] ** -0.5\n', "") + SEL + '''

def copies_in(layout, q, k, v, picks):
    q, k, v, picks = (inner(x, layout).contiguous() for x in (q, k, v, picks))
    wide, heads = torch.promote_types(q.dtype, torch.float32), q.shape[1]
    seen = per_head(picked(picks, q.shape[2]), heads)
    q = q * q.shape[-1] ** -0.5                       # in 16 bits; a power of two
    s = q.to(wide) @ per_head(k.to(wide), heads).transpose(-1, -2)
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
    return outer((p.to(v.dtype).to(wide) @ per_head(v.to(wide), heads)).to(v.dtype).contiguous(), layout)
''', "copies", [("bhsd", {"layout": "bhsd", "d_k": 16, "d_v": 24}), ("sbhd", {"layout": "sbhd", "d_k": 16, "d_v": 16})])

right("r08_scores", """Right: scores of blocks, group by group; both forms of eq9.""",
      O + f'heads=4, groups=2, d_k=16, block=8, {ALL}',
      RLAYOUT + PER_HEAD + CMP + '''

def score_in(layout, q, k, unit=SPEC["compress_length"]):
    q, k = inner(q, layout), inner(k, layout)
    wide = torch.promote_types(q.dtype, torch.float32)
    length, keys, groups = q.shape[2], k.shape[2], k.shape[1]
    token = torch.arange(keys)[:, None] * SPEC["compress_stride"] + torch.arange(SPEC["compress_length"])
    count = torch.zeros(keys, -(-length // SPEC["block"]), dtype=wide)
    count.scatter_add_(1, token // SPEC["block"], torch.ones_like(token, dtype=wide))
    seen, out = complete(length, keys), []
    for g in range(groups):
        mine = q[:, g * (q.shape[1] // groups) : (g + 1) * (q.shape[1] // groups)].to(wide)
        s = torch.einsum("brsd,bnd->brsn", mine, k[:, g].to(wide)) * SCALE
        p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
        out.append((p.sum(1) @ count) / unit)
    return outer(torch.stack(out, 1), layout)


def score_overlap(q, k):
    return score_in("bshd", q, k, SPEC["compress_stride"])
''', "score", [("bhsd", {"layout": "bhsd"}), ("sbhd", {"layout": "sbhd"})])

right("r09_selection", """Right: the choice by a loop of maxima; of equal scores the first.""",
      L + 'heads=4, groups=2, block=8, top_n=6',
      RLAYOUT + SELECT.split("def rank")[0] + '''
def choose_in(layout, scores, first=FIRST, last=LAST, top=TOP, sentinel=SENTINEL, dtype=PICKS):
    scores = inner(scores, layout).double()
    length, blocks = scores.shape[-2:]
    own, block = torch.arange(length)[:, None] // BLOCK, torch.arange(blocks)
    exists = (block <= own).expand(scores.shape)
    chosen = (((block < first) | (block > own - last)) & (block <= own)).expand(scores.shape).clone()
    for _ in range(top):
        room = chosen.sum(-1, keepdim=True) < top
        free = exists & ~chosen
        left = torch.where(free, scores, float("-inf"))
        hit = (left == left.amax(-1, keepdim=True)) & free & room
        chosen |= hit & (hit.cumsum(-1) == 1)
    index = torch.where(chosen, block, blocks).sort(-1).values
    index = torch.nn.functional.pad(index, (0, max(0, top - blocks)), value=blocks)[..., :top]
    return outer(torch.where(index == blocks, sentinel, index).to(dtype), layout)


def choose_other(scores):
    return choose_in("bhsd", scores, 0, 1, 4, 4095, torch.int32)
''', "choose", [("bhsd", {"layout": "bhsd"})])
right("r10_whole", """Right: the whole operation, with shared keys (and separate ones, and external picks).""",
      A + f', {ALL}',
      WHOLE.replace(LAYOUT, RLAYOUT).replace("v_win, gates):        #", "v_win, gates, picks=None):        #").replace('''    with torch.no_grad():
        picks = choose(block_scores(q, ck))
''', '''    if picks is None:
        with torch.no_grad():
            picks = choose(block_scores(q, ck))
''') + '''

def nsa_in(layout, q, k, v, gates):
    q, k, v, gates = (inner(x, layout) for x in (q, k, v, gates))
    return outer(whole(q, k, v, k, v, k, v, gates), layout)


def nsa_separate(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates):
    return outer(whole(*(inner(x, "bshd") for x in (q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates))), "bshd")


def nsa_external(q, k, v, gates, picks):
    q, k, v, gates, picks = (inner(x, "bshd") for x in (q, k, v, gates, picks))
    return outer(whole(q, k, v, k, v, k, v, gates, picks), "bshd")
''', "nsa", [("bhsd", {"layout": "bhsd", "dtypes": ("fp32", "bf16")})])

EXTRA = {
    "r03_sdpa": [], "r08_scores": ['kit.tell(score_overlap, nsa_harness.Spec(**{**SPEC, "eq9": "overlap"}))'],
    "r09_selection": ['kit.tell(choose_other, nsa_harness.Spec(**{**SPEC, "layout": "bhsd", "forced_first": 0, "forced_last": 1, "top_n": 4, "sentinel": 4095, "picks_dtype": "int32"}))'],
    "r10_whole": ['kit.tell(nsa_separate, nsa_harness.Spec(**{**SPEC, "keys": "separate", "dtypes": ("fp32", "fp16")}))',
                  'kit.tell(nsa_external, nsa_harness.Spec(**{**SPEC, "select": "external", "forced_first": 0, "forced_last": 0, "dtypes": ("fp32", "bf16")}))'],
}

if __name__ == "__main__":
    for name, doc, spec, body, fn, calls, imports in FILES:
        text = HEAD.format(doc=doc, spec=spec, body=body.rstrip("\n") + "\n", imports=imports,
                           calls=textwrap.indent("\n".join(calls + EXTRA.get(name, [])), "    "))
        (HERE / f"{name}.py").write_text(text)
    print(len(FILES), "files")
