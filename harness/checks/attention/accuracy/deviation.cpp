#include "harness/checks/attention/accuracy/deviation.h"

#include "harness/checks/largest.h"
#include "harness/checks/result.h"
#include "harness/judge/patterns.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

std::vector<int> first_of(const std::set<int>& values) {
  std::vector<int> kept = to_ints(values);
  if (kept.size() > kMostRows) kept.resize(kMostRows);
  return kept;
}

// Which sentences tell it (harness/judge/wording).
const char* variant_of(const Deviation& seen) {
  if (seen.code == "RANGE.INVALID") return seen.law.empty() ? "blocks" : "law";
  if (seen.code == "CAUSALITY.LEAK") return "document";
  if (seen.code == "GATE.OVERRIDE") return "learned";
  if (seen.code == "NUMERIC.GRADIENT") return "layer";
  if (seen.code == "SELECTION.WRONG") {
    if (seen.law == kNotALegalList) return "list";
    return seen.op == "score" ? "score" : "select";
  }
  const bool mask = seen.code.rfind("MASK.", 0) == 0;
  if (mask || !seen.law.empty()) return "law";
  return seen.row_count == 0 ? "whole" : "plain";
}

bool compares_numbers(const Deviation& seen) {
  return seen.code.rfind("MASK.", 0) == 0 || seen.code.rfind("NUMERIC.", 0) == 0 ||
         seen.code == "CAUSALITY.LEAK" || seen.code == "OVERFLOW.INDEX" ||
         (seen.code == "RANGE.INVALID" && !seen.law.empty());
}

}  // namespace

void put_shares_of_heads(const std::map<int, double>& counts, Deviation& seen) {
  std::vector<std::string> words;
  for (const auto& [head, count] : counts) {
    words.push_back("that of head " + std::to_string(head) + " counts " + nsa::to_text(count, 4) +
                    " times");
  }
  seen.law = "shares_of_heads";
  seen.fitted = true;
  seen.about = "every head's share of the sum once, but " + nsa::join(words);
}

void put_rows(const std::vector<BadRow>& rows, std::int64_t in_all, Deviation& seen) {
  std::set<int> positions;
  std::set<int> groups;
  for (const BadRow& at : rows) {
    positions.insert(static_cast<int>(at.row));
    groups.insert(static_cast<int>(at.group));
  }
  seen.rows = first_of(positions);
  seen.groups = to_ints(groups);
  seen.row_count = static_cast<std::int64_t>(rows.size());
  seen.rows_in_all = in_all;
}

void Deviations::add(const Deviation& seen, const LayerPlace& at) {
  const Kind kind = {at.step, seen.code, seen.branch, seen.op, seen.param, seen.law};
  const auto [place, is_new] = merged_.try_emplace(kind);
  Merged& merged = place->second;
  double worst = merged.worst.error;
  raise_to(worst, seen.error);
  if (is_new || !(worst <= merged.worst.error)) merged.worst = seen;
  merged.layers.insert(at.layer);
  merged.ranks.insert(at.rank);
  merged.rows.insert(seen.rows.begin(), seen.rows.end());
  merged.compressed.insert(seen.compressed.begin(), seen.compressed.end());
  merged.documents.insert(seen.documents.begin(), seen.documents.end());
  merged.groups.insert(seen.groups.begin(), seen.groups.end());
  merged.heads.insert(seen.heads.begin(), seen.heads.end());
  merged.all_heads = merged.all_heads || seen.heads.empty();
  merged.only_input = merged.only_input && seen.tensors == std::vector<std::string>{"dx"};
  merged.row_count += seen.row_count;
  merged.rows_in_all += seen.rows_in_all;
  merged.tie_rows += seen.tie_rows;
}

std::vector<Finding> Deviations::findings() const {
  std::vector<Finding> list;
  for (const auto& [kind, merged] : merged_) list.push_back(finding(std::get<0>(kind), merged));
  return list;
}

Finding Deviations::finding(std::int64_t step, const Merged& merged) {
  const Deviation& seen = merged.worst;
  Finding finding = make_finding(seen.code, variant_of(seen));
  finding.site.layers = to_ints(merged.layers);
  finding.site.ranks = to_ints(merged.ranks);
  finding.site.branch = seen.branch;
  finding.site.op = seen.op;
  finding.site.param = seen.param;
  finding.site.step = step;
  if (!seen.is_forward()) finding.site.phase = "backward";
  finding.site.rows = first_of(merged.rows);
  if (!merged.all_heads) finding.site.heads = to_ints(merged.heads);
  add_detail(merged, finding.site);
  if (compares_numbers(seen)) {
    finding.facts = {{"error", Real(seen.error)}, {"limit", Real(seen.limit)}};
    put_some(finding, "tensors", seen.tensors);
    if (!seen.where.empty()) finding.facts["measure"] = seen.where;
  }
  if (seen.code.rfind("NAN.", 0) == 0) put_some(finding, "tensors", seen.tensors);
  // Others take that input too, and what they give back is in its gradient.
  if (merged.only_input && seen.law.empty()) finding.facts["only"] = "dx";
  if (!seen.about.empty() && seen.code != "GATE.OVERRIDE") finding.facts["about"] = seen.about;
  if (merged.row_count > 0) finding.facts["rows_in_all"] = merged.rows_in_all;
  return finding;
}

void Deviations::add_detail(const Merged& merged, Site& site) {
  const Deviation& seen = merged.worst;
  if (merged.row_count > 0) {
    site.detail["row_count"] = merged.row_count;
    site.detail["share"] =
        seen.law.empty() || seen.share <= 0.0
            ? static_cast<double>(merged.row_count) / static_cast<double>(merged.rows_in_all)
            : seen.share;
  }
  if (!merged.documents.empty()) site.detail["documents"] = to_ints(merged.documents);
  if (!merged.groups.empty()) site.detail["groups"] = to_ints(merged.groups);
  if (!merged.compressed.empty()) site.detail["compressed_tokens"] = first_of(merged.compressed);
  if (merged.tie_rows > 0) site.detail["tie_rows"] = merged.tie_rows;
  put_law(seen.law, seen.fitted, site);
  if (!seen.laws.empty()) site.detail["laws"] = seen.laws;
}

}  // namespace harness::checks
