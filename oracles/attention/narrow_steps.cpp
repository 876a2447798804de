#include "oracles/attention/narrow_steps.h"

#include <cmath>

#include "oracles/attention/rope.h"

namespace oracles {

Tensor with_narrow_rotation(const Stages& forward, Stage stage, NarrowRotation how) {
  const Kept& kept = forward.layer().kept;
  const AttentionConfig& config = forward.config();
  const std::vector<std::int64_t> positions =
      stage == Stage::q ? forward.rows() : forward.token_positions();
  Tensor z = reshaped(forward.projected(stage), forward.shape_of(stage));
  const std::int64_t pairs = config.d_k / 2;
  const auto narrow = [&](double value) { return rounded(value, kept.results); };
  const auto product = [&](double value) {
    return how == NarrowRotation::products ? narrow(value) : value;
  };
  for (std::size_t i = 0; i + 1 < z.data.size(); i += 2) {
    const auto pair = static_cast<std::int64_t>(i / 2);
    const std::size_t row = static_cast<std::size_t>(pair / pairs) % positions.size();
    const double angle = rope_angle(config, positions[row], pair % pairs);
    const double cosine = narrow(std::cos(angle));
    const double sine = narrow(std::sin(angle));
    const double even = z.data[i];
    const double odd = z.data[i + 1];
    z.data[i] = product(even * cosine) - product(odd * sine);
    z.data[i + 1] = product(even * sine) + product(odd * cosine);
  }
  return kept.of(std::move(z));
}

Tensor with_float_angles(const Stages& forward, Stage stage, FloatAngles how, Tensor right) {
  const AttentionConfig& config = forward.config();
  const std::vector<std::int64_t> positions =
      stage == Stage::q ? forward.rows() : forward.token_positions();
  const std::int64_t pairs = config.d_k / 2;
  std::vector<double> turns;  // by how much more each pair turns
  for (const std::int64_t t : positions) {
    for (std::int64_t c = 0; c < pairs; ++c) {
      const double exponent = -2.0 * static_cast<double>(c) / static_cast<double>(config.d_k);
      const auto frequency = static_cast<float>(std::pow(config.rope_base, exponent));
      const double place = static_cast<double>(t) / config.rope_scale;
      const double angle = how == FloatAngles::frequencies
                               ? place * static_cast<double>(frequency)
                               : static_cast<double>(static_cast<float>(place) * frequency);
      turns.push_back(angle - rope_angle(config, t, c));
    }
  }
  for (std::size_t i = 0; i + 1 < right.data.size(); i += 2) {
    const double turn = turns[i / 2 % turns.size()];
    const double even = right.data[i];
    const double odd = right.data[i + 1];
    right.data[i] = even * std::cos(turn) - odd * std::sin(turn);
    right.data[i + 1] = even * std::sin(turn) + odd * std::cos(turn);
  }
  return right;
}

Tensor with_narrow_softmax(const Stages& forward, Branch branch) {
  const Kept& kept = forward.layer().kept;
  const std::vector<KeyBank>& keys = forward.banks(branch);
  const Tensor& q = forward.input(Stage::q);
  if (branch == Branch::sel) {
    (void)forward.attended();  // computed before threads ask for it
  }
  Tensor out = zeros(forward.shape_of(output_stage(branch)));
  for_each_row(forward.sizes(), forward.layer().threads, [&](auto group, auto row, auto& work) {
    const KeyList visible = visible_keys(forward.query(branch, group, row));
    scaled_logits(keys[group], visible, head_rows(q, group, row), work);
    kept.round(work);
    softmax_rows(work, forward.sizes().heads);
    kept.round(work);
    weighted_values(keys[group], visible, work, head_rows(out, group, row));
  });
  return kept.of(std::move(out));
}

Tensor with_rounded_queries(const Stages& forward, ScoreRounding how) {
  const double root = 1 / std::sqrt(static_cast<double>(forward.config().d_k));
  const double factor = how == ScoreRounding::scaled_query_log2 ? root / std::log(2.0) : root;
  Tensor q = forward.input(Stage::q);
  for (double& value : q.data) {
    value = rounded(value * factor, forward.layer().kept.results) / factor;
  }
  return q;
}

Tensor with_score_rounding(const Stages& forward, Branch branch, ScoreRounding how, double factor) {
  const Kept& kept = forward.layer().kept;
  const std::vector<KeyBank>& keys = forward.banks(branch);
  const bool of_queries =
      how == ScoreRounding::scaled_query || how == ScoreRounding::scaled_query_log2;
  const Tensor q = of_queries ? with_rounded_queries(forward, how) : forward.input(Stage::q);
  if (branch == Branch::sel) {
    (void)forward.attended();  // computed before threads ask for it
  }
  const auto logit = [&](double value) {
    if (how == ScoreRounding::scores || how == ScoreRounding::scores_twice) {
      value = rounded(value / factor, kept.results) * factor;
    }
    return how == ScoreRounding::scores ? value : rounded(value, kept.results);
  };
  Tensor out = zeros(forward.shape_of(output_stage(branch)));
  for_each_row(forward.sizes(), forward.layer().threads, [&](auto group, auto row, auto& work) {
    const KeyList visible = visible_keys(forward.query(branch, group, row));
    scaled_logits(keys[group], visible, head_rows(q, group, row), work);
    for (double& value : work) {
      value = of_queries ? value : logit(value);
    }
    softmax_rows(work, forward.sizes().heads);
    if (kept.narrow(branch)) {
      kept.round(work);
    }
    weighted_values(keys[group], visible, work, head_rows(out, group, row));
  });
  return kept.of(std::move(out));
}

}  // namespace oracles
