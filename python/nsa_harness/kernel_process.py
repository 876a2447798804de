"""The process that runs a kernel: python -m nsa_harness.kernel_process. Started by the controller, which has drawn the trials and judges
what is written here; this process judges nothing."""

import argparse
import importlib
import importlib.metadata
import json
import os
import runpy
import sys
import traceback

from nsa_harness.channel import Channel, bases_of, die_with_the_controller, name_of_type, place_of
from nsa_harness.validate import SERVING

CANONICAL = "bhsd"
SOURCES = "foreign"  # this process is not built from the controller's sources


class WrongResult(Exception):
    """What the callable returned is not what the spec says."""

    __module__ = "nsa_harness"  # this file runs as __main__, which is the user's name for his own


def load(name, origin):
    """The callable "module:name". `origin` is the folder that the module is imported from, or the script if the module is __main__; a
    script runs as multiprocessing runs it: under another name than __main__. Raises FileNotFoundError if `origin` is not there."""
    module_name, _, path = name.partition(":")
    if origin and not os.path.exists(origin):
        raise FileNotFoundError(f"kernel.from: {origin} is not there: the kernel that was judged lay in it")
    if origin:
        sys.path.insert(0, origin if os.path.isdir(origin) else os.path.dirname(origin))
    if module_name == "__main__":
        found = argparse.Namespace(**runpy.run_path(origin, run_name="__mp_main__"))
    else:
        found = importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    return found


# What a level is called with and what it gives, in the trials' names.
CALLS = {
    "attend_sel": (("q", "k", "v", "blocks"), "o"),
    "attend_win": (("q", "k", "v"), "o"),
    "attend_cmp": (("q", "k", "v"), "o"),
    "score": (("q", "k"), "scores"),
    "select": (("scores",), "blocks"),
    "attention": (("q", "k", "v", "k_cmp", "v_cmp", "k_sel", "v_sel", "k_win", "v_win", "gates", "blocks"), "o"),
}


class Kernel:
    """One level in the layout of the spec."""

    def __init__(self, scenario, torch):
        self.torch = torch
        self.spec = scenario["kernel"]
        self.model = scenario["model"]
        self.heads_per_group = self.model["n_heads"] // self.model["n_kv_groups"]
        self.takes, self.gives = CALLS[self.spec["level"]]
        self.device = torch.device(scenario["parallel"]["device"])
        self.layout = self.spec["layout"]
        self.trial, self.given = "", {}  # what it is called with
        self.fn = load(self.spec["callable"], self.spec.get("from", ""))

    def laid_out(self, tensor, gaps):
        """From [B,N,S,W] to the layout; with gaps, every row is followed by as many NaNs."""
        placed = tensor.to(self.device).permute([CANONICAL.index(letter) for letter in self.layout]).contiguous()
        if not gaps:
            return placed
        wide = self.torch.full((*placed.shape[:-1], 2 * placed.shape[-1]), float("nan"), dtype=placed.dtype, device=self.device)
        view = wide[..., : placed.shape[-1]]
        view.copy_(placed)
        return view

    def canonical(self, tensor, letters=CANONICAL):
        layout = [letter for letter in self.layout if letter in letters]
        return tensor.permute([layout.index(letter) for letter in letters]).contiguous()

    def picks(self, blocks):
        if self.spec["picks_per"] == "head":
            blocks = blocks.repeat_interleave(self.heads_per_group, dim=1)
        if self.spec["picks_order"] == "any":
            blocks = blocks.sort(dim=-1, descending=True).values
        blocks = blocks.masked_fill(blocks < 0, self.spec["sentinel"])
        return self.laid_out(blocks.to(getattr(self.torch, self.spec["picks_dtype"])), False)

    def inputs(self, tensors, gaps):
        """By name, in the order of the call."""
        given = {}
        for name in self.takes:
            if name not in tensors:  # of attention: the other form of its keys, picks of its own
                continue
            if name == "blocks":
                given[name] = self.picks(tensors[name])
            else:  # without a copy of its own a view with gaps would be no leaf
                given[name] = self.laid_out(tensors[name], gaps).detach().requires_grad_(self.spec["gradients"])
        return given

    def shape_of_result(self, tensors):
        """In the layout."""
        rows = (tensors["q"] if "q" in tensors else tensors["scores"]).shape
        groups = self.model["n_kv_groups"]
        blocks = -(-rows[2] // self.model["l_sel"])
        shape = {
            "o": tuple(tensors["do"].shape) if self.gives == "o" else (),
            "scores": (rows[0], groups, rows[2], blocks),
            "blocks": (rows[0], groups, rows[2], self.model["n_sel"]),
        }[self.gives]
        return [shape[CANONICAL.index(letter)] for letter in self.layout]

    def call(self, given, shape):
        """The results by name, checked: `shape` is that of the first in the layout."""
        result = self.fn(*given.values())
        wants_lse = self.spec["lse"] != "none"
        wanted = "(out, lse)" if wants_lse else "one tensor"
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(parts) != (2 if wants_lse else 1) or not all(isinstance(part, self.torch.Tensor) for part in parts):
            kinds = ", ".join(type(part).__name__ for part in parts)
            raise WrongResult(f"found {kinds}, wanted {wanted}")
        name = {"o": "out", "blocks": "picks"}.get(self.gives, self.gives)
        self.check(parts[0], name, shape, self.type_of_result(next(iter(given.values()))))
        results = {self.gives: parts[0]}
        if wants_lse:
            self.check(parts[1], "lse", [size for size, letter in zip(shape, self.layout) if letter != "d"], None)
            results["lse"] = parts[1]
        return results

    def type_of_result(self, first):
        if self.gives == "blocks":
            return getattr(self.torch, self.spec["picks_dtype"])
        if self.gives == "scores":  # narrow ones would often be equal, and choose other blocks
            return self.torch.promote_types(first.dtype, self.torch.float32)
        return first.dtype

    def check(self, tensor, name, shape, dtype):
        if list(tensor.shape) != list(shape):
            raise WrongResult(f"{name}: found shape {list(tensor.shape)}, wanted {list(shape)}")
        if dtype is not None and tensor.dtype != dtype:
            raise WrongResult(f"{name}: found {tensor.dtype}, wanted {dtype}")
        if dtype is None and not tensor.is_floating_point():
            raise WrongResult(f"{name}: found {tensor.dtype}, wanted a floating type")
        if tensor.device.type != self.device.type:
            raise WrongResult(f"{name}: found it on {tensor.device}, wanted {self.device}")

    def run(self, tensors, gaps, channel):
        """What comes back from one call, by name; and how many numbers of each input have another value afterwards."""
        torch = self.torch
        given = self.given = self.inputs(tensors, gaps)
        before = {name: tensor.detach().clone() for name, tensor in given.items()}
        channel.enter("forward")
        called = self.call(given, self.shape_of_result(tensors))
        channel.moved()
        results = {name: self.canonical(one, "bhs" if name == "lse" else CANONICAL) for name, one in called.items()}
        if self.gives == "blocks":
            results["blocks"] = self.own_lists(results["blocks"])
        if self.spec["gradients"]:
            channel.enter("backward")
            results.update(self.gradients(called["o"], given, self.laid_out(tensors["do"], gaps)))
            channel.moved()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        written = {
            "picks" if name == "blocks" else name: int((before[name] != tensor.detach()).sum())
            for name, tensor in given.items()
        }
        return results, written

    def own_lists(self, picks):
        """As this project's lists are: -1 in slots that hold no block; sorted where any order was said to be right."""
        last = self.torch.iinfo(self.torch.int64).max
        lists = picks.long()
        lists = lists.masked_fill(lists == self.spec["sentinel"], last)
        if self.spec["picks_order"] == "any":
            lists = lists.sort(dim=-1).values
        return lists.masked_fill(lists == last, -1)

    def gradients(self, out, given, d_out):
        if not out.requires_grad:
            if any(one.numel() == 0 for one in given.values()):
                return {}  # no keys: nothing that it could depend on
            raise WrongResult("out has no autograd graph; a kernel without a backward needs gradients=False")
        names = [name for name in given if name != "blocks"]
        found = self.torch.autograd.grad(out, [given[name] for name in names], d_out, allow_unused=True)
        return {"d" + name: self.canonical(one) for name, one in zip(names, found) if one is not None}


def told_with_its_trial(error, trial, given):
    """An engineer asks first what it was called with. Behind the first line: it is the one that a verdict shows."""
    first, *rest = str(error).split("\n", 1)
    shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in given.items())
    return "\n".join([f"{first} (in the trial {trial}{': ' + shapes if shapes else ''})", *rest])


def serve(kernel, scenario, folder, channel, only=None):
    """Calls the kernel with every trial, in their order; with `only` once with the trial of this number, as the twin of a process that
    has called it with all."""
    from nsa_harness import tensors

    own = "rank_0" if only is None else "twin_of_0"
    os.makedirs(os.path.join(folder, own), exist_ok=True)
    calls = 0
    trials = {int(name.partition(".")[0]): name for name in os.listdir(os.path.join(folder, "trials"))}
    for number in sorted(trials) if only is None else [only]:
        inputs, said = tensors.read(os.path.join(folder, "trials", trials[number]))
        kernel.trial = said["trial"]
        for call in range(1, int(said["calls"]) + 1 if only is None else 2):
            results, written = kernel.run(inputs, said["gaps"] == "1", channel)
            calls += 1
            for tensor, count in written.items():
                if count:
                    channel.write("mutation", step=1, layer=-1, seam=scenario["kernel"]["level"], tensor=tensor, elements=count)
            channel.enter("record")
            path = f"{own}/outputs_{number:02d}_{call}.safetensors"
            tensors.write(os.path.join(folder, path), results)
            channel.write(
                "artefact",
                step=call,
                of_rank=0,
                name="kernel_outputs",
                layer=number,
                path=path,
                bytes=os.path.getsize(os.path.join(folder, path)),
            )
            channel.moved()
    if only is None:
        channel.write("fact", name="mutations_watched", value=str(calls))


def say_hello(case, channel):
    """Before torch is imported: whatever stands still from here on is asked where."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    channel.write(
        "hello",
        pid=os.getpid(),
        source_hash=SOURCES,
        torch_version=version,
        device=case["scenario"]["parallel"]["device"],
        threads=int(os.environ.get("OMP_NUM_THREADS", "0")),
    )


def main():
    parser = argparse.ArgumentParser()
    for option in ("case", "folder", "clock-origin-ms", "world", "port"):
        parser.add_argument("--" + option, required=True)
    for option in ("rank", "listen-fd"):  # of no use to one process
        parser.add_argument("--" + option)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--trial", type=int)  # of the twin
    asked = parser.parse_args()
    os.environ[SERVING] = "1"
    die_with_the_controller()
    channel = Channel(int(asked.clock_origin_ms))
    torch = kernel = None
    try:
        with open(asked.case, encoding="utf-8") as file:
            case = json.load(file)
        say_hello(case, channel)
        channel.enter("init")
        import torch

        channel.moved()
        torch.manual_seed(case["scenario"].get("seed", 0))
        kernel = Kernel(case["scenario"], torch)
        serve(kernel, case["scenario"], asked.folder, channel, asked.trial if asked.twin else None)
    except BaseException as error:  # whatever ends the user's code is told
        traceback.print_exc()
        channel.write(
            "error",
            type=name_of_type(error),
            what=told_with_its_trial(error, kernel.trial, kernel.given) if kernel else str(error),
            phase=channel.phase,
            step=1,
            bases=bases_of(error, torch),
            frames=place_of(error),
        )
        sys.stderr.flush()
        os._exit(1)
    channel.write("done")


if __name__ == "__main__":
    main()
