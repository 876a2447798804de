#include "harness/worker/record/step_recorder.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace harness {
namespace {

std::int64_t elements_of(const nsa::NamedParameters& parameters) {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : parameters) count += parameter.numel();
  return count;
}

torch::Tensor copied(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  return tensor.detach().to(tensor.device(), false, true).to(torch::kCPU).contiguous();
}

torch::Tensor doubles(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

}  // namespace

// Runs before AccumulateGrad adds a micro-batch's gradient to those of the others. A hook on the parameter would also run where
// a checkpointed layer's recomputation asks for the gradient without adding it.
class StepRecorder::PartHook : public torch::autograd::FunctionPreHook {
 public:
  PartHook(StepRecorder& recorder, std::string name)
      : recorder_(recorder), name_(std::move(name)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    recorder_.take_part(name_, gradients.front());
    return gradients;
  }

 private:
  StepRecorder& recorder_;
  std::string name_;
};

StepRecorder::StepRecorder(const nsa::NamedParameters& parameters,
                           nsa::Optimizer& optimizer,
                           Options options)
    : parameters_(parameters),
      optimizer_(optimizer),
      options_(std::move(options)),
      whole_(elements_of(parameters) <= kWholeElements) {
  if (!options_.enabled) return;
  if (!whole_) draw_rows();
  if (whole_ && options_.micros > 1) watch_parts();
}

void StepRecorder::draw_rows() {
  std::mt19937_64 random(static_cast<std::uint64_t>(options_.seed));
  for (const auto& [name, parameter] : parameters_) {
    const std::int64_t rows = parameter.dim() == 0 ? 1 : parameter.size(0);
    const std::int64_t width = std::max<std::int64_t>(1, parameter.numel() / rows);
    const std::int64_t wanted = std::clamp<std::int64_t>(kDrawnElements / width, 1, rows);
    std::set<std::int64_t> drawn;
    while (static_cast<std::int64_t>(drawn.size()) < wanted) {
      drawn.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
    }
    rows_.push_back(torch::tensor(std::vector<std::int64_t>(drawn.begin(), drawn.end()),
                                  torch::TensorOptions(torch::kLong).device(parameter.device())));
  }
}

void StepRecorder::watch_parts() {
  for (const auto& [name, parameter] : parameters_) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
    accumulators_.back()->add_pre_hook(std::make_unique<PartHook>(*this, name));
  }
}

// What one micro-batch adds; a parameter that gets its gradient in two pieces has their sum.
void StepRecorder::take_part(const std::string& parameter, const torch::Tensor& gradient) {
  if (paused_ || micro_ < 0 || !gradient.defined()) return;
  const std::string name = "part." + std::to_string(micro_) + "." + parameter;
  const auto same = std::find_if(
      tensors_.rbegin(), tensors_.rend(), [&](const auto& taken) { return taken.name == name; });
  if (same == tensors_.rend()) {
    tensors_.push_back({name, copied(gradient)});
  } else {
    same->tensor = same->tensor + copied(gradient);
  }
}

void StepRecorder::take(const std::string& name,
                        std::size_t parameter,
                        const torch::Tensor& tensor) {
  const std::string full = name + "." + parameters_[parameter].first;
  tensors_.push_back(
      {full,
       copied(whole_ || tensor.dim() == 0 ? tensor
                                          : tensor.detach().index_select(0, rows_[parameter]))});
}

// What the optimiser keeps from step to step. Before the first update it has no moments. Its masters are taken in the first step,
// also where that step changes nothing because a gradient overflowed; a snapshot brings them along.
void StepRecorder::take_state(const std::string& suffix) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor>& stored = optimizer_.updated();
  const bool fresh = optimizer_.taken() == 0;
  const bool masters = !stored.empty() && !stored.front().is_same(parameters_.front().second);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const torch::Tensor& weight = parameters_[i].second;
    take("p" + suffix,
         i,
         masters && step_ == 1 && suffix.empty() ? weight.detach().to(stored[i].scalar_type())
                                                 : stored[i]);
    if (masters) take("w" + suffix, i, weight);
  }
  if (fresh) return;
  const nsa::OptimizerState state = optimizer_.state();
  for (std::size_t i = 0; i < stored.size(); ++i) {
    take("m" + suffix, i, state.exp_avg[i]);
    take("v" + suffix, i, state.exp_avg_sq[i]);
  }
}

void StepRecorder::write(const std::string& name, const std::vector<NamedTensor>& tensors) {
  out_->write({.step = step_, .of_rank = options_.rank, .name = name}, tensors);
}

void StepRecorder::begin(std::int64_t step, const ArtefactOut& out) {
  if (!options_.enabled) return;
  step_ = step;
  out_.emplace(out);
  micro_ = -1;
  tensors_.clear();
  dlogits_.assign(static_cast<std::size_t>(options_.micros), {});
  losses_.clear();
  roots_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    tensors_.push_back({"rows." + parameters_[i].first, copied(rows_[i])});
  }
  take_state("");
  if (whole_ || step != 1 || options_.rank != 0) return;
  std::vector<NamedTensor> values;
  for (const auto& [name, parameter] : parameters_) values.push_back({name, parameter.detach()});
  write("initial_values", values);
}

void StepRecorder::logits(const torch::Tensor& tokens_BS, const torch::Tensor& logits_BSV) {
  if (!options_.enabled || paused_) return;
  ++micro_;
  const std::string micro = std::to_string(micro_);
  tensors_.push_back({"tokens." + micro, copied(tokens_BS)});
  if (logits_BSV.numel() > kMostLogits) return;
  tensors_.push_back({"logits." + micro, copied(logits_BSV)});
  if (!logits_BSV.requires_grad()) return;
  auto& slot = dlogits_[static_cast<std::size_t>(micro_)];
  logits_BSV.register_hook([&slot](const torch::Tensor& gradient) { slot = copied(gradient); });
}

void StepRecorder::loss(const torch::Tensor& loss, const torch::Tensor& root) {
  if (!options_.enabled || paused_) return;
  losses_.push_back(loss.item<double>());
  roots_.push_back(root.item<double>());
}

void StepRecorder::end() {
  if (!options_.enabled) return;
  take_state("1");
  for (std::size_t micro = 0; micro < dlogits_.size(); ++micro) {
    if (!dlogits_[micro].defined()) continue;
    tensors_.push_back({"dlogits." + std::to_string(micro), dlogits_[micro]});
  }
  tensors_.push_back({"loss", doubles(losses_)});
  tensors_.push_back({"root", doubles(roots_)});
  write("optimizer_step", tensors_);
  tensors_.clear();
}

}  // namespace harness
