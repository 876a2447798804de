// A stored case as a bundle, without any new run.
#pragma once

#include "harness/bundle/bundle.h"
#include "harness/store/store.h"

namespace harness::cli {

// Throws: nsa::Error: the case did not fail or its failure has no name, it is a command, its text is gone.
[[nodiscard]] Bundle bundle_of(const RunRecord& run, const CaseRecord& record);

// Of program and machine, as a bundle names them: commit, sources, binary, cpu, torch ...
[[nodiscard]] Pairs versions_of(const Provenance& provenance);

}  // namespace harness::cli
