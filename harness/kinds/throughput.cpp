#include "harness/kinds/throughput.h"

#include <memory>
#include <vector>

#include "harness/kinds/dense_control.h"
#include "harness/kinds/graphed_steps.h"
#include "harness/kinds/model_parts.h"
#include "harness/kinds/step_clock.h"
#include "harness/kinds/training.h"
#include "harness/worker/fault.h"
#include "harness/worker/watch/card_looks.h"
#include "harness/worker/watch/gpu_sensors.h"
#include "harness/worker/watch/host_syncs.h"
#include "harness/worker/watch/phase_memory.h"
#include "nsa/base/error.h"
#include "nsa/train/activation_checkpoint.h"
#include "nsa/train/data.h"
#include "nsa/train/optimizer.h"

namespace harness {
namespace {

// The first makes the optimiser's moments and fills the allocator's caches, the second finds them: neither is a step like others.
constexpr std::int64_t kWarmUpSteps = 2;
// The machine changes slower than the steps, and the control beside a step takes a few per cent of a small one's time.
constexpr std::int64_t kStepsAControl = 8;
static_assert(kWarmUpSteps <= nsa::kStepsBeforeGraph, "what is measured of a graph are launches");

// What is asked in a step besides its time. Each operator pays for it, and on a CPU each allocation.
struct StepWatches {
  StepWatches(Session& session, const torch::Device& device)
      : memory(session, device), sensors(device), looks(session, sensors, device) {}

  PhaseMemory memory;
  GpuSensors sensors;
  CardLooks looks;
  HostSyncs syncs;
};

class ThroughputCase {
 public:
  explicit ThroughputCase(Session& session)
      : session_(session),
        scenario_(session.the_case().scenario),
        device_(device_of(session)),
        model_(make_model(session, routes_)),
        checkpoint_(model_, scenario_.parallel, routes_),
        source_(make_source(scenario_)),
        optimizer_(model_->parameters(),
                   scenario_.training.optimizer,
                   scenario_.training.precision,
                   optimizer_of(session)),
        watches_(session.observe() == kWatchValues ? std::make_unique<StepWatches>(session, device_)
                                                   : nullptr),
        fired_(session.channel()),
        request_(scenario_.fault.value_or(FaultRequest{})),
        fault_{request_, session, 0, 1, model_, routes_, fired_} {
    if (scenario_.training.steps <= kWarmUpSteps) {
      throw nsa::Error("training.steps: found " + std::to_string(scenario_.training.steps) +
                       ", wanted more than " + std::to_string(kWarmUpSteps) +
                       ": so many are not measured");
    }
    if (session.fault() != nullptr) session.fault()->install(fault_);
    if (!scenario_.training.cuda_graph) return;
    graphed_ = std::make_unique<GraphedSteps>(
        session, StepParts{model_, optimizer_, *source_, routes_}, device_);
  }

  void run() {
    try {
      if (graphed_) {
        graphed_->on_stream([this] { train_graphed(); });
      } else {
        for (std::int64_t step = 1; step <= scenario_.training.steps; ++step) train_step(step);
      }
    } catch (...) {
      finish();
      throw;
    }
    if (watches_) watches_->looks.look_at_rest(scenario_.training.steps);
    finish();
  }

 private:
  void train_graphed() {
    for (std::int64_t step = 1; step <= scenario_.training.steps; ++step) graphed_step(step);
    graphed_->finish();
    session_.enter("record", scenario_.training.steps);
    for (const auto& [name, parameter] : named_parameters(model_)) {
      write_hash(session_, scenario_.training.steps, name, parameter);
    }
  }

  // A launch allocates nothing: what its tensors take was seen when it was captured.
  void graphed_step(std::int64_t step) {
    const bool allocates = step <= nsa::kStepsBeforeGraph + 1;
    if (watches_ && allocates) watches_->memory.begin_step(step);
    graphed_->prepare(step);
    start_clock();
    graphed_->run(step);
    stop_clock();
    if (watches_ && allocates) watches_->memory.end_step();
    tell(step, GraphedSteps::is_launched(step), [this] { return graphed_->mean_loss(); });
  }

  void train_step(std::int64_t step) {
    if (watches_) watches_->memory.begin_step(step);
    start_clock();
    const auto loss = micro_batches(step);
    session_.enter("optimizer", step);
    optimizer_.step();
    routes_.ran("optimizer", -1, optimizer_.implementation());
    stop_clock();
    if (watches_) watches_->memory.end_step();
    for (auto& parameter : model_->parameters()) parameter.mutable_grad().reset();
    tell(step, step > kWarmUpSteps, [&loss] { return loss.item<double>(); });
  }

  [[nodiscard]] bool tells() const { return session_.observe() >= kWatchEvents; }

  // The clock waits for the device, before a step and after it.
  void start_clock() {
    if (tells()) clock_.start();
    if (watches_) (void)watches_->syncs.take();
  }
  void stop_clock() {
    if (tells()) ms_ = clock_.elapsed_ms();
    if (watches_) host_syncs_ = watches_->syncs.take();
  }

  // `counts`: the step is like those that come after it.
  template <typename ReadLoss>
  void tell(std::int64_t step, bool counts, const ReadLoss& read_loss) {
    if (!tells()) return;
    session_.sample("loss", step, read_loss());
    if (watches_) {
      watches_->sensors.record(session_, step);
      watches_->looks.look(step);
    }
    const bool controls = watches_ || !counts || counted_ % kStepsAControl == 0;
    const double control_ms = controls ? control_.measure_ms() : 0.0;
    if (!counts) return;
    ++counted_;
    const nsa::TrainingConfig& training = scenario_.training;
    const auto tokens =
        static_cast<double>(training.batch_size * training.seq_len * training.accumulate);
    session_.sample("step_ms", step, ms_);
    session_.sample("tokens_per_s", step, tokens / ms_ * 1000.0);
    if (watches_) session_.sample("host_syncs", step, static_cast<double>(host_syncs_));
    if (controls) session_.sample("control_ms", step, control_ms);
  }

  // The mean loss, left where it is: to look at it is to wait for it.
  torch::Tensor micro_batches(std::int64_t step) {
    const std::int64_t count = scenario_.training.accumulate;
    torch::Tensor sum;
    for (std::int64_t micro = 0; micro < count; ++micro) {
      session_.enter("data", step);
      const auto tokens_BS = source_->batch(step, micro, 0, 1).to(device_);
      session_.enter("forward", step);
      const auto loss = nsa::next_token_loss(
                            logits_of(model_, tokens_BS, scenario_.training.precision), tokens_BS) /
                        count;
      session_.enter("backward", step);
      optimizer_.scaled(loss).backward();
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
    }
    return sum;
  }

  void finish() {
    fired_.write_total();
    if (!tells()) return;
    write_routes(session_, routes_);
    session_.sample("rss_peak_bytes", scenario_.training.steps, peak_resident_bytes());
  }

  Session& session_;
  const Scenario& scenario_;
  torch::Device device_;
  nsa::Routes routes_;
  nsa::NsaLm model_;
  nsa::ActivationCheckpoint checkpoint_;
  std::unique_ptr<nsa::DataSource> source_;
  nsa::Optimizer optimizer_;
  std::unique_ptr<StepWatches> watches_;  // at kWatchValues
  StepClock clock_{device_};
  std::int64_t counted_ = 0;     // steps that were measured
  double ms_ = 0.0;              // of the last step
  std::int64_t host_syncs_ = 0;  // likewise
  DenseControl control_{scenario_.training, device_};
  Fired fired_;
  FaultRequest request_;
  FaultContext fault_;
  std::unique_ptr<GraphedSteps> graphed_;  // with training.cuda_graph
};

// The twin trains with the recorded driver: what is timed must have its losses.
void run_throughput(Session& session) {
  if (session.is_twin()) {
    training().run(session);
  } else {
    look_at_unused_card(session, device_of(session));
    ThroughputCase(session).run();
  }
}

}  // namespace

Kind throughput() {
  return {"throughput",
          "optimiser steps with nothing around them: tokens per second, memory",
          run_throughput};
}

}  // namespace harness
