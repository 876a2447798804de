#include "harness/worker/watch/nan_watch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "nsa/torch.h"

namespace harness {
namespace {

// RecordFunction takes plain functions: they reach the watch that is on through this.
struct Watching {
  std::mutex mutex;  // of all members but `poisoned`; a backward runs in threads of its own
  const SeamWatch* seams = nullptr;
  std::int64_t step = 0;
  std::atomic<bool> poisoned = false;
  std::optional<NanBirth> birth;
  std::optional<NanBirth>
      written;  // of an operator that was given NaN as a number, not in a tensor
  std::optional<OperatorCall> birth_call;
  std::optional<OperatorCall> written_call;
};
Watching watching;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): as above

// Of this thread: the watch's own operators are not watched, and a backward node is its forward operator's seam.
thread_local bool inside = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
thread_local SeamPlace
    backward_place;                   // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
thread_local int backward_depth = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

struct Seen : at::ObserverContext {
  bool nan_in = false;      // in a tensor
  bool nan_number = false;  // among the numbers
  double largest = 0.0;
  SeamPlace outer;
  std::vector<c10::IValue> inputs;  // at the end the operator's own are gone
};

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  }
}

bool can_be_nan(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() && tensor.numel() > 0 &&
         tensor.has_storage();
}

void look_in(const at::Tensor& tensor, Seen& seen) {
  if (seen.nan_in || !can_be_nan(tensor)) {
    return;
  }
  // The largest magnitude is NaN exactly when an element is.
  const double largest = tensor.detach().abs().max().item<double>();
  seen.nan_in = std::isnan(largest);
  seen.largest = std::max(seen.largest, largest);
}

// By its plain name.
bool hands_out_memory(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {"empty",
                                                      "empty_like",
                                                      "empty_strided",
                                                      "new_empty",
                                                      "new_empty_strided",
                                                      "resize",
                                                      "resize_as",
                                                      "set"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// "aten::_softmax_backward_data" -> "softmax": one name for an operator and its backward.
std::string plain_name(std::string_view name) {
  if (const auto colon = name.rfind("::"); colon != std::string_view::npos) {
    name.remove_prefix(colon + 2);
  }
  while (name.starts_with('_')) {
    name.remove_prefix(1);
  }
  name = name.substr(0, name.find("_backward"));
  if (name.ends_with('_')) {
    name.remove_suffix(1);
  }
  return std::string(name);
}

// An operator that writes into what it is given leaves nothing of it: that is copied.
std::vector<c10::IValue> kept_inputs(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto overload = function.operator_name();
  const bool overwrites =
      name.ends_with('_') || (overload && overload->overload_name.find("out") != std::string::npos);
  std::vector<c10::IValue> kept(function.inputs().begin(), function.inputs().end());
  if (!overwrites) return kept;
  for (c10::IValue& value : kept) {
    if (value.isTensor() && value.toTensor().defined()) value = value.toTensor().detach().clone();
  }
  return kept;
}

OperatorCall call_of(const at::RecordFunction& function, const std::vector<c10::IValue>& inputs) {
  const auto name = function.operator_name();
  return name ? OperatorCall{name->name, name->overload_name, inputs}
              : OperatorCall{function.name(), "", inputs};
}

void certify(const at::RecordFunction& function, const at::Tensor& output, const Seen& seen) {
  const std::lock_guard lock(watching.mutex);
  std::optional<NanBirth>& kept = seen.nan_number ? watching.written : watching.birth;
  if (kept || watching.seams == nullptr) {
    return;
  }
  const auto nan = output.detach().isnan().flatten();
  const bool in_operator = backward_depth > 0;
  // A hook runs between the operators of a backward.
  const bool backward = in_operator || torch::autograd::get_current_graph_task_id() != -1;
  const SeamPlace place = in_operator ? backward_place : SeamWatch::running();
  NanBirth birth;
  birth.step = watching.step;
  birth.layer = place.layer;
  birth.seam = place.seam;
  birth.op = plain_name(function.name());
  birth.direction = backward ? "backward" : "forward";
  birth.poisoned = watching.poisoned;
  birth.shape = output.sizes().vec();
  birth.elements = nan.sum().item<std::int64_t>();
  birth.first = nan.to(at::kInt).argmax().item<std::int64_t>();
  birth.largest_input = seen.nan_number ? std::nan("") : seen.largest;
  kept = birth;
  (seen.nan_number ? watching.written_call : watching.birth_call) = call_of(function, seen.inputs);
}

// The watch may end while a backward of another thread begins.
SeamPlace made_forward(std::int64_t sequence) {
  const std::lock_guard lock(watching.mutex);
  return watching.seams != nullptr ? watching.seams->made(sequence) : SeamPlace{};
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto seen = std::make_unique<Seen>();
  if (inside) {
    return seen;
  }
  const Inside guard;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    seen->outer = backward_place;
    backward_place = made_forward(function.seqNr());
    ++backward_depth;
    return seen;
  }
  for (const c10::IValue& value : function.inputs()) {
    const bool nan_number = (value.isDouble() && std::isnan(value.toDouble())) ||
                            (value.isScalar() && std::isnan(value.toScalar().toDouble()));
    seen->nan_number = seen->nan_number || nan_number;
    for_each_tensor(value, [&](const at::Tensor& tensor) { look_in(tensor, *seen); });
  }
  if (!seen->nan_in) seen->inputs = kept_inputs(function);
  return seen;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (inside) {
    return;
  }
  const Inside guard;
  auto* seen = static_cast<Seen*>(context);
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    backward_place = seen->outer;
    --backward_depth;
    return;
  }
  if (seen->nan_in || hands_out_memory(plain_name(function.name()))) {
    return;
  }
  // The poison of memory that was just handed out is written by a fill as well.
  if (seen->nan_number && watching.poisoned) {
    return;
  }
  for (const c10::IValue& value : function.outputs()) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (can_be_nan(tensor) && tensor.detach().isnan().any().item<bool>()) {
        certify(function, tensor, *seen);
      }
    });
  }
}

}  // namespace

NanWatch::NanWatch(const SeamWatch& seams, std::int64_t step, bool poisoned) {
  {
    const std::lock_guard lock(watching.mutex);
    watching.seams = &seams;
    watching.step = step;
    watching.poisoned = poisoned;
    watching.birth.reset();
    watching.written.reset();
    watching.birth_call.reset();
    watching.written_call.reset();
  }
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start, on_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

NanWatch::~NanWatch() {
  at::removeCallback(handle_);
  const std::lock_guard lock(watching.mutex);
  watching.seams = nullptr;
}

bool NanWatch::is_looking() {
  return inside;
}

std::optional<NanBirth> NanWatch::birth() const {
  const std::lock_guard lock(watching.mutex);
  return watching.birth;
}

NanBirth NanWatch::certificate() const {
  const std::lock_guard lock(watching.mutex);
  NanBirth unwritten;
  unwritten.step = watching.step;
  unwritten.direction = "forward";
  unwritten.poisoned = watching.poisoned;
  // A number that somebody wrote counts where no operator made one: it may be a mark that is replaced later.
  return watching.birth.value_or(watching.written.value_or(unwritten));
}

std::optional<OperatorCall> NanWatch::call() const {
  const Inside guard;
  const std::lock_guard lock(watching.mutex);
  const auto& made = watching.birth ? watching.birth_call : watching.written_call;
  return made ? std::optional(fewer_rows(*made)) : std::nullopt;
}

void write_certificate(const NanWatch& watch, const ArtefactOut& out) {
  const NanBirth birth = watch.certificate();
  out.channel.write(birth);
  if (const auto call = watch.call()) (void)write_call(out, {birth.step, 0, kOperatorFile}, *call);
}

}  // namespace harness
