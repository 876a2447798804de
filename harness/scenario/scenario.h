// A scenario: one YAML file, read strictly, with the profile and the --set overrides applied. A value, not a
// process: what it says was resolved once and is never looked up again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/manifest.h"
#include "harness/scenario/outcome.h"
#include "harness/scenario/site.h"
#include "nsa/base/config.h"

namespace harness {

// A wrong implementation put into a seam on purpose. What is not given is drawn from `seed` by the fault itself.
struct FaultRequest {
  std::string name;
  std::vector<int> layers;  // empty: drawn
  std::optional<int> rank;  // absent: as the fault says (all ranks, or one drawn)
  bool all_ranks = false;   // rank: all
  std::int64_t step = 1;
  double strength = 1.0;  // in (0, 1]
  std::int64_t seed = 0;
  std::string form;  // of faults that have several

  bool operator==(const FaultRequest&) const = default;
};

// What the kinds `attention` and `decode` feed to the layers and how they look at them.
struct AttentionProbe {
  std::string inputs = "normal";  // of kInputs
  std::string gate = "learned";   // or one-hot: cmp, sel, win; or all: 1, 1, 1
  bool poison = false;            // uninitialised memory starts as NaN
  bool trace_kernels = false;     // the device's kernels are recorded by name
  double prefix = 0.75;  // causality: share of the positions that a perturbation leaves alone

  bool operator==(const AttentionProbe&) const = default;
};
inline constexpr std::array kInputs = {
    "normal", "large_logits", "ties", "integers", "one_hot", "equal_keys"};
inline constexpr std::array kGates = {"learned", "cmp", "sel", "win", "all"};

// What kind `kernel` calls: an attention kernel of the user's own, in the user's Python. It says what the kernel computes and
// in which form it takes and gives it; the sizes are those of the model.
struct KernelConfig {
  std::string callable;  // module:name, as the user's Python imports it
  std::string from;      // the folder to import the module from, or the script that is __main__
  std::string level;     // of kLevels
  std::string layout = "bshd";      // the order of batch, sequence, heads and width, of all tensors
  std::string picks_per = "group";  // of attend_sel: one list of blocks a group, or a head
  std::string picks =
      "own";  // the lists are as NSA selects, or external: any blocks, given to the kernel
  bool own_block = true;        // of external picks: the query's own block is in every list
  std::string keys = "shared";  // of attention: one k and v, or separate ones of each branch
  std::int64_t sentinel = -1;   // of attend_sel: what stands in slots that hold no block
  std::string picks_order = "ascending";  // or any
  std::string picks_dtype = "int64";      // or int32
  double scale = 0.0;                     // of the logits; 0: 1/sqrt(d_k)
  std::string lse = "none";  // of a second result: none, e or 2, the base of its logarithm
  bool gradients = true;
  std::string products = "narrow";  // in bf16 and fp16: what the probabilities are multiplied in
  std::vector<std::int64_t> tile;   // of the kernel's own: lengths on both sides of each are tried
  std::vector<std::string> widths;  // further ones that it takes, d_k and d_v: 32x16
  bool thorough = false;  // also lengths in the thousands; shorter ones again with other numbers
  std::string allow = "none";  // of kAllowed: roundings before the softmax that are let pass

  // Gives scores of blocks or chooses blocks: no gradients flow there.
  [[nodiscard]] bool chooses() const { return level == "score" || level == "select"; }
  [[nodiscard]] bool is_whole() const { return level == "attention"; }
  [[nodiscard]] bool takes_picks() const {
    return level == "attend_sel" || (is_whole() && picks == "external");
  }

  bool operator==(const KernelConfig&) const = default;
};
// A text of KernelConfig::widths; nothing where it is none: 32x16.
struct KernelWidths {
  std::int64_t d_k, d_v;
};
[[nodiscard]] std::optional<KernelWidths> kernel_widths(const std::string& text);
inline constexpr std::array kLevels = {
    "attend_sel", "attend_win", "attend_cmp", "score", "select", "attention"};
inline constexpr std::array kPicks = {"own", "external"};
inline constexpr std::array kBanks = {"shared", "separate"};
inline constexpr std::array kPicksPer = {"group", "head"};
inline constexpr std::array kPicksOrders = {"ascending", "any"};
inline constexpr std::array kPicksTypes = {"int64", "int32"};
inline constexpr std::array kLogarithms = {"none", "e", "2"};
inline constexpr std::int64_t kLongestTile = 4096;  // twice that and more takes minutes on a CPU
inline constexpr std::array kProducts = {"narrow", "wide"};
inline constexpr std::array kAllowed = {"none", "scaled_query_rounded", "scores_rounded", "both"};

// What kind `command` supervises: any command line of the user's own.
struct CommandConfig {
  std::vector<std::string> argv;  // the program, looked for on PATH, and its arguments
  std::string directory;          // absolute: where it was started; "": not known
  bool watch = false;             // its ranks get the hook that stands for the two lines
  bool keeps_arguments = true;    // false: only the program is stored

  bool operator==(const CommandConfig&) const = default;
};

// Sizes that kind `sweep` trains one step at, every combination. An empty list: the one value of model or training.
struct SweepConfig {
  std::vector<std::int64_t> seq_len;
  std::vector<std::int64_t> batch_size;
  std::vector<std::int64_t> n_layers;

  bool operator==(const SweepConfig&) const = default;
};

// What ends a training run and how it goes on: snapshots of the full state, a kill, another life from the last snapshot.
struct LifeConfig {
  std::int64_t save_every = 0;          // optimiser steps between two snapshots; 0: none
  std::int64_t kill_step = 0;           // every rank is killed in this step, once; 0: never
  std::string kill_phase = "backward";  // when the first of them enters this phase (of kKillPhases)
  std::int64_t kill_after_ms = 0;       // and this much later

  bool operator==(const LifeConfig&) const = default;
};
inline constexpr std::array kKillPhases = {"data", "forward", "backward", "optimizer", "save"};

struct Expectation {  // of planted faults; rules never read it
  std::optional<Outcome> outcome;
  std::string code;  // "A or B" accepts both
  Site site;

  bool operator==(const Expectation&) const = default;
};

// A point of the axes that cannot pass, and why: an outcome that is as known is XFAIL, a pass is XPASS.
struct KnownFailure {
  std::vector<std::pair<std::string, std::string>> when;  // path -> value, all of them
  Outcome outcome = Outcome::fail;
  std::string code;     // of the first finding; "A or B" accepts both
  std::string because;  // for people
  std::string until;    // YYYY-MM-DD: from then on it is a failure like any other

  bool operator==(const KnownFailure&) const = default;
};

// A minimal set of values of a list-valued parameter that makes a case fail, found by trials. With one, `expect` speaks
// of the answer, not of a trial: site.layers is the minimal set, outcome and code are those of its trial.
struct BisectConfig {
  std::string over;                     // parallel.checkpoint.layers; "": none
  std::vector<std::string> candidates;  // each once

  bool operator==(const BisectConfig&) const = default;
};

// How closely the ranks of kinds training and throughput are watched. What a level leaves out is neither recorded nor judged.
inline constexpr int kWatchProcesses =
    0;  // phases, heartbeats, ends; once the last step is over, hashes of the parameters
inline constexpr int kWatchEvents =
    1;  // counters, hooks, collectives too: nothing that waits for the device in a step
inline constexpr int kWatchValues =
    2;  // tensors, their hashes and the memory too: all that checks can judge

inline constexpr const char* kKernelKind = "kernel";
inline constexpr const char* kCommandKind = "command";

struct Scenario {
  std::string name;  // file name without .yaml
  std::string path;  // absolute
  std::string text;  // the file as it was read
  std::string about;
  std::string claim;
  std::string kind;
  std::string profile;    // the one applied, "" for none
  std::int64_t seed = 0;  // of initialisation, data and every draw
  int observe = kWatchValues;
  nsa::ModelConfig model;
  nsa::TrainingConfig training;
  nsa::ParallelConfig parallel;
  AttentionProbe attention;
  SweepConfig sweep;
  LifeConfig life;
  KernelConfig kernel;
  CommandConfig command;
  std::map<std::string, std::string>
      route;  // seam -> requested implementation, every seam of the manifest
  int requires_gpus = 0;
  double requires_memory_gib = 0.0;
  double requires_gpu_memory_gib = 0.0;  // of each card it uses
  double budget_seconds = 300.0;
  int budget_cores = 0;  // the most it uses, twin and ranks alike; 0: all there are
  std::optional<FaultRequest> fault;
  std::vector<std::string> checks;
  std::optional<Expectation> expect;
  std::optional<KnownFailure> known;  // the one that holds at this point
  BisectConfig bisect;                // not over anything: none

  [[nodiscard]] bool trains() const { return kind == "training"; }
  // Its one process is the user's Python, not a worker of this project.
  [[nodiscard]] bool is_foreign() const { return kind == kKernelKind; }
  // Whatever it starts is the user's; how many ranks there are is only known once they run.
  [[nodiscard]] bool is_command() const { return kind == kCommandKind; }
  // Ranks that train are compared with a process that does their work alone, where a check asks for it and the level of observation
  // leaves something to compare.
  [[nodiscard]] bool has_twin() const;
  [[nodiscard]] bool has_check(const std::string& check) const {
    return std::find(checks.begin(), checks.end(), check) != checks.end();
  }
  // The card of a rank, counted from 0 among the `requires.gpus` that the case is given: where there are fewer cards than
  // ranks (Gloo alone allows it), ranks share.
  [[nodiscard]] int card_of(int rank) const { return rank % std::max(1, requires_gpus); }

  bool operator==(const Scenario&) const = default;
};

inline constexpr const char* kNoProfile = "base";

struct ScenarioOptions {
  std::optional<std::string> profile;  // --profile; absent: chosen by what is there;
                                       //   kNoProfile: the scenario without any
  std::vector<std::pair<std::string, std::string>> sets;  // --set path=value, in order
  std::vector<std::pair<std::string, std::string>> only;  // --only axis=value
  std::optional<std::int64_t> seed;                       // --seed
  int gpus = 0;                                           // of this machine
  std::string configs_folder;                             // holds models/NAME.yaml
  std::string default_text;                               // corpus where the scenario names none
  std::vector<std::string> known_checks;
  std::string today;  // YYYY-MM-DD: known failures end by it; "": they never do
  std::function<void(const std::string&)> on_note;  // what the user should hear of; may be empty
};

}  // namespace harness
