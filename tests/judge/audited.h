// Healthy evidence in which everything that is written twice is written alike, as a worker does it: what the audit of the record
// compares. The evidence of the checks' tests has invented numbers where no check looks.
#pragma once

#include <cmath>

#include "tests/checks/fixtures.h"

namespace fixtures {

class Audited : public Healthy {
 public:
  // Made once for each (ranks, steps), as Healthy is.
  explicit Audited(int ranks = 2, int steps = 2) : Healthy(ranks, steps) {
    static std::map<std::pair<int, int>, std::unique_ptr<const Audited>> all;
    auto& made = all[{ranks, steps}];
    if (!made) made.reset(new Audited(Consistent{}, ranks, steps));
    evidence = made->evidence;
    evidence.folder = folder();
    using Options = std::filesystem::copy_options;
    std::filesystem::copy(
        made->folder(), folder(), Options::recursive | Options::overwrite_existing);
  }

  // Two steps that were timed, and what lies around them.
  void time_steps(const std::string& kind = "throughput") {
    evidence.the_case.scenario.kind = kind;
    evidence.phases.clear();
    evidence.samples.clear();
    const auto tokens = static_cast<double>(evidence.the_case.scenario.training.seq_len);
    for (int step = 1; step <= 2; ++step) {
      const std::int64_t begin = 100L * step;
      put(evidence.phases, 0, harness::Phase{"data", step}, begin);
      put(evidence.phases, 0, harness::Phase{"forward", step}, begin + 5);
      put(evidence.phases, 0, harness::Phase{"optimizer", step}, begin + 60);
      put(evidence.samples, 0, harness::Sample{"loss", step, 5.5}, begin + 91);
      put(evidence.samples, 0, harness::Sample{"step_ms", step, 90.0}, begin + 92);
      put(evidence.samples,
          0,
          harness::Sample{"tokens_per_s", step, tokens / 90.0 * 1000.0},
          begin + 92);
    }
  }

  [[nodiscard]] static std::string attention(int layer, const std::string& weight) {
    return "blocks." + std::to_string(layer) + ".attn." + weight;
  }
  static Values floats(const oracles::Tensor& tensor) {
    return {tensor.data.begin(), tensor.data.end()};
  }

 private:
  struct Consistent {};
  Audited(Consistent, int ranks, int steps) : Healthy(ranks, steps) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 1; step <= steps; ++step) {
        write_local(rank, step);
        write_step(rank, step);
        add_layer_rows(rank, step);
      }
      add_beats(rank);
      const std::string path =
          "rank_" + std::to_string(rank) + "/step_1/block_stages_0.safetensors";
      put(evidence.artefacts, rank, harness::Artefact{1, rank, "block_stages", 0, path, 0, ""});
    }
    for (auto& row : evidence.gradients) --row.row.ready_order;
    for (int rank = 0; rank < ranks; ++rank) add_facts(rank);
    for (int step = 1; step <= steps; ++step) {
      for (const char* phase : {"data", "backward", "optimizer"}) {
        for (int process = kTwin; process < ranks; ++process) {
          put(evidence.phases, process, harness::Phase{phase, step}, 100L * step);
        }
      }
    }
    harness::Recompute again;
    again.step = 1;
    again.blocks_forward = again.blocks_recompute = nsa::hash_hex("blocks");
    again.rows = 64;
    put(evidence.recomputes, 0, again);
    evidence.the_case.scenario.checks = {"gradients_agree", "parameters_agree", "process_clean"};
  }

  static constexpr std::int64_t kSequences = 2;

  // With the gradients that the files of the layers hold.
  [[nodiscard]] Tensors local_of(int rank, int step) const {
    Tensors tensors = locals(rank, step);
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      for (const auto& [name, tensor] : healthy_layer(rank, layer).reals) {
        if (name.starts_with("g.w.")) tensors[attention(layer, name.substr(4))] = floats(tensor);
      }
    }
    return tensors;
  }

  void write_local(int rank, int step) {
    const Tensors tensors = local_of(rank, step);
    for (const int process : {rank, kTwin}) {
      write_gradients(process, "local_gradients", step, rank, tensors);
    }
    for (auto& row : evidence.gradients) {
      if (row.row.of_rank == rank && row.row.step == step) {
        set_size(tensors.at(row.row.param), row.row);
      }
    }
  }

  static void set_size(const Values& values, harness::Gradient& row) {
    double square = 0.0;
    double largest = 0.0;
    for (const float value : values) {
      square += static_cast<double>(value) * value;
      largest = std::max(largest, static_cast<double>(std::abs(value)));
    }
    row.absmax = largest;
    row.l2 = std::sqrt(square);
    row.state = largest == 0.0 ? "zero" : "ok";
  }

  void write_step(int rank, int step) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < kSequences * kLength; ++i) {
      tokens.push_back((i * 7 + 100L * rank + 10L * step) % 256);
    }
    const std::vector<double> loss = {5.5 + rank};
    Tensors values;
    for (std::size_t i = 0; i < params.size(); ++i) {
      values["p." + params[i]] = local(7, 1, i);
      values["p1." + params[i]] = local(8, step, i);
    }
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      for (const auto& [name, tensor] : healthy_layer(rank, layer).reals) {
        if (name.starts_with("w.")) {
          values["p." + attention(layer, name.substr(2))] = floats(tensor);
        }
      }
    }
    std::vector<nsa::TensorToWrite> list = {
        {"tokens.0", nsa::DType::i64, {kSequences, kLength}, std::as_bytes(std::span(tokens))},
        {"loss", nsa::DType::f64, {1}, std::as_bytes(std::span(loss))}};
    for (const auto& [name, of_name] : values) {
      list.push_back({name,
                      nsa::DType::f32,
                      {static_cast<std::int64_t>(of_name.size())},
                      std::as_bytes(std::span(of_name))});
    }
    const std::string path =
        std::to_string(rank) + "_optimizer_step_" + std::to_string(step) + ".safetensors";
    nsa::write_safetensors(folder() + "/" + path, list);
    put(evidence.artefacts, rank, harness::Artefact{step, rank, "optimizer_step", -1, path, 0, ""});
    for (auto& row : evidence.parameters) {
      if (row.process != rank || row.row.step != step) continue;
      row.row.hash = nsa::hash_hex(std::as_bytes(std::span(values.at("p1." + row.row.param))));
    }
    std::erase_if(evidence.batches,
                  [&](const auto& row) { return row.process == rank && row.row.step == step; });
    const std::span<const std::int64_t> all(tokens);
    for (std::int64_t row = 0; row < kSequences; ++row) {
      const auto own =
          all.subspan(static_cast<std::size_t>(row * kLength), static_cast<std::size_t>(kLength));
      put(evidence.batches,
          rank,
          harness::Batch{
              step, 0, rank, static_cast<int>(row), nsa::hash_hex(std::as_bytes(own)), "corpus"});
    }
  }

  void add_layer_rows(int rank, int step) {
    const auto of_step = [&](const auto& row) {
      return row.process == rank && row.row.step == step;
    };
    std::erase_if(evidence.gates, of_step);
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      const LayerTensors& made = healthy_layer(rank, layer);
      put(evidence.gates, rank, gate_use(made, step, layer));
      const Values scores = floats(made.reals.at("p_grp"));
      put(evidence.block_choices,
          rank,
          harness::BlockChoice{step,
                               layer,
                               rank,
                               nsa::hash_hex(std::as_bytes(std::span(scores))),
                               nsa::hash_hex(std::as_bytes(std::span(made.blocks.data)))});
      for (auto& row : evidence.exposures) {
        if (of_step(row) && row.row.layer == layer) row.row.rows_dropped = dropped(made.blocks);
      }
    }
  }

  static harness::GateUse gate_use(const LayerTensors& made, int step, int layer) {
    const Values gate = floats(made.reals.at("gate"));
    std::array<double, 3> sum{};
    std::array<double, 3> least{2.0, 2.0, 2.0};
    std::array<double, 3> most{};
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double value = gate[i];
      sum[i % 3] += value;
      least[i % 3] = std::min(least[i % 3], value);
      most[i % 3] = std::max(most[i % 3], value);
    }
    const double rows = static_cast<double>(gate.size()) / 3.0;
    const double spread = std::max({most[0] - least[0], most[1] - least[1], most[2] - least[2]});
    return {step,
            layer,
            sum[0] / rows,
            sum[1] / rows,
            sum[2] / rows,
            spread,
            nsa::hash_hex(std::as_bytes(std::span(gate)))};
  }

  static std::int64_t dropped(const oracles::IntTensor& blocks) {
    const std::int64_t width = blocks.shape.back();
    std::int64_t count = 0;
    for (std::size_t begin = 0; begin < blocks.data.size();
         begin += static_cast<std::size_t>(width)) {
      const std::int64_t query = static_cast<std::int64_t>(begin) / width % kLength;
      const auto from = blocks.data.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto chosen = std::count_if(from, from + width, [](auto block) { return block >= 0; });
      count += chosen < query / toy_model().l_sel + 1 ? 1 : 0;
    }
    return count;
  }

  // A sum that is known beforehand; what it sends has the next number.
  void add_facts(int rank) {
    const std::int64_t next = 1 + 2 * steps_made();
    for (auto& row : evidence.buckets) {
      const bool of_sum = row.process == rank && row.row.step == 1 && row.row.bucket == 0;
      if (of_sum) row.row.elements = kElements;
    }
    put(evidence.exact_sums,
        rank,
        harness::ExactSum{1, 0, kElements, "Float", nsa::hash_hex("sum"), 0});
    put(evidence.collectives,
        rank,
        harness::Collective{
            next, 1, "known_sums", "allreduce", "sum", "Float", kElements, "default"},
        810);
    put(evidence.collectives_done, rank, harness::CollectiveDone{next, "default"}, 812);
    put(evidence.facts,
        rank,
        harness::Fact{"parameters", std::to_string(toy_model().parameter_count())});
    put(evidence.facts, rank, harness::Fact{"parameter_tensors", std::to_string(params.size())});
    put(evidence.phases, rank, harness::Phase{"done", steps_made()}, 840);
    harness::Heartbeat last;
    last.phase = "done";
    last.counters.collectives_enqueued = last.counters.collectives_completed = next + 1;
    put(evidence.heartbeats, rank, last, 841);
  }
  [[nodiscard]] int steps_made() const {
    return static_cast<int>(evidence.the_case.scenario.training.steps);
  }

  void add_beats(int rank) {
    std::erase_if(evidence.heartbeats, [&](const auto& row) { return row.process == rank; });
    const auto count = [&](const auto& rows, std::int64_t until) {
      return std::count_if(rows.begin(), rows.end(), [&](const auto& row) {
        return row.process == rank && row.t_ms <= until;
      });
    };
    for (const std::int64_t t_ms : {400L, 800L}) {
      harness::Heartbeat beat;
      beat.phase = "optimizer";
      beat.counters.collectives_enqueued = count(evidence.collectives, t_ms);
      beat.counters.collectives_completed = count(evidence.collectives_done, t_ms);
      put(evidence.heartbeats, rank, beat, t_ms);
    }
  }
};

}  // namespace fixtures
