#include "oracles/laws/attend_law.h"

#include <algorithm>
#include <cmath>

#include "oracles/laws/families.h"

namespace oracles {
namespace {

// What implementations write in place of minus infinity.
constexpr double kSentinel = -10000;

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

// Calls visit(place in the list, key).
template <typename Visit>
void for_each_key(const KeyList& keys, Visit visit) {
  std::int64_t place = 0;
  for (const KeyRange& range : keys) {
    for (std::int64_t key = range.begin; key < range.end; ++key, ++place) {
      visit(place, key);
    }
  }
}

bool is_listed(const KeyList& keys, std::int64_t key) {
  return std::any_of(keys.begin(), keys.end(), [&](const KeyRange& range) {
    return range.begin <= key && key < range.end;
  });
}

// Sets the keys of [0, count) that are not listed to zero, in every head.
void leave_out_others(const KeyList& keys, std::int64_t count, std::vector<double>& p_hK) {
  for (auto row = p_hK.begin(); row != p_hK.end(); row += count) {
    for (const KeyRange& range : all_but(keys, count)) {
      std::fill(row + range.begin, row + range.end, 0.0);
    }
  }
}

bool has_own_banks(const AttendTerms& terms) {
  return !terms.rotated_keys || terms.value_shift != 0 || terms.keys_of || terms.values_of;
}

// [B,G,h,R,D]; empty where they are the right ones.
Tensor other_queries(const Stages& in, const AttendTerms& terms) {
  if (!terms.rotated_queries) {
    return unrotated_queries(in);
  }
  if (terms.query_head == nullptr) {
    return {};
  }
  const Tensor& q = in.input(Stage::q);
  Tensor other = q;
  const std::int64_t heads = in.config().n_heads;
  const std::int64_t size = q.shape[3] * q.shape[4];
  for (std::int64_t head = 0; head < q.shape[0] * heads; ++head) {
    const std::int64_t own = head % heads;
    const std::int64_t from =
        terms.query_head(in.config(), own / in.sizes().heads, own % in.sizes().heads);
    std::copy_n(
        q.data.begin() + (head - own + from) * size, size, other.data.begin() + head * size);
  }
  return other;
}

View one_head(const View& q_hD, std::int64_t head) {
  return {q_hD.data + head * q_hD.row_step, 1, q_hD.columns, q_hD.row_step, 1};
}

}  // namespace

KeyList first_keys(std::int64_t count) {
  KeyList keys;
  append_range(keys, 0, count);
  return keys;
}

KeyList all_but(const KeyList& keys, std::int64_t count) {
  KeyList rest;
  std::int64_t begin = 0;
  for (const KeyRange& range : keys) {
    append_range(rest, begin, std::min(range.begin, count));
    begin = range.end;
  }
  append_range(rest, begin, count);
  return rest;
}

AttendUnder::AttendUnder(const Stages& in, Branch branch, const AttendTerms& terms)
    : in_(in),
      branch_(branch),
      terms_(terms),
      other_q_(other_queries(in, terms)),
      q_(other_q_.data.empty() ? in.input(Stage::q) : other_q_),
      banks_(has_own_banks(terms) ? other_banks_ : in.banks(branch)) {
  if (branch == Branch::sel) {
    (void)in.attended();  // computed before threads ask for it
  }
  if (has_own_banks(terms)) {
    other_k_ = terms.rotated_keys ? in.input(key_stage(terms.keys_of.value_or(branch)))
                                  : unrotated_keys(in, key_stage(branch));
    other_v_ = shifted(in.input(value_stage(terms.values_of.value_or(branch))), terms.value_shift);
    other_banks_ = key_banks(other_k_, other_v_);
  }
}

const KeyBank& AttendUnder::bank(GroupOf group_of, std::int64_t group, std::int64_t head) const {
  if (group_of == nullptr) {
    return banks_[group];
  }
  const std::int64_t g = group % in_.sizes().groups;
  return banks_[group - g + group_of(in_.config(), g, head)];
}

KeyList AttendUnder::probabilities(std::int64_t group,
                                   std::int64_t row,
                                   std::vector<double>& p_hK) const {
  const Query query = in_.query(branch_, group, row);
  const KeyList listed = terms_.keys(query);
  const KeyList keys = terms_.masked_late ? first_keys(query.key_count) : listed;
  const std::int64_t heads = in_.sizes().heads;
  const View q_hD = head_rows(q_, group, row);
  if (listed.empty() || (terms_.left_out != nullptr && terms_.left_out(query))) {
    p_hK.clear();
    return {};
  }
  if (terms_.key_group == nullptr) {
    scaled_logits(banks_[group], keys, q_hD, p_hK);
  } else {
    p_hK.clear();
    std::vector<double> s_K;
    for (std::int64_t head = 0; head < heads; ++head) {
      scaled_logits(bank(terms_.key_group, group, head), keys, one_head(q_hD, head), s_K);
      p_hK.insert(p_hK.end(), s_K.begin(), s_K.end());
    }
  }
  change_logits(query, keys, p_hK);
  softmax_rows(p_hK, heads);
  if (terms_.masked_late) {
    leave_out_others(listed, query.key_count, p_hK);
  }
  return keys;
}

// Another factor, the sentinel, and log n for what counts n times.
void AttendUnder::change_logits(const Query& query,
                                const KeyList& keys,
                                std::vector<double>& s_hK) const {
  if (terms_.factor != nullptr) {
    const double factor = terms_.factor(in_.config());
    for (double& logit : s_hK) {
      logit *= factor;
    }
  }
  if (!terms_.sentinel && terms_.times == nullptr) {
    return;
  }
  const KeyList right = visible_keys(query);
  const std::int64_t count = key_count(keys);
  for_each_key(keys, [&](std::int64_t place, std::int64_t key) {
    const bool hidden = terms_.sentinel && !is_listed(right, key);
    const std::int64_t times = terms_.times == nullptr ? 1 : terms_.times(query, key);
    for (auto at = static_cast<std::size_t>(place); at < s_hK.size();
         at += static_cast<std::size_t>(count)) {
      s_hK[at] = hidden ? kSentinel : s_hK[at] + std::log(static_cast<double>(times));
    }
  });
}

Tensor AttendUnder::output() const {
  Tensor out = zeros(in_.shape_of(output_stage(branch_)));
  for_each_row(
      in_.sizes(), in_.layer().threads, [&](std::int64_t group, std::int64_t row, auto& p_hK) {
        const KeyList keys = probabilities(group, row, p_hK);
        const MutableView o_hV = head_rows(out, group, row);
        if (terms_.value_group == nullptr) {
          weighted_values(banks_[group], keys, p_hK, o_hV);
          return;
        }
        const auto count = static_cast<std::ptrdiff_t>(key_count(keys));
        for (std::int64_t head = 0; head < in_.sizes().heads; ++head) {
          const auto begin = p_hK.begin() + head * count;
          weighted_values(bank(terms_.value_group, group, head),
                          keys,
                          {begin, begin + count},
                          {o_hV.data + head * o_hV.row_step, 1, o_hV.columns, o_hV.row_step});
        }
      });
  return out;
}

}  // namespace oracles
