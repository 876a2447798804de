// Wrong laws of q and of the keys and values of all tokens: rotation, weights. The rotations serve
// the keys that enter the compression too.
#include <algorithm>
#include <cmath>
#include <utility>

#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"
#include "oracles/laws/families.h"
#include "oracles/linear.h"
#include "oracles/numbers.h"

namespace oracles {
namespace {

using enum Stage;

// Pair c of head `head` of `heads`, at position t.
struct Pair {
  std::int64_t head;
  std::int64_t heads;
  std::int64_t t;
  std::int64_t c;
};
using Angle = double (*)(const AttentionConfig&, const Pair&);

// Which two numbers of a head make pair c, and whose angle each of them turns by. The angles may
// lie in a table as pairs do (two by two) or one half after the other.
enum class Pairing { neighbours, halves };
enum class Table { of_pairs, of_the_other_pairing };

struct Rotation {
  Angle angle = nullptr;  // none: not rotated
  Pairing pairing = Pairing::neighbours;
  Table table = Table::of_pairs;
  double (*kept)(double) = [](double value) { return value; };
};

// Pair number whose angle element `element` has, in the table of the other pairing.
std::int64_t misread(Pairing pairing, std::int64_t element, std::int64_t pairs) {
  return pairing == Pairing::halves ? element / 2 : element % pairs;
}

// z [B,n,R,W], row r at positions[r].
void turn(const AttentionConfig& config,
          const std::vector<std::int64_t>& positions,
          const Rotation& by,
          Tensor& z) {
  const std::int64_t pairs = z.shape[3] / 2;
  const std::int64_t heads = z.shape[1];
  const std::int64_t rows = z.shape[2];
  for (std::int64_t row = 0; row < z.shape[0] * heads * rows; ++row) {
    double* const vector = z.data.data() + row * z.shape[3];
    const auto angle = [&](std::int64_t c) {
      return by.angle(config, {row / rows % heads, heads, positions[row % rows], c});
    };
    for (std::int64_t c = 0; c < pairs; ++c) {
      const std::int64_t first = by.pairing == Pairing::halves ? c : 2 * c;
      const std::int64_t second = by.pairing == Pairing::halves ? c + pairs : 2 * c + 1;
      const bool own = by.table == Table::of_pairs;
      const double a = angle(own ? c : misread(by.pairing, first, pairs));
      const double b = angle(own ? c : misread(by.pairing, second, pairs));
      const double x = vector[first];
      const double y = vector[second];
      vector[first] = by.kept(std::cos(a)) * x - by.kept(std::sin(a)) * y;
      vector[second] = by.kept(std::sin(b)) * x + by.kept(std::cos(b)) * y;
    }
  }
}

bool is_values(Stage stage) {
  return stage == v_raw || stage == v_sel || stage == v_win;
}

const std::vector<Stage>& keys_and_values() {
  static const std::vector<Stage> kStages{k_raw, v_raw, k_sel, v_sel, k_win, v_win};
  return kStages;
}

// Heads before any rotation: of q and keys, and of the keys that enter the compression.
Tensor unrotated(const Stages& in, Stage stage) {
  if (stage != k_cmp) {
    return in.projected(stage);
  }
  Tensor z = in.input(k_raw);
  rotate(z, in.config(), in.token_positions(), Turn::backward);
  return z;
}

Tensor finished(const Stages& in, Stage stage, Tensor z) {
  if (stage == k_cmp) {
    return compress(in.layer(), PhiOf::keys, z);
  }
  return reshaped(std::move(z), in.shape_of(stage));
}

StageLaw rotation(std::string_view name, std::string_view about, const Rotation& by) {
  return {{name, about},
          {q, k_raw, k_sel, k_win, k_cmp},
          [by](const Stages& in, Stage stage) {
            Tensor z = unrotated(in, stage);
            if (by.angle != nullptr) {
              turn(in.config(), stage == q ? in.rows() : in.token_positions(), by, z);
            }
            return finished(in, stage, std::move(z));
          },
          {}};
}

double right_angle(const AttentionConfig& config, const Pair& pair) {
  return rope_angle(config, pair.t, pair.c);
}
// The angle of a frequency base^(-exponent * c / d_k).
double other_angle(const AttentionConfig& config, const Pair& pair, double base, double exponent) {
  return static_cast<double>(pair.t) / config.rope_scale *
         std::pow(base, -exponent * static_cast<double>(pair.c) / static_cast<double>(config.d_k));
}
double flat_angle(const AttentionConfig& config, const Pair& pair) {
  const auto flat = static_cast<double>(pair.head * (config.d_k / 2) + pair.c);
  const auto width = static_cast<double>(pair.heads * config.d_k);
  return static_cast<double>(pair.t) / config.rope_scale *
         std::pow(config.rope_base, -2 * flat / width);
}
double value_angle(const AttentionConfig& config, const Pair& pair) {
  return static_cast<double>(pair.t) / config.rope_scale *
         std::pow(config.rope_base,
                  -2 * static_cast<double>(pair.c) / static_cast<double>(config.d_v));
}

bool is_scaled(const Stages& in, Stage) {
  return in.config().rope_scale != 1;
}
bool has_several_heads(const Stages& in, Stage stage) {
  return (stage == q ? in.config().n_heads : in.config().n_kv_groups) > 1;
}

std::vector<StageLaw> frequency_laws() {
  using Config = AttentionConfig;
  return {
      rotation("rope_half_exponent",
               "frequencies base^(-c/D) in place of base^(-2c/D)",
               {[](const Config& c, const Pair& p) { return other_angle(c, p, c.rope_base, 1); }}),
      rotation("rope_double_exponent",
               "frequencies base^(-4c/D) in place of base^(-2c/D)",
               {[](const Config& c, const Pair& p) { return other_angle(c, p, c.rope_base, 4); }}),
      where(rotation("rope_base_10000",
                     "the base taken as 10000",
                     {[](const Config& c, const Pair& p) { return other_angle(c, p, 10000, 2); }}),
            [](const Stages& in, Stage) { return in.config().rope_base != 10000; }),
      where(rotation("rope_base_500000",
                     "the base taken as 500000",
                     {[](const Config& c, const Pair& p) { return other_angle(c, p, 500000, 2); }}),
            [](const Stages& in, Stage) { return in.config().rope_base != 500000; }),
      where(rotation(
                "rope_scale_ignored", "rope_scale taken as 1", {[](const Config& c, const Pair& p) {
                  return right_angle(c, p) * c.rope_scale;
                }}),
            is_scaled),
      where(rotation("rope_scale_multiplied",
                     "position times rope_scale",
                     {[](const Config& c, const Pair& p) {
                       return right_angle(c, p) * c.rope_scale * c.rope_scale;
                     }}),
            is_scaled),
      rotation("rope_from_one", "positions counted from 1", {[](const Config& c, const Pair& p) {
                 return rope_angle(c, p.t + 1, p.c);
               }})};
}

StageLaw weights_of_branch(std::string_view name, std::string_view about, Branch branch) {
  std::vector<Stage> stages;
  for (const Stage stage : keys_and_values()) {
    const Branch own = stage == k_raw || stage == v_raw ? Branch::cmp : branch_of(stage);
    if (own != branch) {
      stages.push_back(stage);
    }
  }
  return {{name, about},
          stages,
          [branch](const Stages& in, Stage stage) {
            const Stage keys = branch == Branch::cmp ? k_raw : key_stage(branch);
            const Stage values = branch == Branch::cmp ? v_raw : value_stage(branch);
            return in.right(is_values(stage) ? values : keys);
          },
          {}};
}

// Keys projected by the values' weights and the other way round; rotated as the stage is.
Tensor exchanged(const Stages& in, Stage stage) {
  const auto other = static_cast<Stage>(static_cast<int>(stage) + (is_values(stage) ? -1 : 1));
  Tensor z = in.projected(other);
  if (!is_values(stage)) {
    turn(in.config(), in.token_positions(), {right_angle}, z);
  }
  return z;
}

// [B,S,n*W] read as [B,n,S,W] before the rotation.
Tensor heads_reshaped(const Stages& in, Stage stage) {
  const std::int64_t heads = stage == q ? in.config().n_heads : in.config().n_kv_groups;
  Tensor tokens = linear(in.x(), in.weights().at(weight_of(stage)), in.layer().threads);
  const Shape& shape = tokens.shape;
  Tensor z = reshaped(std::move(tokens), {shape[0], heads, shape[1], shape[2] / heads});
  if (stage == q && !in.has_all_rows()) {
    z = rows_at(z, {in.rows().begin(), in.rows().end()});
  }
  if (!is_values(stage)) {
    turn(in.config(), stage == q ? in.rows() : in.token_positions(), {right_angle}, z);
  }
  return reshaped(std::move(z), in.shape_of(stage));
}

// Head i*G + g of the projection in the place of g*h + i.
Tensor heads_group_minor(const Stages& in, Stage stage) {
  const Tensor right = in.right(stage);
  const std::int64_t size = right.shape[3] * right.shape[4];
  const std::int64_t heads = in.config().n_heads;
  Tensor other = right;
  for (std::int64_t head = 0; head < right.shape[0] * heads; ++head) {
    const std::int64_t own = head % heads;
    std::copy_n(right.data.begin() + (head - own + group_minor(in.config(), own)) * size,
                size,
                other.data.begin() + head * size);
  }
  return other;
}

}  // namespace

Tensor unrotated_queries(const Stages& in) {
  return reshaped(in.projected(q), in.shape_of(q));
}

Tensor unrotated_keys(const Stages& in, Stage stage) {
  return unrotated(in, stage);
}

std::vector<StageLaw> rotation_laws() {
  std::vector<StageLaw> laws = {
      rotation("rope_missing", "no rotation", {}),
      rotation("rope_twice", "rotated a second time", {[](const auto& c, const Pair& p) {
                 return 2 * right_angle(c, p);
               }}),
      rotation("rope_backward", "rotated by minus the angle", {[](const auto& c, const Pair& p) {
                 return -right_angle(c, p);
               }}),
      where(rotation("rope_flat_heads",
                     "all heads of a token rotated as one vector: pair hq*D/2 + c of width n*D",
                     {flat_angle}),
            has_several_heads),
      rotation("rope_halves",
               "pairs (c, c + D/2) in place of (2c, 2c + 1)",
               {right_angle, Pairing::halves}),
      rotation("rope_halves_wrong_table",
               "pairs (c, c + D/2), and number e turns by the angle of pair e/2",
               {right_angle, Pairing::halves, Table::of_the_other_pairing}),
      rotation("rope_wrong_table",
               "number e turns by the angle of pair e mod D/2",
               {right_angle, Pairing::neighbours, Table::of_the_other_pairing}),
      rotation("rope_in_bfloat16",
               "sine and cosine rounded to bfloat16",
               {right_angle, Pairing::neighbours, Table::of_pairs, [](double value) {
                  return rounded(value, Number::bf16);
                }})};
  return joined({laws, frequency_laws()});
}

std::vector<StageLaw> projection_laws() {
  return {weights_of_branch("weights_of_cmp", "projected with W_K_cmp, W_V_cmp", Branch::cmp),
          weights_of_branch("weights_of_sel", "projected with W_K_sel, W_V_sel", Branch::sel),
          weights_of_branch("weights_of_win", "projected with W_K_win, W_V_win", Branch::win),
          {{"weights_exchanged",
            "keys projected with the weights of the values, values with those of the keys"},
           keys_and_values(),
           exchanged,
           [](const Stages& in, Stage) { return in.config().d_k == in.config().d_v; }},
          {{"values_rotated", "values rotated like keys"},
           {v_raw, v_sel, v_win},
           [](const Stages& in, Stage stage) {
             Tensor z = in.projected(stage);
             turn(in.config(), in.token_positions(), {value_angle}, z);
             return z;
           },
           [](const Stages& in, Stage) { return in.config().d_v % 2 == 0; }},
          {{"heads_reshaped", "[B,S,n*W] read as [B,n,S,W] without a transpose"},
           {q, k_raw, v_raw, k_sel, v_sel, k_win, v_win},
           heads_reshaped,
           has_several_heads},
          {{"heads_group_minor", "head i*G + g of the projection as head i of group g"},
           {q},
           heads_group_minor,
           has_groups_of_heads}};
}

}  // namespace oracles
