// Means are averaged although they are over different numbers of tokens: each micro-batch of a rank counts as much as the
// others, or each rank does, or both. Seen: a loss that divides by its own tokens, under gradient accumulation.
#include <cmath>

#include "harness/faults/faults.h"
#include "nsa/train/loss_mask.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kForms = {"micro_batches", "ranks", "both"};

class AlikeWeights {
 public:
  explicit AlikeWeights(const FaultContext& context)
      : scenario_(context.session.the_case().scenario),
        form_(fault_form(context.request, kForms)),
        mask_(scenario_.training.data,
              {scenario_.training.batch_size,
               scenario_.training.seq_len,
               scenario_.training.accumulate,
               scenario_.model.vocab_size,
               scenario_.training.data.replicated},
              scenario_.seed,
              static_cast<int>(scenario_.parallel.ranks)) {}

  // Of a micro-batch's mean in the backward.
  [[nodiscard]] double of(std::int64_t step, std::int64_t micro, int rank) const {
    const auto micros = static_cast<double>(scenario_.training.accumulate);
    if (form_ == "both") return 1.0 / micros;
    const double own = tokens_of(step, rank);
    if (form_ == "ranks") return static_cast<double>(mask_.tokens(step, micro, rank)) / own;
    double all = 0.0;
    for (int of_rank = 0; of_rank < world(); ++of_rank) all += tokens_of(step, of_rank);
    return own * world() / (all * micros);
  }

 private:
  [[nodiscard]] int world() const { return static_cast<int>(scenario_.parallel.ranks); }
  [[nodiscard]] double tokens_of(std::int64_t step, int rank) const {
    double tokens = 0.0;
    for (std::int64_t micro = 0; micro < scenario_.training.accumulate; ++micro) {
      tokens += static_cast<double>(mask_.tokens(step, micro, rank));
    }
    return tokens;
  }

  const Scenario& scenario_;
  std::string form_;
  nsa::LossMask mask_;
};

void install_alike(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  auto& share = context.needed_training().seams.share;
  share = [inner = share, weights = AlikeWeights(context), &context](
              const Tensor& mean, std::int64_t step, std::int64_t micro, int rank) {
    Tensor right = inner(mean, step, micro, rank);
    if (!context.holds_now()) return right;
    Tensor alike = mean * weights.of(step, micro, rank);
    // Equal numbers of tokens give the same up to rounding.
    if (std::abs(alike.item<double>() / right.item<double>() - 1.0) < 1e-5) return right;
    context.fired();
    return alike;
  };
}

}  // namespace

Faults faults_of_token_weighting() {
  return {{"token_weighting",
           "means over different numbers of tokens are averaged as if the numbers were one",
           {"rank", "step", "form"},
           install_alike,
           kForms}};
}

}  // namespace harness
