#include "harness/kinds/training.h"

#include <filesystem>
#include <memory>

#include "harness/kinds/training_parts.h"
#include "harness/worker/fault.h"
#include "harness/worker/heartbeat.h"
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
    parallel.before_backward(loss);
    parts.optimizer->scaled(loss).backward();
    parallel.after_backward();
  } catch (...) {
    parts.ledger.write(session.channel());
    throw;
  }
}

void train_step(Session& session,
                TrainingParts& parts,
                nsa::DataParallel& parallel,
                std::int64_t step) {
  const int rank = session.options().rank;
  parts.drop_gradients();
  session.enter("data", step);
  const auto tokens_BS = parts.batch(step, rank);

  session.enter("forward", step);
  parts.watch.begin(step);
  parts.recorder.begin(step, rank);
  parallel.before_forward();
  const auto plans = parallel.buckets();
  write_buckets(session, plans, step);
  parts.ledger.set_buckets(plans);
  const auto loss = parts.loss_of(tokens_BS);
  const double loss_value = loss.item<double>();
  session.sample("loss", step, loss_value);

  session.enter("backward", step);
  auto local = parts.gradients_file(step, rank, "local_gradients");
  parts.ledger.begin(step, rank, loss, local.get());
  backward(session, parts, parallel, loss);

  session.enter("record", step);
  auto reduced = parts.gradients_file(step, rank, "reduced_gradients");
  parts.ledger.after_reduction(reduced.get());
  parts.ledger.write(session.channel());
  parts.write_layers(step, rank, local.get());
  parts.finish_gradients(std::move(local), step, rank, "local_gradients");
  parts.finish_gradients(std::move(reduced), step, rank, "reduced_gradients");

  parts.certify_nan(step, tokens_BS, loss_value);

  session.enter("optimizer", step);
  parts.update(step);
}

void run_rank(Session& session) {
  TrainingParts parts(session);
  CollectiveRecorder collectives(session.channel(), session.progress());
  session.enter("rendezvous", 0);
  nsa::Communicator communicator(communicator_options(session), collectives);
  const HeartbeatTask poll(session.heartbeat(), [&communicator] { communicator.poll_completed(); });

  Fired fired(session.channel());
  nsa::DataParallelOptions options = data_parallel_options(session);
  TrainingPoints points{parts.seams, options.reduce_bucket, communicator};
  FaultContext context{session.the_case().scenario.fault.value_or(FaultRequest{}),
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
  parts.watch_seams();
  nsa::DataParallel parallel(parts.parameters, communicator, parts.routes, options);
  parts.ledger.expect_hooks(2);  // the ledger's own and the Reducer's
  try {
    for (std::int64_t step = 1; step <= session.the_case().scenario.training.steps; ++step) {
      train_step(session, parts, parallel, step);
    }
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

// From the second step on, rank 0's own reduced gradient leads, where it was recorded: the order in which the ranks' sum was
// taken is not the twin's to guess, and the sum itself is judged elsewhere.
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

void run_micro_batch(Session& session, TrainingParts& parts, std::int64_t step, int of_rank) {
  parts.drop_gradients();
  session.enter("data", step);
  const auto tokens_BS = parts.batch(step, of_rank);
  session.enter("forward", step);
  parts.watch.begin(step);
  parts.recorder.begin(step, of_rank);
  const auto loss = parts.loss_of(tokens_BS);
  session.sample("loss_of_rank_" + std::to_string(of_rank), step, loss.item<double>());
  session.enter("backward", step);
  auto local = parts.gradients_file(step, of_rank, "local_gradients");
  parts.ledger.begin(step, of_rank, loss, local.get());
  parts.optimizer->scaled(loss).backward();
  session.enter("record", step);
  parts.ledger.write(session.channel());
  parts.write_layers(step, of_rank, local.get());
  parts.finish_gradients(std::move(local), step, of_rank, "local_gradients");
}

void run_twin(Session& session) {
  TrainingParts parts(session);
  parts.watch_seams();
  const std::int64_t steps = session.the_case().scenario.training.steps;
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<torch::Tensor> mean(parts.parameters.size());
    for (int of_rank = 0; of_rank < session.options().world; ++of_rank) {
      run_micro_batch(session, parts, step, of_rank);
      add_share(mean, parts.parameters, session.options().world);
    }
    set_mean_gradients(session, parts, mean, step);
    session.enter("optimizer", step);
    parts.update(step);
  }
  parts.write_routes();
}

void run(Session& session) {
  if (session.is_twin()) {
    run_twin(session);
  } else {
    run_rank(session);
  }
}

}  // namespace

Kind training() {
  return {"training", "optimiser steps on every rank, judged against a twin and the oracle", run};
}

}  // namespace harness
