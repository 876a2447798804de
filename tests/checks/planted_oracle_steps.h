// Optimiser steps as ranks record them, made by the oracle itself, and wrong ones: what step_is_oracle must say of each stage.
// Logits and gradients are drawn: the stages that make them are judged elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>

#include "harness/checks/step/step_record.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "oracles/counter_random.h"
#include "oracles/model/head_stage.h"
#include "oracles/model/linear_rows.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/model/stream_stage.h"
#include "oracles/silu.h"
#include "oracles/training/dropout.h"
#include "oracles/training/initial_values.h"
#include "oracles/training/shares.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

struct MadeMicro {
  oracles::IntTensor tokens;
  oracles::Tensor logits;
  double loss = 0;
  oracles::Tensor dlogits;
  double root = 0;
};

// One step of one rank on its way into the file; every member may be changed by what is planted.
struct MadeStep {
  int rank = 0;
  int step = 1;
  std::vector<MadeMicro> micros;
  double scale = 1;
  oracles::Weights gradient;  // after the reduction
  oracles::TrainConfig train;
  double rate = 0;
  double norm = 0;    // recorded
  double factor = 1;  // of the gradient, clipping and scale
  bool taken = true;
  std::string passed_over;  // a parameter that the optimiser does not know
};

struct Training {
  nsa::Precision precision = nsa::Precision::fp32;
  int accumulate = 1;
  double dropout = 0;
  bool tied = false;    // the head is the embedding
  bool ragged = false;  // the loss scores a drawn number of each sequence's positions
  int wrong_mlp = -1;   // the layer whose mlp has relu in place of silu
  bool last_block_first = false;
  bool tells_all_lost = false;  // of the updates
  bool forgets_row = false;     // of steps that were taken one after the other
  bool scale_doubles = false;   // after every step
  bool zero_moments = false;    // after a step that was left out they are on record
  // Changes a tensor that a stage gives, before any later stage sees it: "x", "middle", ..., "d.hidden" of a block, "logits",
  // "normed", "d.x" of the head (layer -1), and "g.PARAM" with a parameter's full name.
  std::function<void(int layer, const std::string& tensor, oracles::Tensor&)> stage;
  // Changes what is recorded of a stage of a block alone.
  std::function<void(int layer, const std::string& tensor, oracles::Tensor&)> record;
  bool tells_rate = false;  // the one that the step is made with
  std::string share;        // the law by which a micro-batch counts; empty: the right one
  std::function<double(std::size_t)> of_micro;  // a factor of a micro-batch's share
  bool last_micro_alone = false;                // what the others left is not in the gradient
  bool cut_weights = false;                     // masters are cut off, not rounded
  bool keeps_gradients = false;  // local ones, from step 2 on, clipped as the optimiser left them
  std::map<std::string, double> reported;  // factors of samples, by metric
  std::function<void(oracles::Weights&)> initial;
  std::function<void(MadeStep&)> before;     // the gradient is drawn, nothing is computed from it
  std::function<void(MadeStep&)> optimizer;  // all that the optimiser works with
  std::function<void(MadeStep&, oracles::Weights&)> after;    // before it is recorded
  std::function<void(MadeStep&, oracles::Weights&)> between;  // after it is recorded
};

class StepMaker {
 public:
  StepMaker(Healthy& healthy, Training training)
      : h_(healthy), training_(std::move(training)), run_(prepared()) {}

  void write() {
    const auto initial = initial_values();
    for (int rank = 0; rank < h_.evidence.ranks(); ++rank) {
      parameters_ = initial;
      state_ = {};
      n_ = row_ = 0;
      scale_ = training_.precision == nsa::Precision::fp16 ? 65536 : 1;
      for (int step = 1; step <= run_.training.steps; ++step) write_step(rank, step);
    }
  }

 private:
  const Evidence& prepared() {
    Evidence& e = h_.evidence;
    e.the_case.scenario.checks = {"step_is_oracle"};
    e.the_case.scenario.training.precision = training_.precision;
    e.the_case.scenario.training.accumulate = training_.accumulate;
    e.the_case.scenario.training.data.source = nsa::DataConfig::Source::uniform;
    e.the_case.scenario.model.tied_head = training_.tied;
    e.the_case.scenario.model.dropout = training_.dropout;
    if (training_.ragged) {
      e.the_case.scenario.training.data.loss_mask = nsa::DataConfig::LossMask::ragged;
    }
    e.the_case.scenario.training.optimizer.max_norm = 0.5;
    e.the_case.scenario.model.vocab_size = 16;
    e.the_case.scenario.training.optimizer.warmup = 3;
    e.artefacts.clear();
    e.updates.clear();
    remove_if(e.samples, [](const auto& row) {
      const std::set<std::string> own = {"grad_norm", "loss", "loss_scale", "skipped_steps"};
      return own.count(row.row.metric) > 0;
    });
    return e;
  }

  static double unit(std::uint64_t key, std::uint64_t i) {
    return 2 * oracles::unit(oracles::draw(key, i)) - 1;
  }
  static float narrowed(double x) { return static_cast<float>(x); }

  oracles::Weights initial_values() {
    oracles::Weights values;
    std::uint64_t key = 7;
    for (const auto& [name, shape] : oracles::parameter_shapes(run_.model)) {
      oracles::Tensor tensor = oracles::zeros(shape);
      const oracles::InitialLaw law = oracles::initial_law(run_.model, name);
      ++key;
      for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        if (law.kind == oracles::InitialLaw::Kind::normal) {
          const double r = std::sqrt(-2 * std::log(1 - oracles::unit(oracles::draw(key, 2 * i))));
          tensor.data[i] = r * std::cos(3.14159265358979 * unit(key, 2 * i + 1)) * law.size;
        } else {
          tensor.data[i] =
              law.kind == oracles::InitialLaw::Kind::constant ? law.size : law.size * unit(key, i);
        }
        tensor.data[i] = narrowed(tensor.data[i]);
      }
      values[name] = tensor;
    }
    if (training_.initial) training_.initial(values);
    return values;
  }

  void draw(MadeStep& s) {
    s.train = run_.train;
    s.scale = scale_;
    for (int micro = 0; micro < training_.accumulate; ++micro) {
      MadeMicro made;
      made.tokens = oracles::batch_tokens(run_.data, {s.step, micro, s.rank});
      made.logits = logits_of(made.tokens, {s.step, micro, s.rank});
      s.micros.push_back(made);
    }
    std::uint64_t key = 1000 * static_cast<std::uint64_t>(s.step);
    for (const auto& [name, shape] : oracles::parameter_shapes(run_.model)) {
      oracles::Tensor tensor = oracles::zeros(shape);
      ++key;
      for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        tensor.data[i] = narrowed(0.1 * s.scale * unit(key, i));
      }
      s.gradient[name] = tensor;
    }
  }

  // In which the stream goes through the blocks.
  [[nodiscard]] std::vector<int> order() const {
    std::vector<int> layers(static_cast<std::size_t>(run_.model.n_layers));
    std::iota(layers.begin(), layers.end(), 0);
    if (training_.last_block_first) std::rotate(layers.begin(), layers.end() - 1, layers.end());
    return layers;
  }

  // A stage's result, as it is kept.
  oracles::Tensor made(int layer, const std::string& name, oracles::Tensor tensor) const {
    for (double& x : tensor.data) x = narrowed(x);
    if (training_.stage) training_.stage(layer, name, tensor);
    for (double& x : tensor.data) x = narrowed(x);
    return tensor;
  }
  // A branch behind its dropout, or the gradient there.
  oracles::Tensor dropped(int layer,
                          const std::string& name,
                          const oracles::BatchPlace& place,
                          const oracles::Tensor& branch) const {
    if (!(training_.dropout > 0)) return branch;
    const int site = name.find("mlp") == std::string::npos ? 0 : 1;
    const oracles::DropoutInputs inputs{
        branch, run_.data, {place, layer, site}, training_.dropout, {}};
    return made(layer, name, oracles::expected_dropout(inputs).value);
  }
  // x [R,K] W^T, or x W.
  static oracles::Tensor times(const oracles::Tensor& x,
                               const oracles::Tensor& w,
                               bool transposed) {
    return oracles::expected_linear({x, {}},
                                    oracles::matrix_of(w),
                                    !transposed,
                                    oracles::Rounding::of(oracles::Number::f64),
                                    1)
        .value;
  }
  // dy^T x
  static oracles::Tensor weight_gradient(const oracles::Tensor& dy, const oracles::Tensor& x) {
    const std::int64_t rows = dy.shape.front();
    const std::int64_t n = dy.shape.back();
    const std::int64_t k = x.shape.back();
    oracles::Tensor sum = oracles::zeros({n, k});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < n * k; ++i) {
        sum.data[static_cast<std::size_t>(i)] += dy.data[static_cast<std::size_t>(r * n + i / k)] *
                                                 x.data[static_cast<std::size_t>(r * k + i % k)];
      }
    }
    return sum;
  }

  // What an attention gives is drawn; the layers of the first micro-batch are recorded.
  oracles::Tensor logits_of(const oracles::IntTensor& tokens, const oracles::BatchPlace& place) {
    using oracles::Tensor;
    const bool recorded = place.micro == 0;
    const auto rounding = oracles::Rounding::of(run_.narrow);
    const auto norm = [&](const Tensor& x, const std::string& gain) {
      return oracles::expected_norm(x, weight(gain), rounding).value;
    };
    const Tensor table = weight("embed.weight");
    const Tensor head = weight(head_name());
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < kLength; ++row) rows.push_back(row);
    Tensor x =
        made(0,
             "x",
             oracles::expected_embedding(
                 {tokens, rows, oracles::matrix_of(table), oracles::matrix_of(head), rounding})
                 .value);
    borders_.resize(static_cast<std::size_t>(run_.model.n_layers));
    for (const int layer : order()) {
      const std::string block = "blocks." + std::to_string(layer) + ".";
      Border b;
      b.entering = x;
      b.x = made(layer, "norm1", norm(x, block + "norm1.weight"));
      b.y = oracles::zeros(x.shape);
      for (std::size_t i = 0; i < b.y.data.size(); ++i) {
        b.y.data[i] = narrowed(0.5 * unit(500 + static_cast<std::uint64_t>(layer), i));
      }
      b.attended = dropped(layer, "attended_dropped", place, b.y);
      b.middle = made(layer, "middle", sum_of(x, b.attended));
      b.normed = made(layer, "normed", norm(b.middle, block + "norm2.weight"));
      b.hidden = made(layer, "hidden", times(b.normed, weight(block + "mlp.fc1.weight"), true));
      b.activated = b.hidden;
      for (double& z : b.activated.data) {
        z = layer == training_.wrong_mlp ? std::max(z, 0.0) : oracles::silu(z);
      }
      b.activated = made(layer, "activated", b.activated);
      b.mlp = made(layer, "mlp", times(b.activated, weight(block + "mlp.fc2.weight"), true));
      b.added = dropped(layer, "mlp_dropped", place, b.mlp);
      x = made(layer + 1, "x", sum_of(b.middle, b.added));
      if (recorded) borders_[static_cast<std::size_t>(layer)] = b;
    }
    const Tensor normed = made(-1, "normed", norm(x, "norm_f.weight"));
    if (recorded) {
      last_ = x;
      last_normed_ = normed;
      tokens_ = tokens;
    }
    const Tensor logits = made(-1, "logits", times(normed, head, true));
    return oracles::reshaped(logits, {1, kLength, run_.model.vocab_size});
  }

  // The gradient that an attention passes on is drawn, what enters it follows.
  void write_layers(const MadeStep& s) {
    using oracles::Tensor;
    const auto rounding = oracles::Rounding::of(run_.narrow);
    const auto back = [&](const Tensor& x, const std::string& gain, const Tensor& dy) {
      return oracles::expected_norm_gradient(x, weight(gain), dy, rounding).value;
    };
    Tensor dlogits = oracles::reshaped(s.micros[0].dlogits, {kLength, run_.model.vocab_size});
    for (double& d : dlogits.data) d = narrowed(d);
    const Tensor dnormed = made(-1, "d.normed", times(dlogits, weight(head_name()), false));
    last_dnormed_ = dnormed;
    gradients_.clear();
    if (!training_.tied) {
      keep_gradient("lm_head.weight", weight_gradient(dlogits, last_normed_));
    }
    keep_gradient("norm_f.weight", gain_gradient(last_, "norm_f.weight", dnormed));
    Tensor d = made(-1, "d.x", back(last_, "norm_f.weight", dnormed));
    const Tensor of_last = d;
    std::vector<int> back_order = order();
    std::reverse(back_order.begin(), back_order.end());
    for (const int layer : back_order) {
      Border& b = borders_[static_cast<std::size_t>(layer)];
      const std::string block = "blocks." + std::to_string(layer) + ".";
      const oracles::BatchPlace place{s.step, 0, s.rank};
      b.dadded = d;
      b.dmlp = dropped(layer, "d.mlp_dropped", place, d);
      b.dactivated =
          made(layer, "d.activated", times(b.dmlp, weight(block + "mlp.fc2.weight"), false));
      b.dhidden = b.dactivated;
      for (std::size_t i = 0; i < b.dhidden.data.size(); ++i) {
        b.dhidden.data[i] *= oracles::silu_derivative(b.hidden.data[i]);
      }
      b.dhidden = made(layer, "d.hidden", b.dhidden);
      b.dnormed =
          made(layer, "d.normed", times(b.dhidden, weight(block + "mlp.fc1.weight"), false));
      b.dmiddle =
          made(layer, "d.middle", sum_of(d, back(b.middle, block + "norm2.weight", b.dnormed)));
      b.dy = dropped(layer, "d.attended_dropped", place, b.dmiddle);
      b.dx = oracles::zeros(d.shape);
      for (std::size_t i = 0; i < b.dx.data.size(); ++i) {
        b.dx.data[i] = narrowed(0.01 * s.scale * unit(700 + static_cast<std::uint64_t>(layer), i));
      }
      d = made(layer, "d.x", sum_of(b.dmiddle, back(b.entering, block + "norm1.weight", b.dx)));
      b.dentering = d;
      keep_gradient(block + "mlp.fc1.weight", weight_gradient(b.dhidden, b.normed));
      keep_gradient(block + "mlp.fc2.weight", weight_gradient(b.dmlp, b.activated));
      keep_gradient(block + "norm1.weight",
                    gain_gradient(b.entering, block + "norm1.weight", b.dx));
      keep_gradient(block + "norm2.weight",
                    gain_gradient(b.middle, block + "norm2.weight", b.dnormed));
    }
    keep_table_gradient(d, dlogits);
    save_parts(s, of_last);
  }

  void keep_gradient(const std::string& name, oracles::Tensor gradient) {
    gradients_[name] = made(-1, "g." + name, std::move(gradient));
  }
  oracles::Tensor gain_gradient(const oracles::Tensor& x,
                                const std::string& gain,
                                const oracles::Tensor& dy) const {
    return oracles::expected_gain_gradient(oracles::matrix_of(x),
                                           weight(gain),
                                           oracles::matrix_of(dy),
                                           oracles::Rounding::of(run_.narrow))
        .value;
  }
  [[nodiscard]] const char* head_name() const {
    return training_.tied ? "embed.weight" : "lm_head.weight";
  }
  void keep_table_gradient(const oracles::Tensor& dx, const oracles::Tensor& dlogits) {
    oracles::EmbeddingGradientInputs inputs;
    inputs.tokens = tokens_;
    inputs.dx = oracles::matrix_of(dx);
    inputs.vocab_size = run_.model.vocab_size;
    if (training_.tied) {
      inputs.dlogits = oracles::matrix_of(dlogits);
      inputs.normed = oracles::matrix_of(last_normed_);
    }
    keep_gradient("embed.weight", oracles::expected_embedding_gradient(inputs).value);
  }

  // The files of the layers and of what is between them; gradients of one micro-batch have a file of their own.
  void save_parts(const MadeStep& s, const oracles::Tensor& of_last) {
    const bool together = training_.accumulate == 1;
    for (int layer = 0; layer < static_cast<int>(borders_.size()); ++layer) {
      const Border& b = borders_[static_cast<std::size_t>(layer)];
      tensors_.clear();
      for (const auto& [name, tensor] :
           {std::pair{"x", &b.x}, {"y", &b.y}, {"dx", &b.dx}, {"dy", &b.dy}}) {
        add(name, oracles::reshaped(*tensor, {1, kLength, run_.model.attention.dim}));
      }
      save("attention_layer", s.rank, s.step, layer);
      tensors_.clear();
      for (const auto& [name, tensor] : {std::pair{"x", &b.entering},
                                         {"middle", &b.middle},
                                         {"normed", &b.normed},
                                         {"hidden", &b.hidden},
                                         {"activated", &b.activated},
                                         {"mlp", &b.mlp},
                                         {"d.x", &b.dentering},
                                         {"d.middle", &b.dmiddle},
                                         {"d.normed", &b.dnormed},
                                         {"d.hidden", &b.dhidden},
                                         {"d.activated", &b.dactivated},
                                         {"d.mlp", &b.dmlp}}) {
        oracles::Tensor kept = oracles::reshaped(*tensor, {1, kLength, tensor->shape.back()});
        if (training_.record) training_.record(layer, name, kept);
        add(name, kept);
      }
      if (training_.dropout > 0) {
        for (const auto& [name, tensor] : {std::pair{"attended_dropped", &b.attended},
                                           {"mlp_dropped", &b.added},
                                           {"d.attended_dropped", &b.dmiddle},
                                           {"d.mlp_dropped", &b.dadded}}) {
          add(name, oracles::reshaped(*tensor, {1, kLength, tensor->shape.back()}));
        }
      }
      if (!together) add_gradients("blocks." + std::to_string(layer) + ".");
      save("block_stages", s.rank, s.step, layer);
    }
    tensors_.clear();
    add("x", last_);
    add("normed", last_normed_);
    add("d.x", of_last);
    add("d.normed", last_dnormed_);
    if (!together) {
      for (const char* name : {"embed", "norm_f", "lm_head"}) add_gradients(name);
    }
    save("head_stages", s.rank, s.step);
    tensors_.clear();
    if (!together) return;
    for (const auto& [name, gradient] : gradients_) {
      const bool left = training_.keeps_gradients && s.step > 1;
      add(name, left ? sum_of(gradient, left_.at(name)) : gradient);
    }
    save("local_gradients", s.rank, s.step);
  }
  void add_gradients(const std::string& prefix) {
    for (const auto& [name, gradient] : gradients_) {
      if (name.rfind(prefix, 0) == 0) add("g." + name, gradient);
    }
  }
  static oracles::Tensor sum_of(oracles::Tensor sum, const oracles::Tensor& other) {
    for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += other.data[i];
    return sum;
  }

  // What the model computes with.
  oracles::Tensor weight(const std::string& name) const {
    oracles::Tensor value = parameters_.at(name);
    for (double& x : value.data) {
      const double nearest = oracles::rounded(x, run_.narrow);
      const bool beyond = std::abs(nearest) > std::abs(x);
      const bool cut = training_.cut_weights && n_ > 0 && beyond;
      x = cut ? nearest - std::copysign(oracles::spacing(x, run_.narrow), x) : nearest;
    }
    return value;
  }

  void compute(MadeStep& s) {
    for (std::size_t at = 0; at < s.micros.size(); ++at) {
      MadeMicro& micro = s.micros[at];
      const oracles::BatchPlace place{s.step, static_cast<std::int64_t>(at), s.rank};
      oracles::LossInputs inputs;
      inputs.logits = oracles::matrix_of(micro.logits);
      if (training_.ragged) inputs.scored = oracles::scored_positions(run_.data, place);
      inputs.tokens = micro.tokens;
      for (std::int64_t row = 0; row < kLength; ++row) inputs.rows.push_back(row);
      inputs.gradient_scale =
          s.scale * (training_.share.empty()
                         ? oracles::share_of(run_.data, place)
                         : oracles::share_under(training_.share, run_.data, place).value());
      if (training_.of_micro) inputs.gradient_scale *= training_.of_micro(at);
      const oracles::Tensor all = oracles::expected_loss(inputs).value;
      micro.loss = all.data.front();
      micro.root = micro.loss * inputs.gradient_scale;
      micro.dlogits = {micro.logits.shape, {all.data.begin() + 1, all.data.end()}};
    }
    s.norm = oracles::global_norm(s.gradient) / s.scale;
    s.factor = oracles::clip_factor(s.norm, s.train.max_norm) / s.scale;
    s.rate = oracles::learning_rate(s.train, n_ + 1);
    s.taken = s.scale == 1 || std::isfinite(s.norm);
  }

  void write_step(int rank, int step) {
    MadeStep s;
    s.rank = rank;
    s.step = step;
    draw(s);
    parts_ = s.gradient;
    if (training_.last_micro_alone) keep_last_part(s.gradient);
    if (training_.before) training_.before(s);
    compute(s);
    if (training_.optimizer) training_.optimizer(s);
    write_layers(s);
    tensors_.clear();
    add_state("");
    if (s.taken) update(s);
    if (s.scale != 1 && !std::isfinite(s.norm)) scale_ /= 2;
    if (training_.scale_doubles) scale_ *= 2;
    if (training_.zero_moments && !s.taken) keep_zero_moments();
    if (training_.after) training_.after(s, parameters_);
    add_state("1");
    report(rank, "skipped_steps", step, static_cast<double>(step - n_));
    report_updates(s);
    put(h_.evidence.states, rank, harness::StateHash{step, "scaler", scaler_text(s.taken)});
    add_micros(s);
    put(h_.evidence.samples, rank, harness::Sample{"grad_norm", step, s.norm});
    for (auto& row : h_.evidence.samples) {
      const bool is_rate = row.process == rank && row.row.metric == "lr" && row.row.step == step;
      if (training_.tells_rate && is_rate) row.row.value = s.rate;
    }
    report(rank, "loss_scale", step, scale_);
    report_means(s);
    save(harness::checks::kStep, rank, step);
    tensors_.clear();
    for (const auto& [name, gradient] : s.gradient) add(name, gradient);
    save("reduced_gradients", rank, step);
    left_ = s.gradient;
    for (auto& [name, gradient] : left_) {
      for (double& x : gradient.data) x *= s.factor;
    }
    if (training_.between) training_.between(s, parameters_);
  }

  // The fixture's row of this batch gets the hash of its tokens.
  void tell_batch(const MadeStep& s, std::int64_t micro, const oracles::IntTensor& tokens) {
    for (auto& row : h_.evidence.batches) {
      if (row.process != s.rank || row.row.step != s.step || row.row.micro != micro) continue;
      row.row.hash = nsa::hash_hex(std::as_bytes(std::span(tokens.data)));
    }
  }

  void report(int rank, const std::string& metric, int step, double value) {
    const auto factor = training_.reported.find(metric);
    value *= factor == training_.reported.end() ? 1 : factor->second;
    put(h_.evidence.samples, rank, harness::Sample{metric, step, value});
  }
  void report_means(const MadeStep& s) {
    double loss = 0;
    double floor = 0;
    double count = 0;
    for (std::size_t at = 0; at < s.micros.size(); ++at) {
      const oracles::BatchPlace place{s.step, static_cast<std::int64_t>(at), s.rank};
      const auto scored = oracles::scored_positions(run_.data, place);
      const auto own = static_cast<double>(oracles::token_counts(run_.data, place).own);
      loss += own * s.micros[at].loss;
      floor += own * oracles::loss_floor(run_.data, s.micros[at].tokens, scored).value_or(NAN);
      count += own;
    }
    report(s.rank, "loss", s.step, loss / count);
    report(s.rank, "source_floor", s.step, floor / count);
    report(s.rank, "floor_tokens", s.step, count);
  }

  // Of the steps of one rank.
  std::string scaler_text(bool taken) {
    row_ = taken ? row_ + 1 : 0;
    const std::int64_t told = training_.forgets_row ? 0 : row_;
    return nsa::to_text(scale_, 17) + " " + std::to_string(told) + " 0";
  }
  void report_updates(const MadeStep& s) {
    for (const auto& [name, tensor] : parameters_) {
      const auto all = static_cast<std::int64_t>(tensor.data.size());
      const bool lost = training_.tells_all_lost || !s.taken;
      put(h_.evidence.updates,
          s.rank,
          harness::Update{s.step, name, "F32", all, all, lost ? all : 0, !s.taken});
    }
  }

  // What add_micros() writes as the part of the last of two micro-batches.
  static void keep_last_part(oracles::Weights& gradient) {
    for (auto& [name, tensor] : gradient) {
      for (double& x : tensor.data) x = narrowed(x / 2 - 0.25);
    }
  }

  // Of two micro-batches, parts whose mean is the gradient.
  void add_micros(const MadeStep& s) {
    const auto count = static_cast<std::int64_t>(s.micros.size());
    oracles::Tensor losses = oracles::zeros({count});
    oracles::Tensor roots = oracles::zeros({count});
    for (std::size_t micro = 0; micro < s.micros.size(); ++micro) {
      const std::string number = std::to_string(micro);
      add("tokens." + number, s.micros[micro].tokens);
      tell_batch(s, static_cast<std::int64_t>(micro), s.micros[micro].tokens);
      add("logits." + number, s.micros[micro].logits);
      add("dlogits." + number, s.micros[micro].dlogits);
      losses.data[micro] = s.micros[micro].loss;
      roots.data[micro] = s.micros[micro].root;
      if (count == 1) continue;
      for (auto [name, part] : parts_) {
        const double other = micro == 0 ? 0.25 : -0.25;
        for (double& x : part.data) x = x / static_cast<double>(count) + other;
        add("part." + number + "." + name, part);
      }
    }
    add("loss", losses);
    add("root", roots);
  }

  void update(MadeStep& s) {
    ++n_;
    oracles::Weights gradient = s.gradient;
    for (auto& [name, g] : gradient) {
      for (double& x : g.data) x *= s.factor;
    }
    const oracles::Weights before = parameters_;
    const oracles::AdamState moments = state_;
    oracles::adamw_step(s.train, n_, s.rate, gradient, parameters_, state_);
    if (!s.passed_over.empty()) pass_over(s.passed_over, before, moments);
    for (oracles::Weights* of : {&parameters_, &state_.m, &state_.v}) {
      for (auto& [name, tensor] : *of) {
        for (double& x : tensor.data) x = narrowed(x);
      }
    }
  }

  void keep_zero_moments() {
    for (const auto& [name, value] : parameters_) {
      state_.m.try_emplace(name, oracles::zeros(value.shape));
      state_.v.try_emplace(name, oracles::zeros(value.shape));
    }
  }

  void pass_over(const std::string& name,
                 const oracles::Weights& before,
                 const oracles::AdamState& moments) {
    const oracles::Tensor& value = before.at(name);
    parameters_.at(name) = value;
    const bool fresh = moments.m.count(name) == 0;
    state_.m.at(name) = fresh ? oracles::zeros(value.shape) : moments.m.at(name);
    state_.v.at(name) = fresh ? oracles::zeros(value.shape) : moments.v.at(name);
  }

  void add_state(const std::string& suffix) {
    for (const auto& [name, p] : parameters_) {
      add("p" + suffix + "." + name, p);
      if (run_.has_masters) add("w" + suffix + "." + name, weight(name), nsa::DType::f16);
    }
    for (const auto& [name, m] : state_.m) add("m" + suffix + "." + name, m);
    for (const auto& [name, v] : state_.v) add("v" + suffix + "." + name, v);
  }

  struct Written {
    std::string name;
    nsa::DType dtype;
    oracles::Shape shape;
    std::vector<std::byte> bytes;
  };
  template <typename T>
  static void append(std::vector<std::byte>& bytes, T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + sizeof(T));
  }
  void add(const std::string& name, const oracles::Tensor& t, nsa::DType dtype = nsa::DType::f32) {
    const bool exact = name == "loss" || name == "root";
    Written written{name, exact ? nsa::DType::f64 : dtype, t.shape, {}};
    for (const double x : t.data) {
      if (exact) {
        append(written.bytes, x);
      } else if (dtype == nsa::DType::f16) {
        append(written.bytes, half(x));
      } else {
        append(written.bytes, narrowed(x));
      }
    }
    tensors_.push_back(std::move(written));
  }
  void add(const std::string& name, const oracles::IntTensor& t) {
    Written written{name, nsa::DType::i64, t.shape, {}};
    for (const std::int64_t x : t.data) append(written.bytes, x);
    tensors_.push_back(std::move(written));
  }
  // Bits of a number that float16 has.
  static std::uint16_t half(double x) {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    if (x == 0) return static_cast<std::uint16_t>(sign);
    int exponent = 0;
    const double share = std::frexp(std::abs(x), &exponent);  // [0.5, 1)
    const int biased = exponent + 14;
    const double digits = biased >= 1 ? std::ldexp(share, 11) - 1024 : std::ldexp(std::abs(x), 24);
    return static_cast<std::uint16_t>(sign | (std::max(biased, 0) << 10) |
                                      static_cast<int>(digits));
  }

  void save(const std::string& name, int rank, int step, int layer = -1) {
    const std::string path = name + "_" + std::to_string(rank) + "_" + std::to_string(step) + "_" +
                             std::to_string(layer);
    std::vector<nsa::TensorToWrite> list;
    for (const Written& w : tensors_) list.push_back({w.name, w.dtype, w.shape, w.bytes});
    nsa::write_safetensors(h_.folder() + "/" + path, list);
    remove_if(h_.evidence.artefacts,
              [&](const auto& row) { return row.process == rank && row.row.path == path; });
    put(h_.evidence.artefacts, rank, harness::Artefact{step, rank, name, layer, path, 0, ""});
  }

  Healthy& h_;
  Training training_;
  harness::checks::StepRun run_;
  oracles::Weights parameters_;
  oracles::AdamState state_;
  struct Border {
    oracles::Tensor x, y;                         // of the attention
    oracles::Tensor attended, added, dy, dadded;  // with dropout
    oracles::Tensor entering, middle, normed, hidden, activated, mlp;
    oracles::Tensor dx, dentering, dmiddle, dnormed, dhidden, dactivated, dmlp;
  };
  std::vector<Border> borders_;
  oracles::Tensor last_;  // what enters norm_f
  oracles::Tensor last_normed_;
  oracles::Tensor last_dnormed_;
  oracles::IntTensor tokens_;   // of the first micro-batch
  oracles::Weights gradients_;  // local ones, of what is outside the attention
  oracles::Weights parts_;
  oracles::Weights left_;  // by the step before
  std::int64_t n_ = 0;
  double scale_ = 1;
  std::int64_t row_ = 0;  // steps taken since the scale last changed
  std::vector<Written> tensors_;
};

inline void add_oracle_steps(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const Training& training) {
    const auto make = [=](Healthy& h) { StepMaker(h, training).write(); };
    list.push_back({"step_is_oracle", name, verdict, code, site, make, 2, 2});
  };
  const auto fail = [&](const std::string& name,
                        const std::string& code,
                        const std::string& site,
                        const Training& training) {
    add(name, Verdict::fail, code, site, training);
  };
  const auto of = [](const std::function<void(MadeStep&)>& optimizer,
                     nsa::Precision precision = nsa::Precision::fp32) {
    Training training;
    training.precision = precision;
    training.optimizer = optimizer;
    return training;
  };
  const auto overflow = [](MadeStep& s) {
    if (s.step == 1) s.gradient.begin()->second.data[3] = INFINITY;
  };
  add("as the oracle makes them", Verdict::pass, "", "{}", {});
  add("with masters and a loss scale", Verdict::pass, "", "{}", of({}, nsa::Precision::fp16));
  list.push_back({"step_is_oracle",
                  "a batch told by the hash of other tokens",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    StepMaker(h, {}).write();
                    h.evidence.batches.front().row.hash = nsa::hash_hex("other tokens");
                  },
                  2,
                  2});
  Training skips = of({}, nsa::Precision::fp16);
  skips.before = overflow;
  add("a step that overflows is left out", Verdict::pass, "", "{}", skips);
  list.push_back({"step_is_oracle",
                  "nobody recorded a step",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  kLeaveAsItIs,
                  2,
                  2});
  Training late;
  late.before = [](MadeStep& s) {
    std::vector<std::int64_t>& tokens = s.micros[0].tokens.data;
    if (s.rank == 1) std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
  };
  fail("tokens one later", "DATA.WRONG", R"({"step":1,"op":"data","ranks":[1]})", late);
  Training zeros;
  zeros.initial = [](oracles::Weights& w) {
    for (double& x : w.at("embed.weight").data) x *= 0.02;
  };
  Training unwritten;
  unwritten.initial = [](oracles::Weights& w) {
    oracles::Tensor& out = w.at("blocks.1.attn.out.weight");
    out = oracles::zeros(out.shape);
  };
  fail("a parameter that nobody initialised",
       "INIT.WRONG",
       R"({"param":"out","layers":[1],"op":"initial_values","detail":{"law":"init_zero"}})",
       unwritten);
  fail("a small embedding", "INIT.WRONG", R"({"param":"embed","op":"initial_values"})", zeros);
  fail("a loss without its last token",
       "LOSS.WRONG",
       R"({"op":"loss","step":1})",
       of([](MadeStep& s) { s.micros[0].loss *= (kLength - 1.0) / kLength; }));
  fail(
      "a backward from twice the loss", "LOSS.WRONG", R"({"op":"accumulate"})", of([](MadeStep& s) {
        s.micros[0].root *= 2;
        for (double& x : s.micros[0].dlogits.data) x *= 2;
      }));
  fail("betas exchanged",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","step":1,"detail":{"law":"betas_swapped"}})",
       of([](MadeStep& s) { std::swap(s.train.beta1, s.train.beta2); }));
  fail("a decay that nobody asked for",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","detail":{"law":"decay_twice"}})",
       of([](MadeStep& s) { s.train.weight_decay *= 2; }));
  fail("not clipped", "CLIP.WRONG", R"({"op":"clip"})", of([](MadeStep& s) { s.factor = 1; }));
  fail("a norm that is squared",
       "CLIP.WRONG",
       R"({"op":"norm","detail":{"law":"norm_squared"}})",
       of([](MadeStep& s) { s.norm *= s.norm; }));
  fail("a norm of each rank's own",
       "CLIP.WRONG",
       R"({"op":"norm","ranks":[0,1],"detail":{"differs_by_rank":true}})",
       of([](MadeStep& s) { s.norm *= s.rank == 0 ? 1.25 : 1.5; }));
  fail("squares that are added up over the ranks",
       "CLIP.WRONG",
       R"({"op":"norm","detail":{"law":"norm_reduced_twice"}})",
       of([](MadeStep& s) {
         s.norm *= std::sqrt(2.0);
         s.factor = oracles::clip_factor(s.norm, s.train.max_norm);
       }));
  fail("a coefficient that is applied to nothing",
       "CLIP.WRONG",
       R"({"op":"clip","detail":{"law":"clip_missing"}})",
       of([](MadeStep& s) { s.factor = 1; }));
  fail("a parameter that the optimiser does not know",
       "OPT.UPDATE_LOST",
       R"({"op":"optimizer","step":1,"layers":[1],"param":"W_Q","detail":{"law":"step_skipped"}})",
       of([](MadeStep& s) { s.passed_over = "blocks.1.attn.W_Q.weight"; }));
  fail("another rate", "SCHEDULE.LR", R"({"op":"schedule","step":2})", of([](MadeStep& s) {
         if (s.step == 2) s.rate = s.train.lr;
       }));
  Training told = of([](MadeStep& s) {
    if (s.step == 2) s.rate *= 0.37;
  });
  told.tells_rate = true;
  fail("a wrong rate that is told and used", "SCHEDULE.LR", R"({"op":"schedule","step":2})", told);
  // Whatever is told: no rate makes these numbers.
  Training other = of([](MadeStep& s) {
    s.rate *= 0.37;
    s.train.weight_decay *= 10;
  });
  other.tells_rate = true;
  fail("a wrong rate that is told, and another decay",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer"})",
       other);
  fail("not unscaled",
       "SCALER.WRONG",
       R"({"op":"unscale"})",
       of([](MadeStep& s) { s.factor *= s.scale; }, nsa::Precision::fp16));
  fail("unscaled twice, where clipping by the norm of scaled gradients looks the same",
       "SCALER.WRONG",
       R"({"op":"unscale","detail":{"laws":["gradient_unscaled_twice","clip_of_scaled_norm"]}})",
       of([](MadeStep& s) { s.factor /= s.scale; }, nsa::Precision::fp16));
  Training taken = of([](MadeStep& s) { s.taken = true; }, nsa::Precision::fp16);
  taken.before = overflow;
  fail("an overflowed step that is taken", "SCALER.WRONG", R"({"op":"scaler","step":1})", taken);
  Training doubled = of({}, nsa::Precision::fp16);
  doubled.scale_doubles = true;
  fail("a loss scale that doubles", "SCALER.WRONG", R"({"op":"scale","step":2})", doubled);
  Training activation;
  activation.wrong_mlp = 1;
  fail("another activation in one layer",
       "NUMERIC.FORWARD",
       R"({"op":"mlp","layers":[1],"phase":"forward","detail":{"law":"mlp_other_activation"}})",
       activation);
  // One stage of one layer, and nothing else.
  const auto stage = [&](const std::string& name,
                         int layer,
                         const std::string& tensor,
                         const std::string& code,
                         const std::string& site,
                         const std::function<void(oracles::Tensor&)>& change,
                         nsa::Precision precision = nsa::Precision::fp32) {
    Training wrong;
    wrong.precision = precision;
    wrong.stage = [=](int at, const std::string& what, oracles::Tensor& made) {
      if (at == layer && what == tensor) change(made);
    };
    fail(name, code, site, wrong);
  };
  const auto by_a_percent = [](oracles::Tensor& tensor) {
    for (double& x : tensor.data) x *= 1.01;
  };
  const auto last_number = [](oracles::Tensor& tensor) { tensor.data.back() *= 1.1; };
  const std::string of_forward = "NUMERIC.FORWARD";
  const std::string of_gradient = "NUMERIC.GRADIENT";
  const auto site = [](const std::string& op, const std::string& layers, const std::string& phase) {
    return R"({"op":")" + op + R"(","layers":)" + layers + R"(,"phase":")" + phase + R"("})";
  };
  const auto of_param = [](const std::string& param, const std::string& op) {
    return R"({"param":")" + param + R"(","op":")" + op + R"(","phase":"backward","step":1})";
  };
  stage("an embedding of another size", 0, "x", of_forward, R"({"op":"embed"})", by_a_percent);
  stage("the last number of a norm",
        1,
        "norm1",
        of_forward,
        site("norm1", "[1]", "forward"),
        last_number);
  stage(
      "a norm2 times 1.01", 1, "normed", of_forward, site("norm2", "[1]", "forward"), by_a_percent);
  stage("fc1 times 1.01", 1, "hidden", of_forward, site("mlp", "[1]", "forward"), by_a_percent);
  stage("fc2 times 1.01", 0, "mlp", of_forward, site("mlp", "[0]", "forward"), by_a_percent);
  stage("a stream times 1.01",
        1,
        "middle",
        of_forward,
        site("residual", "[1]", "forward"),
        by_a_percent);
  Training lies;
  lies.record = [=](int layer, const std::string& tensor, oracles::Tensor& kept) {
    if (layer == 1 && tensor == "middle") by_a_percent(kept);
  };
  fail("a stream that is recorded wrong, and right where norm2 reads it",
       of_forward,
       R"({"op":"residual","layers":[1],"detail":{"tensor":"middle","reader":"norm2"}})",
       lies);
  stage("a norm_f times 1.01", -1, "normed", of_forward, R"({"op":"norm_f"})", by_a_percent);
  stage("logits times 1.01", -1, "logits", of_forward, R"({"op":"lm_head"})", by_a_percent);
  stage("a gradient of fc2's input times 1.01",
        1,
        "d.activated",
        of_gradient,
        site("mlp", "[1]", "backward"),
        by_a_percent);
  stage("the last gradient of silu",
        1,
        "d.hidden",
        of_gradient,
        site("mlp", "[1]", "backward"),
        last_number);
  stage("a gradient of fc1's input times 1.01",
        0,
        "d.normed",
        of_gradient,
        site("mlp", "[0]", "backward"),
        by_a_percent);
  stage("a gradient of norm_f's input times 1.01",
        -1,
        "d.x",
        of_gradient,
        R"({"op":"norm_f","phase":"backward"})",
        by_a_percent);
  for (const auto& [param, op] : {std::pair{"blocks.1.mlp.fc1.weight", "mlp"},
                                  {"blocks.1.mlp.fc2.weight", "mlp"},
                                  {"blocks.1.norm1.weight", "norm1"},
                                  {"blocks.0.norm2.weight", "norm2"},
                                  {"norm_f.weight", "norm_f"},
                                  {"lm_head.weight", "lm_head"},
                                  {"embed.weight", "embed"}}) {
    for (const auto& [precision, type] :
         {std::pair{nsa::Precision::fp32, "fp32"}, {nsa::Precision::fp16, "fp16"}}) {
      stage(std::string("a gradient of ") + param + " times 1.01 in " + type,
            -1,
            std::string("g.") + param,
            of_gradient,
            of_param(harness::checks::short_name(param), op),
            by_a_percent,
            precision);
    }
  }
  stage("a gradient of fc2's input times 1.01 in fp16",
        1,
        "d.activated",
        of_gradient,
        site("mlp", "[1]", "backward"),
        by_a_percent,
        nsa::Precision::fp16);
  stage("a gradient of norm_f's input times 1.01 in fp16",
        -1,
        "d.x",
        of_gradient,
        R"({"op":"norm_f","phase":"backward"})",
        by_a_percent,
        nsa::Precision::fp16);
  Training infinite = of({}, nsa::Precision::fp16);
  infinite.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer == -1 && tensor == "g.lm_head.weight") made.data[0] = INFINITY;
  };
  add("a gradient of a weight that overflows", Verdict::pass, "", "{}", infinite);
  Training kept;
  kept.keeps_gradients = true;
  fail("gradients of weights that still hold those of the step before",
       of_gradient,
       R"({"op":"zero_grad","phase":"backward","step":2,"detail":{"law":"gradients_kept"}})",
       kept);
  Training counted = of({}, nsa::Precision::fp16);
  counted.zero_moments = true;
  counted.before = [](MadeStep& s) {
    if (s.step == 1) s.gradient.at("norm_f.weight").data[0] = INFINITY;
  };
  add("a first step that is left out, with moments of zeros after it",
      Verdict::pass,
      "",
      "{}",
      counted);
  // The bounds within which a kept gradient is looked for are wider: they alone would hold this one.
  Training little = of({}, nsa::Precision::fp16);
  little.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer != -1 || tensor != "g.lm_head.weight") return;
    for (double& x : made.data) x *= 1.004;
  };
  little.before = [](MadeStep& s) {
    if (s.step == 1) s.gradient.at("norm_f.weight").data[0] = INFINITY;
  };
  fail("a gradient a little off after a step that left nothing",
       "NUMERIC.GRADIENT",
       R"({"op":"lm_head","phase":"backward","detail":{"steps":[1,2]}})",
       little);
  Training backward;
  backward.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer == 1 && tensor == "d.middle") made = oracles::zeros(made.shape);
  };
  fail("a half of a block that passes on no gradient",
       "NUMERIC.GRADIENT",
       R"({"layers":[1],"phase":"backward","step":1})",
       backward);
  Training cut = of({}, nsa::Precision::fp16);
  cut.cut_weights = true;
  fail("masters that are cut off", "OPT.UPDATE_WRONG", R"({"op":"masters","step":1})", cut);
  Training rotated;
  rotated.last_block_first = true;
  fail("blocks in another order",
       "NUMERIC.FORWARD",
       R"({"op":"blocks","phase":"forward","step":1,"detail":{"law":"blocks_in_other_order"}})",
       rotated);
  Training moved;
  moved.between = [](MadeStep&, oracles::Weights& w) { w.at("norm_f.weight").data[2] += 1e-3; };
  fail("a parameter that moves between two steps",
       "OPT.UPDATE_WRONG",
       R"({"op":"between_steps","step":2,"param":"norm_f"})",
       moved);
  Training two = of({});
  two.accumulate = 2;
  add("two micro-batches", Verdict::pass, "", "{}", two);
  Training tied;
  tied.tied = true;
  add("a tied head", Verdict::pass, "", "{}", tied);
  tied.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != -1 || tensor != "g.embed.weight") return;
    for (double& value : x.data) value *= 2;
  };
  fail("a tied head whose gradient is counted twice",
       "NUMERIC.GRADIENT",
       R"({"op":"embed","step":1,"detail":{"law":"embed_gradient_factor"}})",
       tied);
  Training dropout;
  dropout.dropout = 0.25;
  add("residual dropout", Verdict::pass, "", "{}", dropout);
  dropout.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != 1 || tensor != "attended_dropped") return;
    for (double& value : x.data) value *= 0.75;
  };
  fail("what dropout keeps is not scaled",
       "NUMERIC.FORWARD",
       R"({"op":"dropout","layers":[1],"step":1,"detail":{"law":"dropout_not_scaled"}})",
       dropout);
  dropout.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != 0 || tensor != "d.mlp_dropped") return;
    for (double& value : x.data) value = 0;
  };
  fail("the mlp's gradient is dropped altogether",
       "NUMERIC.GRADIENT",
       R"({"op":"dropout","layers":[0],"step":1,"detail":{"law":"dropout_zero"}})",
       dropout);
  Training ragged = two;
  ragged.ragged = true;
  add("two micro-batches with a ragged mask", Verdict::pass, "", "{}", ragged);
  for (const char* law : {"mean_of_micro_means", "mean_of_rank_means", "mean_of_means"}) {
    ragged.share = law;
    fail(std::string("by token numbers, ") + law,
         "GRAD.SCALE",
         std::string(R"({"op":"accumulate","step":1,"detail":{"law":")") + law + "\"}}",
         ragged);
  }
  ragged.share = "loss_not_divided";
  fail("a ragged loss that is not divided",
       "LOSS.WRONG",
       R"({"op":"accumulate","step":1,"detail":{"law":"loss_not_divided"}})",
       ragged);
  two.before = [](MadeStep& s) {
    for (auto& [name, gradient] : s.gradient) {
      for (double& x : gradient.data) x *= 2;
    }
  };
  Training last = two;
  last.before = {};
  last.last_micro_alone = true;
  fail("what was accumulated is lost",
       "NUMERIC.GRADIENT",
       R"({"op":"accumulate","step":1,"detail":{"law":"micro_alone_divided"}})",
       last);
  fail("micro-batches added up", "NUMERIC.GRADIENT", R"({"op":"grad_sync","step":1})", two);
  two.before = [held = std::make_shared<std::map<int, oracles::Weights>>()](MadeStep& s) {
    if (s.step > 1) {
      for (auto& [name, gradient] : s.gradient) {
        const std::vector<double>& before = held->at(s.rank).at(name).data;
        for (std::size_t i = 0; i < before.size(); ++i) gradient.data[i] += before[i];
      }
    }
    (*held)[s.rank] = s.gradient;
  };
  fail("gradients that are not set to zero",
       "NUMERIC.GRADIENT",
       R"({"op":"grad_sync","step":2,"detail":{"law":"previous_added"}})",
       two);
  for (const auto& [metric, code, op, precision] :
       {std::tuple{"loss", "LOSS.WRONG", "told_loss", nsa::Precision::fp32},
        {"source_floor", "LOSS.WRONG", "told_floor", nsa::Precision::fp32},
        {"floor_tokens", "LOSS.WRONG", "told_floor", nsa::Precision::fp32},
        {"loss_scale", "SCALER.WRONG", "told_scale", nsa::Precision::fp16}}) {
    Training reported = of({}, precision);
    reported.accumulate = 2;
    reported.reported = {{metric, 1.01}};
    fail(std::string("another ") + metric + " is reported",
         code,
         std::string(R"({"op":")") + op + R"(","step":1})",
         reported);
  }
  Training nearly = of({}, nsa::Precision::fp32);
  nearly.reported = {{"source_floor", 1 + 1e-7}};
  fail("a floor of a few tokens less is reported",
       "LOSS.WRONG",
       R"({"op":"told_floor","step":1})",
       nearly);
  Training lost;
  lost.tells_all_lost = true;
  fail("updates that moved are told as lost",
       "OPT.UPDATE_WRONG",
       R"({"op":"told_updates","step":1,"phase":"optimizer"})",
       lost);
  Training unsaid = of({}, nsa::Precision::fp16);
  unsaid.before = overflow;
  unsaid.reported = {{"skipped_steps", 0}};
  fail("a skipped step is not told", "SCALER.WRONG", R"({"op":"told_skips","step":1})", unsaid);
  Training forgotten = of({}, nsa::Precision::fp16);
  forgotten.forgets_row = true;
  fail("taken steps are not counted", "SCALER.WRONG", R"({"op":"told_row","step":1})", forgotten);
  Training between;
  between.after = [](MadeStep& s, oracles::Weights& w) {
    if (s.step == 1) w.at("norm_f.weight").data[2] += 1e-3;
  };
  fail("one number that is not AdamW's",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","step":1,"param":"norm_f"})",
       between);
}

}  // namespace fixtures
