// Wrong laws of single stages of a layer that are known to happen: everything before the stage is
// right, the stage itself follows the law. Where an implementation disagrees with the oracle, the
// law that reproduces its tensor at the first stage that disagrees names the mistake. A law that
// gives what the right one gives says nothing about a layer. Other sets of keys for o_cmp, o_sel
// and o_win are in key_laws.h. Legend as in attention.h; hq = g*h + i counts all heads.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/attention/attention.h"

namespace oracles {

enum class Stage {
  q,          // [B,G,h,R,D] rotated
  k_cmp_raw,  // [B,G,S,D] rotated, before compression
  v_cmp_raw,  // [B,G,S,V]
  k_sel,      // [B,G,S,D] rotated
  v_sel,      // [B,G,S,V]
  k_win,
  v_win,
  k_cmp,   // [B,G,C,D]
  v_cmp,   // [B,G,C,V]
  p_grp,   // [B,G,R,N]
  blocks,  // [B,G,R,n_sel] the numbers of the blocks, ascending, then -1
  o_cmp,   // [B,G,h,R,V]
  o_sel,
  o_win,
  gate,  // [B,G,R,3] or, for head_sigmoid, [B,G,h,R,3]
  y      // [B,R,E]
};

// As in the list above.
std::string_view stage_name(Stage stage);
// All of them, in the order above.
std::span<const Stage> all_stages();

struct StageLaw {
  std::string_view name;
  std::vector<Stage> stages;  // that it makes sense for
  std::string_view about;     // what the stage does in place of the right thing
};

// All of them, in a fixed order. A name may be listed several times, for other stages each time,
// where the same mistake looks different there.
std::span<const StageLaw> stage_laws();

struct StageInputs;

// One layer, computed once, with any of its stages under any law.
class StageLawOutputs {
 public:
  // As attention(): options.rows are R, options.replay are the blocks that o_sel attends to, and
  // options.gate_override is the gate that y is mixed with. Keeps nothing that it is given.
  StageLawOutputs(const AttentionConfig& config,
                  const Weights& weights,
                  const Tensor& x,
                  const AttentionOptions& options = {});
  ~StageLawOutputs();
  StageLawOutputs(StageLawOutputs&&) noexcept;
  StageLawOutputs& operator=(StageLawOutputs&&) noexcept;

  // What the oracle gives.
  [[nodiscard]] Tensor right(Stage stage) const;
  // The laws that this layer has a meaning for: no other group's keys where there is one group, no
  // weights of another shape, no ignored rope_scale where it is 1. In the order of stage_laws().
  [[nodiscard]] std::vector<std::string_view> laws(Stage stage) const;
  // What the law gives. Throws std::invalid_argument where laws(stage) does not list it.
  [[nodiscard]] Tensor output(std::string_view law, Stage stage) const;

 private:
  std::unique_ptr<const StageInputs> inputs_;
};

}  // namespace oracles
