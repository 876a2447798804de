"""What a kernel computes, and in which form it takes and gives it. Nothing is guessed: what a spec does not say has the
default that stands here, and what contradicts itself is refused by name."""

import dataclasses
import difflib

LEVELS = ("attend_sel", "attend_win", "attend_cmp")
DTYPES = ("fp64", "fp32", "bf16", "fp16")

# Sizes that belong to one level alone.
OF_LEVEL = {
    "attend_sel": ("block", "top_n", "forced_first", "forced_last", "picks_per", "picks_order", "picks_dtype", "sentinel"),
    "attend_win": ("window", "window_counts_self"),
    "attend_cmp": ("compress_length", "compress_stride"),
}
REQUIRED = {
    "attend_sel": ("block", "top_n"),
    "attend_win": ("window",),
    "attend_cmp": ("compress_length", "compress_stride"),
}


class SpecError(ValueError):
    """The spec contradicts itself, or the callable cannot be handed to another process."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """See docs/your-kernel.md. B, S, H, G: batch, sequence, query heads, key/value groups."""

    level: str  # attend_sel: fn(q, k, v, picks); attend_win and attend_cmp: fn(q, k, v)
    heads: int  # query heads, a multiple of groups; query head g * (heads / groups) + i belongs to group g
    groups: int  # key/value heads
    d_k: int  # width of queries and keys, even
    d_v: int  # width of values
    layout: str = "bshd"  # the order of batch, sequence (s or t), heads and width, of all tensors
    dtypes: tuple = ("fp32",)  # one case each: fp64, fp32, bf16, fp16
    device: str = "cpu"  # or cuda
    scale: float | None = None  # of the logits; None: 1 / sqrt(d_k)
    lse: str | None = None  # base of the logarithm where fn returns (out, lse): "e" or "2"
    gradients: bool = True  # its backward is judged
    products: str = "narrow"  # in bf16 and fp16 the probabilities are rounded before they meet the values; or "wide"
    seconds: float = 300.0  # then a case is ended
    seed: int = 0
    # attend_sel: keys of the chosen blocks, up to the query's own position
    block: int | None = None  # tokens of a block
    top_n: int | None = None  # blocks of a list, the forced ones included
    forced_first: int = 1  # first blocks that are in every list
    forced_last: int = 2  # last blocks that are, the query's own included
    picks_per: str = "group"  # one list a group, or a "head"
    picks_order: str = "ascending"  # or "any"
    picks_dtype: str = "int64"  # or "int32"
    sentinel: int = -1  # in slots that hold no block; they come last
    # attend_win
    window: int | None = None  # keys that a query sees
    window_counts_self: bool = True  # its own position is one of them
    # attend_cmp: key i covers tokens [i * stride, i * stride + length) and is seen once it is complete
    compress_length: int | None = None
    compress_stride: int | None = None

    def __post_init__(self):
        dtypes = self.dtypes
        object.__setattr__(self, "dtypes", (dtypes,) if isinstance(dtypes, str) else tuple(dtypes))
        object.__setattr__(self, "layout", str(self.layout).lower().replace("t", "s"))
        _check(self)

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

    def document(self, name, callable_name):
        """The scenario that says the same. JSON is YAML."""
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
                "sentinel": self.sentinel,
                "scale": self.scale or 0.0,
                "lse": self.lse or "none",
                "gradients": self.gradients,
                "products": self.products,
            },
            "requires": {"gpus": 1 if self.device == "cuda" else 0},
            "budget": {"seconds": float(self.seconds)},
            "checks": ["kernel_is_oracle", "kernel_causal", "unmutated", "process_clean", "progress"],
        }
        if len(self.dtypes) > 1:
            document["axes"] = {"training.precision": list(self.dtypes)}
        else:
            document["training"]["precision"] = self.dtypes[0]
        return document


def _refuse(field, found, wanted):
    raise SpecError(f"spec: {field}: found {found!r}, wanted {wanted}")


def _one_of(spec, field, names):
    if getattr(spec, field) not in names:
        _refuse(field, getattr(spec, field), "one of " + ", ".join(str(name) for name in names))


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
    for field, least in (("heads", 1), ("groups", 1), ("d_k", 2), ("d_v", 1)):
        _whole(spec, field, least)
    if spec.heads % spec.groups:
        _refuse("heads", spec.heads, f"a multiple of groups, which is {spec.groups}")
    if spec.d_k % 2:
        _refuse("d_k", spec.d_k, "an even number")
    if spec.scale is not None and not spec.scale > 0:
        _refuse("scale", spec.scale, "a number above 0, or None for 1 / sqrt(d_k)")
    if not spec.seconds > 0:
        _refuse("seconds", spec.seconds, "a number above 0")
    _check_level(spec)


def _check_level(spec):
    defaults = {field.name: field.default for field in dataclasses.fields(Spec)}
    for level, fields in OF_LEVEL.items():
        for field in fields:
            if level != spec.level and getattr(spec, field) != defaults[field]:
                raise SpecError(f"spec: {field} belongs to {level}, but level is {spec.level}")
    for field in REQUIRED[spec.level]:
        if getattr(spec, field) is None:
            raise SpecError(f"spec: {field} is missing: {spec.level} needs it")
        _whole(spec, field, 1)
    if spec.level == "attend_sel":
        _check_picks(spec)
    if spec.level == "attend_cmp" and spec.compress_length % spec.compress_stride:
        _refuse("compress_length", spec.compress_length, f"a multiple of compress_stride, {spec.compress_stride}")


def _check_picks(spec):
    _one_of(spec, "picks_per", ("group", "head"))
    _one_of(spec, "picks_order", ("ascending", "any"))
    _one_of(spec, "picks_dtype", ("int64", "int32"))
    _whole(spec, "forced_first", 0)
    _whole(spec, "forced_last", 1)
    if spec.forced_first + spec.forced_last > spec.top_n:
        _refuse("top_n", spec.top_n, f"at least forced_first + forced_last, {spec.forced_first + spec.forced_last}")
    _whole(spec, "sentinel", -1)
    if 0 <= spec.sentinel < spec.top_n + 3:
        _refuse("sentinel", spec.sentinel, "-1, or a number that no block has")


def _model(spec):
    model = {
        "dim": spec.heads * spec.d_v,
        "n_layers": 1,
        "n_heads": spec.heads,
        "n_kv_groups": spec.groups,
        "d_k": spec.d_k,
        "d_v": spec.d_v,
        "l": 16,
        "d": 16,
        "l_sel": 16,
        "n_sel": 3,
        "w": 16,
    }
    if spec.level == "attend_sel":
        model.update(
            l=spec.block,
            d=spec.block,
            l_sel=spec.block,
            n_sel=spec.top_n,
            init_blocks=spec.forced_first,
            local_blocks=spec.forced_last,
        )
    elif spec.level == "attend_win":
        model["w"] = spec.window + (0 if spec.window_counts_self else 1)
    else:
        model.update(l=spec.compress_length, d=spec.compress_stride, l_sel=spec.compress_length)
    return model
