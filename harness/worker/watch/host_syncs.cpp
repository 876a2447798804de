#include "harness/worker/watch/host_syncs.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>

#include "harness/worker/watch/nan_watch.h"

namespace harness {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): callbacks of RecordFunction are global
std::atomic<std::int64_t> syncs{0};

// LibTorch tags every operator whose result, or the size of whose result, depends on the numbers in its inputs: the host has to
// wait for those. An index is tagged for the masks among its inputs, which it hands to nonzero: that one is counted.
bool is_tagged(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  if (!name || name->name == "aten::index") return false;
  const auto operation = c10::Dispatcher::singleton().findOp(*name);
  return operation && (operation->hasTag(at::Tag::data_dependent_output) ||
                       operation->hasTag(at::Tag::dynamic_output_shape));
}

// A name is a string of the operator's schema: it stays where it is, and each overload has its own.
bool reads_numbers(const at::RecordFunction& function) {
  thread_local std::unordered_map<const char*, bool> known;
  const auto [place, is_new] = known.try_emplace(function.name());
  if (is_new) place->second = is_tagged(function);
  return place->second;
}

// Inputs are there on machines with a device only. A copy into unpinned memory waits whether or not it was asked to.
bool copies_to_host(const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  const std::string_view name = function.name();
  const bool is_copy =
      name == "aten::copy_" && inputs.size() >= 2 && inputs[0].isTensor() && inputs[1].isTensor();
  if (!is_copy) return false;
  const at::Tensor& to = inputs[0].toTensor();
  const at::Tensor& from = inputs[1].toTensor();
  return to.is_cpu() && !from.is_cpu() && !to.is_pinned();
}

// One wait however many operators it is made of: is_nonzero calls item, and that calls _local_scalar_dense.
thread_local int waiting = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

struct Wait : at::ObserverContext {
  Wait() { ++waiting; }
  ~Wait() override { --waiting; }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
};

// One callback however many count: each operator would be counted by every one of several.
std::mutex mutex;                 // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
int counting = 0;                 // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
at::CallbackHandle callback = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::unique_ptr<at::ObserverContext> count_wait(const at::RecordFunction& function) {
  if (!reads_numbers(function) && !copies_to_host(function)) return nullptr;
  if (waiting == 0 && !NanWatch::is_looking()) ++syncs;
  return std::make_unique<Wait>();
}

void end(const at::RecordFunction& /*function*/, at::ObserverContext* /*wait*/) {}

}  // namespace

HostSyncs::HostSyncs() : taken_(syncs) {
  const std::lock_guard lock(mutex);
  if (counting++ > 0) return;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(&count_wait, &end)
                                       .needsInputs(at::hasCUDA())
                                       .scopes({at::RecordScope::FUNCTION}));
}

HostSyncs::~HostSyncs() {
  const std::lock_guard lock(mutex);
  if (--counting == 0) at::removeCallback(callback);
}

std::int64_t HostSyncs::take() {
  const std::int64_t now = syncs;
  return now - std::exchange(taken_, now);
}

}  // namespace harness
