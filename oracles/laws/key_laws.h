// Wrong laws of attention that are known to happen: the same queries, keys and values, attended
// over another set of keys. Where an implementation disagrees with the oracle, the law that
// reproduces its rows names the mistake. A row on which a law lists the keys that the right law
// lists says nothing about it. Legend as in attention.h.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/attention/attention.h"
#include "oracles/attention/keys.h"

namespace oracles {

struct KeyLaw {
  std::string_view name;
  std::vector<Branch> branches;  // that it makes sense for
  std::string_view about;        // which keys a query sees
};

// All of them, in a fixed order, each name once.
std::span<const KeyLaw> key_laws();

// Queries, keys and values as somebody has recorded them; by Branch where there are three.
struct AttendInputs {
  std::vector<std::int64_t> rows;  // query positions of R
  Tensor q;                        // [B,G,h,R,D] rotated
  std::array<Tensor, 3> k;         // [B,G,C,D] in the compressed branch, else [B,G,S,D]
  std::array<Tensor, 3> v;
  IntTensor blocks;  // [B,G,R,n_sel]
};

// One layer's queries and keys, projected once or recorded, attended under any law.
class KeyLawOutputs {
 public:
  // As attention(): with options.replay the blocks of the selected branch are those, else the
  // oracle's own. Keeps nothing that it is given.
  KeyLawOutputs(const AttentionConfig& config,
                const Weights& weights,
                const Tensor& x,
                const AttentionOptions& options = {});
  // Throws std::invalid_argument where shapes do not fit. Values need not be finite: what is made of
  // a NaN is a NaN.
  KeyLawOutputs(const AttentionConfig& config, AttendInputs inputs, int threads = 0);
  ~KeyLawOutputs();
  KeyLawOutputs(KeyLawOutputs&&) noexcept;
  KeyLawOutputs& operator=(KeyLawOutputs&&) noexcept;

  // o_branch [B,G,h,R,V] under the law. Throws std::invalid_argument where there is no such law for
  // that branch.
  [[nodiscard]] Tensor output(std::string_view law, Branch branch) const;
  // What the right law gives.
  [[nodiscard]] Tensor right_output(Branch branch) const;
  // The keys that one query sees under the law. `row` counts the rows asked for.
  [[nodiscard]] KeyList keys(
      std::string_view law, Branch branch, std::int64_t b, std::int64_t g, std::int64_t row) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace oracles
