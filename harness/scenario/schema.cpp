#include "harness/scenario/schema.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace harness {
namespace {

constexpr auto kKeys = std::to_array<SchemaKey>({
    {"version", "1", "required", "of this format"},
    {"scenario", "word", "required", "the file's name without .yaml"},
    {"about", "text", "\"\"", "what it shows, one or two sentences"},
    {"kind", "name", "required", "what the ranks do: training, attention, decode or sweep"},
    {"seed", "integer", "0", "of initialisation, data and every draw"},

    {"model", "map", "required", "the NSA language model"},
    {"model.use", "name", "none", "a file of configs/models whose values the other keys override"},
    {"model.name", "text", "model.use", "what reports call it"},
    {"model.dim", "integer", "required", "width of the residual stream"},
    {"model.n_layers", "integer", "required", "blocks"},
    {"model.n_heads", "integer", "required", "query heads, a multiple of n_kv_groups"},
    {"model.n_kv_groups", "integer", "required", "key/value groups"},
    {"model.d_k", "integer", "required", "width of queries and keys, even"},
    {"model.d_v", "integer", "required", "width of values"},
    {"model.l", "integer", "required", "tokens of a compression block, a multiple of d"},
    {"model.d", "integer", "required", "stride of the compression blocks"},
    {"model.l_sel", "integer", "required", "tokens of a selection block, a multiple of d"},
    {"model.n_sel", "integer", "required", "blocks selected, the forced ones included"},
    {"model.w", "integer", "required", "tokens of the window, the query's own included"},
    {"model.init_blocks", "integer", "1", "first blocks that are always selected"},
    {"model.local_blocks", "integer", "2", "last blocks that are always selected"},
    {"model.vocab_size", "integer", "256", "at least 256 for text, whose tokens are bytes"},
    {"model.mlp_ratio", "integer", "4", "hidden width of the MLP over dim"},
    {"model.rope_base", "number", "10000", "base of the rotary angles"},
    {"model.rope_scale", "number", "1", "positions are divided by it"},
    {"model.gate",
     "name",
     "group_softmax",
     "how the branches are weighed: group_softmax or head_sigmoid"},
    {"model.gate_temp", "number", "1", "temperature of the gate's softmax"},
    {"model.gate_hidden", "integer", "0", "hidden width of the gate; 0: max(1, d_k/2)"},
    {"model.phi", "name", "avg", "how a compression block becomes a token: avg, conv or mlp"},
    {"model.eq9", "name", "fractional", "how scores reach selection blocks: fractional or overlap"},

    {"training", "map", "required", "what is trained on what"},
    {"training.steps", "integer", "1", "optimiser steps, counted from 1"},
    {"training.batch_size", "integer", "1", "sequences a rank and micro-batch"},
    {"training.seq_len", "integer", "required", "tokens of a sequence"},
    {"training.accumulate", "integer", "1", "micro-batches an optimiser step"},
    {"training.precision",
     "name",
     "fp32",
     "fp64, fp32; bf16 or fp16 with float32 masters, or bf16_pure, fp16_pure without; "
     "bf16_autocast: float32 weights, the forward under autocast"},
    {"training.reaches_floor",
     "true or false",
     "false",
     "judged by loss_falls: the loss shall end at the floor of its source"},
    {"training.data", "map", "default text", "where tokens come from"},
    {"training.data.source",
     "name",
     "text",
     "text; uniform: noise; long_range: each token repeats the one `distance` back, or is noise"},
    {"training.data.distance", "integer", "0", "of long_range, in tokens"},
    {"training.data.sharpness",
     "number",
     "0.9",
     "of long_range: probability of the repeated token"},
    {"training.data.text",
     "list of paths",
     "own sources",
     "files and folders, relative to this file"},
    {"training.optimizer", "map", "", "AdamW with warm-up and cosine"},
    {"training.optimizer.lr", "number", "0.0003", "learning rate after the warm-up"},
    {"training.optimizer.beta1", "number", "0.9", "of the first moment"},
    {"training.optimizer.beta2", "number", "0.95", "of the second moment"},
    {"training.optimizer.eps", "number", "1e-08", "added to the root of the second moment"},
    {"training.optimizer.weight_decay", "number", "0.1", "decoupled, on every parameter"},
    {"training.optimizer.max_norm", "number", "1", "gradients are clipped to this global L2 norm"},
    {"training.optimizer.warmup", "integer", "1", "optimiser steps of linear warm-up"},
    {"training.optimizer.total", "integer", "1000", "optimiser steps until the cosine is zero"},

    {"parallel", "map", "", "ranks and how they work together"},
    {"parallel.ranks", "integer", "2", "processes"},
    {"parallel.device", "name", "cpu", "cpu or cuda"},
    {"parallel.backend", "name", "auto", "gloo, nccl, or auto: by device"},
    {"parallel.ddp", "map", "", "data parallelism"},
    {"parallel.ddp.static_graph",
     "true or false",
     "false",
     "every step uses the same parameters the same number of times"},
    {"parallel.ddp.find_unused",
     "true or false",
     "false",
     "parameters that the loss does not reach are looked for"},
    {"parallel.ddp.gradient_as_bucket_view",
     "true or false",
     "false",
     "gradients are views into the buckets"},
    {"parallel.ddp.bucket_mb", "number", "25", "size of a gradient bucket in MiB"},
    {"parallel.ddp.compress", "name", "none", "what travels between ranks: none or bf16"},
    {"parallel.checkpoint", "map", "", "activation checkpointing"},
    {"parallel.checkpoint.layers",
     "list of integers",
     "none",
     "none, all, or layers that are computed again in the backward"},
    {"parallel.checkpoint.mode", "name", "functional", "functional or nested"},
    {"parallel.checkpoint.keep_blocks",
     "true or false",
     "false",
     "the blocks that were chosen are chosen again"},

    {"attention", "map", "", "of kinds attention and decode: what layers are fed with"},
    {"attention.inputs",
     "name",
     "normal",
     "normal, large_logits, ties, integers, one_hot or equal_keys"},
    {"attention.gate", "name", "learned", "learned; cmp, sel, win: one branch alone; all: 1 each"},
    {"attention.poison", "true or false", "false", "uninitialised memory starts as NaN"},
    {"attention.trace_kernels",
     "true or false",
     "false",
     "of kind attention on cuda: the kernels that ran are recorded by name and judged by "
     "ran_route"},
    {"attention.prefix",
     "number",
     "0.75",
     "share of positions before the perturbed suffix, or of a prompt"},

    {"sweep", "map", "", "of kind sweep: sizes that one step is trained at, every combination"},
    {"sweep.seq_len", "list of integers", "training.seq_len", "ascending"},
    {"sweep.batch_size", "list of integers", "training.batch_size", "ascending"},
    {"sweep.n_layers", "list of integers", "model.n_layers", "ascending"},

    {"route", "map", "", "which implementation stands in each seam"},
    {"route.SEAM", "name", "the first known", "asked for; what else ran is a failure"},
    {"profiles", "map", "", "overrides for a kind of machine"},
    {"profiles.NAME", "map", "", "laid over the file; `gpu` is chosen where its GPUs are there"},
    {"axes", "map", "", "a matrix over any value"},
    {"axes.PATH", "list", "", "the values of model.w, parallel.ranks, ...: one case each"},

    {"life", "map", "", "of kind training: snapshots, a kill, another life"},
    {"life.save_every", "integer", "0", "optimiser steps between two snapshots; 0: none"},
    {"life.kill_step", "integer", "0", "every rank is killed in this step, once; 0: never"},
    {"life.kill_phase",
     "name",
     "backward",
     "when the first rank enters it: data, forward, backward, optimizer or save"},
    {"life.kill_after_ms", "integer", "0", "and this many milliseconds later"},

    {"bisect", "map", "none", "finds a minimal set of values with which the case fails"},
    {"bisect.over", "path", "required", "of a list: parallel.checkpoint.layers, ..."},
    {"bisect.candidates", "list", "all layers", "the values to choose from"},

    {"requires", "map", "", "what the machine must have, else the case is skipped"},
    {"requires.gpus", "integer", "0", "GPUs"},
    {"requires.memory_gib", "number", "0", "main memory"},
    {"requires.gpu_memory_gib", "number", "0", "of each card it uses; 0: not known"},
    {"budget", "map", "", "limits of the case"},
    {"budget.seconds", "number", "300", "then it is ended"},
    {"budget.cores", "integer", "0", "the most it uses, so that others run beside it; 0: all"},

    {"fault", "map", "none", "a wrong implementation put in on purpose"},
    {"fault.name", "name", "required", "which"},
    {"fault.layers", "list of integers", "drawn", "layers it is put into, counted from 0"},
    {"fault.rank", "integer or all", "the fault's", "rank it is put into, counted from 0"},
    {"fault.step", "integer", "1", "optimiser step from which it is there"},
    {"fault.strength", "number", "1", "share of rows in which the wrong law holds, above 0 to 1"},
    {"fault.seed", "integer", "0", "of what is drawn"},
    {"fault.form", "name", "the fault's", "of faults that have several"},

    {"checks", "list of names", "required", "what is judged, at least one"},
    {"known",
     "list of maps",
     "none",
     "points of the axes that cannot pass: XFAIL, and XPASS if they do"},
    {"known.when", "map", "required", "the point; all of its values hold, the first entry counts"},
    {"known.when.PATH", "value or list", "", "what the scenario says there; a list: any of them"},
    {"known.outcome", "name", "required", "FAIL, HANG, SLOW, CRASH or OOM"},
    {"known.code", "code", "any", "of the first finding; \"A or B\" accepts both"},
    {"known.because", "text", "required", "why it cannot pass"},
    {"known.until", "date", "required", "YYYY-MM-DD: from then on it fails like any other"},
    {"expect", "map", "none", "what must be said of a planted fault; no rule reads it"},
    {"expect.outcome", "name", "any", "PASS, FAIL, HANG, SLOW, CRASH, OOM, ..."},
    {"expect.code", "code", "any", "of the initiating finding; \"A or B\" accepts both"},
    {"expect.site", "map", "any", "where; only what is given here is compared"},
    {"expect.site.layers", "list of integers", "any", "counted from 0"},
    {"expect.site.branch", "name", "any", "cmp, sel or win"},
    {"expect.site.param", "name", "any", "without blocks.N., attn. and .weight: W_K_cmp"},
    {"expect.site.op", "name", "any", "a seam, or optimizer, softmax, ..."},
    {"expect.site.heads", "list of integers", "any", "counted from 0"},
    {"expect.site.rows", "list of integers", "any", "query positions, counted from 0"},
    {"expect.site.ranks", "list of integers", "any", "counted from 0"},
    {"expect.site.step", "integer", "any", "optimiser step, counted from 1"},
    {"expect.site.bucket", "integer", "any", "of the gradient reducer"},
    {"expect.site.sequence", "integer", "any", "of the collective in its group"},
    {"expect.site.phase", "name", "any", "init, forward, backward, ..."},
    {"expect.site.detail", "map", "any", "what else the finding says, by name"},
});

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  out.resize(std::max(width, text.size()) + 2, ' ');
  return out;
}

}  // namespace

std::span<const SchemaKey> schema() {
  return kKeys;
}

std::string schema_text() {
  std::size_t path = 0;
  std::size_t type = 0;
  std::size_t initial = 0;
  for (const SchemaKey& key : kKeys) {
    path = std::max(path, std::string_view(key.path).size());
    type = std::max(type, std::string_view(key.type).size());
    initial = std::max(initial, std::string_view(key.initial).size());
  }
  std::string text =
      padded("KEY", path) + padded("TYPE", type) + padded("DEFAULT", initial) + "MEANING\n";
  for (const SchemaKey& key : kKeys) {
    text += padded(key.path, path) + padded(key.type, type) + padded(key.initial, initial) +
            key.meaning + "\n";
  }
  return text;
}

}  // namespace harness
