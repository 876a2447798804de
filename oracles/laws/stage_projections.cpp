// Wrong laws of q and of the keys and values of all tokens: rotation, order of heads, weights.
#include <cmath>
#include <string>
#include <utility>

#include "oracles/attention/rope.h"
#include "oracles/laws/stage_rules.h"
#include "oracles/linear.h"

namespace oracles {
namespace {

// Pair c of head `head` of `heads`, at position t.
struct Pair {
  std::int64_t head;
  std::int64_t heads;
  std::int64_t t;
  std::int64_t c;
};
using Angle = double (*)(const AttentionConfig&, const Pair&);

// Which two numbers of a head make pair c.
enum class Pairing { interleaved, halves };

enum class HeadOrder {
  transposed,  // the right one: head hq is numbers [hq * W, (hq + 1) * W) of a token
  reshaped,    // [B,S,n*W] read as [B,n,S,W]
  group_minor  // head i*G + g of the projection in the place of g*h + i
};

struct Projection {
  Angle angle = nullptr;  // none: not rotated
  Pairing pairing = Pairing::interleaved;
  HeadOrder order = HeadOrder::transposed;
};

bool of_queries(Stage stage) {
  return stage == Stage::q;
}
bool of_values(Stage stage) {
  return stage == Stage::v_cmp_raw || stage == Stage::v_sel || stage == Stage::v_win;
}
std::int64_t heads_of(const StageInputs& in, Stage stage) {
  return of_queries(stage) ? in.config.n_heads : in.config.n_kv_groups;
}

std::string weight_name(Stage stage, Branch branch) {
  if (of_queries(stage)) {
    return "W_Q.weight";
  }
  return std::string(of_values(stage) ? "W_V_" : "W_K_") + branch_name(branch) + ".weight";
}
std::string weight_name(Stage stage) {
  return weight_name(stage, branch_of(stage));
}

// tokens [B,S,n*W] -> [B,n,S,W]
Tensor in_heads(const StageInputs& in, const Tensor& tokens, std::int64_t heads, HeadOrder order) {
  Tensor split = split_heads(tokens, heads);
  if (order == HeadOrder::reshaped) {
    return {split.shape, tokens.data};
  }
  if (order == HeadOrder::group_minor) {
    const std::int64_t groups = in.config.n_kv_groups;
    const std::int64_t size = split.shape[2] * split.shape[3];
    const Tensor from = split;
    for (std::int64_t head = 0; head < split.shape[0] * heads; ++head) {
      const std::int64_t own = head % heads;
      const std::int64_t other = own % (heads / groups) * groups + own / (heads / groups);
      std::copy_n(
          from.data.begin() + (head - own + other) * size, size, split.data.begin() + head * size);
    }
  }
  return split;
}

// z [B,n,S,W], row s at position s.
void turn(const AttentionConfig& config, Angle angle, Pairing pairing, Tensor& z) {
  const std::int64_t pairs = z.shape[3] / 2;
  for (std::int64_t row = 0; row < z.shape[0] * z.shape[1] * z.shape[2]; ++row) {
    double* const vector = z.data.data() + row * z.shape[3];
    for (std::int64_t c = 0; c < pairs; ++c) {
      const double a =
          angle(config, {row / z.shape[2] % z.shape[1], z.shape[1], row % z.shape[2], c});
      double& first = vector[pairing == Pairing::halves ? c : 2 * c];
      double& second = vector[pairing == Pairing::halves ? c + pairs : 2 * c + 1];
      const double before = first;
      first = std::cos(a) * before - std::sin(a) * second;
      second = std::sin(a) * before + std::cos(a) * second;
    }
  }
}

// [B,H,S,D] -> [B,G,h,R,D]
Tensor rows_of_queries(const StageInputs& in, const Tensor& all) {
  const Tensor& right = in.forward.projections.q_BGhRD;
  const std::int64_t width = all.shape[3];
  Tensor q = zeros(right.shape);
  auto to = q.data.begin();
  for (std::int64_t head = 0; head < all.shape[0] * all.shape[1]; ++head) {
    for (const std::int64_t row : in.forward.projections.rows) {
      to = std::copy_n(all.data.begin() + (head * all.shape[2] + row) * width, width, to);
    }
  }
  return q;
}

Tensor projected(const StageInputs& in,
                 Stage stage,
                 const std::string& weight,
                 const Projection& how) {
  Tensor z =
      in_heads(in, linear(in.x, in.weights.at(weight), in.threads), heads_of(in, stage), how.order);
  if (how.angle != nullptr) {
    turn(in.config, how.angle, how.pairing, z);
  }
  return of_queries(stage) ? rows_of_queries(in, z) : z;
}

double right_angle(const AttentionConfig& config, const Pair& pair) {
  return rope_angle(config, pair.t, pair.c);
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

// The right angle where the stage is rotated at all.
Angle usual_angle(Stage stage) {
  return of_values(stage) ? nullptr : right_angle;
}

StageRule rotation(std::string_view name,
                   std::string_view about,
                   Angle angle,
                   Pairing pairing = Pairing::interleaved) {
  using enum Stage;
  return {{name, {q, k_cmp_raw, k_sel, k_win}, about},
          [=](const StageInputs& in, Stage stage) {
            return projected(in, stage, weight_name(stage), {angle, pairing});
          },
          {}};
}

StageRule where(StageRule rule, std::function<bool(const StageInputs&, Stage)> makes_sense) {
  rule.makes_sense = std::move(makes_sense);
  return rule;
}

bool is_scaled(const StageInputs& in, Stage) {
  return in.config.rope_scale != 1;
}
bool has_heads(const StageInputs& in, Stage stage) {
  return heads_of(in, stage) > 1;
}

std::vector<StageRule> rotation_rules() {
  return {
      rotation("rope_missing", "no rotation", nullptr),
      rotation("rope_twice",
               "rotated a second time",
               [](const AttentionConfig& c, const Pair& p) { return 2 * right_angle(c, p); }),
      rotation("rope_backward",
               "rotated by minus the angle",
               [](const AttentionConfig& c, const Pair& p) { return -right_angle(c, p); }),
      where(rotation("rope_flat_heads",
                     "all heads of a token rotated as one vector: pair hq*D/2 + c of width n*D",
                     flat_angle),
            has_heads),
      rotation("rope_halves",
               "pairs (c, c + D/2) in place of (2c, 2c + 1)",
               right_angle,
               Pairing::halves),
      where(rotation("rope_scale_ignored",
                     "rope_scale taken as 1",
                     [](const AttentionConfig& c, const Pair& p) {
                       return right_angle(c, p) * c.rope_scale;
                     }),
            is_scaled),
      where(rotation("rope_scale_multiplied",
                     "position times rope_scale",
                     [](const AttentionConfig& c, const Pair& p) {
                       return right_angle(c, p) * c.rope_scale * c.rope_scale;
                     }),
            is_scaled),
      rotation("rope_from_one",
               "positions counted from 1",
               [](const AttentionConfig& c, const Pair& p) { return rope_angle(c, p.t + 1, p.c); }),
      rotation("rope_half_exponent",
               "frequencies base^(-c/D) in place of base^(-2c/D)",
               [](const AttentionConfig& c, const Pair& p) {
                 return static_cast<double>(p.t) / c.rope_scale *
                        std::pow(c.rope_base,
                                 -static_cast<double>(p.c) / static_cast<double>(c.d_k));
               })};
}

StageRule weights_of(std::string_view name, std::string_view about, Branch branch) {
  using enum Stage;
  std::vector<Stage> stages;
  for (const Stage stage : {k_cmp_raw, v_cmp_raw, k_sel, v_sel, k_win, v_win}) {
    if (branch_of(stage) != branch) {
      stages.push_back(stage);
    }
  }
  return {{name, stages, about},
          [branch](const StageInputs& in, Stage stage) {
            return projected(in, stage, weight_name(stage, branch), {usual_angle(stage)});
          },
          {}};
}

// Keys projected by the values' weights and the other way round; rotated as the stage is.
Tensor exchanged(const StageInputs& in, Stage stage) {
  const std::string other = of_values(stage) ? "W_K_" : "W_V_";
  return projected(
      in, stage, other + branch_name(branch_of(stage)) + ".weight", {usual_angle(stage)});
}

std::vector<StageRule> order_rules() {
  using enum Stage;
  const auto ordered = [](HeadOrder order) {
    return [order](const StageInputs& in, Stage stage) {
      const Projection how{usual_angle(stage), Pairing::interleaved, order};
      return projected(in, stage, weight_name(stage), how);
    };
  };
  return {{{"heads_reshaped",
            {q, k_cmp_raw, v_cmp_raw, k_sel, v_sel, k_win, v_win},
            "[B,S,n*W] read as [B,n,S,W] without a transpose"},
           ordered(HeadOrder::reshaped),
           has_heads},
          {{"heads_group_minor", {q}, "head i*G + g of the projection as head i of group g"},
           ordered(HeadOrder::group_minor),
           [](const StageInputs& in, Stage) {
             return in.config.n_kv_groups > 1 && in.config.heads_per_group() > 1;
           }}};
}

}  // namespace

Tensor unrotated_queries(const StageInputs& in) {
  return projected(in, Stage::q, "W_Q.weight", {});
}

Tensor unrotated_keys(const StageInputs& in, Branch branch) {
  return projected(in, Stage::k_sel, std::string("W_K_") + branch_name(branch) + ".weight", {});
}

std::vector<StageRule> projection_rules() {
  using enum Stage;
  std::vector<StageRule> rules = rotation_rules();
  for (StageRule& rule : order_rules()) {
    rules.push_back(std::move(rule));
  }
  rules.push_back(weights_of("weights_of_cmp", "projected by W_K_cmp, W_V_cmp", Branch::cmp));
  rules.push_back(weights_of("weights_of_sel", "projected by W_K_sel, W_V_sel", Branch::sel));
  rules.push_back(weights_of("weights_of_win", "projected by W_K_win, W_V_win", Branch::win));
  rules.push_back({{"weights_exchanged",
                    {k_cmp_raw, v_cmp_raw, k_sel, v_sel, k_win, v_win},
                    "keys projected by the weights of the values, values by those of the keys"},
                   exchanged,
                   [](const StageInputs& in, Stage) { return in.config.d_k == in.config.d_v; }});
  rules.push_back({{"values_rotated", {v_cmp_raw, v_sel, v_win}, "values rotated like keys"},
                   [](const StageInputs& in, Stage stage) {
                     return projected(in, stage, weight_name(stage), {value_angle});
                   },
                   [](const StageInputs& in, Stage) { return in.config.d_v % 2 == 0; }});
  return rules;
}

}  // namespace oracles
