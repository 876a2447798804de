// What told of a write into what a seam was given (Mutation::seen_by), where more is concluded from it than printed.
#pragma once

namespace harness {

// All numbers were compared and none is another one: no result is wrong by it.
inline constexpr const char* kSeenByVersionAlone = "version counter, all values as before";

}  // namespace harness
