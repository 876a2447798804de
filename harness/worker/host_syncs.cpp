#include "harness/worker/host_syncs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include <ATen/record_function.h>

#include "harness/worker/nan_watch.h"

namespace harness {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): callbacks of RecordFunction are global
std::atomic<std::int64_t> syncs{0};

// Operators whose result, or its size, the host needs before it can go on.
bool waits_for_device(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"aten::_local_scalar_dense",
                                                      "aten::nonzero",
                                                      "aten::masked_select",
                                                      "aten::_unique2",
                                                      "aten::equal",
                                                      "aten::repeat_interleave"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// One callback however many count: each operator would be counted by every one of several.
std::mutex mutex;                 // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
int counting = 0;                 // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
at::CallbackHandle callback = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  if (waits_for_device(function.name()) && !NanWatch::is_looking()) ++syncs;
  return nullptr;
}

}  // namespace

HostSyncs::HostSyncs() : taken_(syncs) {
  const std::lock_guard lock(mutex);
  if (counting++ > 0) return;
  callback =
      at::addGlobalCallback(at::RecordFunctionCallback(&count).scopes({at::RecordScope::FUNCTION}));
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
