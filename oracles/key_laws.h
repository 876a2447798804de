// Wrong laws of attention that are known to happen: the same queries, keys and values, attended
// over another set of keys. Where an implementation disagrees with the oracle, the law that
// reproduces its rows names the mistake. A row on which a law lists the keys that the right law
// lists says nothing about it. Legend as in attention.h.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/attention.h"
#include "oracles/keys.h"

namespace oracles {

struct KeyLaw {
  std::string_view name;
  std::vector<Branch> branches;  // that it makes sense for
  std::string_view about;        // which keys a query sees
};

// All of them, in a fixed order, each name once.
std::span<const KeyLaw> key_laws();

// One layer's queries and keys, projected once, attended under any law.
class KeyLawOutputs {
 public:
  // As attention(): with options.replay the blocks of the selected branch are those, else the
  // oracle's own. Keeps nothing that it is given.
  KeyLawOutputs(const AttentionConfig& config,
                const Weights& weights,
                const Tensor& x,
                const AttentionOptions& options = {});
  ~KeyLawOutputs();
  KeyLawOutputs(KeyLawOutputs&&) noexcept;
  KeyLawOutputs& operator=(KeyLawOutputs&&) noexcept;

  // o_branch [B,G,h,R,V] under the law. Throws std::invalid_argument where there is no such law for
  // that branch.
  [[nodiscard]] Tensor output(std::string_view law, Branch branch) const;
  // The keys that one query sees under the law. `row` counts the rows asked for.
  [[nodiscard]] KeyList keys(
      std::string_view law, Branch branch, std::int64_t b, std::int64_t g, std::int64_t row) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace oracles
