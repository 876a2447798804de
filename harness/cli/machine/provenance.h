// What a run is tied to: which sources, which binary, which machine, which environment.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/machine/environment.h"
#include "harness/cli/machine/machine.h"
#include "harness/cli/paths.h"
#include "harness/store/store.h"

namespace harness::cli {

// Without `command`: what the run was asked for is whoever asks's to say.
[[nodiscard]] Provenance provenance_of(const Paths& paths,
                                       const Manifest& manifest,
                                       const Machine& machine,
                                       const Variables& environment,
                                       const std::vector<std::string>& argv);

// When a commit of the tree was made (Unix time in ms), or nothing if the tree knows none of that name.
[[nodiscard]] std::optional<std::int64_t> commit_time_ms(const std::string& tree,
                                                         const std::string& commit);

// What to type to start this program again: the launcher of the tree where there is one, else this program's own file.
[[nodiscard]] std::string program_path(const Paths& paths);

}  // namespace harness::cli
