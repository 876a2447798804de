// Every key of a scenario file: its name, the member it fills, its sentence and what it accepts, in the order of
// `list --schema`. Those of `model`, `training` and `parallel` are in nsa/base/{model,training,parallel}_fields.h.
#pragma once

#include <array>
#include <tuple>

#include "harness/scenario/planted_fields.h"
#include "nsa/base/model_fields.h"
#include "nsa/base/parallel_fields.h"
#include "nsa/base/training_fields.h"

namespace harness {

inline constexpr std::int64_t kFormatVersion = 1;

inline constexpr double kMostSteps = 1e9;             // more than the training has: no snapshot
inline constexpr double kLongestWaitMs = 3.6e6;       // an hour: every wait has a deadline
inline constexpr double kMaxBudgetSeconds = 86400.0;  // a day
inline constexpr double kMaxMemoryGib = 1e6;
inline constexpr double kMaxGpus = 1024;
inline constexpr double kMaxCores = 4096;
inline constexpr double kLargestSize = 1 << 24;  // of a sweep

[[nodiscard]] bool is_scenario_name(const std::string& text);  // up to 64 of a-z 0-9 _

inline constexpr auto kAttentionFields = [] {
  using A = AttentionProbe;
  return std::tuple{
      Field{"inputs",
            &A::inputs,
            "normal, large_logits, ties, integers, one_hot or equal_keys",
            nsa::one_of(kInputs)},
      Field{"gate",
            &A::gate,
            "learned; cmp, sel, win: one branch alone; all: 1 each",
            nsa::one_of(kGates)},
      Field{"poison", &A::poison, "uninitialised memory starts as NaN"},
      Field{"trace_kernels",
            &A::trace_kernels,
            "of kind attention on cuda: the kernels that ran are recorded by name and judged by "
            "ran_route"},
      Field{"prefix",
            &A::prefix,
            "share of positions before the perturbed suffix, or of a prompt",
            nsa::between(0, 1)}};
}();

inline constexpr auto kSweepFields = [] {
  using S = SweepConfig;
  constexpr nsa::Accepts kSizes = nsa::within(1, kLargestSize);
  return std::tuple{
      Field{"seq_len", &S::seq_len, "ascending", kSizes, {.initial = "training.seq_len"}},
      Field{"batch_size", &S::batch_size, "ascending", kSizes, {.initial = "training.batch_size"}},
      Field{"n_layers", &S::n_layers, "ascending", kSizes, {.initial = "model.n_layers"}}};
}();

inline constexpr auto kLifeFields = [] {
  using L = LifeConfig;
  return std::tuple{
      Field{"save_every",
            &L::save_every,
            "optimiser steps between two snapshots; 0: none",
            nsa::within(0, kMostSteps)},
      Field{"kill_step", &L::kill_step, "every rank is killed in this step, once; 0: never"},
      Field{"kill_phase",
            &L::kill_phase,
            "when the first rank enters it: data, forward, backward, optimizer or save",
            nsa::one_of(kKillPhases)},
      Field{"kill_after_ms",
            &L::kill_after_ms,
            "and this many milliseconds later",
            nsa::within(0, kLongestWaitMs)}};
}();

[[nodiscard]] bool is_layout(const std::string& text);  // b, s, h and d, each once

inline constexpr auto kKernelFields = [] {
  using K = KernelConfig;
  constexpr double kMostSentinel = 1 << 30;
  return std::tuple{
      Field{"callable",
            &K::callable,
            "module:name, as the user's Python imports it",
            {},
            {.initial = "required"}},
      Field{"from",
            &K::from,
            "the folder that the module is imported from, or the script if the module is __main__",
            {},
            {.sparse = true}},
      Field{"level",
            &K::level,
            "attend_sel, attend_win, attend_cmp, score, select or attention",
            nsa::one_of(kLevels),
            {.initial = "required"}},
      Field{"layout",
            &K::layout,
            "the order of batch, sequence, heads and width, such as bshd or bhsd",
            nsa::text_that(is_layout, "b, s, h and d in some order, each once")},
      Field{"picks_per",
            &K::picks_per,
            "of attend_sel: one list of blocks a group, or a head",
            nsa::one_of(kPicksPer)},
      Field{"picks",
            &K::picks,
            "of attend_sel and attention: the lists are as NSA selects (own), or of any blocks and "
            "given "
            "(external)",
            nsa::one_of(kPicks),
            {.sparse = true}},
      Field{"own_block",
            &K::own_block,
            "of external picks: the query's own block is in every list",
            {},
            {.sparse = true}},
      Field{"keys",
            &K::keys,
            "of attention: one k and v for all branches (shared), or separate ones",
            nsa::one_of(kBanks),
            {.sparse = true}},
      Field{"sentinel",
            &K::sentinel,
            "of attend_sel: what stands in slots that hold no block",
            nsa::within(-1, kMostSentinel)},
      Field{"picks_order",
            &K::picks_order,
            "of attend_sel: blocks come ascending, or in any order",
            nsa::one_of(kPicksOrders)},
      Field{"picks_dtype",
            &K::picks_dtype,
            "of attend_sel: int64 or int32",
            nsa::one_of(kPicksTypes)},
      Field{"scale", &K::scale, "of the logits; 0: 1/sqrt(d_k)", nsa::within(0, 1e6)},
      Field{"lse",
            &K::lse,
            "base of the logarithm in a second result, the sums of the softmax: none, e or 2",
            nsa::one_of(kLogarithms)},
      Field{"gradients", &K::gradients, "whether its backward is judged"},
      Field{"products",
            &K::products,
            "in bf16 and fp16 the probabilities are multiplied narrow (rounded first) or wide",
            nsa::one_of(kProducts)},
      Field{"tile",
            &K::tile,
            "ascending; sizes of the kernel's own tiles: lengths on both sides of each are tried",
            nsa::within(2, kLongestTile),
            {.sparse = true}},
      Field{"widths",
            &K::widths,
            "further widths that it takes, d_k and d_v, such as 32x16: one trial each",
            {},
            {.type = "list", .initial = "[]", .sparse = true}},
      Field{"thorough",
            &K::thorough,
            "also lengths in the thousands, and shorter ones again with other numbers",
            {},
            {.sparse = true}},
      Field{
          "allow",
          &K::allow,
          "roundings that cost digits in bf16 and fp16 and are let pass: of the queries times the "
          "scale, of the scores, both, or none",
          nsa::one_of(kAllowed),
          {.sparse = true}}};
}();

inline constexpr auto kCommandFields = [] {
  using C = CommandConfig;
  return std::tuple{
      Field{"argv",
            &C::argv,
            "the program, looked for on PATH, and its arguments",
            {},
            {.type = "list", .initial = "required"}},
      Field{"directory", &C::directory, "where it was started", {}, {.sparse = true}},
      Field{"watch",
            &C::watch,
            "each training of the command is looked at, also without the two lines in its script",
            {},
            {.sparse = true}}};
}();

inline constexpr auto kBisectFields = [] {
  using B = BisectConfig;
  return std::tuple{Field{"over",
                          &B::over,
                          "of a list: parallel.checkpoint.layers, ...",
                          {},
                          {.type = "path", .initial = "required"}},
                    Field{"candidates",
                          &B::candidates,
                          "the values to choose from",
                          {},
                          {.type = "list", .initial = "all layers"}}};
}();

inline constexpr auto kRequiresFields = [] {
  using S = Scenario;
  return std::tuple{
      Field{"gpus", &S::requires_gpus, "GPUs", nsa::within(0, kMaxGpus)},
      Field{"memory_gib", &S::requires_memory_gib, "main memory", nsa::within(0, kMaxMemoryGib)},
      Field{"gpu_memory_gib",
            &S::requires_gpu_memory_gib,
            "of each card it uses; 0: not known",
            nsa::within(0, kMaxMemoryGib),
            {.sparse = true}}};
}();

inline constexpr auto kBudgetFields = [] {
  using S = Scenario;
  return std::tuple{
      Field{"seconds", &S::budget_seconds, "then it is ended", nsa::above(0, kMaxBudgetSeconds)},
      Field{"cores",
            &S::budget_cores,
            "the most it uses, so that others run beside it; 0: all",
            nsa::within(0, kMaxCores),
            {.sparse = true}}};
}();

inline constexpr auto kScenarioFields = [] {
  using S = Scenario;
  return std::tuple{
      ByHand{"version", "1", "required", "of this format"},
      Field{"scenario",
            &S::name,
            "the file's name without .yaml",
            nsa::text_that(is_scenario_name, "up to 64 of a-z 0-9 _"),
            {.type = "word", .required = true}},
      Field{"about", &S::about, "what it shows, one or two sentences"},
      Field{"claim",
            &S::claim,
            "what somebody said of this: the report puts the verdict beside it",
            {},
            {.sparse = true}},
      Field{"kind",
            &S::kind,
            "what the ranks do: training, attention, decode, sweep, throughput, kernel, or command",
            {},
            {.type = "name", .required = true}},
      Field{"seed", &S::seed, "of initialisation, data and every draw"},
      Field{
          "observe",
          &S::observe,
          "of kinds training and throughput, how closely ranks are watched: 2 all that checks can "
          "judge, 1 nothing that waits for the device in a step, 0 processes only",
          nsa::within(kWatchProcesses, kWatchValues),
          {.sparse = true}},
      Part{
          "model", &S::model, nsa::kModelFields, "the NSA language model", {.initial = "required"}},
      Part{"training",
           &S::training,
           nsa::kTrainingFields,
           "what is trained on what",
           {.initial = "required"}},
      Part{"parallel", &S::parallel, nsa::kParallelFields, "ranks and how they work together"},
      Part{"attention",
           &S::attention,
           kAttentionFields,
           "of kinds attention and decode: what layers are fed with"},
      Part{"sweep",
           &S::sweep,
           kSweepFields,
           "of kind sweep: sizes that one step is trained at, every combination"},
      ByHand{"route", "map", "", "which implementation stands in each seam"},
      ByHand{"route.SEAM",
             "name",
             "the first known",
             "asked for; what else ran is a failure. auto: the fastest that can serve, resolved "
             "before "
             "anything runs, and told"},
      ByHand{"profiles", "map", "", "overrides for a kind of machine"},
      ByHand{"profiles.NAME",
             "map",
             "",
             "laid over the file; `gpu` is chosen where its GPUs are there"},
      ByHand{"axes", "map", "", "a matrix over any value"},
      ByHand{"axes.PATH", "list", "", "the values of model.w, parallel.ranks, ...: one case each"},
      Part{"life",
           &S::life,
           kLifeFields,
           "of kind training: snapshots, a kill, another life",
           {.sparse = true}},
      Part{"kernel",
           &S::kernel,
           kKernelFields,
           "of kind kernel: what a kernel of the user's own computes, and in which form",
           {.sparse = true}},
      Part{"command",
           &S::command,
           kCommandFields,
           "of kind command: a command line of the user's own",
           {.sparse = true}},
      Part{"bisect",
           &S::bisect,
           kBisectFields,
           "finds a minimal set of values with which the case fails",
           {.initial = "none", .sparse = true}},
      Part{"requires",
           nsa::kSame,
           kRequiresFields,
           "what the machine must have, else the case is skipped"},
      Part{"budget", nsa::kSame, kBudgetFields, "limits of the case"},
      Part{"fault",
           &S::fault,
           kFaultFields,
           "a wrong implementation put in on purpose",
           {.initial = "none"}},
      Field{"checks",
            &S::checks,
            "what is judged, at least one",
            {},
            {.type = "list of names", .required = true}},
      Part{"known",
           &S::known,
           kKnownFields,
           "points of the axes that cannot pass: XFAIL, and XPASS if they do",
           {.type = "list of maps", .initial = "none"}},
      Part{"expect",
           &S::expect,
           kExpectFields,
           "what must be said of a planted fault; no rule reads it",
           {.initial = "none"}}};
}();

}  // namespace harness
