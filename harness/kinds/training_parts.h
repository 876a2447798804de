// The parts of a training process that a rank and its twin have in common, built in the same order from the same case, so
// that their numbers can be compared bit by bit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "harness/kinds/model_parts.h"
#include "harness/kinds/update_ledger.h"
#include "harness/worker/record/block_recorder.h"
#include "harness/worker/record/gradient_ledger.h"
#include "harness/worker/record/layer_recorder.h"
#include "harness/worker/record/step_recorder.h"
#include "harness/worker/session.h"
#include "harness/worker/watch/recompute_watch.h"
#include "harness/worker/watch/seam_watch.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/seams/training_seams.h"
#include "nsa/torch.h"
#include "nsa/train/activation_checkpoint.h"
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
  nsa::LossMask mask;
  nsa::Documents documents;
  nsa::Dropout dropout;
  std::unique_ptr<nsa::Optimizer> optimizer;
  nsa::TrainingSeams seams;
  GradientLedger ledger;
  std::unique_ptr<SeamWatch> watch;         // installed by watch_seams(); at kWatchValues
  std::unique_ptr<LayerRecorder> recorder;  // at kWatchValues
  StepRecorder step_recorder;               // of a rank; a twin records no steps
  BlockRecorder block_recorder;             // likewise
  // Of a rank; a twin computes nothing twice.
  std::unique_ptr<nsa::ActivationCheckpoint> checkpoint;
  std::unique_ptr<RecomputeWatch> recompute_watch;

  // Tensors are written only where a check will look at them.
  [[nodiscard]] bool keeps_tensors() const { return keeps_tensors_; }

  // Once, after a fault has put itself in.
  void watch_seams();

  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  // A step of `of_rank` begins: no gradient, no loss.
  void begin_step(std::int64_t step, int of_rank);
  // A micro-batch of `of_rank`, recorded, on the device; undefined when there is no more data.
  torch::Tensor batch(std::int64_t micro);
  // The last micro-batch once more, of which nothing is recorded.
  torch::Tensor forward_again();
  // What to go backward from: the micro-batch's share of the step's loss, times the loss scale.
  torch::Tensor forward(const torch::Tensor& tokens_BS, std::int64_t micro);
  // After a backward. The layers are recorded in the first micro-batch, whose gradients are its own.
  void backward_ended(std::int64_t micro, const TensorFile* local);
  // The mean loss of the micro-batches so far, and what the source knows of it. Waits for the device.
  void write_loss(const std::string& metric);
  [[nodiscard]] double mean_loss() const;
  [[nodiscard]] bool watches(int level) const { return session_.observe() >= level; }

  // A file for one process's gradients of a step, or null when tensors are not kept.
  [[nodiscard]] std::unique_ptr<TensorFile> gradients_file(std::int64_t step,
                                                           int of_rank,
                                                           const std::string& name) const;
  // Ends a gradients file and tells of it. Does nothing for null.
  void finish_gradients(std::unique_ptr<TensorFile> file,
                        std::int64_t step,
                        int of_rank,
                        const std::string& name);

  // No recorder takes what runs meanwhile for one of a rank's micro-batches.
  void pause_recorders(bool pause);

  // Where a loss or gradient is NaN: runs the step's forward and backward again, watched, and writes the birth certificate.
  void certify_nan(std::int64_t step, const torch::Tensor& tokens_BS, double loss);

  // The state after `step`, in this process's folder; the last two are kept. Where somebody looks at resumptions, every tensor
  // of the file is compared with what it was when the snapshot was asked for, as soon as the file is there.
  void save(std::int64_t step);
  // The newest snapshot that every rank has is brought back; returns the step to go on with. `newest` makes ranks agree: it is
  // given this rank's newest step (0: none) and returns the smallest of all ranks.
  std::int64_t resume(const std::function<std::int64_t(std::int64_t)>& newest);

  // Optimiser step, its samples and the parameters' hashes.
  void update(std::int64_t step);
  void write_routes();

 private:
  // Puts dropout behind both halves of every block.
  void drop_residuals();
  [[nodiscard]] torch::Tensor dropped(int layer, int site, const torch::Tensor& branch_BSE);
  torch::Tensor loss_of(const torch::Tensor& tokens_BS);
  void write_batch(std::int64_t micro, const torch::Tensor& tokens_BS);
  // A micro-batch's loss. To read it is to wait for the device: below kWatchValues it stays where it is until write_loss().
  void add_loss(const torch::Tensor& loss, double weight);
  void write_update(std::int64_t step, double norm, bool taken);
  void write_parameters(std::int64_t step);
  void write_state(std::int64_t step);
  void tell_saved();
  // A snapshot that was asked for and whose file was not seen yet.
  struct Asked {
    std::int64_t step = 0;
    std::string path;                           // relative to the case's folder
    std::map<std::string, std::string> hashes;  // of its tensors, when it was asked for
  };

  Session& session_;
  std::int64_t micro_batches_;
  std::int64_t step_ = 0;
  std::int64_t micro_ = 0;
  int of_rank_ = 0;
  bool again_ = false;           // a forward that is looked at once more
  torch::Tensor tokens_BS_;      // of the micro-batch, on the device
  nsa::Scored scored_B_;         // of the micro-batch
  nsa::DocumentLengths packed_;  // of the micro-batch
  std::vector<std::pair<torch::Tensor, double>> unread_losses_;  // and their weights
  double loss_sum_ = 0.0;       // of the step so far, each micro-batch by its weight
  double floor_sum_ = 0.0;      // of the same tokens
  double losses_ = 0;           // the sum of the weights
  std::int64_t predicted_ = 0;  // scored tokens
  bool keeps_tensors_;
  bool gradients_are_nan_ = false;  // of this step
  std::vector<Asked> asked_;
};

[[nodiscard]] nsa::CommunicatorOptions communicator_options(const Session& session);
// `communicator` and `routes` outlive what it returns.
[[nodiscard]] nsa::DataParallelOptions data_parallel_options(const Session& session,
                                                             nsa::Communicator& communicator,
                                                             nsa::Routes& routes);

}  // namespace harness
