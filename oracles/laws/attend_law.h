// How a branch attends where it does so wrongly: over other keys, with another factor, with the
// keys of another group or branch. Serves the outputs of the branches and, through the
// probabilities of the compressed tokens, the block scores. Internal to the library. Legend as in
// attend.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracles/attention/stages.h"

namespace oracles {

using GroupOf = std::int64_t (*)(const AttentionConfig&, std::int64_t g, std::int64_t i);

// Right where nothing else is said.
struct AttendTerms {
  KeyList (*keys)(const Query&) = visible_keys;
  // Keys that are listed, but not by the right law, have the logit -10000.
  bool sentinel = false;
  // Softmax over all keys of the branch; those that are not listed are left out afterwards.
  bool masked_late = false;
  // Factor of the right logits; none: 1.
  double (*factor)(const AttentionConfig&) = nullptr;
  // Whose keys, and whose values, head i of group g meets; none: those of group g.
  GroupOf key_group = nullptr;
  GroupOf value_group = nullptr;
  // Whose query head i of group g brings, counted over all groups; none: its own.
  GroupOf query_head = nullptr;
  bool rotated_queries = true;
  bool rotated_keys = true;
  // Key u brings the value of u + value_shift, of the nearest token where there is none.
  std::int64_t value_shift = 0;
  // How often a listed key counts; none: once.
  std::int64_t (*times)(const Query&, std::int64_t key) = nullptr;
  // Rows that are left zero.
  bool (*left_out)(const Query&) = nullptr;
  // Another branch's keys, or values, of all tokens.
  std::optional<Branch> keys_of = std::nullopt;
  std::optional<Branch> values_of = std::nullopt;
};

class AttendUnder {
 public:
  // Refers to its arguments.
  AttendUnder(const Stages& in, Branch branch, const AttendTerms& terms);

  // p_hK over the keys returned.
  KeyList probabilities(std::int64_t group, std::int64_t row, std::vector<double>& p_hK) const;
  // [B,G,h,R,V]
  [[nodiscard]] Tensor output() const;

 private:
  [[nodiscard]] const KeyBank& bank(GroupOf group_of, std::int64_t group, std::int64_t head) const;
  void change_logits(const Query& query, const KeyList& keys, std::vector<double>& s_hK) const;

  const Stages& in_;
  Branch branch_;
  const AttendTerms& terms_;
  Tensor other_q_;  // where queries are not rotated, or those of other heads
  Tensor other_k_;  // where other keys or values than the branch's own are attended
  Tensor other_v_;
  const Tensor& q_;
  std::vector<KeyBank> other_banks_;
  const std::vector<KeyBank>& banks_;
};

// Keys of [0, count) that are not listed.
KeyList all_but(const KeyList& keys, std::int64_t count);
// All of [0, count).
KeyList first_keys(std::int64_t count);

}  // namespace oracles
