"""What a kernel computes, and in which form it takes and gives it. Nothing is guessed: what a spec does not say has the
default that stands here, and what contradicts itself is refused by name."""

import dataclasses
import difflib
import math
import re

DTYPES = ("fp64", "fp32", "bf16", "fp16")
ROUNDINGS = ("scaled_query_rounded", "scores_rounded")

# What a level needs, and what else it knows of the fields that not all levels have.
REQUIRED = {
    "attend_sel": ("d_k", "d_v", "block", "top_n"),
    "attend_win": ("d_k", "d_v", "window"),
    "attend_cmp": ("d_k", "d_v", "compress_length", "compress_stride"),
    "score": ("d_k", "compress_length", "compress_stride", "block"),
    "select": ("block", "top_n"),
    "attention": ("d_k", "d_v", "block", "top_n", "window", "compress_length", "compress_stride"),
}
LEVELS = tuple(REQUIRED)
_OF_ATTENTION = ("scale", "lse", "products", "allow")
_OF_LISTS = ("forced_first", "forced_last", "picks_order", "picks_dtype", "sentinel")
OPTIONAL = {
    "attend_sel": (*_OF_ATTENTION, *_OF_LISTS, "select", "picks_per"),
    "attend_win": (*_OF_ATTENTION, "window_counts_self"),
    "attend_cmp": _OF_ATTENTION,
    "score": ("scale", "eq9"),
    "select": _OF_LISTS,
    "attention": ("scale", "products", *_OF_LISTS, "select", "picks_per", "window_counts_self", "eq9", "keys"),
}


class SpecError(ValueError):
    """The spec contradicts itself, or the callable cannot be handed to another process."""


@dataclasses.dataclass(frozen=True, repr=False)
class Spec:
    """See docs/your-kernel.md. B, S, H, G: batch, sequence, query heads, key/value groups."""

    # attend_sel: fn(q, k, v, picks); attend_win, attend_cmp: fn(q, k, v); score: fn(q, k); select: fn(scores);
    # attention: fn(q, k, v, gates) or fn(q, k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, gates), external picks last
    level: str
    heads: int  # query heads, a multiple of groups; query head g * (heads / groups) + i belongs to group g
    groups: int  # key/value heads
    d_k: int | None = None  # width of queries and keys, even; not of select
    d_v: int | None = None  # width of values; of attention alone
    layout: str = "bshd"  # the order of batch, sequence (s or t), heads and width, of all tensors
    dtypes: tuple = ("fp32",)  # one case each: fp64, fp32, bf16, fp16
    device: str = "cpu"  # or cuda
    scale: float | None = None  # of the logits; None: 1 / sqrt(d_k)
    lse: str | None = None  # base of the logarithm where fn returns (out, lse): "e" or "2"
    gradients: bool = True  # its backward is judged; score and select have none
    products: str = "narrow"  # in bf16 and fp16 the probabilities are rounded before they meet the values; or "wide"
    tile: tuple = ()  # sizes of its own tiles, or one size: lengths on both sides of each are tried
    widths: tuple = ()  # further pairs (d_k, d_v) that it takes: one trial each
    # roundings that cost digits in bf16 and fp16 and are let pass: "scaled_query_rounded", "scores_rounded"
    allow: tuple = ()
    seconds: float = 300.0  # then a case is ended
    seed: int = 0
    # attend_sel: keys of the chosen blocks, up to the query's own position; select: the choice of them
    block: int | None = None  # tokens of a block
    top_n: int | None = None  # blocks of a list, the forced ones included
    forced_first: int = 1  # first blocks that are in every list
    forced_last: int = 2  # last blocks that are, the query's own included
    picks_per: str = "group"  # one list a group, or a "head"
    picks_order: str = "ascending"  # or "any"
    picks_dtype: str = "int64"  # or "int32"
    sentinel: int = -1  # in slots that hold no block; they come last
    # attend_sel, attention: the lists are as NSA selects; or "external": another method's, which may be shorter
    select: str = "own"
    keys: str = "shared"  # attention: one k and v for all branches, or "separate" ones
    # attend_win
    window: int | None = None  # keys that a query sees
    window_counts_self: bool = True  # its own position is one of them
    # attend_cmp and score: key i covers tokens [i * stride, i * stride + length) and is seen once it is complete
    compress_length: int | None = None
    compress_stride: int | None = None
    # score: a key counts for a block by the share of its tokens in it; or "overlap": by their number over the stride
    eq9: str = "fractional"

    def __post_init__(self):
        dtypes = self.dtypes
        object.__setattr__(self, "dtypes", (dtypes,) if isinstance(dtypes, str) else tuple(dtypes))
        object.__setattr__(self, "allow", (self.allow,) if isinstance(self.allow, str) else tuple(self.allow))
        object.__setattr__(self, "layout", str(self.layout).lower().replace("t", "s"))
        object.__setattr__(self, "tile", _sizes(self.tile))
        object.__setattr__(self, "widths", _pairs(self.widths))
        _check(self)

    def __repr__(self):
        """Code that makes an equal one. What has its default is left out."""
        said = [field for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]
        return f"nsa_harness.Spec({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in said)})"

    @staticmethod
    def of(spec):
        """A Spec, or a dict with its fields."""
        if isinstance(spec, Spec):
            return spec
        if not isinstance(spec, dict):
            raise SpecError(f"spec: found {type(spec).__name__}, wanted a Spec or a dict")
        names = [field.name for field in dataclasses.fields(Spec)]
        for name in spec:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, 1)
                raise SpecError(f"spec: unknown field {name!r}" + (f", wanted {near[0]!r}?" if near else ""))
        for field in dataclasses.fields(Spec):
            if field.default is dataclasses.MISSING and field.name not in spec:
                raise SpecError(f"spec: {field.name} is missing")
        return Spec(**spec)

    def each(self):
        """One Spec for each of its cases."""
        return [dataclasses.replace(self, dtypes=(dtype,)) for dtype in self.dtypes]

    def document(self, name, callable_name, origin="", thorough=False):
        """The scenario that says the same. JSON is YAML. `origin` is the folder or script that holds the callable, "" if any Python
        imports it."""
        document = {
            "version": 1,
            "scenario": name,
            "about": f"{self.level} of {callable_name}",
            "kind": "kernel",
            "seed": self.seed,
            "model": _model(self),
            "training": {"steps": 1, "seq_len": 1, "batch_size": 1, "data": {"source": "uniform"}},
            "parallel": {"ranks": 1, "device": self.device},
            "kernel": {
                "callable": callable_name,
                "level": self.level,
                "layout": self.layout,
                "picks_per": self.picks_per,
                "picks_order": self.picks_order,
                "picks_dtype": self.picks_dtype,
                "picks": self.select,
                "keys": self.keys,
                "own_block": self.select == "own" or self.forced_last > 0,
                "sentinel": self.sentinel,
                "scale": self.scale or 0.0,
                "lse": self.lse or "none",
                "gradients": self.gradients and "d_v" in REQUIRED[self.level],
                "products": self.products,
            },
            "requires": {"gpus": 1 if self.device == "cuda" else 0},
            "budget": {"seconds": float(self.seconds)},
            "checks": ["kernel_is_oracle", "kernel_causal", "unmutated", "process_clean", "progress"],
        }
        if self.allow:
            document["kernel"]["allow"] = self.allow[0] if len(self.allow) == 1 else "both"
        if origin:
            document["kernel"]["from"] = origin
        if self.tile:
            document["kernel"]["tile"] = list(self.tile)
        if self.widths:
            document["kernel"]["widths"] = [f"{d_k}x{d_v}" for d_k, d_v in self.widths]
        if thorough:
            document["kernel"]["thorough"] = True
        if len(self.dtypes) > 1:
            document["axes"] = {"training.precision": list(self.dtypes)}
        else:
            document["training"]["precision"] = self.dtypes[0]
        return document


def _sizes(value):
    """Ascending, each once; one number is a list of one. What is no list of numbers stays what it is, and is refused."""
    sizes = value if isinstance(value, (tuple, list, set)) else (value,)
    return tuple(sorted(set(sizes))) if all(_is_whole(size) for size in sizes) else value


def _pairs(value):
    listed = isinstance(value, (tuple, list)) and all(isinstance(pair, (tuple, list)) for pair in value)
    return tuple(tuple(pair) for pair in value) if listed else value


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse(field, found, wanted):
    raise SpecError(f"spec: {field}: found {found!r}, wanted {wanted}")


def _one_of(spec, field, names):
    if getattr(spec, field) not in names:
        _refuse(field, getattr(spec, field), "one of " + ", ".join(str(name) for name in names))


def _is_above_zero(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _whole(spec, field, least):
    value = getattr(spec, field)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        _refuse(field, value, f"a whole number of at least {least}")


def _check(spec):
    _one_of(spec, "level", LEVELS)
    _one_of(spec, "device", ("cpu", "cuda"))
    _one_of(spec, "lse", (None, "e", "2"))
    _one_of(spec, "products", ("narrow", "wide"))
    if sorted(spec.layout) != sorted("bshd"):
        _refuse("layout", spec.layout, "b, s (or t), h and d in some order, each once")
    if not spec.dtypes or len(set(spec.dtypes)) != len(spec.dtypes) or not set(spec.dtypes) <= set(DTYPES):
        _refuse("dtypes", spec.dtypes, "some of " + ", ".join(DTYPES) + ", each once")
    if len(set(spec.allow)) != len(spec.allow) or not set(spec.allow) <= set(ROUNDINGS):
        _refuse("allow", spec.allow, "some of " + ", ".join(ROUNDINGS) + ", each once")
    for field in ("heads", "groups"):
        _whole(spec, field, 1)
    if spec.heads % spec.groups:
        _refuse("heads", spec.heads, f"a multiple of groups, which is {spec.groups}")
    if spec.scale is not None and not _is_above_zero(spec.scale):
        _refuse("scale", spec.scale, "a number above 0, or None for 1 / sqrt(d_k)")
    if not _is_above_zero(spec.seconds):
        _refuse("seconds", spec.seconds, "a number above 0")
    if isinstance(spec.seed, bool) or not isinstance(spec.seed, int) or abs(spec.seed) >= 2**63:
        _refuse("seed", spec.seed, "a whole number of at most 63 bits")
    if not isinstance(spec.tile, tuple) or not all(2 <= size <= 4096 for size in spec.tile):
        _refuse("tile", spec.tile, "a whole number from 2 to 4096, or several")
    _check_widths(spec)
    for field in ("gradients", "window_counts_self"):
        if not isinstance(getattr(spec, field), bool):
            _refuse(field, getattr(spec, field), "True or False")
    _check_level(spec)


def _check_widths(spec):
    if spec.widths and "d_v" not in REQUIRED[spec.level]:
        raise SpecError(f"spec: widths belongs to levels with values, but level is {spec.level}")
    wanted = "pairs of an even d_k and a d_v, such as ((32, 16),), other than d_k and d_v"
    if not isinstance(spec.widths, tuple) or len(set(spec.widths)) != len(spec.widths):
        _refuse("widths", spec.widths, wanted)
    for pair in spec.widths:
        sizes = isinstance(pair, tuple) and len(pair) == 2 and all(_is_whole(size) and 0 < size <= 4096 for size in pair)
        if not sizes or pair[0] % 2 or pair == (spec.d_k, spec.d_v):
            _refuse("widths", pair, wanted)


def _check_level(spec):
    defaults = {field.name: field.default for field in dataclasses.fields(Spec)}
    own = (*REQUIRED[spec.level], *OPTIONAL[spec.level])
    for field, value in defaults.items():
        levels = [level for level in LEVELS if field in REQUIRED[level] or field in OPTIONAL[level]]
        if levels and field not in own and getattr(spec, field) != value:
            raise SpecError(f"spec: {field} belongs to {', '.join(levels)}, but level is {spec.level}")
    for field in REQUIRED[spec.level]:
        if getattr(spec, field) is None:
            raise SpecError(f"spec: {field} is missing: {spec.level} needs it")
        _whole(spec, field, 1)
    if spec.d_k is not None and spec.d_k % 2:
        _refuse("d_k", spec.d_k, "an even number")
    if spec.top_n is not None:
        _check_picks(spec)
    if spec.compress_length is not None:
        _check_compression(spec)


def _check_compression(spec):
    _one_of(spec, "eq9", ("fractional", "overlap"))
    for field in ("compress_length", "block"):
        size = getattr(spec, field)
        if size is not None and size % spec.compress_stride:
            _refuse(field, size, f"a multiple of compress_stride, {spec.compress_stride}")


def _check_picks(spec):
    _one_of(spec, "picks_per", ("group", "head"))
    _one_of(spec, "picks_order", ("ascending", "any"))
    _one_of(spec, "picks_dtype", ("int64", "int32"))
    _one_of(spec, "select", ("own", "external"))
    _one_of(spec, "keys", ("shared", "separate"))
    if spec.level == "attention" and spec.select == "own":
        for field in ("picks_per", "picks_order", "picks_dtype", "sentinel"):
            if getattr(spec, field) != Spec.__dataclass_fields__[field].default:
                raise SpecError(f"spec: {field} belongs to select 'external', but select is 'own': no picks are seen")
    _whole(spec, "forced_first", 0)
    _whole(spec, "forced_last", 0 if spec.select == "external" else 1)
    least = spec.forced_first + max(1, spec.forced_last)
    if least > spec.top_n:
        _refuse("top_n", spec.top_n, f"at least forced_first + forced_last, {least}")
    _whole(spec, "sentinel", -1)
    if 0 <= spec.sentinel < spec.top_n + 3:
        _refuse("sentinel", spec.sentinel, "-1, or a number that no block has")


# Where a field of a Spec stands in the scenario, if it has another name there.
PLACES = {
    "budget.seconds": "seconds",
    "model.d": "compress_stride",
    "model.d_k": "d_k",
    "model.d_v": "d_v",
    "model.init_blocks": "forced_first",
    "model.l": "compress_length",
    "model.l_sel": "block",
    "model.local_blocks": "forced_last",
    "model.n_heads": "heads",
    "model.n_kv_groups": "groups",
    "model.n_sel": "top_n",
    "model.w": "window",
}


def told_of_spec(text):
    """What the controller says of the scenario, in the words of the Spec that it was made of: the file is gone by then."""
    text = re.sub(r" \(this installation has no worker[^)]*\)$", "", text.strip())
    found = re.fullmatch(r"nsa-harness: \S+\.yaml:\d+: ([\w.]+): (.*)", text, re.S)
    if not found:
        return text
    place, rest = found.groups()
    return f"spec: {PLACES.get(place, place)}: {rest}"


def _model(spec):
    block = spec.block or 16
    length = spec.compress_length or block
    d_v = spec.d_v or 1
    return {
        "dim": spec.heads * d_v,
        "n_layers": 1,
        "n_heads": spec.heads,
        "n_kv_groups": spec.groups,
        "d_k": spec.d_k or 2,
        "d_v": d_v,
        "l": length,
        "d": spec.compress_stride or length,
        "l_sel": spec.block or length,
        "n_sel": spec.top_n or 3,
        "w": 16 if spec.window is None else spec.window + (0 if spec.window_counts_self else 1),
        "init_blocks": spec.forced_first,
        "local_blocks": max(1, spec.forced_last),
        "eq9": spec.eq9,
    }
