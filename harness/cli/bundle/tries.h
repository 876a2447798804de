// Runs of single cases beside each other's record: each a run of its own, recorded and judged like any other, in a
// folder that goes with its owner.
#pragma once

#include <string>

#include "harness/bundle/bundle.h"
#include "harness/cli/paths.h"
#include "harness/cli/running/run_session.h"

namespace harness::cli {

// The bundle's case as this machine can run it, its text in `folder`. Throws: nsa::Error where this build does not know
// a name in it.
[[nodiscard]] Case case_to_run(const Case& the_case,
                               const std::string& text,
                               const std::string& folder,
                               const Paths& paths,
                               const Manifest& manifest,
                               const Machine& machine);

class Tries {
 public:
  // Makes its folder in `beside`. Throws: nsa::Error.
  Tries(const std::string& beside, std::string text, const Paths& paths, const Manifest& manifest);
  ~Tries();
  Tries(const Tries&) = delete;
  Tries& operator=(const Tries&) = delete;

  // Why the case cannot be run here, "" where it can.
  [[nodiscard]] std::string unrunnable(const Case& the_case) const;
  // REQUIRES: it can be run. Throws: nsa::Error where nothing can be recorded.
  [[nodiscard]] Judgement run(const Case& the_case);

  [[nodiscard]] const Provenance& provenance() const { return plan_.provenance; }

 private:
  std::string folder_;
  std::string text_;
  const Paths& paths_;
  const Manifest& manifest_;
  RunPlan plan_;  // without cases
};

}  // namespace harness::cli
