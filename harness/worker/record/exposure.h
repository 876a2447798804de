// How far the laws of a layer's branches were exercised in one forward, measured on what the branches gave: a case in which
// nothing was dropped, cut or compressed cannot fail, whatever its configuration says.
#pragma once

#include "harness/evidence/rows.h"
#include "nsa/base/config.h"
#include "nsa/seams/seams.h"

namespace harness {

// rows_dropped: rows with fewer blocks than they could take. rows_compressed: rows to which the compressed branch gives
// anything. rows_cut: rows whose window gives something else than attention over all keys up to the query would; looked at in an
// even sample of rows, and scaled to all of them.
[[nodiscard]] Exposure exposure_of(const nsa::AttentionTrace& trace,
                                   const nsa::ModelConfig& config);

}  // namespace harness
