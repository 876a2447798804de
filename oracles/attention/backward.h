// The gradients of sum(y * dy) at a forward that was recorded or is the oracle's own, step by step
// backwards. The step of a stage is taken at that stage's own inputs. Legend as in attention.h.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "oracles/attention/attention.h"
#include "oracles/attention/stages.h"

namespace oracles {

// What goes through one branch's attention.
struct BranchGradients {
  Tensor q;  // [B,G,h,R,D]
  Tensor k;  // of the keys and values that are attended: [B,G,C,.] or [B,G,S,.]
  Tensor v;
};

// Adds what one query gives to the gradients of its branch.
using RowRule = std::function<void(std::int64_t group,
                                   std::int64_t row,
                                   const View& do_hV,
                                   const AttendGradients& gradients,
                                   AttendWork& work)>;

class Backward {
 public:
  // dy [B,R,E]. Refers to the forward and keeps dy's gradients of the branch outputs and the gate.
  // Throws std::invalid_argument where dy has another shape, a NaN or an infinity.
  Backward(const Stages& forward, const Tensor& dy);

  // Where the mean of the softmax's backward comes from when products take narrow numbers: do . o of the output as it was stored;
  // or sum p dp of the gradients of the probabilities, rounded as soon as they are there (and not again once they are multiplied),
  // as automatic differentiation does where the probabilities were rounded; or do . o beside these rounded gradients, as it does
  // where the numerators of the softmax were rounded and their sum was not; or do . o again, with the gradients of the logits
  // rounded before they are multiplied by 1/sqrt(d_k), as a kernel does that scales dq and dk at its end.
  enum class Mean { of_output, of_rounded, of_output_beside_rounded, of_output_scaled_last };
  // Of one branch's attention alone, from the gradient of its output [B,G,h,R,V]: only through(), right_rule() and
  // of_output() of that branch may be asked for.
  Backward(const Stages& forward, Branch branch, Tensor d_o, Mean mean = Mean::of_output);

  // Everything by the right rule.
  [[nodiscard]] AttentionGradients gradients() const;
  // The same, but the gradients of the consumers of queries and input are added in the narrow type, in the order q, cmp, sel, win,
  // gate.
  [[nodiscard]] AttentionGradients gradients_added_narrow() const;
  // With other gradients through one branch.
  [[nodiscard]] AttentionGradients gradients(Branch branch, const BranchGradients& other) const;

  // Computed once.
  [[nodiscard]] const BranchGradients& through(Branch branch) const;
  // By another rule, or of another gradient of the branch's output; nothing is rounded.
  [[nodiscard]] BranchGradients through(Branch branch,
                                        const Tensor& d_o,
                                        const RowRule& rule) const;
  [[nodiscard]] RowRule right_rule(Branch branch) const;

  // From a branch's keys and values back through the compression, the rotation and the projection:
  // the gradients of the weights on the way are put into `weights`, that of x is added to dx.
  void add_key_gradients(Branch branch,
                         const BranchGradients& through,
                         Tensor& dx,
                         Weights& weights) const;

  [[nodiscard]] const Stages& forward() const { return forward_; }
  // [B,G,h,R,V]
  [[nodiscard]] const Tensor& of_output(Branch branch) const { return d_o_[index_of(branch)]; }

 private:
  [[nodiscard]] BranchGradients through_narrow(Branch branch) const;
  [[nodiscard]] AttentionGradients finished(
      const Layer& layer, const std::array<const BranchGradients*, 3>& branches) const;
  void add_key_gradients(const Layer& layer,
                         Branch branch,
                         const BranchGradients& through,
                         Tensor& dx,
                         Weights& weights) const;

  const Stages& forward_;
  Mean mean_ = Mean::of_output;
  Tensor dout_weight_;
  std::array<Tensor, 3> d_o_;
  Tensor dgate_;
  mutable std::array<std::optional<BranchGradients>, 3> through_;
};

// The stages that a gradient goes through on its way from y: where the forward of one of them is
// another function than the oracle's, the oracle does not know the gradient. `of` is a weight's
// name, or "x".
std::vector<Stage> stages_on_the_way(std::string_view of, const AttentionConfig& config);

}  // namespace oracles
