// Records what every block computed around its attention in one forward and backward, and what the model's head did: the
// tensors between its stages, the gradients there, and the local gradients of its weights. One file a block and one of the
// head; the check step_is_oracle judges every stage and every weight's gradient from them.
//
// Volume: of a token 10 numbers a width and 4 a hidden width, a block. Not recorded under autocast, where each stage
// has a type of its own: that is judged at some rows, from the borders of the attention layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/worker/record/artefact_out.h"
#include "nsa/model/nsa_lm.h"

namespace harness {

class BlockRecorder {
 public:
  // Taps every block of `model` where `enabled`; else every function does nothing.
  BlockRecorder(nsa::NsaLm& model, bool enabled);

  void begin(std::int64_t step, int of_rank);
  // While paused nothing is taken: a forward that is run again must not replace what was recorded.
  void pause(bool paused) { paused_ = paused; }

  // Writes the files and forgets the tensors. `local` holds the local gradients by full parameter name.
  void write(const ArtefactOut& out, const std::map<std::string, torch::Tensor>& local);

 private:
  // The tensors of one file, and the gradients that came to them.
  struct Part {
    std::vector<NamedTensor> tensors;
    std::map<std::string, torch::Tensor> gradients;
  };
  void take(int layer, const std::vector<NamedTensor>& tensors);
  void write_part(int layer,
                  const Part& part,
                  const std::vector<std::string>& weights,
                  const ArtefactOut& out,
                  const std::map<std::string, torch::Tensor>& local);

  nsa::NsaLm& model_;
  bool enabled_;
  bool paused_ = false;
  std::int64_t step_ = 0;
  int of_rank_ = 0;
  std::map<int, Part> parts_;  // by block; the head's is kHead
};

}  // namespace harness
