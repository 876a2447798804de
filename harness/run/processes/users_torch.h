// Which torch a command of the user's own imports, told from files alone: nothing is started.
#pragma once

#include <string>
#include <vector>

namespace harness {

// The version, "2.11.0+cu130", of the torch beside the Python that `program` names: it is a Python, or a script whose first
// line names one (torchrun). Of another program (bash) it is the first torchrun, python3 or python on PATH of `environment`
// (NAME=value). "" if no such file is found. Throws: nothing.
[[nodiscard]] std::string users_torch(const std::string& program,
                                      const std::vector<std::string>& environment);

// Whether `version` is at least major.minor; false of "".
[[nodiscard]] bool is_at_least(const std::string& version, int major, int minor);

}  // namespace harness
