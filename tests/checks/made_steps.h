// Optimiser steps as ranks record them, made by the oracle itself; a Training says which step, and what is changed on its way.
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
  bool of_record = false;   // only what is written of the step is changed
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

}  // namespace fixtures
