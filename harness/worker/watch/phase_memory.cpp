#include "harness/worker/watch/phase_memory.h"

#include <algorithm>
#include <map>
#include <string>

#include "harness/worker/watch/memory_watch.h"

namespace harness {

struct PhaseMemory::Account {
  Session& session;
  MemoryWatch memory;
  std::int64_t step = 0;
  std::string phase;
  std::map<std::string, std::int64_t> peaks;  // of each phase, all its turns in the step

  void close_phase() {
    std::int64_t& peak = peaks[phase];
    peak = std::max(peak, memory.peak_bytes());
    memory.reset_peak();
  }
  void enter(const std::string& next) {
    close_phase();
    phase = next;
  }
};

PhaseMemory::PhaseMemory(Session& session, const torch::Device& device)
    : account_(new Account{session, MemoryWatch(device), 0, "", {}}) {
  // The session outlives this, and its listeners stay.
  session.on_phase([account = std::weak_ptr<Account>(account_)](const std::string& phase,
                                                                std::int64_t /*step*/) {
    if (const auto open = account.lock()) open->enter(phase);
  });
}

void PhaseMemory::begin_step(std::int64_t step) {
  account_->step = step;
  account_->phase = "begin";
  account_->peaks.clear();
  account_->memory.reset_peak();
}

void PhaseMemory::end_step() {
  account_->close_phase();
  std::int64_t most = 0;
  for (const auto& [phase, peak] : account_->peaks) {
    most = std::max(most, peak);
    if (phase == "begin") continue;  // what was held before the first phase
    account_->session.sample("peak_bytes." + phase, account_->step, static_cast<double>(peak));
  }
  account_->session.sample("tensor_peak_bytes", account_->step, static_cast<double>(most));
}

}  // namespace harness
