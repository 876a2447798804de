#include "harness/scenario/exit_code.h"

#include <algorithm>
#include <initializer_list>

#include "nsa/base/file.h"

namespace harness {

int exit_code(std::span<const Outcome> outcomes, bool incomplete) {
  const auto any = [&](std::initializer_list<Outcome> wanted) {
    return std::any_of(outcomes.begin(), outcomes.end(), [&](Outcome outcome) {
      return std::find(wanted.begin(), wanted.end(), outcome) != wanted.end();
    });
  };
  if (incomplete) return kExitIncomplete;
  if (any({Outcome::fail,
           Outcome::hang,
           Outcome::slow,
           Outcome::crash,
           Outcome::oom,
           Outcome::xpass})) {
    return kExitFailed;
  }
  if (any({Outcome::error})) return kExitError;
  if (any({Outcome::inconclusive})) return kExitInconclusive;
  if (any({Outcome::pass})) return kExitPass;
  // An expected failure was judged, but shows nothing that works.
  return any({Outcome::xfail}) ? kExitInconclusive : kExitNothing;
}

int exit_code(const nsa::Error& error) {
  if (dynamic_cast<const nsa::NotRecorded*>(&error) != nullptr) return kExitIncomplete;
  return dynamic_cast<const nsa::NotAsRecorded*>(&error) != nullptr ? kExitError : kExitUsage;
}

}  // namespace harness
