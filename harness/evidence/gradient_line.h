// The line of a gradient's row, as encode_event() writes it, without the JSON object that it makes first: a rank writes one for
// each parameter in each step, while its training waits.
#pragma once

#include <cstdint>
#include <string>

#include "harness/evidence/rows.h"

namespace harness {

// Appends the line, with its newline. Invalid UTF-8 is replaced.
void append_line(std::string& lines, int process, std::int64_t t_ms, const Gradient& row);

}  // namespace harness
