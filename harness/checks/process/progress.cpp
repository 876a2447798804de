#include "harness/checks/list.h"
#include "harness/checks/process/hang_or_slow.h"

namespace harness::checks {

Check progress() {
  return {"progress",
          "the case moved until it ended; a standstill is told from slowness",
          {"HANG.INIT",
           "HANG.COLLECTIVE",
           "HANG.HOST",
           "HANG.KERNEL",
           "SLOW.HOST",
           "SLOW.COMPILE",
           "SLOW.DATA",
           "SLOW.SYNC_STORM"},
          [](const Evidence& evidence) {
            // Of ranks that were started again only the last life is judged: what they waited for before is gone.
            return evidence.relaunches.empty() ? hang_or_slow(evidence, evidence)
                                               : hang_or_slow(evidence.last_life(), evidence);
          },
          kWatchProcesses};
}

}  // namespace harness::checks
