// Records what every attention layer computed in one forward and backward: inputs, outputs, branch outputs, blocks, the
// gradients at its border, its weights and their local gradients. One file a layer; the check close_to_oracle reads it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/worker/record/artefact_out.h"
#include "harness/worker/watch/seam_watch.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/data_parallel.h"

namespace harness {

class LayerRecorder {
 public:
  // Taps every layer of `model`. With `keep_tensors` false only exposure and gates are recorded. Blocks are taken from
  // `watch`, as they were chosen: what attends over them may have written into them since.
  LayerRecorder(nsa::NsaLm& model, const SeamWatch& watch, Progress& progress, bool keep_tensors);

  // Hashes of scores and blocks are kept too, for write_exposure().
  void keep_decisions(bool keep) { keeps_decisions_ = keep; }

  void begin(std::int64_t step, int of_rank);
  // What a layer's tap is given; for a kind that has a tap of its own.
  void take(const nsa::AttentionTrace& trace);
  // While paused nothing is taken: a step that is run again to find out more must not replace what was recorded.
  void pause(bool paused) { paused_ = paused; }

  // Writes the files of all layers and forgets the tensors. `local` holds the local gradients by full parameter name.
  // `name` is the artefacts'.
  void write(const ArtefactOut& out,
             const std::map<std::string, torch::Tensor>& local,
             const std::string& name = "attention_layer");

  // How far the layers' laws were exercised in the last forward, what their gates were, and what they decided.
  void write_exposure(Channel& channel) const;

  // Is there a NaN in what the last forward and backward left here?
  [[nodiscard]] bool has_nan() const;

 private:
  struct Layer {
    nsa::AttentionTrace trace;
    torch::Tensor dx_BSE;
    torch::Tensor dy_BSE;
  };
  void watch_gradients(const nsa::AttentionTrace& trace);
  // Blocks as they were chosen.
  [[nodiscard]] torch::Tensor chosen_by(const nsa::AttentionTrace& trace) const;

  nsa::NsaLm& model_;
  const SeamWatch& watch_;
  Progress& progress_;
  bool keep_tensors_;
  bool keeps_decisions_ = false;
  bool paused_ = false;
  std::int64_t step_ = 0;
  int of_rank_ = 0;
  std::map<int, Layer> layers_;
  std::vector<Exposure> exposures_;
  std::vector<GateUse> gates_;
  std::vector<BlockChoice> decisions_;
};

}  // namespace harness
