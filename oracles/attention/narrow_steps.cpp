#include "oracles/attention/narrow_steps.h"

#include <cmath>

#include "oracles/attention/rope.h"

namespace oracles {

Tensor with_narrow_rotation(const Stages& forward, Stage stage) {
  const Kept& kept = forward.layer().kept;
  const AttentionConfig& config = forward.config();
  const std::vector<std::int64_t> positions =
      stage == Stage::q ? forward.rows() : forward.token_positions();
  Tensor z = reshaped(forward.projected(stage), forward.shape_of(stage));
  const std::int64_t pairs = config.d_k / 2;
  const auto narrow = [&](double value) { return rounded(value, kept.results); };
  for (std::size_t i = 0; i + 1 < z.data.size(); i += 2) {
    const auto pair = static_cast<std::int64_t>(i / 2);
    const std::size_t row = static_cast<std::size_t>(pair / pairs) % positions.size();
    const double angle = rope_angle(config, positions[row], pair % pairs);
    const double cosine = narrow(std::cos(angle));
    const double sine = narrow(std::sin(angle));
    const double even = z.data[i];
    const double odd = z.data[i + 1];
    z.data[i] = narrow(even * cosine) - narrow(odd * sine);
    z.data[i + 1] = narrow(even * sine) + narrow(odd * cosine);
  }
  return kept.of(std::move(z));
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

}  // namespace oracles
