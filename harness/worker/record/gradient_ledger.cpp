#include "harness/worker/record/gradient_ledger.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "nsa/base/hash.h"
#include "nsa/train/activation_checkpoint.h"

namespace harness {
namespace {

std::string state_of(double absmax) {
  if (std::isnan(absmax)) {
    return "nan";
  }
  if (std::isinf(absmax)) {
    return "inf";
  }
  return absmax == 0.0 ? "zero" : "ok";
}

std::string hash_of(const torch::Tensor& tensor) {
  return nsa::hash_hex(bytes_of(tensor.detach().to(torch::kCPU).contiguous()));
}

}  // namespace

// Runs after AccumulateGrad has stored the gradient and before the Reducer's own hook, which was added later.
class GradientLedger::ReadyHook : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(GradientLedger& ledger, std::size_t index) : ledger_(ledger), index_(index) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    ledger_.ready(index_);
    return outputs;
  }

 private:
  GradientLedger& ledger_;
  std::size_t index_;
};

GradientLedger::GradientLedger(const nsa::NamedParameters& parameters,
                               Progress& progress,
                               int observe)
    : progress_(progress), observe_(observe) {
  if (observe_ < kWatchEvents) return;
  parameters_ = parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    Watched watched{tensor, torch::autograd::impl::grad_accumulator(tensor), 0};
    watched.hook = watched.accumulator->add_post_hook(std::make_unique<ReadyHook>(*this, i));
    watched_.push_back(std::move(watched));
    Gradient row;
    row.param = name;
    row.index = static_cast<int>(i);
    rows_.push_back(std::move(row));
  }
}

GradientLedger::~GradientLedger() {
  for (const Watched& watched : watched_) {
    watched.accumulator->del_post_hook(watched.hook);
  }
}

void GradientLedger::begin(std::int64_t step,
                           int of_rank,
                           const torch::Tensor& loss,
                           TensorFile* local) {
  if (observe_ < kWatchEvents) return;
  counting_ = true;
  local_ = local;
  next_order_ = 0;
  root_ = loss;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Gradient fresh;
    fresh.step = step;
    fresh.of_rank = of_rank;
    fresh.param = std::move(rows_[i].param);
    fresh.index = rows_[i].index;
    fresh.bucket = rows_[i].bucket;
    fresh.hooks_expected = hooks_expected_;
    fresh.hooks_found = hooks_on(watched_[i]);
    fresh.state = "none";
    rows_[i] = std::move(fresh);
  }
  if (observe_ == kWatchValues) find_reachable();
}

// What a backward arrived at is reachable. For the rest the graph is walked, which takes as long as some hundred operators: nodes
// keep their edges when a backward has freed what they saved.
void GradientLedger::find_reachable() {
  if (!root_.defined()) return;
  const bool all_arrived = std::all_of(
      rows_.begin(), rows_.end(), [](const Gradient& row) { return row.ready_count > 0; });
  const std::vector<bool> reachable =
      all_arrived ? std::vector<bool>(rows_.size(), true) : reachable_from(root_, parameters_);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].reachable = reachable[i] ? Reach::yes : Reach::no;
  }
  root_.reset();
}

// A parameter that was made anew has another accumulator, or none: nobody's hook runs on it.
int GradientLedger::hooks_on(const Watched& watched) const {
  const auto current = torch::autograd::impl::try_get_grad_accumulator(watched.parameter);
  return current == watched.accumulator ? static_cast<int>(current->post_hooks().size()) : 0;
}

void GradientLedger::ready(std::size_t index) {
  progress_.hook_fired();
  if (!counting_) {
    return;
  }
  Gradient& row = rows_[index];
  ++row.ready_count;
  row.ready_order = next_order_++;
  const torch::Tensor gradient = watched_[index].parameter.grad();
  if (!gradient.defined()) {
    return;
  }
  if (observe_ == kWatchValues) {
    look_at(row, gradient);
  } else {
    row.state = kUnread;
  }
}

void GradientLedger::look_at(Gradient& row, const torch::Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  row.absmax = torch::linalg_vector_norm(gradient, INFINITY).item<double>();
  row.l2 =
      torch::linalg_vector_norm(gradient, 2, std::nullopt, false, torch::kFloat64).item<double>();
  row.state = state_of(row.absmax);
  row.hash_before =
      local_ != nullptr ? nsa::hash_hex(local_->put(row.param, gradient)) : hash_of(gradient);
}

void GradientLedger::after_reduction(TensorFile* reduced) {
  find_reachable();
  for (Gradient& row : rows_) row.reduced = true;
  progress_.worked();
  if (observe_ < kWatchValues) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Gradient& row = rows_[i];
    const torch::Tensor gradient = watched_[i].parameter.grad();
    if (gradient.defined()) {
      row.hash_after =
          reduced != nullptr ? nsa::hash_hex(reduced->put(row.param, gradient)) : hash_of(gradient);
    }
    progress_.worked();
  }
}

void GradientLedger::set_buckets(const std::vector<nsa::BucketPlan>& plans) {
  if (rows_.empty()) return;
  for (const nsa::BucketPlan& plan : plans) {
    for (const int index : plan.params) {
      rows_[static_cast<std::size_t>(index)].bucket = plan.bucket;
    }
  }
}

std::string GradientLedger::state_of_arrived(const torch::Tensor& gradient) const {
  if (observe_ < kWatchValues) return kUnread;
  return state_of(torch::linalg_vector_norm(gradient, INFINITY).item<double>());
}

void GradientLedger::write(Channel& channel) {
  find_reachable();
  std::vector<Gradient> told = rows_;
  for (std::size_t i = 0; i < told.size(); ++i) {
    Gradient& row = told[i];
    // A gradient that arrived past every hook of ours is there all the same: say so instead of "none".
    if (row.ready_count == 0 && watched_[i].parameter.grad().defined()) {
      row.state = state_of_arrived(watched_[i].parameter.grad());
    }
    const int hooks = hooks_on(watched_[i]);
    row.hooks_found = hooks > row.hooks_expected ? hooks : std::min(row.hooks_found, hooks);
  }
  channel.write_all(told);
}

std::vector<TensorFile::Plan> gradient_plan(const nsa::NamedParameters& parameters) {
  std::vector<TensorFile::Plan> plan;
  plan.reserve(parameters.size());
  for (const auto& [name, tensor] : parameters) {
    plan.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  return plan;
}

std::vector<bool> reachable_from(const torch::Tensor& loss,
                                 const nsa::NamedParameters& parameters) {
  std::unordered_map<const c10::TensorImpl*, std::size_t> position;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    position[parameters[i].second.unsafeGetTensorImpl()] = i;
  }
  std::vector<bool> reachable(parameters.size(), false);
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<std::shared_ptr<torch::autograd::Node>> open;
  if (loss.grad_fn()) {
    open.push_back(loss.grad_fn());
  }
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (!seen.insert(node.get()).second) {
      continue;
    }
    for (const auto& parameter : nsa::nested_parameters(*node)) {
      if (const auto found = position.find(parameter.unsafeGetTensorImpl());
          found != position.end()) {
        reachable[found->second] = true;
      }
    }
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
      if (const auto found = position.find(leaf->variable.unsafeGetTensorImpl());
          found != position.end()) {
        reachable[found->second] = true;
      }
    }
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid()) {
        open.push_back(edge.function);
      }
    }
  }
  return reachable;
}

}  // namespace harness
