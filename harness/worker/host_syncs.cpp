#include "harness/worker/host_syncs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

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

}  // namespace

HostSyncs::HostSyncs()
    : handle_(at::addGlobalCallback(
          at::RecordFunctionCallback([](const at::RecordFunction& function)
                                         -> std::unique_ptr<at::ObserverContext> {
            if (waits_for_device(function.name())) ++syncs;
            return nullptr;
          }).scopes({at::RecordScope::FUNCTION}))) {}

HostSyncs::~HostSyncs() {
  at::removeCallback(handle_);
}

std::int64_t HostSyncs::take() {
  return syncs.exchange(0);
}

}  // namespace harness
