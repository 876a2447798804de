#include "harness/kinds/throughput.h"

#include <vector>

#include "harness/kinds/dense_control.h"
#include "harness/kinds/graphed_steps.h"
#include "harness/kinds/model_parts.h"
#include "harness/kinds/step_clock.h"
#include "harness/kinds/training.h"
#include "harness/worker/fault.h"
#include "harness/worker/gpu_sensors.h"
#include "harness/worker/host_syncs.h"
#include "harness/worker/phase_memory.h"
#include "nsa/base/error.h"
#include "nsa/train/activation_checkpoint.h"
#include "nsa/train/data.h"
#include "nsa/train/optimizer.h"

namespace harness {
namespace {

// The first makes the optimiser's moments and fills the allocator's caches, the second finds them: neither is a step like others.
constexpr std::int64_t kWarmUpSteps = 2;
static_assert(kWarmUpSteps <= nsa::kStepsBeforeGraph, "what is measured of a graph are launches");

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
        memory_(session, device_),
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
    if (allocates) memory_.begin_step(step);
    graphed_->prepare(step);
    clock_.start();
    (void)syncs_.take();
    graphed_->run(step);
    const double ms = clock_.elapsed_ms();
    const std::int64_t syncs = syncs_.take();
    if (allocates) memory_.end_step();
    session_.sample("loss", step, graphed_->mean_loss());
    sensors_.record(session_, step);
    const double control_ms = control_.measure_ms();
    if (!GraphedSteps::is_launched(step)) return;
    write(step, ms, syncs);
    session_.sample("control_ms", step, control_ms);
  }

  void train_step(std::int64_t step) {
    memory_.begin_step(step);
    clock_.start();
    (void)syncs_.take();
    const auto loss = micro_batches(step);
    session_.enter("optimizer", step);
    optimizer_.step();
    routes_.ran("optimizer", -1, optimizer_.implementation());
    const double ms = clock_.elapsed_ms();
    const std::int64_t syncs = syncs_.take();
    memory_.end_step();
    for (auto& parameter : model_->parameters()) parameter.mutable_grad().reset();
    session_.sample("loss", step, loss.item<double>());
    sensors_.record(session_, step);
    const double control_ms = control_.measure_ms();
    if (step <= kWarmUpSteps) return;
    write(step, ms, syncs);
    session_.sample("control_ms", step, control_ms);
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

  void write(std::int64_t step, double ms, std::int64_t syncs) {
    const nsa::TrainingConfig& training = scenario_.training;
    const auto tokens =
        static_cast<double>(training.batch_size * training.seq_len * training.accumulate);
    session_.sample("step_ms", step, ms);
    session_.sample("tokens_per_s", step, tokens / ms * 1000.0);
    session_.sample("host_syncs", step, static_cast<double>(syncs));
  }

  void finish() {
    fired_.write_total();
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
  PhaseMemory memory_;
  GpuSensors sensors_{device_};
  HostSyncs syncs_;
  StepClock clock_{device_};
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
