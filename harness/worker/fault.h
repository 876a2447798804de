// A fault: a wrong implementation put into a seam on purpose, so that the harness can show that it finds it. It claims to be
// what it replaces, as a real bug would; only fired() tells the runner that it took part. It is a row in a file of
// harness/faults. The twin never carries one.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "harness/worker/session.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/seams/training_seams.h"
#include "nsa/torch.h"
#include "nsa/train/activation_checkpoint.h"
#include "nsa/train/optimizer.h"

namespace harness {

// Counts how often a fault took part. The first time is written at once, since some faults end the process.
class Fired {
 public:
  explicit Fired(Channel& channel) : channel_(channel) {}
  void operator()(std::int64_t times = 1);
  void write_total();

 private:
  Channel& channel_;
  std::atomic<std::int64_t> times_{0};
};

// Seams that only a training rank has.
struct TrainingPoints {
  nsa::TrainingSeams& seams;
  nsa::DataParallelOptions& parallel;  // of the Reducer that will be built
  nsa::Communicator& communicator;
  nsa::Optimizer& optimizer;
  nsa::ActivationCheckpoint& checkpoint;
  std::function<void()> after_wrapping = {};  // called once the Reducer is built
};

// What a fault may put itself into, on one rank, before the Reducer is built.
struct FaultContext {
  const FaultRequest& request;
  Session& session;
  int rank = 0;
  int world = 1;
  nsa::NsaLm& model;
  nsa::Routes& routes;
  Fired& fired;
  TrainingPoints* training = nullptr;  // null in kinds that do not train

  // Throws: nsa::Error in a kind that does not train.
  [[nodiscard]] TrainingPoints& needed_training() const;

  // What the fault stands in is not there: no option that it breaks, no layer above. An experiment may have taken it
  // away, and then nothing is wrong; else throws nsa::Error.
  void lacks(const std::string& what_and_wanted) const;

  // The step that runs now is one in which a lasting fault holds: request.step and all later ones.
  [[nodiscard]] bool holds_now() const { return session.progress().step() >= request.step; }
  [[nodiscard]] bool is_step_now() const { return session.progress().step() == request.step; }
};

// What a fault may change before this rank joins its peers; only a training rank has it.
struct JoinContext {
  const FaultRequest& request;
  Session& session;
  nsa::CommunicatorOptions& options;
  Fired& fired;
};

struct Fault {
  std::string name;
  std::string about;
  std::vector<std::string> uses;  // of layers, rank, step, strength, form
  void (*install)(FaultContext& context) = nullptr;
  std::vector<std::string> forms = {};  // the default first
  bool needs_layer_above = false;       // it does nothing in the last layer
  void (*before_joining)(JoinContext& context) = nullptr;
  void (*in_hello)(Hello& hello, Session& session) = nullptr;  // in what the process says first
};

// ---- draws: everything a scenario leaves open is a pure function of fault.seed -----------------------------------------

// A number in [0, 1) from the seed and a purpose.
[[nodiscard]] double draw_unit(std::int64_t seed, std::string_view purpose, std::int64_t index = 0);
[[nodiscard]] int draw_index(std::int64_t seed, std::string_view purpose, int count);

// Those of request.layers that the model has, or one drawn.
[[nodiscard]] std::vector<int> fault_layers(const FaultRequest& request, int n_layers);
// request.form, or one of `forms` drawn.
[[nodiscard]] std::string fault_form(const FaultRequest& request,
                                     const std::vector<std::string>& forms);
// For faults of all ranks by default: does it hold on `rank`?
[[nodiscard]] bool fault_on_rank(const FaultRequest& request, int rank);
// For faults of one rank by default: that rank, drawn unless given. `rank: all` makes it every rank.
[[nodiscard]] bool fault_on_one_rank(const FaultRequest& request, int rank, int world);

// A mask over (batch, group, row) with the share `strength` set, at least one; row 0, which sees one key only, never.
[[nodiscard]] torch::Tensor draw_rows(const FaultRequest& request,
                                      int layer,
                                      std::int64_t step,
                                      std::int64_t batch,
                                      std::int64_t groups,
                                      std::int64_t rows);

}  // namespace harness
