#include "harness/checks/attention/accuracy/layer_departure.h"

#include <algorithm>
#include <cmath>

#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Which sentences report it (harness/judge).
const char* variant_of(const Departure& seen) {
  if (seen.code == "RANGE.INVALID") return seen.law().empty() ? "blocks" : "law";
  if (seen.code == "CAUSALITY.LEAK") return "document";
  if (seen.code == "GATE.OVERRIDE") return "learned";
  if (seen.code == "NUMERIC.GRADIENT") return "layer";
  if (seen.code == "SELECTION.WRONG") {
    if (seen.law() == kNotALegalList) return "list";
    return seen.site.op == "score" ? "score" : "select";
  }
  if (seen.code.starts_with("MASK.") || !seen.law().empty()) return "law";
  return seen.row_count() == 0 ? "whole" : "plain";
}

bool compares_numbers(const Departure& seen) {
  return seen.code.starts_with("MASK.") || seen.code.starts_with("NUMERIC.") ||
         seen.code == "CAUSALITY.LEAK" || seen.code == "OVERFLOW.INDEX" ||
         (seen.code == "RANGE.INVALID" && !seen.law().empty());
}

}  // namespace

void put_rows(const std::vector<BadRow>& rows, std::int64_t in_all, Departure& seen) {
  std::set<int> positions;
  std::set<int> groups;
  for (const BadRow& at : rows) {
    positions.insert(static_cast<int>(at.row));
    groups.insert(static_cast<int>(at.group));
  }
  seen.site.rows = to_ints(positions);
  seen.site.detail["groups"] = to_ints(groups);
  seen.site.detail["row_count"] = rows.size();
  seen.facts["rows_in_all"] = in_all;
}

void put_shares_of_heads(const std::map<int, double>& counts, Departure& seen) {
  std::vector<std::string> words;
  double most = 0.0;
  for (const auto& [head, count] : counts) {
    most = std::max(most, std::abs(count - 1.0));
    words.push_back("that of head " + std::to_string(head) + " counts " + nsa::to_text(count, 4) +
                    " times");
  }
  seen.laws = {{kSharesOfHeads,
                "every head's share of the sum once, but " + nsa::join(words),
                /*fitted=*/true,
                /*share=*/0.0,
                1.0 + most}};
}

bool is_backward(const Departure& seen) {
  return seen.site.phase == "backward" || seen.code == "NUMERIC.GRADIENT";
}

Departure placed(Departure seen, const LayerPlace& at) {
  seen.variant = variant_of(seen);
  seen.site.layers = {at.layer};
  seen.site.ranks = {at.rank};
  seen.site.step = at.step;
  if (is_backward(seen)) seen.site.phase = "backward";
  // Others take that input too, and what they give back is in its gradient.
  const bool only_input = seen.tensors == std::vector<std::string>{"dx"};
  if (only_input && seen.law().empty()) seen.facts["only"] = "dx";
  if (seen.code == "GATE.OVERRIDE" && !seen.laws.empty()) seen.laws.front().about.clear();
  if (!compares_numbers(seen)) {
    seen.limit.reset();
    if (!seen.code.starts_with("NAN.")) seen.tensors.clear();
  }
  return seen;
}

}  // namespace harness::checks
