#include "harness/checks/kernel/kernel_call.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>

#include "harness/checks/attention/record/sample_rows.h"
#include "harness/foreign/trials.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "oracles/weights.h"

namespace harness::checks {
namespace {

using KernelShape = std::vector<std::int64_t>;
using oracles::Tensor;

// Numbers that nothing was made of.
Tensor arbitrary(const KernelShape& shape, std::uint64_t key) {
  Tensor tensor = oracles::zeros(shape);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    const std::uint64_t bits = mixed(key * 0x10001U + i);
    tensor.data[i] = static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0;
  }
  return tensor;
}

void scale_by(Tensor& tensor, double factor) {
  for (double& value : tensor.data) value *= factor;
}

void set_precision(const Scenario& scenario, nsa::DType dtype, LayerRecord& record) {
  oracles::Kept kept;
  switch (dtype) {
    case nsa::DType::f64: record.arithmetic = oracles::Arithmetic::float64(); break;
    case nsa::DType::bf16:
      record.arithmetic = oracles::Arithmetic::bfloat16();
      kept.results = oracles::Number::bf16;
      break;
    case nsa::DType::f16:
      record.arithmetic = oracles::Arithmetic::float16();
      kept.results = oracles::Number::f16;
      break;
    default: record.arithmetic = oracles::Arithmetic::float32();
  }
  record.unit_roundoff = record.arithmetic.stored;
  if (!kept.rounds()) return;
  kept.input = kept.results;
  kept.narrow_products.fill(scenario.kernel.products == "narrow");
  record.kept = kept;
}

class CallReader {
 public:
  CallReader(const Scenario& scenario,
             const nsa::SafetensorsFile& inputs,
             const nsa::SafetensorsFile& outputs)
      : scenario_(scenario), in_(inputs), out_(outputs) {
    const KernelShape& q = in_.at("q").shape;
    const KernelShape& k = in_.at("k").shape;
    if (q.size() != 4 || k.size() != 4) throw nsa::Error("a trial without four axes");
    batch_ = q[0];
    length_ = q[2];
    keys_ = k[2];
    rows_ = judged_rows(in_, length_);
    ratio_ = logit_ratio(scenario);
  }

  KernelCall read() {
    call_.branch = branch_of_level(scenario_.kernel.level);
    call_.record = blank_layer(
        scenario_, oracle_config(kernel_model(scenario_)), batch_, length_, in_.at("q").dtype);
    call_.record.rows = rows_;
    if (call_.branch == oracles::Branch::sel) take_blocks();
    take_inputs();
    take_results();
    return std::move(call_);
  }

 private:
  [[nodiscard]] const nsa::ModelConfig& model() const { return scenario_.model; }
  [[nodiscard]] KernelShape of_queries(std::int64_t width) const {
    return {batch_, model().n_heads, length_, width};
  }
  [[nodiscard]] KernelShape of_keys(std::int64_t width) const {
    return {batch_, model().n_kv_groups, keys_, width};
  }
  [[nodiscard]] std::string name_of(const char* what) const {
    return std::string(what) + std::string(oracles::branch_name(call_.branch));
  }
  // Of the rows that are judged.
  [[nodiscard]] Tensor grouped(Tensor tensor) const {
    return rows_of(by_group(scenario_, std::move(tensor)), rows_);
  }

  void take_blocks() {
    oracles::IntTensor& blocks = call_.record.blocks;
    if (in_.at("blocks").shape != blocks.shape) {
      throw nsa::Error(in_.at("blocks").where + ": wanted shape " +
                       oracles::shape_text(blocks.shape));
    }
    blocks.data = nsa::to_int64s(in_.at("blocks"));
  }

  void take_inputs() {
    LayerRecord& record = call_.record;
    Tensor q = grouped(tensor_of(in_, "q", of_queries(model().d_k)));
    scale_by(q, ratio_);  // the oracle's logits are q.k / sqrt(d_k)
    record.tensors["q"] = std::move(q);
    record.tensors[name_of("k_")] = tensor_of(in_, "k", of_keys(model().d_k));
    record.tensors[name_of("v_")] = tensor_of(in_, "v", of_keys(model().d_v));
    record.given = {"q", name_of("k_"), name_of("v_")};
    call_.d_o =
        only_rows_of(by_group(scenario_, tensor_of(in_, "do", of_queries(model().d_v))), rows_);
  }

  void take_results() {
    const nsa::DType wanted = in_.at("q").dtype;
    if (out_.at("o").dtype != wanted) {
      throw nsa::Error(out_.at("o").where + ": found dtype " +
                       std::string(nsa::dtype_name(out_.at("o").dtype)) + ", wanted " +
                       std::string(nsa::dtype_name(wanted)));
    }
    call_.record.tensors[name_of("o_")] = grouped(tensor_of(out_, "o", of_queries(model().d_v)));
    if (scenario_.kernel.lse != "none") {
      call_.lse_unit_roundoff = Reals(out_.at("lse")).unit_roundoff();
      const std::int64_t heads = model().heads_per_group();
      const auto count = static_cast<std::int64_t>(rows_.size());
      Tensor lse = oracles::reshaped(tensor_of(out_, "lse", {batch_, model().n_heads, length_}),
                                     {batch_, model().n_kv_groups, heads, length_, 1});
      call_.lse = oracles::reshaped(rows_of(std::move(lse), rows_),
                                    {batch_, model().n_kv_groups, heads, count});
    }
    if (!scenario_.kernel.gradients) return;
    Tensor q = grouped(gradient("dq", of_queries(model().d_k)));
    scale_by(q, 1.0 / ratio_);
    call_.gradients["q"] = std::move(q);
    call_.gradients["k"] = gradient("dk", of_keys(model().d_k));
    call_.gradients["v"] = gradient("dv", of_keys(model().d_v));
  }

  [[nodiscard]] Tensor gradient(const char* name, const KernelShape& shape) const {
    return out_.contains(name) ? tensor_of(out_, name, shape) : oracles::zeros(shape);
  }

  const Scenario& scenario_;
  const nsa::SafetensorsFile& in_;
  const nsa::SafetensorsFile& out_;
  std::int64_t batch_ = 0;
  std::int64_t length_ = 0;
  std::int64_t keys_ = 0;
  std::vector<std::int64_t> rows_;
  double ratio_ = 1.0;
  KernelCall call_;
};

}  // namespace

nsa::ModelConfig kernel_model(const Scenario& scenario) {
  nsa::ModelConfig model = scenario.model;
  model.dim = 1;
  return model;
}

bool allows(const Scenario& scenario, const std::string& law) {
  return scenario.kernel.allow == law || scenario.kernel.allow == "both";
}

oracles::Branch branch_of_level(const std::string& level) {
  if (level == "attend_sel") return oracles::Branch::sel;
  return level == "attend_win" ? oracles::Branch::win : oracles::Branch::cmp;
}

const char* result_of_level(const std::string& level) {
  if (level == "score") return "scores";
  return level == "select" ? "blocks" : "o";
}

double logit_ratio(const Scenario& scenario) {
  const double root = std::sqrt(static_cast<double>(scenario.model.d_k));
  return scenario.kernel.scale > 0.0 ? scenario.kernel.scale * root : 1.0;
}

void give_inputs(const LayerRecord& record, oracles::Stages& stages) {
  for (const std::string& name : record.given) {
    stages.record(oracles::stage_named(name).value(), record.at(name));
  }
}

Scenario scenario_of_trial(const Scenario& scenario, const nsa::SafetensorsFile& inputs) {
  Scenario own = scenario;
  const auto said = inputs.metadata().find(kWidths);
  if (said == inputs.metadata().end()) return own;
  const auto widths = kernel_widths(said->second);
  if (!widths) throw nsa::Error("widths of a trial that cannot be read: " + said->second);
  own.model.d_k = widths->d_k;
  own.model.d_v = widths->d_v;
  return own;
}

std::vector<std::int64_t> judged_rows(const nsa::SafetensorsFile& inputs, std::int64_t length) {
  std::vector<std::int64_t> rows;
  const auto said = inputs.metadata().find(kJudgedRows);
  if (said == inputs.metadata().end()) {
    rows.resize(static_cast<std::size_t>(length));
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  std::istringstream words(said->second);
  for (std::string word; words >> word;) rows.push_back(nsa::parse_int(word).value_or(-1));
  const bool ascend =
      std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
  if (rows.empty() || rows.front() < 0 || rows.back() >= length || !ascend) {
    throw nsa::Error("rows of a trial that cannot be read: " + said->second);
  }
  return rows;
}

Tensor rows_of(Tensor all, const std::vector<std::int64_t>& rows) {
  KernelShape shape = all.shape;
  std::int64_t& length = shape[shape.size() - 2];
  if (static_cast<std::int64_t>(rows.size()) == length) return all;
  Tensor kept = at_rows(all, length, shape.back(), rows);
  length = static_cast<std::int64_t>(rows.size());
  kept.shape = shape;
  return kept;
}

Tensor only_rows_of(Tensor d_o, const std::vector<std::int64_t>& rows) {
  const auto numbers = [](const Tensor& tensor) {
    return std::count_if(tensor.data.begin(), tensor.data.end(), [](double x) { return x != 0.0; });
  };
  const auto all = numbers(d_o);
  Tensor kept = rows_of(std::move(d_o), rows);
  if (numbers(kept) != all) throw nsa::Error("a gradient comes in at rows that are not judged");
  return kept;
}

Tensor by_group(const Scenario& scenario, Tensor heads) {
  KernelShape shape = heads.shape;
  shape[1] = scenario.model.heads_per_group();
  shape.insert(shape.begin() + 1, scenario.model.n_kv_groups);
  return oracles::reshaped(std::move(heads), shape);
}

Tensor tensor_of(const nsa::SafetensorsFile& file, const char* name, const KernelShape& wanted) {
  const nsa::TensorView& view = file.at(name);
  if (view.shape != wanted) {
    throw nsa::Error(view.where + ": found shape " + oracles::shape_text(view.shape) + ", wanted " +
                     oracles::shape_text(wanted));
  }
  return {wanted, nsa::to_doubles(view)};
}

LayerRecord blank_layer(const Scenario& scenario,
                        const oracles::AttentionConfig& config,
                        std::int64_t batch,
                        std::int64_t length,
                        nsa::DType dtype) {
  LayerRecord record;
  record.config = config;
  record.batch = batch;
  record.length = length;
  record.rows.resize(static_cast<std::size_t>(length));
  std::iota(record.rows.begin(), record.rows.end(), 0);
  record.forward_only = true;  // its gradients are judged apart: they are not those of a layer
  record.from_input = false;
  record.x = arbitrary({batch, length, config.dim}, 1);
  std::uint64_t key = 2;
  for (const auto& [name, shape] : oracles::weight_shapes(record.config)) {
    record.weights[name] = arbitrary(shape, key++);
  }
  record.blocks = oracles::filled<std::int64_t>(
      {batch, scenario.model.n_kv_groups, length, scenario.model.n_sel}, std::int64_t{-1});
  set_precision(scenario, dtype, record);
  return record;
}

KernelCall read_kernel_call(const Scenario& scenario,
                            const nsa::SafetensorsFile& inputs,
                            const nsa::SafetensorsFile& outputs) {
  return CallReader(scenario, inputs, outputs).read();
}

}  // namespace harness::checks
