#include "harness/checks/deviation.h"

#include <array>

#include "harness/checks/largest.h"
#include "harness/checks/params.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

std::vector<int> first_of(const std::set<int>& values) {
  std::vector<int> kept = to_ints(values);
  if (kept.size() > kMostRows) kept.resize(kMostRows);
  return kept;
}

bool is_choice(const Deviation& seen) {
  return seen.code == "SELECTION.WRONG" || seen.code == "RANGE.INVALID";
}

std::string what_of_choice(const Deviation& seen) {
  if (seen.code == "RANGE.INVALID") {
    return "a block was chosen that lies after the query's own or outside of the sequence";
  }
  if (seen.op == "score") {
    return "the blocks' scores are not what the recorded queries and compressed keys give, beyond "
           "the bound on their rounding";
  }
  if (seen.law == kNoListOfBlocks) {
    return "what was chosen is no list of blocks: ascending, each once, then -1";
  }
  return "other blocks were chosen than the recorded scores demand (score descending, index "
         "ascending, forced blocks first)";
}

struct Advice {
  const char* code;
  const char* ruled_out;
  const char* next_action;
};

constexpr std::array kAdvice = {
    Advice{"RANGE.INVALID",
           "not a matter of scores: no score can choose a block that the query may not see",
           "look at the bounds of the candidates: a query at t may take blocks 0 to t / l_sel"},
    Advice{"GATE.OVERRIDE",
           "not a wrong gate: the values are exactly those of the learned one, which was not asked "
           "for",
           "follow the gate override into the implementation that ran: a fused path does not heed "
           "it"},
    Advice{"MASK.ALIGNMENT",
           "",
           "a causal mask for fewer queries than keys must be aligned to the bottom right"},
    Advice{"MASK.POLARITY",
           "",
           "True must mean attend, or minus infinity must be added where it is not allowed"},
    Advice{"MASK.ABSENT", "", "no key after the query, and none outside the branch, may be seen"},
};

const Advice* advice_for(const std::string& code) {
  for (const Advice& advice : kAdvice) {
    if (code == advice.code) return &advice;
  }
  return nullptr;
}

}  // namespace

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
  merged.groups.insert(seen.groups.begin(), seen.groups.end());
  merged.heads.insert(seen.heads.begin(), seen.heads.end());
  merged.all_heads = merged.all_heads || seen.heads.empty();
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
  Finding finding;
  finding.code = seen.code;
  finding.site.layers = to_ints(merged.layers);
  finding.site.ranks = to_ints(merged.ranks);
  finding.site.branch = seen.branch;
  finding.site.op = seen.op;
  finding.site.param = seen.param;
  finding.site.step = step;
  finding.site.rows = first_of(merged.rows);
  if (!merged.all_heads) finding.site.heads = to_ints(merged.heads);
  add_detail(merged, finding.site);
  finding.statement = statement(merged, finding.site);
  explain(seen, finding);
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
  if (!merged.groups.empty()) site.detail["groups"] = to_ints(merged.groups);
  if (!merged.compressed.empty()) site.detail["compressed_tokens"] = first_of(merged.compressed);
  if (merged.tie_rows > 0) site.detail["tie_rows"] = merged.tie_rows;
  if (!seen.law.empty()) site.detail["law"] = seen.law;
  if (!seen.laws.empty()) site.detail["laws"] = seen.laws;
}

std::string Deviations::statement(const Merged& merged, const Site& site) {
  const Deviation& seen = merged.worst;
  const std::string where = (site.layers.size() == 1 ? "layer " : "layers ") +
                            nsa::ranges_text(site.layers) + " on " + ranks_text(site.ranks);
  std::string text = "in " + where + " ";
  if (is_choice(seen)) {
    text += what_of_choice(seen);
  } else if (seen.code == "GATE.OVERRIDE") {
    text += "the gates are the learned ones although constant ones were asked for";
  } else {
    text += some_of(seen.tensors) + (seen.tensors.size() == 1 ? " is" : " are") +
            " not the oracle's: relative error " + nsa::to_text(seen.error, 3) + ", ceiling " +
            nsa::to_text(seen.limit, 3);
  }
  if (merged.row_count > 0) {
    text += "; " + std::to_string(merged.row_count) + " of " + std::to_string(merged.rows_in_all) +
            " (batch, group, row) are wrong";
  }
  if (merged.tie_rows > 0) {
    text += "; in " + std::to_string(merged.tie_rows) +
            " of them blocks of equal score were taken in another order";
  }
  if (!seen.law.empty() && !seen.about.empty()) {
    text += seen.is_forward() ? ", and every one of them is what the law " + seen.law + " gives"
                              : ", and it is what the law " + seen.law + " gives";
    text += ": " + seen.about;
  } else if (!seen.laws.empty()) {
    text += "; no law alone: " + nsa::join(seen.laws) + " give the same there";
  }
  return text;
}

void Deviations::explain(const Deviation& seen, Finding& finding) {
  const Advice* advice = advice_for(seen.code);
  const bool mask = seen.code.rfind("MASK.", 0) == 0;
  if (mask || (!seen.law.empty() && seen.code == "NUMERIC.FORWARD")) {
    finding.ruled_out =
        seen.law.empty()
            ? "not rounding: every known mistake that reproduces all wrong rows is of this kind; "
              "what went into this operation is what was recorded"
            : "not rounding and not another known mistake: of the oracle's wrong laws only this "
              "one "
              "reproduces all wrong rows; what went into this operation is what was recorded";
    finding.next_action =
        mask ? "compare the mask of branch " + seen.branch +
                   " with the right one for the rows listed: " + advice->next_action
             : "look at this operation for exactly that mistake";
  } else if (advice != nullptr) {
    finding.ruled_out = advice->ruled_out;
    finding.next_action = advice->next_action;
  } else if (seen.code == "SELECTION.WRONG") {
    const bool score = seen.op == "score";
    finding.ruled_out =
        score ? "not rounding: beyond the rigorous bound on the scores' error; not the queries or "
                "compressed keys: the oracle used the recorded ones"
              : "not the scores and not a near tie: the choice is compared with the recorded "
                "scores themselves; values were judged by replaying the blocks that were chosen";
    finding.next_action = score
                              ? "look at the overlap map, the mask and the precision of the scores"
                              : "look at the choice among the scores (forced blocks, order, ties)";
  } else if (seen.code == "NUMERIC.GRADIENT") {
    finding.ruled_out =
        "not the forward: its tensors are the oracle's; not the upstream gradient: the oracle "
        "got the recorded one";
    finding.next_action = "compare the backward of this part with its equation, head by head";
    finding.site.phase = "backward";
  } else {
    finding.ruled_out =
        "not rounding: beyond the first-principles ceiling; not what went into this operation: the "
        "oracle used what was recorded; no known wrong law alone reproduces it";
    finding.next_action = "compare this operation with its equation on the recorded tensors";
  }
}

}  // namespace harness::checks
