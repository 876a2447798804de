// What torchrun lets a rank write when it fails: the file that TORCHELASTIC_ERROR_FILE names, one for each rank and each of its
// lives. It is written where the script's main function has the decorator @record, which is in
// torch.distributed.elastic.multiprocessing.errors. It tells whose exception it is; what was printed may not.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/evidence/rows.h"

namespace harness {

// The path that a process was started with; "" where there is none. `environment`: NAME=value texts that end with '\0', as in
// /proc/PID/environ.
[[nodiscard]] std::string error_file_of(std::string_view environment);

// The exception with all that its traceback tells, as read_printed() has it, and its whole message. Nothing where there is no such
// file, it is no regular file or of more than a megabyte, or it is not of that form; never throws.
[[nodiscard]] std::optional<WorkerError> read_error_file(const std::string& path);

// Of its text. Nothing also of what a launcher raised for the ranks below it.
[[nodiscard]] std::optional<WorkerError> error_in_file(const std::string& text);

}  // namespace harness
