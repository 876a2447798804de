// Which result of a layer is the first that differs between a whole sequence and its tokens decoded alone? What is made of it
// differs too; what does not come before it differs by itself.
#pragma once

#include <cstdint>

#include "nsa/base/safetensors.h"

namespace harness::checks {

struct DecodedStage {
  const char* tensor;  // of kSteps
  const char* op;      // that makes it
  const char* branch;  // "" where it belongs to all
  const char* whole;   // of kPrefill
};

// In the order of computation: the first with an element that is off by more than `limit` times the largest of the whole
// sequence, or of another shape; of blocks, one that is not the same. Rows are those from token `prompt` on; of compressed
// tokens all. What the caches hold in the end is that of the last tokens: where it differs though it was right when it was made,
// the cache has changed it. nullptr where none is, or none is in both files. Throws: nsa::Error where a tensor is of another dtype.
[[nodiscard]] const DecodedStage* first_to_differ(const nsa::SafetensorsFile& whole,
                                                  const nsa::SafetensorsFile& steps,
                                                  std::int64_t prompt,
                                                  double limit);

}  // namespace harness::checks
