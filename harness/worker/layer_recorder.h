// Records what every attention layer computed in one forward and backward: inputs, outputs, branch outputs, blocks, the
// gradients at its border, its weights and their local gradients. One file a layer; the check close_to_oracle reads it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/worker/channel.h"
#include "harness/worker/progress.h"
#include "harness/worker/tensor_file.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/data_parallel.h"

namespace harness {

class LayerRecorder {
 public:
  // Taps every layer of `model`. With `keep_tensors` false only the exposure is recorded.
  LayerRecorder(nsa::NsaLm& model, Progress& progress, bool keep_tensors);

  void begin(std::int64_t step, int of_rank);

  // Writes the files of all layers to `folder` (below `root`, which artefact paths are relative to) and forgets the tensors.
  // `local` holds the local gradients by full parameter name.
  void write(Channel& channel, const std::string& root, const std::string& folder,
             const std::map<std::string, torch::Tensor>& local);

  // How far the layers' laws were exercised in the last forward.
  void write_exposure(Channel& channel) const;

 private:
  struct Layer {
    nsa::AttentionTrace trace;
    torch::Tensor dx_BSE;
    torch::Tensor dy_BSE;
  };
  void take(const nsa::AttentionTrace& trace);

  nsa::NsaLm& model_;
  Progress& progress_;
  bool keep_tensors_;
  std::int64_t step_ = 0;
  int of_rank_ = 0;
  std::map<int, Layer> layers_;
  std::vector<Exposure> exposures_;
};

}  // namespace harness
