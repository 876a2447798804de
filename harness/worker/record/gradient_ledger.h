// The gradient ledger of one process: for every parameter of every step, whether the loss reaches it, how often and in what
// order its gradient became ready, and what it was before and after the reduction. It observes with a post hook of its own
// on each gradient accumulator, installed before the Reducer's, and changes nothing. To look at values it waits for the device
// and copies them, before the Reducer's hook runs: watched less closely, it only counts, and walks the graph only where a gradient
// did not come.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/worker/channel.h"
#include "harness/worker/record/tensor_file.h"
#include "harness/worker/work_counters.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"

namespace harness {

class GradientLedger {
 public:
  // Installs the hooks. `parameters` as in the model's order; the ledger must not outlive them. `observe`: at kWatchValues values
  // are looked at; at kWatchEvents a gradient that came has the state "unread"; below there are no hooks, and no function does
  // anything.
  GradientLedger(const nsa::NamedParameters& parameters,
                 Progress& progress,
                 int observe = kWatchValues);
  ~GradientLedger();
  GradientLedger(const GradientLedger&) = delete;
  GradientLedger& operator=(const GradientLedger&) = delete;

  // Each accumulator shall carry this many post hooks: 1 alone, 2 with a Reducer.
  void expect_hooks(int hooks) { hooks_expected_ = hooks; }

  // A backward from `loss` follows. Local gradients are copied to `local` as they become ready (may be null).
  void begin(std::int64_t step, int of_rank, const torch::Tensor& loss, TensorFile* local);

  // A backward follows that ends in no reduction: nothing of it is written down.
  void pass_over() { counting_ = false; }

  // The reduction is over: what the gradients are now. Copied to `reduced` (may be null).
  void after_reduction(TensorFile* reduced);

  // Which bucket each parameter travels in.
  void set_buckets(const std::vector<nsa::BucketPlan>& plans);

  // One row a parameter; call once per begin(), also when the backward ended in an exception.
  void write(Channel& channel);

  [[nodiscard]] const std::vector<Gradient>& rows() const { return rows_; }

 private:
  class ReadyHook;
  struct Watched {
    torch::Tensor parameter;
    std::shared_ptr<torch::autograd::Node> accumulator;
    std::uintptr_t hook = 0;
  };

  void ready(std::size_t index);
  void find_reachable();
  void look_at(Gradient& row, const torch::Tensor& gradient);
  [[nodiscard]] std::string state_of_arrived(const torch::Tensor& gradient) const;
  [[nodiscard]] int hooks_on(const Watched& watched) const;

  nsa::NamedParameters parameters_;
  std::vector<Watched> watched_;
  std::vector<Gradient> rows_;
  Progress& progress_;
  int observe_;
  torch::Tensor
      root_;  // of the backward that follows or has ended, until it is known what it reaches
  TensorFile* local_ = nullptr;
  int hooks_expected_ = 1;
  int next_order_ = 0;
  bool counting_ = true;
};

// The tensors of a gradients file: every parameter under its name.
[[nodiscard]] std::vector<TensorFile::Plan> gradient_plan(const nsa::NamedParameters& parameters);

// Whether the graph that ends in `loss` reaches each of `parameters`, by next_edges() and through the blocks that nested
// checkpoints will compute again.
[[nodiscard]] std::vector<bool> reachable_from(const torch::Tensor& loss,
                                               const nsa::NamedParameters& parameters);

}  // namespace harness
