// Is the machine what the case takes it for? Every process was built from the sources of this program, the transport between the
// ranks adds up right, and nobody else is on the card while times are taken.
#include "harness/checks/list.h"
#include "harness/checks/process/machine_parts.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

CheckResult judge_machine(const Evidence& evidence) {
  ResultBuilder result;
  std::vector<std::string> seen;
  for (const auto& part : {judge_builds, judge_known_sums, judge_card_looks}) {
    std::string told = part(evidence, result);
    if (!told.empty()) seen.push_back(std::move(told));
  }
  if (seen.empty() && !result.has_findings()) result.missing("anything that tells of the machine");
  return result.finish(nsa::join(seen, "; "));
}

}  // namespace

Check machine_sound() {
  return {
      "machine_sound",
      "every process is of this program's sources, the transport adds up right, and nobody else "
      "is on the card while times are taken",
      {"INFRA.COMM_CORRUPT", "INFRA.GPU_BUSY", "INFRA.STALE_BUILD"},
      &judge_machine};
}

}  // namespace harness::checks
