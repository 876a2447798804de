#include "harness/checks/gradients/overwritten.h"

#include <set>
#include <string>
#include <vector>

#include "harness/checks/result.h"
#include "harness/evidence/python_frame.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kTorchSays = "modified by an inplace operation";

struct Overwritten {
  std::set<int> layers;
  std::set<int> ranks;
  std::set<std::string> tensors;
  std::int64_t elements = 0;
  std::string said;  // by autograd
  std::string line;  // the user's, in which it said so
};

Overwritten seen_in_step(const Evidence& evidence, std::int64_t step) {
  Overwritten seen;
  for (const auto& [process, t_ms, row] : evidence.in_place) {
    const bool written = row.version_found != row.version_made || row.elements > 0;
    if (process < 0 || row.step != step || !written) continue;
    if (row.layer >= 0) seen.layers.insert(row.layer);
    seen.ranks.insert(process);
    seen.tensors.insert(row.seam.empty() ? row.tensor : row.tensor + " of " + row.seam);
    seen.elements += row.elements;
  }
  for (const auto& [process, t_ms, row] : evidence.errors) {
    if (process < 0 || row.step != step || !says_overwritten(row)) continue;
    seen.ranks.insert(process);
    if (seen.said.empty() || row.what < seen.said) seen.said = row.what;
    if (seen.line.empty()) seen.line = users_line(row.frames);
  }
  return seen;
}

}  // namespace

bool says_overwritten(const WorkerError& error) {
  return error.what.find(kTorchSays) != std::string::npos;
}

std::optional<Finding> overwritten_in_step(const Evidence& evidence, std::int64_t step) {
  const Overwritten seen = seen_in_step(evidence, step);
  if (seen.ranks.empty()) return std::nullopt;
  Finding finding = make_finding("INPLACE.MODIFIED", seen.tensors.empty() ? "autograd" : "tensor");
  finding.site.step = step;
  finding.site.ranks = to_ints(seen.ranks);
  finding.site.phase = "backward";
  finding.site.layers = to_ints(seen.layers);
  if (!seen.tensors.empty()) {
    finding.site.detail["tensor"] =
        nsa::join(std::vector<std::string>(seen.tensors.begin(), seen.tensors.end()));
    if (seen.elements > 0) finding.site.detail["elements"] = seen.elements;
  }
  if (seen.tensors.empty() && !seen.line.empty()) finding.facts["line"] = seen.line;
  if (!seen.said.empty()) finding.facts["message"] = seen.said.substr(0, seen.said.find('\n'));
  return finding;
}

}  // namespace harness::checks
