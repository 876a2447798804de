"""Attention kernels in plain torch, right ones and ones with one mistake each, in layout bshd unless said otherwise. Scores and
softmax are float32 in narrow types, and probabilities are rounded before they meet the values, as fast kernels do."""

import math
import subprocess

import torch

WIDE = {torch.float64: torch.float64}


def attend(q, k, v, allowed, scale=None, late_mask=False, base_two=False):
    """q [B,H,S,D], k and v one a head [B,H,K,.], allowed [B,H or 1,S,K]; rows without keys give zeros. (out, log of sums)"""
    wide = WIDE.get(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * scale
    if base_two:
        scores = scores * 0.6931471805599453
    lowest = torch.finfo(wide).min
    if not late_mask:
        scores = scores.masked_fill(~allowed, lowest)
    p = torch.softmax(scores, -1) if scores.shape[-1] else scores
    p = p.masked_fill(~allowed, 0.0)
    out = (p.to(q.dtype).to(wide) @ v.to(wide)).to(q.dtype)
    return out, torch.logsumexp(scores, -1) if scores.shape[-1] else scores.sum(-1)


def heads_first(*tensors):
    return [tensor.transpose(1, 2) for tensor in tensors]


def of_heads(tensor, heads):
    return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)


def window_mask(length, window, device, future=0):
    t = torch.arange(length, device=device)
    back = t[:, None] - t[None, :]
    return ((back < window) & (back >= -future))[None, None]


# ---- window, w = 12 ------------------------------------------------------------------------------------------------


def window(q, k, v, width=12, future=0, **options):
    q, k, v = heads_first(q, k, v)
    allowed = window_mask(q.shape[2], width, q.device, future)
    out, lse = attend(q, of_heads(k, q.shape[1]), of_heads(v, q.shape[1]), allowed, **options)
    return out.transpose(1, 2), lse.transpose(1, 2)


def win_right(q, k, v):
    return window(q, k, v)[0]


def win_right_bhsd(q, k, v):
    return win_right(*heads_first(q, k, v)).transpose(1, 2)


def win_right_with_lse(q, k, v):
    return window(q, k, v)


def win_one_more(q, k, v):
    return window(q, k, v, width=13)[0]


def win_sees_next(q, k, v):
    return window(q, k, v, future=1)[0]


def win_scale_missing(q, k, v):
    return window(q, k, v, scale=1.0)[0]


def win_lse_base_two(q, k, v):
    out, lse = window(q, k, v)
    return out, lse / 0.6931471805599453


def win_last_row_zero(q, k, v):
    out = window(q, k, v)[0]
    return torch.cat([out[:, :-1], torch.zeros_like(out[:, -1:])], 1)


def in_some(chosen, wrong, right):
    """[B,S,H,D]: wrong where `chosen` says so, of sequence, row and head."""
    sequence, row, head = torch.meshgrid(*(torch.arange(n, device=right.device) for n in right.shape[:3]), indexing="ij")
    return torch.where(chosen(sequence, row, head).unsqueeze(-1), wrong, right)


def win_one_more_in_every_eighth_row(q, k, v):
    return in_some(lambda b, t, h: t % 8 == 0, win_one_more(q, k, v), win_right(q, k, v))


def win_scale_missing_from_row_20(q, k, v):
    return in_some(lambda b, t, h: t >= 20, win_scale_missing(q, k, v), win_right(q, k, v))


def win_scale_missing_in_head_3(q, k, v):
    return in_some(lambda b, t, h: h == 3, win_scale_missing(q, k, v), win_right(q, k, v))


def win_half_of_sequence_1(q, k, v):
    return in_some(lambda b, t, h: b == 1, win_right(q, k, v) * 0.5, win_right(q, k, v))


def win_half_of_the_last_tile(q, k, v):
    return in_some(lambda b, t, h: t >= q.shape[1] // 8 * 8, win_right(q, k, v) * 0.5, win_right(q, k, v))


def win_scaled_query_rounded(q, k, v):
    return window(q * q.shape[-1] ** -0.5, k, v, scale=1.0)[0]


def win_scores_rounded(q, k, v):
    q, k, v = heads_first(q, k, v)
    scores = (q @ of_heads(k, q.shape[1]).transpose(-1, -2)).to(WIDE.get(q.dtype, torch.float32)) * q.shape[-1] ** -0.5
    p = torch.softmax(scores.masked_fill(~window_mask(q.shape[2], 12, q.device), -1e30), -1)
    return (p.to(q.dtype).to(scores.dtype) @ of_heads(v, q.shape[1]).to(scores.dtype)).to(q.dtype).transpose(1, 2)


def tiled(q, k, v, tile, put_together):
    """Sums, maxima and outputs of tiles of keys, put together by `put_together`. [B,H,S], [B,H,S,V]"""
    q, k, v = heads_first(q, k, v)
    allowed = window_mask(q.shape[2], 12, q.device)
    scores = (q @ of_heads(k, q.shape[1]).transpose(-1, -2)) * q.shape[-1] ** -0.5
    parts = []
    for begin in range(0, k.shape[2], tile):
        part = scores[..., begin : begin + tile].masked_fill(~allowed[..., begin : begin + tile], float("-inf"))
        parts.append((part, of_heads(v, q.shape[1])[:, :, begin : begin + tile]))
    return put_together(parts).transpose(1, 2)


def merged(parts, base_of_sums, base_of_merge):
    lse = torch.stack([torch.logsumexp(part, -1) for part, _ in parts], -1) / math.log(base_of_sums)
    weights = torch.softmax(lse * math.log(base_of_merge), -1)
    outs = torch.stack([torch.softmax(part, -1).nan_to_num() @ v for part, v in parts], -1)
    return (outs * weights.unsqueeze(-2)).sum(-1)


def online(parts, rescaled):
    most, total, out = torch.full(parts[0][0].shape[:-1], -1e30), 0.0, 0.0
    for part, v in parts:
        now = torch.maximum(most, part.amax(-1))
        p, down = torch.exp(part - now.unsqueeze(-1)), torch.exp(most - now)
        total = total * down + p.sum(-1)
        out = (out * down.unsqueeze(-1) if rescaled else out) + p @ v
        most = now
    return out / total.unsqueeze(-1)


def win_tiled(q, k, v):
    return tiled(q, k, v, 8, lambda parts: online(parts, True))


def win_accumulator_not_rescaled(q, k, v):
    return tiled(q, k, v, 8, lambda parts: online(parts, False))


def win_parts_merged(q, k, v):
    return tiled(q, k, v, 16, lambda parts: merged(parts, 2.0, 2.0))


def win_parts_merged_with_base_e(q, k, v):
    return tiled(q, k, v, 16, lambda parts: merged(parts, 2.0, math.e))


def win_keys_repeated(q, k, v):
    q, k, v = heads_first(q, k, v)
    other = k.repeat(1, q.shape[1] // k.shape[1], 1, 1)
    return attend(q, other, of_heads(v, q.shape[1]), window_mask(q.shape[2], 12, q.device))[0].transpose(1, 2)


def win_queries_as_heads_by_groups(q, k, v):
    groups = k.shape[2]
    return win_right(q.unflatten(2, (-1, groups)).transpose(2, 3).flatten(2, 3), k, v)


class HalfTheKeysOfOneHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k):
        return k

    @staticmethod
    def backward(ctx, dk):  # of one head, before the heads of a group are summed
        return torch.cat([dk[:, :1] * 0.5, dk[:, 1:]], 1)


def win_half_dk_of_head_0(q, k, v):
    q, k, v = heads_first(q, k, v)
    heads = q.shape[1]
    out = attend(q, HalfTheKeysOfOneHead.apply(of_heads(k, heads)), of_heads(v, heads), window_mask(q.shape[2], 12, q.device))[0]
    return out.transpose(1, 2)


def win_groups_interleaved(q, k, v):
    q, k, v = heads_first(q, k, v)
    group = torch.arange(q.shape[1], device=q.device) % k.shape[1]
    return attend(q, k[:, group], v[:, group], window_mask(q.shape[2], 12, q.device))[0].transpose(1, 2)


def win_softmax_before_mask(q, k, v):
    return window(q, k, v, late_mask=True)[0]


# ---- selected blocks, l' = 8, layout bshd, picks [B,S,G,n] ----------------------------------------------------------


def picked(picks, length, block, times=False):
    """[B,N,S,K]: is (or how often is) a key in the blocks of a query"""
    picks = picks.transpose(1, 2)
    counts = torch.zeros(*picks.shape[:3], length // block + 2, device=picks.device)
    counts.scatter_add_(-1, picks.masked_fill(picks < 0, length // block + 1), torch.ones_like(picks, dtype=counts.dtype))
    of_key = counts[..., torch.arange(length, device=picks.device) // block]
    t = torch.arange(length, device=picks.device)
    return of_key * (t[None, :] <= t[:, None])


def selected(q, k, v, picks, block=8, of_queries=None):
    q, k, v = heads_first(q, k, v)
    heads = q.shape[1]
    allowed = of_heads(picked(picks, q.shape[2], block), heads) > 0
    if of_queries is not None:
        allowed = of_queries(allowed)
    return attend(q, of_heads(k, heads), of_heads(v, heads), allowed)[0].transpose(1, 2)


def sel_right(q, k, v, picks):
    return selected(q, k, v, picks.long())


def sel_right_bhsd(q, k, v, picks):
    return sel_right(*heads_first(q, k, v, picks)).transpose(1, 2)


def sel_right_sentinel_99(q, k, v, picks):
    return sel_right(q, k, v, picks.masked_fill(picks == 99, -1))


def sel_picks_of_head_0(q, k, v, picks):
    return sel_right(q, k, v, picks[:, :, :1].expand_as(picks))


def sel_first_row_of_a_block_loses_its_key(q, k, v, picks):
    def other(allowed):
        t = torch.arange(allowed.shape[-1])
        return allowed & ~((t[:, None] == t[None, :]) & (t % 8 == 0) & (t > 0))

    return selected(q, k, v, picks.long(), of_queries=other)


def sel_blocks_twice_as_long(q, k, v, picks):
    return selected(q, k, v, picks.long().masked_fill(picks > q.shape[1] // 16, -1), block=16)


FIRST_PICKS = {}


def sel_picks_kept_by_shape(q, k, v, picks):
    return sel_right(q, k, v, FIRST_PICKS.setdefault(picks.shape, picks.clone()))


def sel_first_pick_lost(q, k, v, picks):
    return sel_right(q, k, v, torch.cat([torch.full_like(picks[..., :1], -1), picks[..., 1:]], -1))


def sel_future_in_own_block(q, k, v, picks):
    q, k, v = heads_first(q, k, v)
    heads, length = q.shape[1], q.shape[2]
    counts = torch.zeros(picks.shape[0], picks.shape[2], length, length // 8 + 2)
    spots = picks.transpose(1, 2)
    counts.scatter_(-1, spots.masked_fill(spots < 0, length // 8 + 1), 1.0)
    allowed = of_heads(counts[..., torch.arange(length) // 8], heads) > 0
    return attend(q, of_heads(k, heads), of_heads(v, heads), allowed)[0].transpose(1, 2)


def sel_sentinel_is_block_0(q, k, v, picks):
    """Slots that hold no block are clamped to block 0, which then counts once more."""
    q, k, v = heads_first(q, k, v)
    heads, length = q.shape[1], q.shape[2]
    times = of_heads(picked(picks.clamp(min=0), length, 8), heads)
    scores = q @ of_heads(k, heads).transpose(-1, -2) * q.shape[-1] ** -0.5 + times.to(q.dtype).log()
    return (torch.softmax(scores, -1) @ of_heads(v, heads)).transpose(1, 2)


# ---- compressed tokens, l = 8, d = 4 ---------------------------------------------------------------------------------


def compressed(q, k, v, last):
    q, k, v = heads_first(q, k, v)
    heads, keys = q.shape[1], k.shape[2]
    t = torch.arange(q.shape[2], device=q.device)
    allowed = (last(torch.arange(keys, device=q.device))[None, :] <= t[:, None])[None, None]
    return attend(q, of_heads(k, heads), of_heads(v, heads), allowed)[0].transpose(1, 2)


def cmp_right(q, k, v):
    return compressed(q, k, v, lambda i: 4 * i + 7)


def cmp_seen_when_begun(q, k, v):
    return compressed(q, k, v, lambda i: 4 * i)


def cmp_seen_one_late(q, k, v):
    return compressed(q, k, v, lambda i: 4 * i + 8)


# ---- compressed tokens, l = d = 32 -----------------------------------------------------------------------------------


class ScaledLast(torch.autograd.Function):
    """What fast kernels do whose backward scales dq and dk at its end: dS is rounded before that. [B,H,S,.], one key head a head;
    `change` spoils dq."""

    @staticmethod
    def forward(ctx, q, k, v, allowed, change):
        wide = WIDE.get(q.dtype, torch.float32)
        out, lse = attend(q, k, v, allowed)
        ctx.save_for_backward(q, k, v, allowed, out, lse)
        ctx.change, ctx.wide = change, wide
        return out

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, allowed, out, lse = ctx.saved_tensors
        narrow, wide, scale = q.dtype, ctx.wide, q.shape[-1] ** -0.5
        q, k, v, d_o, out = (tensor.to(wide) for tensor in (q, k, v, d_o, out))
        scores = (q @ k.transpose(-1, -2)) * scale
        p = torch.exp(scores - lse.unsqueeze(-1)).masked_fill(~allowed, 0.0)
        mean = (d_o * out).sum(-1, keepdim=True)
        ds = (p * (d_o @ v.transpose(-1, -2) - mean)).to(narrow).to(wide)
        dq = ctx.change((ds @ k) * scale)
        dk = (ds.transpose(-1, -2) @ q) * scale
        dv = p.to(narrow).to(wide).transpose(-1, -2) @ d_o
        return dq.to(narrow), dk.to(narrow), dv.to(narrow), None, None


def cmp_scaled_last(q, k, v, change=lambda dq: dq):
    q, k, v = heads_first(q, k, v)
    heads, keys = q.shape[1], k.shape[2]
    if keys == 0:
        return cmp_right(*heads_first(q, k, v))
    t = torch.arange(q.shape[2], device=q.device)
    allowed = (32 * torch.arange(keys, device=q.device) + 31 <= t[:, None])[None, None]
    return ScaledLast.apply(q, of_heads(k, heads), of_heads(v, heads), allowed, change).transpose(1, 2)


def cmp_dq_too_large(q, k, v):
    return cmp_scaled_last(q, k, v, lambda dq: dq * 1.2)


def cmp_dq_too_small(q, k, v):
    return cmp_scaled_last(q, k, v, lambda dq: dq * 0.8)


def cmp_dq_noisy(q, k, v):
    def noisy(dq):
        signs = torch.cos(1e4 * torch.arange(dq.numel(), device=dq.device, dtype=torch.float64)).sign()
        return dq * (1 + 0.2 * signs.reshape(dq.shape)).to(dq.dtype)

    return cmp_scaled_last(q, k, v, noisy)


def cmp_dq_without_last_row(q, k, v):
    return cmp_scaled_last(q, k, v, lambda dq: torch.cat([dq[:, :, :-1], torch.zeros_like(dq[:, :, -1:])], 2))


# ---- lists that others have made -------------------------------------------------------------------------------------


def sel_reads_full_lists(q, k, v, picks):
    """Takes min(n, blocks so far) slots for granted: what stands behind the end of a shorter list counts as block 0."""
    current = torch.arange(q.shape[1]) // 8
    slots = torch.arange(picks.shape[-1])
    there = (slots[None, :] <= current[:, None])[None, :, None]
    return sel_right(q, k, v, torch.where(there, picks.clamp(min=0), picks))


def sel_adds_own_block(q, k, v, picks):
    current = (torch.arange(q.shape[1]) // 8)[None, :, None, None].expand(*picks.shape[:-1], 1)
    return sel_right(q, k, v, torch.cat([picks, current], -1))


# ---- scores of blocks, l = 8, d = 4, l' = 8 -----------------------------------------------------------------------------


def block_scores(q, k, length, eq9="fractional", scale=None, seen=lambda i: 4 * i + 7):
    """[B,S,G,N]"""
    q, k = (one.transpose(1, 2).to(WIDE.get(one.dtype, torch.float32)) for one in (q, k))
    heads, groups, keys = q.shape[1], k.shape[1], k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    i = torch.arange(keys)
    scores = (q @ of_heads(k, heads).transpose(-1, -2)) * scale
    hidden = ~(seen(i)[None, :] <= torch.arange(length)[:, None])
    p = torch.softmax(scores.masked_fill(hidden, torch.finfo(q.dtype).min), -1).masked_fill(hidden, 0.0) if keys else scores
    j = torch.arange(-(-length // 8))
    shared = (torch.minimum(4 * i[:, None] + 8, 8 * j[None, :] + 8) - torch.maximum(4 * i[:, None], 8 * j[None, :])).clamp(min=0)
    share = shared.to(q.dtype) / (8 if eq9 == "fractional" else 4)
    return (p @ share).unflatten(1, (groups, heads // groups)).sum(2).transpose(1, 2)


def score_right(q, k):
    return block_scores(q, k, q.shape[1])


def score_right_bhsd(q, k):
    return score_right(*heads_first(q, k)).transpose(1, 2)


def score_overlap(q, k):
    return block_scores(q, k, q.shape[1], eq9="overlap")


def score_scale_missing(q, k):
    return block_scores(q, k, q.shape[1], scale=1.0)


def score_of_head_0(q, k):
    heads = q.unflatten(2, (k.shape[2], -1))
    return score_right(heads[:, :, :, :1].expand_as(heads).flatten(2, 3), k)


def score_sees_begun(q, k):
    return block_scores(q, k, q.shape[1], seen=lambda i: 4 * i)


def score_in_bf16(q, k):
    return score_right(q, k).bfloat16().to(q.dtype)


def score_given_in_bf16(q, k):
    return score_right(q, k).bfloat16()


# ---- the choice, l' = 8, n = 4: the first block, the last two, and the best that are complete -----------------------------


def chosen(scores, best=lambda row, blocks: sorted(blocks, key=lambda j: (-row[j], j)), first=1, last=2):
    """One list at a time. A complete block that is not forced may be chosen."""
    picks = torch.full((*scores.shape[:3], 4), -1)
    for b, t, g in ((b, t, g) for b in range(scores.shape[0]) for t in range(scores.shape[1]) for g in range(scores.shape[2])):
        current = t // 8
        forced = {j for j in range(current + 1) if j < first or j > current - last}
        others = [j for j in range((t + 1) // 8) if j not in forced]
        row = scores[b, t, g].tolist()
        blocks = sorted(forced | set(best(row, others)[: 4 - len(forced)]))
        picks[b, t, g, : len(blocks)] = torch.tensor(blocks)
    return picks


def select_right(scores):
    return chosen(scores)


def select_right_any_order(scores):
    picks = chosen(scores)
    return picks.masked_fill(picks < 0, 99).flip(-1).int()


def select_ties_high(scores):
    return chosen(scores, best=lambda row, blocks: sorted(blocks, key=lambda j: (-row[j], -j)))


def select_lowest(scores):
    return chosen(scores, best=lambda row, blocks: sorted(blocks, key=lambda j: (row[j], j)))


def select_forgets_first(scores):
    return chosen(scores, first=0)


def select_one_after(scores):
    picks = chosen(scores)
    return torch.where(picks == (torch.arange(scores.shape[1]) // 8)[None, :, None, None], picks + 1, picks)


def select_unsorted(scores):
    picks = chosen(scores)
    return torch.where((picks < 0).any(-1, keepdim=True), picks, picks.flip(-1))


# ---- all of it: l = 8, d = 4, l' = 8, n = 4, w = 12 --------------------------------------------------------------------


def attention(q, banks, gates, picks=None, width=12, pooled=8, shift=0):
    """`banks`: k and v of cmp, sel and win."""
    length = q.shape[1]
    wide = WIDE.get(q.dtype, torch.float32)

    def pool(x):  # averages of 8 tokens, 4 apart
        windows = x.to(wide).unfold(1, 8, 4) if length >= 8 else x.new_zeros((x.shape[0], 0, *x.shape[2:], 8)).to(wide)
        return (windows[..., :pooled].sum(-1) / pooled).to(x.dtype)

    (k_cmp, v_cmp), (k_sel, v_sel), (k_win, v_win) = banks
    k_cmp, v_cmp = pool(k_cmp), pool(v_cmp)
    if picks is None:
        picks = chosen(block_scores(q.detach(), k_cmp.detach(), length))
    out = (cmp_right(q, k_cmp, v_cmp), sel_right(q, k_sel, v_sel, picks), window(q, k_win, v_win, width=width)[0])
    return sum(gates[..., (i + shift) % 3, None] * out[i] for i in range(3))


def attention_right(q, k, v, gates):
    return attention(q, 3 * [(k, v)], gates)


def attention_right_bhsd(q, k, v, gates):
    return attention_right(*heads_first(q, k, v, gates)).transpose(1, 2)


def attention_separate(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates):
    return attention(q, [(k_cmp, v_cmp), (k_sel, v_sel), (k_win, v_win)], gates)


def attention_with_picks(q, k, v, gates, picks):
    return attention(q, 3 * [(k, v)], gates, picks=picks)


def attention_window_one_more(q, k, v, gates):
    return attention(q, 3 * [(k, v)], gates, width=13)


def attention_gates_turned(q, k, v, gates):
    return attention(q, 3 * [(k, v)], gates, shift=1)


def attention_averages_seven(q, k, v, gates):
    return attention(q, 3 * [(k, v)], gates, pooled=7)


def attention_keys_of_sel_for_win(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates):
    return attention(q, [(k_cmp, v_cmp), (k_sel, v_sel), (k_sel, v_win)], gates)


def attention_first_blocks(q, k, v, gates):
    """Chooses the lowest blocks, whatever the scores."""
    scores = block_scores(q.detach(), k.detach()[:, :0], q.shape[1])
    return attention(q, 3 * [(k, v)], gates, picks=chosen(scores))


def attention_detached_averages(q, k, v, gates):
    return attention(q, [(k.detach(), v), (k, v), (k, v)], gates)


# ---- wrong in some calls alone ----------------------------------------------------------------------------------------


def from_row(out, row):
    """[B,S,H,V], wrong from a row on."""
    right = torch.arange(out.shape[1]) < row
    return torch.where(right[:, None, None], out, out + 0.1)


def win_wrong_from_64(q, k, v):
    return from_row(win_right(q, k, v), 64)


def sel_wrong_from_128(q, k, v, picks):
    return from_row(sel_right(q, k, v, picks), 128)


def attention_wrong_from_128(q, k, v, gates):
    return from_row(attention_right(q, k, v, gates), 128)


def win_wrong_from_1000(q, k, v):
    return from_row(win_right(q, k, v), 1000)


def win_wrong_from_4096(q, k, v):
    return from_row(win_right(q, k, v), 4096)


def win_takes_from_first_sequence(q, k, v):
    out = win_right(q, k, v)
    return torch.cat([out[:1], out[1:] + 0.01 * out[:1]]) if out.shape[0] > 1 else out


KEPT = {}


def sel_keeps_picks(q, k, v, picks):
    """The picks of the first call of a shape are taken for those of all."""
    return sel_right(q, k, v, KEPT.setdefault(picks.shape, picks.clone()))


def win_sums_in_half(q, k, v):
    """Divides by the sum at the end: until then what is added up is larger than float16 holds."""
    q, k, v = heads_first(q, k, v)
    k, v = of_heads(k, q.shape[1]).float(), of_heads(v, q.shape[1])
    t = torch.arange(q.shape[2])
    back = t[:, None] - t
    scores = (q.float() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill((back < 0) | (back >= 12), float("-inf"))
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    sums = (e.to(v.dtype).float() @ v.float()).to(v.dtype)
    return (sums.float() / e.sum(-1, keepdim=True)).to(v.dtype).transpose(1, 2)


def select_by_digits(scores, digits=lambda row: row.bfloat16()):
    """One sort of all rows, by the first 16 bits."""
    rows = digits(scores.transpose(1, 2)).double()
    block, own = torch.arange(rows.shape[-1]), torch.arange(rows.shape[2])[:, None] // 8
    rows = rows.masked_fill((block < 1) | (block > own - 2), float("inf")).masked_fill(block > own, -1.0)
    best = torch.nn.functional.pad(rows.sort(dim=-1, descending=True, stable=True).indices[..., :4], (0, max(0, 4 - rows.shape[-1])), value=10**6)
    best = best.masked_fill(best > own, 10**6).sort(-1).values
    return best.masked_fill(best == 10**6, -1).transpose(1, 2)


def select_by_all_digits(scores):
    return select_by_digits(scores, lambda row: row)


# ---- what is no kernel ------------------------------------------------------------------------------------------------


def wrong_shape(q, k, v):
    return win_right(q, k, v)[:, 1:]


def wrong_dtype(q, k, v):
    return win_right(q, k, v).double()


def raises(q, k, v):
    raise ValueError("no tile for this width")


def sel_detached_keys(q, k, v, picks):
    return sel_right(q, k.detach(), v, picks)


def win_with_dropout(q, k, v):
    return torch.nn.functional.dropout(win_right(q, k, v), 0.01)


def win_summed_in_any_order(q, k, v):
    """As atomic additions do: right, and every call has other bits."""
    out = win_right(q, k, v)
    return out * (1 + 1e-7 * torch.randn_like(out))


def leaves_a_process(q, k, v):
    subprocess.Popen(["sleep", "86123"], start_new_session=True)
    return win_right(q, k, v)


def leaves_a_bare_process(q, k, v):
    """Started by somebody who is gone, in a session of its own, without an environment."""
    import os

    told, tells = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execve("/bin/sleep", ["sleep", "86124"], {})
    os.close(tells)
    os.read(told, 1)
    os.close(told)
    return win_right(q, k, v)


def kills_itself(q, k, v):
    import os
    import signal

    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(q, k, v):
    import threading

    threading.Event().wait()


# ---- compiles before it computes ------------------------------------------------------------------------------------


def run_as_ptxas(seconds=None):
    """A child of this name takes a core, for ever or for so long."""
    import os
    import tempfile
    import threading

    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "ptxas")
        os.symlink("/bin/sh", program)
        child = subprocess.Popen([program, "-c", "while :; do :; done"])
        if seconds:
            threading.Timer(seconds, child.kill).start()
        child.wait()


def inside(path, name, body):
    """A function of a file of an installed package."""
    defined = {}
    exec(compile(f"def {name}():\n    {body}\n", "/usr/lib/python3/site-packages/" + path, "exec"), defined)
    return defined[name]


COMPILED = []


def compiles_in_a_child(q, k, v):
    run_as_ptxas()


def compiles_in_a_child_for_a_while(q, k, v):
    if not COMPILED:
        run_as_ptxas(16)
        COMPILED.append(True)
    return win_right(q, k, v)


def compiles_itself(q, k, v):
    inside("triton/compiler/compiler.py", "compile", "while True: pass")()


def waits_for_another_that_compiles(q, k, v):
    if not COMPILED:
        inside("torch/utils/cpp_extension.py", "_jit_compile", "import time; [time.sleep(0.1) for i in range(320)]")()
        COMPILED.append(True)
    return win_right(q, k, v)


# ---------------------------------------------------------------------------------------------------------------------


def writes_into_q(q, k, v):
    out = win_right(q, k, v)
    with torch.no_grad():
        q.mul_(2)
    return out


def no_gradient(q, k, v):
    return win_right(q.detach(), k.detach(), v.detach())
