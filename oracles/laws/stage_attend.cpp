// Wrong laws of the branch outputs: from right queries, keys and values over the right list of
// keys.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "oracles/attention/attend.h"
#include "oracles/attention/selection.h"
#include "oracles/laws/stage_rules.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrainRows = 16;

double right_root(const AttentionConfig& c) {
  return std::sqrt(static_cast<double>(c.d_k));
}
std::int64_t right_group(const AttentionConfig&, std::int64_t g, std::int64_t) {
  return g;
}
std::int64_t next_group(const AttentionConfig& c, std::int64_t g, std::int64_t) {
  return (g + 1) % c.n_kv_groups;
}
std::int64_t interleaved_group(const AttentionConfig& c, std::int64_t g, std::int64_t i) {
  return (g * c.heads_per_group() + i) % c.n_kv_groups;
}

// How o_branch is made; right where nothing else is said.
struct AttendLaw {
  double (*root)(const AttentionConfig&) = right_root;
  // Whose keys, and whose values, head i of group g meets.
  std::int64_t (*key_group)(const AttentionConfig&, std::int64_t g, std::int64_t i) = right_group;
  std::int64_t (*value_group)(const AttentionConfig&, std::int64_t g, std::int64_t i) = right_group;
  bool rotated_queries = true;
  bool rotated_keys = true;
  // Key u brings the value of u + value_shift, of the nearest token where there is none.
  std::int64_t value_shift = 0;
  // Softmax over all keys of the branch, those not listed left out afterwards.
  bool masked_late = false;
  // Blocks of the selected branch that are attended to twice.
  bool (*doubled)(const AttentionConfig&, std::int64_t t, std::int64_t block) = nullptr;
};

// v [B,G,C,V] with row u from row u + shift.
Tensor shifted(const Tensor& v, std::int64_t shift) {
  const std::int64_t count = v.shape[2];
  Tensor moved = v;
  for (std::int64_t row = 0; row < v.shape[0] * v.shape[1] * count; ++row) {
    const std::int64_t from = std::clamp<std::int64_t>(row % count + shift, 0, count - 1);
    std::copy_n(v.data.begin() + (row - row % count + from) * v.shape[3],
                v.shape[3],
                moved.data.begin() + row * v.shape[3]);
  }
  return moved;
}

class Attend {
 public:
  Attend(const StageInputs& in, Stage stage, const AttendLaw& law)
      : in_(in),
        branch_(branch_of(stage)),
        law_(law),
        q_(law.rotated_queries ? in.forward.projections.q_BGhRD : unrotated_queries(in)),
        keys_(in.forward.projections.branches[index_of(branch_)]) {
    if (!law.rotated_keys) {
      keys_.k = unrotated_keys(in, branch_);
    }
    keys_.v = shifted(keys_.v, law.value_shift);
    banks_ = key_banks(keys_);
  }

  Tensor run() const {
    const Sizes& n = in_.sizes();
    Tensor out = zeros(in_.forward.result.o_cmp.shape);
    parallel_for(n.batch_groups() * n.rows,
                 kGrainRows,
                 in_.threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<double> work;
                   for (std::int64_t place = begin; place < end; ++place) {
                     attend_row(place / n.rows, place % n.rows, out, work);
                   }
                 });
    return out;
  }

 private:
  void attend_row(std::int64_t group,
                  std::int64_t row,
                  Tensor& out,
                  std::vector<double>& work) const {
    const Sizes& n = in_.sizes();
    const std::int64_t first = group / n.groups * n.groups;
    const KeyList right = right_keys(group, row);
    const KeyList keys = law_.masked_late ? KeyList{{0, banks_[group].count()}} : right;
    if (right.empty()) {
      return;
    }
    for (std::int64_t head = 0; head < n.heads; ++head) {
      const std::int64_t g = group % n.groups;
      const KeyBank& k_bank = banks_[first + law_.key_group(in_.config, g, head)];
      const KeyBank& v_bank = banks_[first + law_.value_group(in_.config, g, head)];
      scaled_logits(k_bank, keys, one_head(head_rows(q_, group, row), head), work);
      adjust_logits(keys, row, work);
      softmax_rows(work, 1);
      if (law_.masked_late) {
        leave_out_others(right, work);
      }
      const MutableView all = head_rows(out, group, row);
      weighted_values(
          v_bank, keys, work, {all.data + head * all.row_step, 1, all.columns, all.row_step});
    }
  }

  static View one_head(const View& q_hD, std::int64_t head) {
    return {q_hD.data + head * q_hD.row_step, 1, q_hD.columns, q_hD.row_step, 1};
  }

  [[nodiscard]] KeyList right_keys(std::int64_t group, std::int64_t row) const {
    const std::int64_t t = in_.forward.projections.rows[row];
    if (branch_ == Branch::cmp) {
      return visible_compressed(in_.config, t, banks_[group].count());
    }
    if (branch_ == Branch::win) {
      return window_tokens(in_.config, t);
    }
    const std::int64_t place = group * in_.sizes().rows + row;
    return selected_tokens(in_.config,
                           t,
                           {in_.forward.attended.data.data() + place * in_.config.n_sel,
                            static_cast<std::size_t>(in_.config.n_sel)});
  }

  // Another scale; and log 2 for what is attended to twice.
  void adjust_logits(const KeyList& keys, std::int64_t row, std::vector<double>& s_K) const {
    const double factor = right_root(in_.config) / law_.root(in_.config);
    const std::int64_t t = in_.forward.projections.rows[row];
    auto s = s_K.begin();
    for (const KeyRange& range : keys) {
      for (std::int64_t u = range.begin; u < range.end; ++u, ++s) {
        const bool twice =
            law_.doubled != nullptr && law_.doubled(in_.config, t, u / in_.config.l_sel);
        *s = *s * factor + (twice ? std::log(2.0) : 0);
      }
    }
  }

  static void leave_out_others(const KeyList& right, std::vector<double>& p_K) {
    std::int64_t from = 0;
    for (const KeyRange& range : right) {
      std::fill(p_K.begin() + from, p_K.begin() + range.begin, 0.0);
      from = range.end;
    }
    std::fill(p_K.begin() + from, p_K.end(), 0.0);
  }

  const StageInputs& in_;
  Branch branch_;
  const AttendLaw& law_;
  Tensor q_;
  BranchKeys keys_;
  std::vector<KeyBank> banks_;
};

StageRule attend_rule(std::string_view name,
                      std::vector<Stage> stages,
                      std::string_view about,
                      const AttendLaw& law,
                      std::function<bool(const StageInputs&, Stage)> makes_sense = {}) {
  return {{name, std::move(stages), about},
          [law](const StageInputs& in, Stage stage) { return Attend(in, stage, law).run(); },
          std::move(makes_sense)};
}

bool has_groups(const StageInputs& in, Stage) {
  return in.config.n_kv_groups > 1;
}

std::vector<StageRule> scale_rules() {
  using enum Stage;
  return {
      attend_rule("scale_missing",
                  {o_cmp, o_sel, o_win},
                  "logits q.k",
                  {.root = [](const AttentionConfig&) { return 1.0; }}),
      attend_rule("scale_twice",
                  {o_cmp, o_sel, o_win},
                  "logits q.k / d_k",
                  {.root = [](const AttentionConfig& c) { return static_cast<double>(c.d_k); }}),
      attend_rule(
          "scale_of_values",
          {o_cmp, o_sel, o_win},
          "logits q.k / sqrt(d_v)",
          {.root = [](const AttentionConfig& c) { return std::sqrt(static_cast<double>(c.d_v)); }},
          [](const StageInputs& in, Stage) { return in.config.d_k != in.config.d_v; }),
      attend_rule("normalised_over_all",
                  {o_cmp, o_sel, o_win},
                  "softmax over every key of the branch, masked afterwards",
                  {.masked_late = true}),
      attend_rule("forced_twice",
                  {o_sel},
                  "a block forced both at the start and at the end attended to twice",
                  {.doubled =
                       [](const AttentionConfig& c, std::int64_t t, std::int64_t block) {
                         return block < c.init_blocks && block > t / c.l_sel - c.local_blocks;
                       }},
                  [](const StageInputs& in, Stage) { return in.config.init_blocks > 0; }),
      attend_rule("current_twice",
                  {o_sel},
                  "the current block attended to twice",
                  {.doubled = [](const AttentionConfig& c, std::int64_t t, std::int64_t block) {
                    return block == t / c.l_sel;
                  }})};
}

std::vector<StageRule> operand_rules() {
  using enum Stage;
  return {
      attend_rule("next_groups_keys",
                  {o_cmp, o_sel, o_win},
                  "keys and values of group g + 1, of the first for the last",
                  {.key_group = next_group, .value_group = next_group},
                  has_groups),
      attend_rule("next_groups_values",
                  {o_cmp, o_sel, o_win},
                  "values of group g + 1, of the first for the last",
                  {.value_group = next_group},
                  has_groups),
      attend_rule("heads_interleaved",
                  {o_cmp, o_sel, o_win},
                  "keys and values of group hq mod G",
                  {.key_group = interleaved_group, .value_group = interleaved_group},
                  [](const StageInputs& in, Stage) {
                    return in.config.n_kv_groups > 1 && in.config.heads_per_group() > 1;
                  }),
      attend_rule("queries_unrotated",
                  {o_cmp, o_sel, o_win},
                  "queries not rotated",
                  {.rotated_queries = false}),
      attend_rule("keys_unrotated", {o_sel, o_win}, "keys not rotated", {.rotated_keys = false}),
      attend_rule("values_one_late",
                  {o_cmp, o_sel, o_win},
                  "the value of key u + 1 with key u",
                  {.value_shift = 1}),
      attend_rule("values_one_early",
                  {o_cmp, o_sel, o_win},
                  "the value of key u - 1 with key u",
                  {.value_shift = -1})};
}

}  // namespace

std::vector<StageRule> attend_rules() {
  std::vector<StageRule> rules = scale_rules();
  for (StageRule& rule : operand_rules()) {
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace oracles
