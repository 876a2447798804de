// The reference model on somebody else's inputs (`nsa-harness-worker --golden FILE --out FILE`): everything that a golden file of
// that level holds, in float64 on the CPU. No case, no ranks, no evidence: a file in, a file out.
#pragma once

#include <string>

namespace harness {

// Reads a golden file and writes every result of its level, as the model computes it, under the README's names. Blocks of the
// file are replayed where they can be; `blocks` in the result is the model's own choice all the same.
// Throws: nsa::Error (bad file, not writable), and what LibTorch throws.
void run_golden(const std::string& file, const std::string& out);

}  // namespace harness
