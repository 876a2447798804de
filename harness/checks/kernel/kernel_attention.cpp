#include "harness/checks/kernel/kernel_attention.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/checks/attention/selection/choice_judge.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/kernel/kernel_call.h"
#include "harness/checks/kernel/kernel_gradient.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "nsa/base/error.h"
#include "oracles/attention/backward.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/score_bound.h"
#include "oracles/laws/stage_laws.h"

namespace harness::checks {
namespace {

using oracles::Branch;
using oracles::Stage;
using oracles::Stages;
using oracles::Tensor;

// Queries as they are given, gates by head, and an output that is the heads side by side.
oracles::AttentionConfig config_of(const Scenario& scenario) {
  oracles::AttentionConfig config = oracle_config(kernel_model(scenario));
  config.dim = config.n_heads * config.d_v;
  config.gate = oracles::Gate::head_sigmoid;
  return config;
}

Tensor identity(std::int64_t size) {
  Tensor one = oracles::zeros({size, size});
  for (std::int64_t i = 0; i < size; ++i) one.data[static_cast<std::size_t>(i * size + i)] = 1.0;
  return one;
}

// [B,H,S,V] as [B,S,H*V].
Tensor side_by_side(const Tensor& heads) {
  const std::int64_t count = heads.shape[1];
  const std::int64_t length = heads.shape[2];
  const std::int64_t width = heads.shape[3];
  Tensor merged = oracles::zeros({heads.shape[0], length, count * width});
  for (std::int64_t row = 0; row < heads.shape[0] * count * length; ++row) {
    const std::int64_t t = row % length;
    const std::int64_t head = row / length % count;
    const std::int64_t b = row / length / count;
    std::copy_n(heads.data.begin() + row * width,
                width,
                merged.data.begin() + ((b * length + t) * count + head) * width);
  }
  return merged;
}

class AttentionReader {
 public:
  AttentionReader(const Scenario& scenario,
                  const nsa::SafetensorsFile& inputs,
                  const nsa::SafetensorsFile& outputs)
      : scenario_(scenario), in_(inputs), out_(outputs) {
    const std::vector<std::int64_t>& q = in_.at("q").shape;
    if (q.size() != 4) throw nsa::Error("a trial without four axes");
    batch_ = q[0];
    length_ = q[2];
    rows_ = judged_rows(in_, length_);
  }

  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return rows_; }

  // All that was given, of the whole sequence.
  [[nodiscard]] LayerRecord record() const {
    LayerRecord record =
        blank_layer(scenario_, config_of(scenario_), batch_, length_, in_.at("q").dtype);
    record.weights["out.weight"] = identity(record.config.dim);
    Tensor q = of_queries(in_, "q", model().d_k);
    for (double& value : q.data) value *= logit_ratio(scenario_);
    record.tensors["q"] = std::move(q);
    for (const char* branch : {"cmp", "sel", "win"}) {
      const bool raw = std::string(branch) == "cmp";
      const std::string of = raw ? "raw" : branch;
      record.tensors["k_" + of] = of_tokens(in_, key_name("k", branch), model().d_k);
      record.tensors["v_" + of] = of_tokens(in_, key_name("v", branch), model().d_v);
    }
    record.tensors["gate"] = of_queries(in_, "gates", 3);
    for (const auto& [name, tensor] : record.tensors) record.given.insert(name);
    return record;
  }

  [[nodiscard]] Tensor output() const {
    return tensor_of(out_, "o", {batch_, model().n_heads, length_, model().d_v});
  }
  // At the rows that the trial has judged.
  [[nodiscard]] Tensor d_output() const {
    return only_rows_of(of_queries(in_, "do", model().d_v), rows_);
  }
  [[nodiscard]] oracles::IntTensor picks() const {
    const nsa::TensorView& view = in_.at("blocks");
    const std::vector<std::int64_t> wanted = {batch_, model().n_kv_groups, length_, model().n_sel};
    if (view.shape != wanted)
      throw nsa::Error(view.where + ": wanted shape " + oracles::shape_text(wanted));
    return {wanted, nsa::to_int64s(view)};
  }

  // "k" of all branches, or "k_sel".
  [[nodiscard]] std::string key_name(const std::string& what, const std::string& branch) const {
    return scenario_.kernel.keys == "shared" ? what : what + "_" + branch;
  }

  // What came back, by the inputs' names, of queries at the rows that the trial has judged. One that did not is zero.
  [[nodiscard]] Gradients gradients() const {
    Gradients found;
    for (const auto& [name, view] : in_.tensors()) {
      if (name == "do" || name == "blocks") continue;
      const bool of_heads = name == "q" || name == "gates";
      const std::string of = "d" + name;
      Tensor tensor =
          out_.contains(of) ? tensor_of(out_, of.c_str(), view.shape) : oracles::zeros(view.shape);
      found[name] =
          of_heads ? rows_of(by_group(scenario_, std::move(tensor)), rows_) : std::move(tensor);
    }
    for (double& value : found.at("q").data) value /= logit_ratio(scenario_);
    return found;
  }

 private:
  [[nodiscard]] const nsa::ModelConfig& model() const { return scenario_.model; }
  [[nodiscard]] Tensor of_queries(const nsa::SafetensorsFile& file,
                                  const char* name,
                                  std::int64_t width) const {
    return by_group(scenario_, tensor_of(file, name, {batch_, model().n_heads, length_, width}));
  }
  [[nodiscard]] Tensor of_tokens(const nsa::SafetensorsFile& file,
                                 const std::string& name,
                                 std::int64_t width) const {
    return tensor_of(file, name.c_str(), {batch_, model().n_kv_groups, length_, width});
  }

  const Scenario& scenario_;
  const nsa::SafetensorsFile& in_;
  const nsa::SafetensorsFile& out_;
  std::int64_t batch_ = 0;
  std::int64_t length_ = 0;
  std::vector<std::int64_t> rows_;
};

// ---- the choice --------------------------------------------------------------------------------

// How far compressed keys may be from the oracle's: the sum of l terms, and what they are kept in.
double error_of_compressed(const LayerRecord& record, const Tensor& k_cmp) {
  const oracles::Arithmetic& own = record.arithmetic;
  const double most = oracles::finite_scale(record.at("k_raw"));
  return oracles::gamma(static_cast<double>(record.config.l) + 1, own.summed) * most +
         own.stored * oracles::finite_scale(k_cmp);
}

// [B,G,R,n] at the judged rows into the lists of all.
void put_blocks(const Tensor& blocks, LayerRecord& record) {
  const auto width = static_cast<std::int64_t>(record.config.n_sel);
  const std::int64_t count = record.row_count();
  for (std::int64_t place = 0; place < record.lists() * count; ++place) {
    const std::int64_t row = record.rows[static_cast<std::size_t>(place % count)];
    std::copy_n(blocks.data.begin() + place * width,
                width,
                record.blocks.data.begin() + (place / count * record.length + row) * width);
  }
}

// Puts the oracle's choice at the judged rows into the record, and keeps those at which it is certain in every list.
void choose(LayerRecord& record) {
  oracles::AttentionOptions options;
  options.rows = record.rows;
  Stages stages(record.config, record.weights, record.x, options);
  const Tensor q = rows_of(record.at("q"), record.rows);
  stages.record(Stage::q, q);
  stages.record(Stage::k_raw, record.at("k_raw"));
  put_blocks(stages.right(Stage::blocks), record);
  const Tensor margins = stages.margins();
  const Tensor& k_cmp = stages.input(Stage::k_cmp);
  oracles::ScoreInputs inputs;
  inputs.q = q;
  inputs.k_cmp = k_cmp;
  inputs.length = record.length;
  inputs.rows = record.rows;
  inputs.k_error = error_of_compressed(record, k_cmp);
  const Tensor bound =
      oracles::scores_from(record.config, inputs, arithmetic_of_scores(record)).bound;
  const std::int64_t count = bound.shape.back();
  std::set<std::int64_t> uncertain;
  for (std::int64_t place = 0; place < record.lists() * record.row_count(); ++place) {
    const auto begin = bound.data.begin() + place * count;
    const double most = *std::max_element(begin, begin + count);
    if (margins.data[static_cast<std::size_t>(place)] > 2.0 * most) continue;
    uncertain.insert(record.rows[static_cast<std::size_t>(place % record.row_count())]);
  }
  std::erase_if(record.rows, [&](std::int64_t t) { return uncertain.contains(t); });
}

// ---- gradients ---------------------------------------------------------------------------------

class AttentionGradientsOf {
 public:
  AttentionGradientsOf(const LayerRecord& record, const AttentionReader& reader)
      : record_(record), reader_(reader), d_out_(reader.d_output()) {}

  // At this forward.
  [[nodiscard]] Gradients at(const Stages& stages, oracles::Backward::Mean mean) const {
    Gradients sums;
    const Tensor& gate = stages.input(Stage::gate);
    Tensor d_gate = oracles::zeros(gate.shape);
    for (const Branch branch : oracles::kBranches) {
      const std::size_t number = oracles::index_of(branch);
      const Tensor& out = stages.input(oracles::output_stage(branch));
      Tensor d_o = d_out_;
      const auto width = static_cast<std::size_t>(d_o.shape.back());
      for (std::size_t i = 0; i < d_o.data.size(); ++i) {
        const std::size_t gate_at = i / width * 3 + number;
        d_gate.data[gate_at] += d_out_.data[i] * out.data[i];
        d_o.data[i] *= gate.data[gate_at];
      }
      const oracles::Backward backward(
          stages, branch, stages.layer().kept.of(std::move(d_o)), mean);
      add(stages, branch, backward.through(branch), sums);
    }
    sums["gates"] = stages.layer().kept.of(std::move(d_gate));
    for (auto& [name, sum] : sums) sum = stages.layer().kept.of(std::move(sum));
    return sums;
  }

  // A gate's gradient is a sum of products, the gradient of the output times a branch's: both the branch's output and
  // each product may be rounded.
  [[nodiscard]] double rounding_of_gates(const Stages& stages) const {
    double most = 0.0;
    const auto width = static_cast<std::size_t>(d_out_.shape.back());
    for (const Branch branch : oracles::kBranches) {
      const Tensor& out = stages.input(oracles::output_stage(branch));
      for (std::size_t begin = 0; begin < out.data.size(); begin += width) {
        double sum = 0.0;
        for (std::size_t i = begin; i < begin + width; ++i)
          sum += std::abs(d_out_.data[i] * out.data[i]);
        most = std::max(most, sum);
      }
    }
    return 2.0 * record_.arithmetic.stored * most;
  }

 private:
  void add(const Stages& stages,
           Branch branch,
           const oracles::BranchGradients& through,
           Gradients& sums) const {
    const std::string name = oracles::branch_name(branch);
    add_to(sums["q"], through.q);
    Tensor k = through.k;
    Tensor v = through.v;
    if (branch == Branch::cmp) {
      oracles::Weights none;
      const oracles::Layer& layer = stages.layer();
      k = compress_gradients(layer, oracles::PhiOf::keys, stages.input(Stage::k_raw), k, none);
      v = compress_gradients(layer, oracles::PhiOf::values, stages.input(Stage::v_raw), v, none);
    }
    add_to(sums[reader_.key_name("k", name)], k);
    add_to(sums[reader_.key_name("v", name)], v);
  }

  static void add_to(Tensor& sum, const Tensor& part) {
    if (sum.shape.empty()) {
      sum = part;
      return;
    }
    for (std::size_t i = 0; i < part.data.size(); ++i) sum.data[i] += part.data[i];
  }

  const LayerRecord& record_;
  const AttentionReader& reader_;
  Tensor d_out_;
};

class AttentionJudge {
 public:
  AttentionJudge(const Scenario& scenario, const AttentionReader& reader, std::string alone)
      : scenario_(scenario), reader_(reader), alone_(std::move(alone)), record_(reader.record()) {
    record_.rows = reader.rows();
  }

  AttentionJudgement judge() {
    const std::size_t asked = record_.rows.size();
    take_blocks();
    verdict_.rows = record_.row_count();
    verdict_.rows_asked = static_cast<std::int64_t>(asked);
    if (record_.rows.empty()) return std::move(verdict_);
    take_rows();
    verdict_.judged = judge_layer(record_, kernel_model(scenario_));
    for (Departure& seen : verdict_.judged.departures) {
      seen.site.op = "attention";
      tell_not_finite(record_.at(seen.tensors.front()), seen);
    }
    const bool all_certain = record_.rows.size() == asked;
    if (!scenario_.kernel.gradients || !all_certain) return std::move(verdict_);
    if (verdict_.judged.departures.empty()) judge_gradients();
    return std::move(verdict_);
  }

  std::vector<std::size_t> refuting(const AskedLaw& asked) {
    const auto stage = oracles::stage_named(asked.about);
    const auto compared = asked.compared.find(result());
    if (!stage || compared == asked.compared.end()) return {};
    take_blocks();
    if (record_.rows.empty()) return {};
    take_rows();
    const oracles::AttentionOptions options = options_of(record_);
    Stages stages(record_.config, record_.weights, record_.x, options);
    give_inputs(record_, stages);
    if (asked.about == result()) {
      return checks::refuting(stages, *stage, record_.at(asked.about), asked.law, compared->second);
    }
    return asked.about == "y" || result() == "y"
               ? refuting_sum(stages, options, *stage, asked, compared->second)
               : std::vector<std::size_t>{};
  }

 private:
  [[nodiscard]] std::string result() const { return alone_.empty() ? "y" : "o_" + alone_; }

  void take_blocks() {
    if (scenario_.kernel.takes_picks()) {
      record_.blocks = reader_.picks();
    } else {
      choose(record_);
    }
  }

  // The law is of the sum, and one branch is gated alone; or it is of a branch, and all are gated.
  [[nodiscard]] std::vector<std::size_t> refuting_sum(const Stages& stages,
                                                      const oracles::AttentionOptions& options,
                                                      Stage stage,
                                                      const AskedLaw& asked,
                                                      const ComparedTensor& compared) const {
    for (const oracles::StageLaw* law : oracles::stage_laws(stage, stages)) {
      if (law->law.name != asked.law.name) continue;
      const Tensor output = law->output(stages, stage);
      Tensor found = record_.at(result());
      if (stage == Stage::y) found = side_by_side(by_head(std::move(found)));
      if (stage == Stage::y)
        return oracles::refuting_vectors(found, stages.right(Stage::y), output, compared.allowed);
      Stages other(record_.config, record_.weights, record_.x, options);
      give_inputs(record_, other);
      other.record(stage, output);
      return oracles::refuting_vectors(
          found, stages.right(Stage::y), other.right(Stage::y), compared.allowed);
    }
    return {};
  }

  // [B,G,h,R,V] as [B,H,R,V].
  static Tensor by_head(Tensor groups) {
    const std::vector<std::int64_t> shape = groups.shape;
    return oracles::reshaped(std::move(groups),
                             {shape[0], shape[1] * shape[2], shape[3], shape[4]});
  }

  // What belongs to queries at the rows that are judged.
  void take_rows() {
    const Tensor output = reader_.output();
    const std::string name = result();
    record_.tensors[name] = name != "y" ? by_group(scenario_, output) : side_by_side(output);
    if (!record_.is_sample()) return;
    for (const std::string& of : {std::string("q"), std::string("gate"), name}) {
      Tensor& tensor = record_.tensors.at(of);
      tensor = rows_of(std::move(tensor), record_.rows);
    }
  }

  void judge_gradients() {
    const AttentionGradientsOf gradients(record_, reader_);
    Stages stages(record_.config, record_.weights, record_.x, options_of(record_));
    give_inputs(record_, stages);
    const Gradients found = reader_.gradients();
    const Gradients right = gradients.at(stages, oracles::Backward::Mean::of_output);
    GradientsOfCall call{
        found, right, LongestSums(kernel_model(scenario_), 1, record_.length).gradient, {}};
    call.in_type = [&](const oracles::Kept& kept, oracles::Backward::Mean mean) {
      oracles::AttentionOptions options = options_of(record_);
      options.kept = kept;
      Stages plain(record_.config, record_.weights, record_.x, options);
      give_inputs(record_, plain);
      return std::vector<Gradients>{gradients.at(plain, mean)};
    };
    if (record_.kept) call.rounding_of_gates = gradients.rounding_of_gates(stages);
    std::vector<oracles::RecordedGradient> judged;
    if (auto seen = judge_gradients_of_call(record_, call, verdict_.judged, judged)) {
      seen->site.branch = alone_;
      seen->site.op = "attention";
      verdict_.judged.departures.push_back(std::move(*seen));
    }
    verdict_.of_gradients = true;
  }

  const Scenario& scenario_;
  const AttentionReader& reader_;
  std::string alone_;
  LayerRecord record_;  // of the queries that are judged
  AttentionJudgement verdict_;
};

}  // namespace

AttentionJudgement judge_kernel_attention(const Scenario& scenario,
                                          const nsa::SafetensorsFile& inputs,
                                          const nsa::SafetensorsFile& outputs,
                                          const std::string& alone) {
  const AttentionReader reader(scenario, inputs, outputs);
  return AttentionJudge(scenario, reader, alone).judge();
}

std::vector<std::size_t> refuting(const Scenario& scenario,
                                  const nsa::SafetensorsFile& inputs,
                                  const nsa::SafetensorsFile& outputs,
                                  const std::string& alone,
                                  const AskedLaw& asked) {
  const AttentionReader reader(scenario, inputs, outputs);
  return AttentionJudge(scenario, reader, alone).refuting(asked);
}

}  // namespace harness::checks
