// Blocks that ran in another order than theirs: each is right, and takes what another one left.
#pragma once

#include <vector>

#include "harness/checks/step/step_blocks.h"

namespace harness::checks {

// Where what enters the first block, or what leaves one, is wrong: follows the stream through the blocks by the numbers on
// record. Where that gives one order of all blocks, sets model.order to it, judges all parts again and adds a departure for each
// block that is not in its place. `parts` holds the judgement of the head first, then that of each block.
void name_block_order(RecordedModel& model,
                      const oracles::IntTensor& tokens,
                      std::vector<PartJudgement>& parts,
                      const JudgeParts& judge_again);

}  // namespace harness::checks
