// Which results of a layer differ by themselves between a whole sequence and its tokens decoded alone? What is made of a result
// that differs differs too, and says nothing of its own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nsa/base/safetensors.h"
#include "oracles/attention/stage_table.h"

namespace harness::checks {

struct DecodedStage {
  std::string_view tensor;  // of kSteps
  std::string_view op;      // that makes it
  std::string_view branch;  // "" where it belongs to all
  std::string_view whole;   // of kPrefill
};

struct DifferingStages {
  std::vector<DecodedStage>
      first;  // that differ though nothing that they are made of does: one of an operation
  std::vector<DecodedStage>
      hidden;  // that are made of one that differs: theirs could not be compared
};

// In the order of computation. A stage differs with an element that is off by more than `limit` times the largest of the whole
// sequence, or of another shape; of blocks, one that is not the same. Rows are those from token `prompt` on; of compressed
// tokens all. What the caches hold in the end is that of the last tokens: where it differs though it was right when it was made,
// the cache has changed it; where it was made wrong, the cache is compared with what was made. Throws: nsa::Error where a tensor
// is of another dtype.
[[nodiscard]] DifferingStages differing_stages(const nsa::SafetensorsFile& whole,
                                               const nsa::SafetensorsFile& steps,
                                               std::int64_t prompt,
                                               double limit);

}  // namespace harness::checks
