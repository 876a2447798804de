// Synthetic evidence: a case that is healthy in every respect, and the means to spoil it in one. Files are written below a
// temporary folder that the builder owns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/judge/judge.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "tests/checks/layers.h"

namespace fixtures {

using harness::Evidence;
using harness::From;
using harness::kController;
using harness::kTwin;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nsa_checks_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <typename Row>
void put(std::vector<From<Row>>& rows, int process, Row row, std::int64_t t_ms = 100) {
  rows.push_back({process, t_ms, std::move(row)});
}

using Values = std::vector<float>;
using Tensors = std::map<std::string, Values>;  // one-dimensional

class Healthy {
 public:
  // Made once for each (ranks, steps, kind): a table of defects asks for the same one hundreds of times. Each has its own files.
  explicit Healthy(int ranks = 2, int steps = 1, const std::string& kind = "training")
      : ranks_(ranks), steps_(steps) {
    static std::map<std::tuple<int, int, std::string>, std::unique_ptr<const Healthy>> all;
    auto& made = all[{ranks, steps, kind}];
    if (!made) made.reset(new Healthy(Anew{}, ranks, steps, kind));
    evidence = made->evidence;
    evidence.folder = folder();
    params = made->params;
    std::filesystem::copy(made->folder(), folder());
  }

  // The checks that such a case can pass.
  static std::vector<std::string> checks_of(const std::string& kind) {
    if (kind == "decode") {
      return {"decode_equal", "reads_count", "unmutated", "process_clean", "progress"};
    }
    std::vector<std::string> names = {"close_to_oracle",
                                      "selection_valid",
                                      "unmutated",
                                      "exercised",
                                      "finite",
                                      "ran_route",
                                      "process_clean",
                                      "progress"};
    if (kind == "attention") {
      names.insert(names.end(), {"causal", "close_to_reference"});
      return names;
    }
    names.insert(names.end(),
                 {"gradients_arrived",
                  "gradients_agree",
                  "matches_twin",
                  "collectives_agree",
                  "buckets_as_asked",
                  "parameters_agree",
                  "data_distinct",
                  "optimizer_sound",
                  "checkpoint_equal"});
    names.emplace_back("gate_alive");
    return names;
  }

  Evidence evidence;
  std::vector<std::string> params;

  [[nodiscard]] int bucket_of(std::size_t index) const { return index < params.size() / 2 ? 1 : 0; }

  // The local gradient of a rank's micro-batch.
  [[nodiscard]] Values local(int rank, int step, std::size_t index) const {
    std::mt19937 random(
        static_cast<unsigned>(1000 * rank + 100000 * step + static_cast<int>(index)));
    std::normal_distribution<float> normal(0.0F, 1.0F);
    Values values(kElements);
    for (float& value : values) value = normal(random);
    return values;
  }

  [[nodiscard]] Values mean(int step, std::size_t index) const {
    Values sum(kElements, 0.0F);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Values g = local(rank, step, index);
      for (std::size_t i = 0; i < kElements; ++i) sum[i] += g[i] / static_cast<float>(ranks_);
    }
    return sum;
  }

  // Replaces a file of gradients and the hashes that the ledger has of it.
  void write_gradients(
      int process, const std::string& name, int step, int of_rank, const Tensors& tensors) {
    const std::string path = std::to_string(process) + "_" + name + "_" + std::to_string(step) +
                             "_" + std::to_string(of_rank) + ".safetensors";
    std::vector<nsa::TensorToWrite> list;
    for (const auto& [param, values] : tensors) {
      list.push_back({param,
                      nsa::DType::f32,
                      {static_cast<std::int64_t>(values.size())},
                      std::as_bytes(std::span(values))});
    }
    nsa::write_safetensors(folder_.path() + "/" + path, list);
    std::erase_if(evidence.artefacts, [&](const auto& row) { return row.row.path == path; });
    put(evidence.artefacts, process, harness::Artefact{step, of_rank, name, -1, path, 0, ""});
    for (auto& row : evidence.gradients) {
      harness::Gradient& gradient = row.row;
      if (row.process != process || gradient.step != step || gradient.of_rank != of_rank) continue;
      const auto at = tensors.find(gradient.param);
      if (at == tensors.end()) continue;
      std::string& hash = name == "local_gradients" ? gradient.hash_before : gradient.hash_after;
      hash = nsa::hash_hex(std::as_bytes(std::span(at->second)));
    }
  }

  [[nodiscard]] Tensors locals(int rank, int step = 1) const {
    Tensors tensors;
    for (std::size_t i = 0; i < params.size(); ++i) tensors[params[i]] = local(rank, step, i);
    return tensors;
  }
  [[nodiscard]] Tensors means(int step = 1) const {
    Tensors tensors;
    for (std::size_t i = 0; i < params.size(); ++i) tensors[params[i]] = mean(step, i);
    return tensors;
  }

  // Replaces a recorded attention layer.
  void write_layer(int process,
                   int step,
                   int of_rank,
                   int layer,
                   const LayerTensors& tensors,
                   const std::string& name = "attention_layer") {
    const std::string path = std::to_string(process) + "_" + name + "_" + std::to_string(layer) +
                             "_" + std::to_string(step) + "_" + std::to_string(of_rank) +
                             ".safetensors";
    save_layer(folder_.path() + "/" + path, tensors);
    std::erase_if(evidence.artefacts, [&](const auto& row) { return row.row.path == path; });
    put(evidence.artefacts, process, harness::Artefact{step, of_rank, name, layer, path, 0, ""});
  }

  // Layers of kind attention, both passes, as `setting` makes them.
  void write_alone(int layer, const LayerSetting& setting) {
    evidence.the_case.scenario.training.seq_len = setting.length;
    evidence.the_case.scenario.training.batch_size = setting.batch;
    evidence.the_case.scenario.model = setting.model;
    write_layer(0, 1, 0, layer, made_layer(setting, 0, layer));
    write_layer(0, 1, 0, layer, made_layer(perturbed(setting), 0, layer), kPerturbed);
  }
  // The same with another input from kPrefix on, and no gradient there.
  static LayerSetting perturbed(LayerSetting setting) {
    setting.inputs = [inner = setting.inputs](oracles::Tensor& x, oracles::Tensor& dy) {
      if (inner) inner(x, dy);
      const std::int64_t length = x.shape[1];
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        const std::int64_t t = static_cast<std::int64_t>(i) / x.shape[2] % length;
        if (t < kPrefix) continue;
        x.data[i] = -0.5 * x.data[i] + 1.0;
        dy.data[i] = 0.0;
      }
    };
    return setting;
  }
  static constexpr std::int64_t kPrefix = 22;  // within a block, a window and a compressed token
  static constexpr const char* kPerturbed = "attention_layer_perturbed";
  static constexpr const char* kReference = "attention_layer_reference";

  // Ends a process as the controller would see it.
  void ends(int process, int exit_code, int signal, bool by_controller, std::int64_t t_ms = 900) {
    std::erase_if(evidence.done,
                  [&](const auto& row) { return row.process == process && exit_code != 0; });
    std::erase_if(evidence.exited,
                  [&](const auto& row) { return row.row.process_ended == process; });
    harness::Exited exited;
    exited.process_ended = process;
    exited.exit_code = signal != 0 ? -1 : exit_code;
    exited.signal = signal;
    exited.by_controller = by_controller;
    put(evidence.exited, kController, exited, t_ms);
    if (signal != 0) not_done(process);
  }
  void not_done(int process) {
    std::erase_if(evidence.done, [&](const auto& row) { return row.process == process; });
  }
  void without_twin() {
    const auto of_twin = [](const auto& row) { return row.process == kTwin; };
    std::erase_if(evidence.done, of_twin);
    std::erase_if(evidence.gradients, of_twin);
    std::erase_if(evidence.batches, of_twin);
    std::erase_if(evidence.parameters, of_twin);
    std::erase_if(evidence.states, of_twin);
    std::erase_if(evidence.artefacts, of_twin);
    std::erase_if(evidence.started,
                  [](const auto& row) { return row.row.process_started == kTwin; });
    std::erase_if(evidence.exited, [](const auto& row) { return row.row.process_ended == kTwin; });
  }

  [[nodiscard]] std::string folder() const { return folder_.path(); }
  static constexpr std::size_t kElements = 24;

 private:
  struct Anew {};
  Healthy(Anew, int ranks, int steps, const std::string& kind) : ranks_(ranks), steps_(steps) {
    evidence.folder = folder();
    harness::Scenario& scenario = evidence.the_case.scenario;
    scenario.name = "fixture";
    scenario.kind = kind;
    scenario.model = toy_model();
    scenario.training.steps = steps;
    scenario.training.seq_len = kLength;
    scenario.parallel.ranks = ranks;
    for (const char* seam : {"attention",
                             "project",
                             "rope",
                             "compress",
                             "score",
                             "select",
                             "attend_cmp",
                             "attend_sel",
                             "attend_win",
                             "gate",
                             "grad_sync",
                             "data",
                             "optimizer"}) {
      scenario.route[seam] = "reference";
    }
    scenario.checks = checks_of(kind);
    params = harness::checks::parameter_names(scenario.model);
    // One bucket is full, the other one holds what is left.
    const auto in_first = static_cast<double>(params.size() - params.size() / 2);
    scenario.parallel.bucket_mb = in_first * kElements * sizeof(float) / 1048576.0;
    if (kind == "attention" || kind == "decode") {
      kind == "attention" ? add_layers_alone() : add_decoding();
      return;
    }
    for (int rank = 0; rank < ranks; ++rank) add_rank(rank);
    add_twin();
  }

  void add_rank(int rank) {
    put(evidence.started, kController, harness::Started{rank, 100 + rank}, 0);
    put(evidence.phases, rank, harness::Phase{"rendezvous", 0}, 5);
    std::int64_t sequence = 0;
    collective(rank, sequence++, 0, "rendezvous", "broadcast", "", 1000000);
    for (int step = 1; step <= steps_; ++step) add_step(rank, step, sequence);
    harness::Heartbeat beat;
    beat.phase = "optimizer";
    beat.step = steps_;
    beat.counters.operators_forward = 50;
    beat.longest_gap_ms = 40;
    put(evidence.heartbeats, rank, beat, 800);
    add_routes(rank);
    put(evidence.facts, rank, harness::Fact{"mutations_watched", "30"});
    put(evidence.facts, rank, harness::Fact{"gradients_in_buckets", "0 of 21"});
    put(evidence.done, rank, harness::Done{}, 850);
    ends(rank, 0, 0, false);
  }

  void add_step(int rank, int step, std::int64_t& sequence) {
    put(evidence.phases, rank, harness::Phase{"forward", step}, 100L * step);
    put(evidence.batches, rank, batch(rank, step));
    put(evidence.samples, rank, harness::Sample{"loss", step, 5.5 + rank});
    put(evidence.samples, rank, harness::Sample{"grad_norm", step, 1.25});
    for (int bucket = 0; bucket < 2; ++bucket) {
      harness::Bucket plan{step, bucket, 0, "Float", {}};
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (bucket_of(i) == bucket) plan.params.push_back(static_cast<int>(i));
      }
      plan.elements = static_cast<std::int64_t>(plan.params.size() * kElements);
      put(evidence.buckets, rank, plan);
      collective(rank, sequence++, step, "backward", "allreduce", "sum", plan.elements);
    }
    add_ledger(rank, rank, step);
    write_gradients(rank, "local_gradients", step, rank, locals(rank, step));
    write_gradients(rank, "reduced_gradients", step, rank, means(step));
    for (const std::string& param : params) {
      put(evidence.parameters,
          rank,
          harness::ParameterHash{step, param, nsa::hash_hex(param + std::to_string(step))});
    }
    write_layers(rank, step, rank);
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      put(evidence.exposures, rank, harness::Exposure{step, layer, 64, 20, 40, 50});
      put(evidence.gates,
          rank,
          harness::GateUse{step,
                           layer,
                           0.3,
                           0.3,
                           0.4,
                           0.05,
                           nsa::hash_hex("gate " + std::to_string(step + 100 * layer))});
    }
    for (const std::string& param : params) {
      put(evidence.updates, rank, harness::Update{step, param, "F32", 24, 24, 0, false});
    }
    put(evidence.samples, rank, harness::Sample{"lr", step, rate_of(step)});
  }

  // Warm-up is one step by default: the cosine begins at once.
  [[nodiscard]] double rate_of(int step) const {
    const nsa::OptimizerConfig& config = evidence.the_case.scenario.training.optimizer;
    const double share = (step - 1.0 - static_cast<double>(config.warmup)) /
                         static_cast<double>(config.total - config.warmup);
    return step == 1 ? config.lr : config.lr * (1.0 + std::cos(std::acos(-1.0) * share)) / 2.0;
  }

  void add_layers_alone() {
    put(evidence.started, kController, harness::Started{0, 100}, 0);
    put(evidence.phases, 0, harness::Phase{"forward", 1}, 100);
    put(evidence.samples, 0, harness::Sample{"perturbed_from", 1, static_cast<double>(kPrefix)});
    put(evidence.facts, 0, harness::Fact{"mutations_watched", "30"});
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      write_layer(0, 1, 0, layer, healthy_layer(0, layer));
      write_layer(0, 1, 0, layer, perturbed_layer(layer), kPerturbed);
      write_layer(0, 1, 0, layer, healthy_layer(0, layer), kReference);
      put(evidence.exposures, 0, harness::Exposure{1, layer, 64, 20, 40, 50});
    }
    for (const auto& [seam, name] : evidence.the_case.scenario.route) {
      if (seam == "grad_sync" || seam == "data" || seam == "optimizer") continue;
      const bool gradient =
          seam != "score" && seam != "select" && seam != "rope" && seam != "project";
      for (int layer = 0; layer < toy_model().n_layers; ++layer) {
        put(evidence.routes, 0, harness::RouteUse{seam, layer, name, 1, gradient ? 1 : 0});
      }
    }
    ends_alone();
  }

  void ends_alone() {
    harness::Heartbeat beat;
    beat.phase = "backward";
    beat.step = 1;
    beat.counters.operators_forward = 50;
    put(evidence.heartbeats, 0, beat, 800);
    put(evidence.done, 0, harness::Done{}, 850);
    ends(0, 0, 0, false);
  }

 public:
  // Kind decode: a prompt of kPrefix tokens, then single ones, which give the whole sequence's numbers to the last bit.
  void write_decoded(int layer, const LayerTensors& whole, const LayerTensors& steps) {
    const auto write = [&](const std::string& name, const LayerTensors& from, std::int64_t first) {
      LayerTensors kept;
      kept.number = from.number;
      for (const auto& [tensor, values] : from.reals) {
        const bool is_result = tensor.find('.') == std::string::npos && tensor[0] != 'd';
        if (!is_result) continue;
        const bool compressed = tensor.ends_with("k_cmp") || tensor.ends_with("v_cmp");
        const bool held = compressed || tensor.starts_with("held_");
        kept.reals[tensor] = held ? values : rows_of(values, first);
      }
      if (first > 0) add_held(from, kept);
      kept.blocks = rows_of(from.blocks, first);
      write_layer(0, 1, 0, layer, kept, name);
    };
    write("decode_prefill", whole, 0);
    write("decode_steps", steps, kPrefix);
  }

 private:
  // Caches that changed nothing, unless others are given.
  static void add_held(const LayerTensors& from, LayerTensors& kept) {
    for (const char* made : {"k_cmp", "v_cmp"}) {
      kept.reals.try_emplace(std::string("made_") + made, from.reals.at(made));
    }
    for (const char* token : {"k_sel", "v_sel", "k_win", "v_win"}) {
      kept.reals.try_emplace(std::string("held_") + token, from.reals.at(token));
    }
  }
  // Those of the tokens from `first` on: the last axis but one.
  template <typename T>
  static oracles::Array<T> rows_of(const oracles::Array<T>& all, std::int64_t first) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(kLength - first));
    std::iota(rows.begin(), rows.end(), first);
    auto kept = harness::checks::at_rows(all, kLength, all.shape.back(), rows);
    kept.shape = all.shape;
    kept.shape[kept.shape.size() - 2] = kLength - first;
    return kept;
  }

  void add_decoding() {
    put(evidence.started, kController, harness::Started{0, 100}, 0);
    put(evidence.phases, 0, harness::Phase{"forward", 1}, 100);
    put(evidence.samples, 0, harness::Sample{"prompt_tokens", 1, static_cast<double>(kPrefix)});
    put(evidence.facts, 0, harness::Fact{"mutations_watched", "30"});
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      write_decoded(layer, healthy_layer(0, layer), healthy_layer(0, layer));
      for (std::int64_t t = kPrefix; t < kLength; ++t) add_reads(layer, t);
    }
    ends_alone();
  }

  // Two groups. Compressed token i ends at 2 i + 3; four tokens a block; a window of six.
  void add_reads(int layer, std::int64_t t) {
    std::int64_t selected = 0;
    for (std::int64_t group = 0; group < 2; ++group) {
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto at = static_cast<std::size_t>((group * kLength + t) * 4 + i);
        const std::int64_t block = healthy_layer(0, layer).blocks.data.at(at);
        for (std::int64_t u = 4 * block; block >= 0 && u < 4 * block + 4; ++u)
          selected += u <= t ? 1 : 0;
      }
    }
    put(evidence.reads, 0, harness::Reads{t, layer, "cmp", 2 * ((t - 3) / 2 + 1)});
    put(evidence.reads, 0, harness::Reads{t, layer, "sel", selected});
    put(evidence.reads, 0, harness::Reads{t, layer, "win", 2 * 6});
  }
  static const LayerTensors& perturbed_layer(int layer) {
    static std::map<int, LayerTensors> known;
    const auto at = known.find(layer);
    if (at != known.end()) return at->second;
    return known.emplace(layer, made_layer(perturbed({}), 0, layer)).first->second;
  }

  void collective(int rank,
                  std::int64_t sequence,
                  int step,
                  const std::string& phase,
                  const std::string& op,
                  const std::string& reduce_op,
                  std::int64_t count) {
    put(evidence.collectives,
        rank,
        harness::Collective{sequence, step, phase, op, reduce_op, "Float", count, "default"},
        10 + 10 * sequence);
    put(evidence.collectives_done,
        rank,
        harness::CollectiveDone{sequence, "default"},
        12 + 10 * sequence);
  }

  void write_layers(int process, int step, int of_rank) {
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      write_layer(process, step, of_rank, layer, healthy_layer(of_rank, layer));
    }
  }

  void add_ledger(int process, int of_rank, int step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      harness::Gradient row;
      row.step = step;
      row.of_rank = of_rank;
      row.param = params[i];
      row.index = static_cast<int>(i);
      row.reachable = harness::Reach::yes;
      row.ready_count = 1;
      row.ready_order = static_cast<int>(params.size() - i);
      row.bucket = process == kTwin ? -1 : bucket_of(i);
      row.hooks_expected = process == kTwin ? 1 : 2;
      row.hooks_found = row.hooks_expected;
      row.state = "ok";
      row.l2 = 4.0;
      row.absmax = 2.0;
      row.reduced = process != kTwin;
      put(evidence.gradients, process, row);
    }
  }

  void add_routes(int rank) {
    for (const auto& [seam, name] : evidence.the_case.scenario.route) {
      const bool layered = seam != "grad_sync" && seam != "data" && seam != "optimizer";
      const bool gradient =
          layered && seam != "score" && seam != "select" && seam != "rope" && seam != "project";
      for (int layer = layered ? 0 : -1; layer < (layered ? toy_model().n_layers : 0); ++layer) {
        put(evidence.routes, rank, harness::RouteUse{seam, layer, name, 1, gradient ? 1 : 0});
      }
    }
  }

  [[nodiscard]] static harness::Batch batch(int rank, int step) {
    return {step,
            0,
            rank,
            0,
            nsa::hash_hex("batch " + std::to_string(rank) + " " + std::to_string(step)),
            "corpus"};
  }

  void add_twin() {
    put(evidence.started, kController, harness::Started{kTwin, 99}, 900);
    for (int step = 1; step <= steps_; ++step) {
      for (int rank = 0; rank < ranks_; ++rank) {
        put(evidence.batches, kTwin, batch(rank, step));
        add_ledger(kTwin, rank, step);
        write_gradients(kTwin, "local_gradients", step, rank, locals(rank, step));
        write_layers(kTwin, step, rank);
      }
    }
    put(evidence.done, kTwin, harness::Done{}, 990);
    ends(kTwin, 0, 0, false, 1000);
  }

  TempFolder folder_;
  int ranks_;
  int steps_;
};

inline harness::Check check_named(const std::string& name) {
  for (const harness::Check& check : harness::all_checks()) {
    if (check.name == name) return check;
  }
  throw std::runtime_error("no check " + name);
}

inline harness::CheckResult run(const std::string& check, const Evidence& evidence) {
  return check_named(check).judge(harness::blinded(evidence));
}

// Changes the ledger rows of a rank (-1: every rank; the twin is left alone) whose parameter contains `part`.
inline void each_gradient(Evidence& evidence,
                          int rank,
                          const std::string& part,
                          const std::function<void(harness::Gradient&)>& change) {
  for (auto& row : evidence.gradients) {
    if (row.process < 0 || (rank >= 0 && row.process != rank)) continue;
    if (row.row.param.find(part) != std::string::npos) change(row.row);
  }
}

}  // namespace fixtures
