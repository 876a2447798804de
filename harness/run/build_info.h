// What this binary was built from. One small translation unit, so that a changed source recompiles nothing else for it.
#pragma once

namespace harness {

// What `./nsa-harness source-hash` printed when this binary was built.
[[nodiscard]] const char* built_source_hash();

}  // namespace harness
