// The parts of a training process that a rank and its twin have in common, built in the same order from the same case, so
// that their numbers can be compared bit by bit.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "harness/kinds/model_parts.h"
#include "harness/kinds/update_ledger.h"
#include "harness/worker/gradient_ledger.h"
#include "harness/worker/layer_recorder.h"
#include "harness/worker/seam_watch.h"
#include "harness/worker/session.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/seams/training_seams.h"
#include "nsa/train/data.h"
#include "nsa/train/optimizer.h"

namespace harness {

class TrainingParts {
 public:
  // The model with its initial values on its device, the data, the optimiser, and what watches them.
  explicit TrainingParts(Session& session);

  nsa::Routes routes;
  torch::Device device;
  nsa::NsaLm model;
  nsa::NamedParameters parameters;
  std::unique_ptr<nsa::DataSource> source;
  std::unique_ptr<nsa::Optimizer> optimizer;
  nsa::TrainingSeams seams;
  GradientLedger ledger;
  SeamWatch watch;  // installed by watch_seams()
  LayerRecorder recorder;

  // Tensors are written only where a check will look at them.
  [[nodiscard]] bool keeps_tensors() const { return keeps_tensors_; }

  // Once, after a fault has put itself in.
  void watch_seams() { watch.install(model); }

  void drop_gradients();
  // The micro-batch of `of_rank`, recorded, on the device.
  torch::Tensor batch(std::int64_t step, int of_rank);
  torch::Tensor loss_of(const torch::Tensor& tokens_BS);

  // A file for one process's gradients of a step, or null when tensors are not kept.
  [[nodiscard]] std::unique_ptr<TensorFile> gradients_file(std::int64_t step,
                                                           int of_rank,
                                                           const std::string& name) const;
  // Ends a gradients file and tells of it. Does nothing for null.
  void finish_gradients(std::unique_ptr<TensorFile> file,
                        std::int64_t step,
                        int of_rank,
                        const std::string& name);
  // The layers' files and their exposure. `local` as gradients_file() gave it.
  void write_layers(std::int64_t step, int of_rank, const TensorFile* local);

  // Where a loss or gradient is NaN: runs the step's forward and backward again, watched, and writes the birth certificate.
  void certify_nan(std::int64_t step, const torch::Tensor& tokens_BS, double loss);

  // Optimiser step, its samples and the parameters' hashes.
  void update(std::int64_t step);
  void write_routes();

 private:
  void write_parameters(std::int64_t step);

  Session& session_;
  bool keeps_tensors_;
  bool gradients_are_nan_ = false;  // of this step
};

[[nodiscard]] nsa::CommunicatorOptions communicator_options(const Session& session);
[[nodiscard]] nsa::DataParallelOptions data_parallel_options(const Session& session);

}  // namespace harness
