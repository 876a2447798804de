#include "harness/kinds/training.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "harness/kinds/by_hand.h"
#include "harness/kinds/joint_batch.h"
#include "harness/kinds/reduced_again.h"
#include "harness/kinds/training_parts.h"
#include "harness/worker/exact_sums.h"
#include "harness/worker/fault.h"
#include "harness/worker/heartbeat.h"
#include "harness/worker/watch/gpu_sensors.h"
#include "harness/worker/watch/phase_memory.h"
#include "nsa/base/safetensors.h"

namespace harness {
namespace {

// ---- a rank --------------------------------------------------------------------------------------------------------

void write_buckets(Session& session, const std::vector<nsa::BucketPlan>& plans, std::int64_t step) {
  for (const nsa::BucketPlan& plan : plans) {
    session.channel().write(Bucket{step, plan.bucket, plan.elements, plan.dtype, plan.params});
  }
}

// The ledger is written whatever happens: a Reducer's complaint without it names nobody.
void backward(Session& session,
              TrainingParts& parts,
              nsa::DataParallel& parallel,
              const torch::Tensor& loss) {
  try {
    parallel.backward(loss);
  } catch (...) {
    parts.ledger.write(session.channel());
    throw;
  }
}

// A micro-batch of the step that ends in no reduction. False when this rank's data has ended.
bool local_micro_batch(Session& session,
                       TrainingParts& parts,
                       nsa::DataParallel& parallel,
                       std::int64_t step,
                       std::int64_t micro) {
  const auto tokens_BS = parts.batch(micro);
  if (!tokens_BS.defined()) return false;
  session.enter("forward", step);
  parallel.before_forward(false);
  const auto loss = parts.forward(tokens_BS, micro);
  session.enter("backward", step);
  parts.ledger.pass_over();
  parallel.backward(loss);
  session.enter("record", step);
  parts.backward_ended(micro, nullptr);
  return true;
}

// Do gradients lie in the Reducer's buckets? Then all of a bucket lie in one memory. A gradient alone in its bucket tells nothing.
void tell_views(Session& session,
                const nsa::NamedParameters& parameters,
                const std::vector<nsa::BucketPlan>& plans) {
  std::map<const void*, int> held;  // by memory
  const auto memory_of = [&](int index) -> const void* {
    const auto gradient = parameters.at(static_cast<std::size_t>(index)).second.grad();
    return gradient.defined() ? gradient.storage().data() : nullptr;
  };
  std::vector<int> together;
  for (const nsa::BucketPlan& plan : plans) {
    if (plan.params.size() > 1)
      together.insert(together.end(), plan.params.begin(), plan.params.end());
  }
  for (const int index : together) ++held[memory_of(index)];
  const auto shared = std::count_if(together.begin(), together.end(), [&](int index) {
    return memory_of(index) != nullptr && held.at(memory_of(index)) > 1;
  });
  session.channel().write(Fact{"gradients_in_buckets",
                               std::to_string(shared) + " of " + std::to_string(together.size())});
}

// False when this rank's data has ended. `begins`: the first step of this process.
bool train_step(Session& session,
                TrainingParts& parts,
                nsa::DataParallel& parallel,
                ExactSums& sums,
                std::int64_t step,
                bool begins) {
  const int rank = session.options().rank;
  const std::int64_t last = parts.micro_batches() - 1;
  parts.begin_step(step, rank);
  for (std::int64_t micro = 0; micro < last; ++micro) {
    if (!local_micro_batch(session, parts, parallel, step, micro)) return false;
  }
  const auto tokens_BS = parts.batch(last);
  if (!tokens_BS.defined()) return false;
  session.enter("forward", step);
  parallel.before_forward(true);
  const auto plans = parallel.buckets();
  if (parts.watches(kWatchEvents)) write_buckets(session, plans, step);
  parts.ledger.set_buckets(plans);
  const auto loss = parts.forward(tokens_BS, last);
  if (parts.watches(kWatchValues)) parts.write_loss("loss");

  session.enter("backward", step);
  auto local = parts.gradients_file(step, rank, "local_gradients");
  parts.ledger.begin(step, rank, loss, local.get());
  backward(session, parts, parallel, loss);

  session.enter("record", step);
  auto reduced = parts.gradients_file(step, rank, "reduced_gradients");
  parts.ledger.after_reduction(reduced.get());
  parts.ledger.write(session.channel());
  if (begins && parts.watches(kWatchValues)) tell_views(session, parts.parameters, plans);
  parts.backward_ended(last, local.get());
  parts.finish_gradients(std::move(local), step, rank, "local_gradients");
  parts.finish_gradients(std::move(reduced), step, rank, "reduced_gradients");

  parts.certify_nan(step, tokens_BS, parts.mean_loss());
  parts.update(step);
  sums.take(step, plans);
  return true;
}

// The smallest value of any rank.
std::int64_t smallest_of_ranks(nsa::Communicator& communicator,
                               const torch::Device& device,
                               std::int64_t value) {
  std::vector<torch::Tensor> values = {torch::tensor({value}, torch::kLong).to(device)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  communicator.group()->allreduce(values, options)->wait();
  return values.front().item<std::int64_t>();
}

std::int64_t first_step(Session& session, TrainingParts& parts, nsa::Communicator& communicator) {
  if (session.options().life == 0) return 1;
  return parts.resume(
      [&](std::int64_t newest) { return smallest_of_ranks(communicator, parts.device, newest); });
}

// What a step takes of the memory and of the card.
class StepMeasures {
 public:
  StepMeasures(Session& session, const torch::Device& device)
      : session_(session), memory_(session, device), sensors_(device) {}

  void begin(std::int64_t step) { memory_.begin_step(step); }
  void end(std::int64_t step) {
    memory_.end_step();
    sensors_.record(session_, step);
  }

 private:
  Session& session_;
  PhaseMemory memory_;
  GpuSensors sensors_;
};

void train(Session& session,
           TrainingParts& parts,
           nsa::DataParallel& parallel,
           nsa::Communicator& communicator) {
  const Scenario& scenario = session.the_case().scenario;
  const std::int64_t every = scenario.life.save_every;
  std::optional<StepMeasures> measures;
  if (parts.watches(kWatchValues)) measures.emplace(session, parts.device);
  ExactSums sums(session, communicator, parts.device);
  const std::int64_t first = first_step(session, parts, communicator);
  for (std::int64_t step = first; step <= scenario.training.steps; ++step) {
    if (measures) measures->begin(step);
    if (!train_step(session, parts, parallel, sums, step, step == first)) return;
    if (measures) measures->end(step);
    if (every > 0 && step % every == 0) parts.save(step);
  }
  reduce_again(session, parts, parallel, scenario.training.steps);
}

// Watched as a process alone, a rank tells of no collective.
struct NoObserver : nsa::CollectiveObserver {
  void enqueued(const nsa::CollectiveInfo& /*info*/) override {}
  void completed(std::int64_t /*sequence*/, const std::string& /*group*/) override {}
};

std::unique_ptr<nsa::CollectiveObserver> observer_of_collectives(Session& session) {
  if (session.observe() < kWatchEvents) return std::make_unique<NoObserver>();
  return std::make_unique<CollectiveRecorder>(session.channel(), session.progress());
}

void run_rank(Session& session) {
  TrainingParts parts(session);
  const auto collectives = observer_of_collectives(session);
  const FaultRequest request = session.the_case().scenario.fault.value_or(FaultRequest{});
  Fired fired(session.channel());
  nsa::CommunicatorOptions joined = communicator_options(session);
  if (session.fault() != nullptr && session.fault()->before_joining != nullptr) {
    JoinContext join{request, session, joined, fired};
    session.fault()->before_joining(join);
  }
  put_by_hand_over(session.the_case().scenario, parts.routes, joined);
  session.enter("rendezvous", 0);
  nsa::Communicator communicator(joined, *collectives);
  const HeartbeatTask poll(session.heartbeat(), [&communicator] { communicator.poll_completed(); });

  nsa::DataParallelOptions options = data_parallel_options(session, communicator, parts.routes);
  TrainingPoints points{parts.seams, options, communicator, *parts.optimizer, *parts.checkpoint};
  FaultContext context{request,
                       session,
                       session.options().rank,
                       session.options().world,
                       parts.model,
                       parts.routes,
                       fired,
                       &points};
  if (session.fault() != nullptr) {
    session.fault()->install(context);
  }
  put_by_hand_over(session.the_case().scenario, parts.model);
  put_by_hand_over(session.the_case().scenario, communicator, parts.routes, options);
  parts.watch_seams();
  nsa::DataParallel parallel(parts.parameters, communicator, parts.routes, options);
  parts.ledger.expect_hooks(2);  // the ledger's own and the Reducer's
  if (points.after_wrapping) points.after_wrapping();
  try {
    train(session, parts, parallel, communicator);
  } catch (...) {
    fired.write_total();
    parts.write_routes();
    throw;
  }
  communicator.poll_completed();
  fired.write_total();
  parts.write_routes();
}

// ---- the twin ------------------------------------------------------------------------------------------------------

// Adds this micro-batch's share to the mean, in the Reducer's order of operations: scaled first, then summed by rank.
void add_share(std::vector<torch::Tensor>& mean,
               const nsa::NamedParameters& parameters,
               int world) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto gradient = parameters[i].second.grad();
    if (!gradient.defined()) {
      continue;
    }
    const auto share = gradient * (1.0 / world);
    mean[i] = mean[i].defined() ? mean[i].add_(share) : share;
  }
}

// A read-only view of `bytes` with the dtype and shape of `like`.
torch::Tensor tensor_over(std::span<const std::byte> bytes, const torch::Tensor& like) {
  TORCH_CHECK(bytes.size() == like.nbytes(),
              "twin: found ",
              bytes.size(),
              " bytes, wanted ",
              like.nbytes());
  auto* memory =
      const_cast<std::byte*>(bytes.data());  // NOLINT: from_blob takes no const; only read from
  return torch::from_blob(memory, like.sizes(), like.scalar_type());
}

// Rank 0's own reduced gradient leads in every step, the first included, where it was recorded: the order in which the ranks'
// sum was taken is not the twin's to guess. From the update of step 1 on the twin is therefore no witness of the reduction:
// both sides follow the same sums. Those are judged from the recorded local gradients, where nothing of the twin enters
// (checks/gradients/twin_sums.cpp).
void set_mean_gradients(const Session& session,
                        TrainingParts& parts,
                        std::vector<torch::Tensor>& mean,
                        std::int64_t step) {
  const std::string path = session.options().folder + "/rank_0/step_" + std::to_string(step) +
                           "/reduced_gradients.safetensors";
  std::unique_ptr<nsa::SafetensorsFile> reduced;
  if (std::filesystem::exists(path)) {
    reduced = std::make_unique<nsa::SafetensorsFile>(path);
  }
  for (std::size_t i = 0; i < mean.size(); ++i) {
    auto& [name, parameter] = parts.parameters[i];
    if (reduced && mean[i].defined() && reduced->contains(name)) {
      mean[i].copy_(tensor_over(reduced->at(name).bytes, mean[i]));
    }
    parameter.mutable_grad() = mean[i];
  }
}

// Returns its tokens.
torch::Tensor run_micro_batch(
    Session& session, TrainingParts& parts, std::int64_t step, std::int64_t micro, int of_rank) {
  const bool last = micro + 1 == parts.micro_batches();
  const auto tokens_BS = parts.batch(micro);
  session.enter("forward", step);
  const auto loss = parts.forward(tokens_BS, micro);
  if (last) parts.write_loss("loss_of_rank_" + std::to_string(of_rank));
  session.enter("backward", step);
  auto local = last ? parts.gradients_file(step, of_rank, "local_gradients") : nullptr;
  if (last) {
    parts.ledger.begin(step, of_rank, loss, local.get());
  } else {
    parts.ledger.pass_over();
  }
  loss.backward();
  session.enter("record", step);
  if (last) parts.ledger.write(session.channel());
  parts.backward_ended(micro, local.get());
  parts.finish_gradients(std::move(local), step, of_rank, "local_gradients");
  return tokens_BS;
}

void run_twin(Session& session) {
  TrainingParts parts(session);
  parts.watch_seams();
  const std::int64_t steps = session.the_case().scenario.training.steps;
  const bool joins = session.wants_check("equals_joint_batch");
  JointBatch joint;
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<torch::Tensor> mean(parts.parameters.size());
    for (int of_rank = 0; of_rank < session.options().world; ++of_rank) {
      parts.begin_step(step, of_rank);
      for (std::int64_t micro = 0; micro < parts.micro_batches(); ++micro) {
        const auto tokens_BS = run_micro_batch(session, parts, step, micro, of_rank);
        if (joins) joint.add(parts, step, micro, of_rank, tokens_BS);
      }
      add_share(mean, parts.parameters, session.options().world);
    }
    if (joins) joint.write(parts, step);
    set_mean_gradients(session, parts, mean, step);
    parts.update(step);
  }
  parts.write_routes();
}

void run_training(Session& session) {
  if (session.is_twin()) {
    run_twin(session);
  } else {
    run_rank(session);
  }
}

}  // namespace

Kind training() {
  return {"training",
          "optimiser steps on every rank, judged against a twin and the oracle",
          run_training};
}

}  // namespace harness
