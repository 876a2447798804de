#include "nsa/train/activation_checkpoint.h"

#include <memory>
#include <optional>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nsa/train/autocast.h"

namespace nsa {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

thread_local int recomputing_now =
    -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): of this thread alone

class RecomputeScope {
 public:
  explicit RecomputeScope(int layer) : outer_(std::exchange(recomputing_now, layer)) {}
  ~RecomputeScope() { recomputing_now = outer_; }
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  int outer_;
};

at::Generator generator_of(const torch::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

// Everything besides input and weights that a block's numbers may depend on.
struct Surroundings {
  torch::Device device;
  Tensor cpu_rng;
  Tensor device_rng;  // undefined on the CPU
  bool autocast = false;
  at::ScalarType autocast_dtype = at::kFloat;
};

Surroundings surroundings_of(const torch::Device& device) {
  Surroundings now{device, {}, {}, false, at::kFloat};
  now.cpu_rng = generator_of(torch::kCPU).get_state();
  if (!device.is_cpu()) now.device_rng = generator_of(device).get_state();
  now.autocast = at::autocast::is_autocast_enabled(device.type());
  now.autocast_dtype = at::autocast::get_autocast_dtype(device.type());
  return now;
}

void restore(const Surroundings& surroundings) {
  generator_of(torch::kCPU).set_state(surroundings.cpu_rng);
  if (surroundings.device_rng.defined()) {
    generator_of(surroundings.device).set_state(surroundings.device_rng);
  }
  at::autocast::set_autocast_enabled(surroundings.device.type(), surroundings.autocast);
  at::autocast::set_autocast_dtype(surroundings.device.type(), surroundings.autocast_dtype);
}

// The surroundings of the forward, for the time of the recomputation.
class SurroundingsScope {
 public:
  explicit SurroundingsScope(const Surroundings& wanted) : before_(surroundings_of(wanted.device)) {
    restore(wanted);
  }
  ~SurroundingsScope() {
    // Casts that autocast keeps are of these weights: the next forward has others.
    if (!before_.autocast) at::autocast::clear_cache();
    restore(before_);
  }
  SurroundingsScope(const SurroundingsScope&) = delete;
  SurroundingsScope& operator=(const SurroundingsScope&) = delete;

 private:
  Surroundings before_;
};

// What a checkpointed layer carries from its forward to its backward.
struct Kept : torch::CustomClassHolder {
  Kept(CheckpointSeam& of_seam, Block of_block, Surroundings of_forward, bool is_nested)
      : seam(of_seam),
        block(std::move(of_block)),
        surroundings(std::move(of_forward)),
        nested(is_nested) {}
  CheckpointSeam& seam;
  Block block;
  Surroundings surroundings;
  bool nested;
};

// What is handed through apply(): anything that is no tensor passes it untouched.
using KeptPtr = c10::intrusive_ptr<Kept>;

struct CheckpointNode : torch::autograd::Function<CheckpointNode> {
  // inputs: x, and in functional form the block's parameters.
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const KeptPtr& kept,
                        at::TensorList inputs) {
    context->save_for_backward({inputs.front()});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->saved_data["inputs"] = static_cast<std::int64_t>(inputs.size());
    return kept->seam.forward(kept->block, inputs.front());
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                variable_list gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto* kept = static_cast<Kept*>(capsule.get());
    const auto inputs = static_cast<std::size_t>(context->saved_data["inputs"].toInt());
    const SurroundingsScope surroundings(kept->surroundings);
    Block block = kept->block;
    variable_list found =
        kept->seam.backward(block, context->get_saved_variables().front(), gradients.front());
    found.resize(inputs);
    found.insert(found.begin(), Tensor());  // of `kept`
    return found;
  }
};

// The way back runs as it does without checkpointing, outside autocast: there, products in float32 would be taken in bfloat16.
AutocastScope plain_backward(const Tensor& like) {
  return {like.device().type(), false};
}

variable_list functional_inputs(Block& block, const Tensor& x_BSE) {
  variable_list inputs = {x_BSE};
  for (const Tensor& parameter : block->parameters()) inputs.push_back(parameter);
  return inputs;
}

}  // namespace

int recomputing_layer() {
  return recomputing_now;
}

Tensor ActivationCheckpoint::recomputed(int layer, Block& block, const Tensor& x_BSE) {
  const RecomputeScope scope(layer);
  const torch::AutoGradMode with_graph(true);
  Tensor y_BSE = block->forward(x_BSE);
  if (observer_.recomputed) observer_.recomputed(layer, y_BSE);
  return y_BSE;
}

CheckpointSeam ActivationCheckpoint::functional(int layer) {
  CheckpointSeam seam;
  seam.forward = [](Block& block, const Tensor& x_BSE) { return block->forward(x_BSE); };
  seam.backward = [this, layer](Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
    routes_.ran("checkpoint", layer, "functional");
    const Tensor leaf_BSE = x_BSE.detach().requires_grad_(true);
    const Tensor y_BSE = recomputed(layer, block, leaf_BSE);
    const AutocastScope outside = plain_backward(leaf_BSE);
    return torch::autograd::grad({y_BSE},
                                 functional_inputs(block, leaf_BSE),
                                 {dy_BSE},
                                 /*retain_graph=*/false,
                                 /*create_graph=*/false,
                                 /*allow_unused=*/true);
  };
  return seam;
}

CheckpointSeam ActivationCheckpoint::nested(int layer) {
  CheckpointSeam seam = functional(layer);
  seam.backward = [this, layer](Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
    routes_.ran("checkpoint", layer, "nested");
    Tensor leaf_BSE = x_BSE.detach().requires_grad_(true);
    const Tensor y_BSE = recomputed(layer, block, leaf_BSE);
    const AutocastScope outside = plain_backward(leaf_BSE);
    y_BSE.backward(dy_BSE);
    return variable_list{leaf_BSE.grad()};
  };
  return seam;
}

// The choice of the forward stands in for the choice of the recomputation.
void ActivationCheckpoint::keep_blocks(AttentionSeams& seams) {
  seams.select = [inner = std::move(seams.select), kept = std::make_shared<Tensor>()](
                     const SeamContext& context, const Tensor& p_grp_BGSN) {
    if (is_recomputing() && kept->defined()) return std::exchange(*kept, Tensor());
    Tensor blocks_BGSn = inner(context, p_grp_BGSN);
    *kept = blocks_BGSn;
    return blocks_BGSn;
  };
}

ActivationCheckpoint::ActivationCheckpoint(NsaLm& model,
                                           const ParallelConfig& config,
                                           Routes& routes)
    : routes_(routes), layers_(config.checkpoint_layers) {
  const bool is_nested = config.checkpoint_mode == "nested";
  for (const int layer : layers_) {
    CheckpointSeam& seam = seams_[layer] = is_nested ? nested(layer) : functional(layer);
    if (config.checkpoint_keep_blocks) keep_blocks(model->attention(layer)->seams());
    model->set_run_block(layer, [this, layer, &seam, is_nested](Block& block, const Tensor& x_BSE) {
      if (paused_ || !torch::GradMode::is_enabled()) return block->forward(x_BSE);
      const auto kept =
          c10::make_intrusive<Kept>(seam, block, surroundings_of(x_BSE.device()), is_nested);
      const variable_list inputs =
          is_nested ? variable_list{x_BSE} : functional_inputs(block, x_BSE);
      Tensor y_BSE = CheckpointNode::apply(kept, at::TensorList(inputs));
      if (observer_.computed) observer_.computed(layer, y_BSE);
      return y_BSE;
    });
  }
}

std::vector<Tensor> nested_parameters(const torch::autograd::Node& node) {
  const auto* checkpoint = dynamic_cast<const torch::autograd::CppNode<CheckpointNode>*>(&node);
  if (checkpoint == nullptr) return {};
  const auto found = checkpoint->ctx_.saved_data.find("kept");
  if (found == checkpoint->ctx_.saved_data.end()) return {};
  const auto capsule = found->second.toCapsule();
  const auto* kept = static_cast<const Kept*>(capsule.get());
  return kept->nested ? kept->block->parameters() : std::vector<Tensor>{};
}

}  // namespace nsa
