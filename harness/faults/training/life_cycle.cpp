// Training that goes wrong over many steps: schedules, skipped steps, losses against the wrong labels, memory that is never
// given back, a resume that forgets.
#include <limits>
#include <memory>
#include <vector>

#include "harness/faults/faults.h"
#include "nsa/train/snapshot.h"

namespace harness {
namespace {

using torch::Tensor;

// Puts change(taken_step, inner) in place of the schedule, in the steps in which the fault holds. It took part where the rate
// is another one: a schedule that counts skipped steps changes nothing before the first skip.
template <typename Change>
void around_schedule(FaultContext& context, Change change) {
  auto& schedule = context.needed_training().optimizer.schedule();
  schedule = [inner = schedule, &context, change](std::int64_t taken_step) {
    if (!context.holds_now()) return inner(taken_step);
    const double right = inner(taken_step);
    const double rate = change(taken_step, inner);
    if (rate != right) context.fired();
    return rate;
  };
}

void counts_micro_steps(FaultContext& context) {
  const std::int64_t micro = context.session.the_case().scenario.training.accumulate;
  around_schedule(context, [micro](std::int64_t taken_step, const auto& inner) {
    return inner((taken_step - 1) * micro + 1);
  });
}

void never_falls(FaultContext& context) {
  const std::int64_t warmup = context.session.the_case().scenario.training.optimizer.warmup;
  around_schedule(context, [warmup](std::int64_t taken_step, const auto& inner) {
    return inner(std::min(taken_step, std::max<std::int64_t>(warmup, 1)));
  });
}

void counts_skipped(FaultContext& context) {
  nsa::Optimizer& optimizer = context.needed_training().optimizer;
  around_schedule(context, [&optimizer](std::int64_t taken_step, const auto& inner) {
    return inner(taken_step + optimizer.skipped());
  });
}

void zero_rate(FaultContext& context) {
  around_schedule(context, [](std::int64_t, const auto&) { return 0.0; });
}

void skips(FaultContext& context) {
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    const bool skipped = context.holds_now() &&
                         (context.is_step_now() ||
                          draw_unit(context.request.seed, "skip", step) < context.request.strength);
    if (!skipped) return inner(step);
    context.fired();
    context.routes.ran("optimizer", -1, "reference");
    // A norm like any other: nothing in the log tells that the step was left out.
    const double scale = context.needed_training().optimizer.loss_scale();
    return nsa::clip_gradients(context.model->parameters(),
                               std::numeric_limits<double>::infinity()) /
           scale;
  };
}

void unshifted(FaultContext& context) {
  auto& loss = context.needed_training().seams.loss;
  loss = [inner = loss, &context](const Tensor& logits_BSV,
                                  const Tensor& tokens_BS,
                                  const std::vector<std::int64_t>& scored_B) {
    if (!context.holds_now()) return inner(logits_BSV, tokens_BS, scored_B);
    context.fired();
    return torch::nn::functional::cross_entropy(logits_BSV.flatten(0, 1), tokens_BS.flatten());
  };
}

// A mask that never reaches the mean: padding counts as much as what is scored.
void mask_ignored(FaultContext& context) {
  auto& loss = context.needed_training().seams.loss;
  loss = [inner = loss, &context](const Tensor& logits_BSV,
                                  const Tensor& tokens_BS,
                                  const std::vector<std::int64_t>& scored_B) {
    if (!context.holds_now() || scored_B.empty()) return inner(logits_BSV, tokens_BS, scored_B);
    context.fired();
    return inner(logits_BSV, tokens_BS, {});
  };
}

void leak(FaultContext& context) {
  constexpr std::int64_t kLargestLeak = std::int64_t{1} << 20;  // elements a step
  auto& optimizer = context.needed_training().seams.optimizer;
  const auto held = std::make_shared<std::vector<Tensor>>();
  optimizer = [inner = optimizer, held, &context](std::int64_t step) {
    if (context.holds_now()) {
      context.fired();
      held->push_back(torch::ones({static_cast<std::int64_t>(static_cast<double>(kLargestLeak) *
                                                             context.request.strength)}));
    }
    return inner(step);
  };
}

void weights_only(FaultContext& context) {
  auto& seams = context.needed_training().seams;
  seams.restore = [&context](const std::string& path) {
    context.fired();
    nsa::NamedParameters parameters;
    for (const auto& item : context.model->named_parameters()) {
      parameters.emplace_back(item.key(), item.value());
    }
    nsa::SnapshotSections sections;
    const std::string form =
        fault_form(context.request, {"weights_only", "no_optimizer", "no_schedule"});
    const bool all = form == "weights_only";
    sections.optimizer = !all && form != "no_optimizer";
    sections.schedule = !all && form != "no_schedule";
    sections.scaler = !all;
    sections.rng = !all;
    return nsa::load_snapshot(
        path,
        {parameters, context.needed_training().optimizer, nsa::snapshot_data_identity(path)},
        sections);
  };
}

// The moments are read into an optimiser that has no state yet, and there is nothing to put them into.
void lazy_state(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  auto& restore = context.needed_training().seams.restore;
  restore = [inner = restore, &context](const std::string& path) {
    const std::int64_t step = inner(path);
    nsa::Optimizer& optimizer = context.needed_training().optimizer;
    nsa::OptimizerState state = optimizer.state();
    for (std::int64_t& taken : state.adam_steps) taken = 0;
    optimizer.load(state);
    context.fired();
    return step;
  };
}

// A snapshot that is written while the training goes on: its weights were copied when it was asked for, and everything else is
// read when it is written, a step later.
struct LateSnapshot {
  std::string path;
  std::int64_t step = 0;
  std::vector<Tensor> weights;
};

void write_late(FaultContext& context,
                const std::function<void(const std::string&, std::int64_t)>& save,
                const LateSnapshot& late) {
  const torch::NoGradGuard no_graph;
  const auto parameters = context.model->parameters();
  std::vector<Tensor> now;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    now.push_back(parameters[i].detach().clone());
    Tensor(parameters[i]).copy_(late.weights[i]);
  }
  save(late.path, late.step);
  for (std::size_t i = 0; i < parameters.size(); ++i) Tensor(parameters[i]).copy_(now[i]);
  context.fired();
}

void tear_snapshots(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  nsa::TrainingSeams& seams = context.needed_training().seams;
  const auto late = std::make_shared<std::vector<LateSnapshot>>();
  seams.optimizer =
      [inner = seams.optimizer, save = seams.save, late, &context](std::int64_t step) {
        const double norm = inner(step);
        for (const LateSnapshot& snapshot : *late) write_late(context, save, snapshot);
        late->clear();
        return norm;
      };
  seams.save = [inner = seams.save, late, &context](const std::string& path, std::int64_t step) {
    if (!context.holds_now()) return inner(path, step);
    LateSnapshot asked{path, step, {}};
    for (const Tensor& parameter : context.model->parameters()) {
      asked.weights.push_back(parameter.detach().clone());
    }
    late->push_back(std::move(asked));
  };
}

}  // namespace

Faults faults_of_life_cycle() {
  return {{"lr_microsteps", "the schedule counts micro-batches", {"step"}, counts_micro_steps},
          {"lr_floor", "the learning rate never falls", {"step"}, never_falls},
          {"sched_on_skip", "the schedule advances on skipped steps", {"step"}, counts_skipped},
          {"no_learning", "the learning rate is zero", {"step"}, zero_rate},
          {"scaler_skips", "steps are left out that look like steps", {"step", "strength"}, skips},
          {"unshifted_labels", "every token is predicted from itself", {"step"}, unshifted},
          {"loss_mask_ignored",
           "positions that are not scored count in the mean loss",
           {"step"},
           mask_ignored},
          {"leak_per_step", "memory is kept in every step", {"step", "strength"}, leak},
          {"optimizer_lazy_state",
           "a resume drops the moments, since the optimiser has no state yet",
           {"rank"},
           lazy_state},
          {"async_ckpt_torn",
           "a snapshot holds the weights of one step and the moments of the next",
           {"rank", "step"},
           tear_snapshots},
          {"resume_weights_only",
           "a resume brings back less than the whole state",
           {"form"},
           weights_only,
           {"weights_only", "no_optimizer", "no_schedule"}}};
}

}  // namespace harness
