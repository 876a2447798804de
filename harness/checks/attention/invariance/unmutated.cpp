// Did an implementation write into what it was given? What a seam gets belongs to its caller, who goes on using it.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/checks/departures.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"
#include "harness/evidence/seen_by.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// The choice of blocks is what `select` said, whoever changes it afterwards; else who wrote is to blame.
std::string op_of(const Mutation& row) {
  return row.tensor == "blocks" ? "select" : row.seam;
}

Departure departure_of(const From<Mutation>& row) {
  Departure seen("ALIAS.MUTATED", "written");
  seen.site = site_of_rank(row.process);
  if (row.row.layer >= 0) seen.site.layers = {row.row.layer};
  seen.site.branch = branch_of_seam(row.row.seam);
  seen.site.op = op_of(row.row);
  seen.site.step = row.row.step;
  seen.site.detail["tensors"] = {row.row.tensor};
  seen.site.detail["elements"] = row.row.elements;
  seen.site.detail["written_by"] = row.row.seam;
  seen.site.detail["seen_by"] = {row.row.seen_by.empty() ? "what the rank recorded"
                                                         : row.row.seen_by};
  seen.apart_by = row.row.seam;
  return seen;
}

// A write that only a version counter shows may have changed no number.
void tell(Finding finding, ResultBuilder& result) {
  using Names = std::vector<std::string>;
  const auto seen_by = finding.site.detail.value("seen_by", Names());
  if (seen_by == Names{kSeenByVersionAlone}) finding.variant = "touched";
  finding.site.detail["tensor"] = nsa::join(finding.site.detail.value("tensors", Names()));
  finding.site.detail.erase("tensors");
  finding.site.detail["seen_by"] = nsa::join(seen_by);
  result.found(std::move(finding));
}

CheckResult judge_mutations(const Evidence& evidence) {
  ResultBuilder result;
  std::int64_t watched = 0;
  std::set<int> watching;
  for (const auto& row : evidence.facts) {
    if (row.process < 0 || row.row.name != "mutations_watched") continue;
    const auto count = nsa::parse_double(row.row.value);
    if (!count || !(*count > 0.0)) continue;
    watched += static_cast<std::int64_t>(*count);
    watching.insert(row.process);
  }
  for (const int rank : all_ranks(evidence)) {
    if (watching.count(rank) > 0) continue;
    result.missing(
        "a count of watched seam calls on " + process_name(rank) + ended_early(evidence, rank),
        site_of_rank(rank));
  }
  Departures wrong;
  for (const auto& row : evidence.mutations) {
    if (row.process >= 0) wrong.add(departure_of(row));
  }
  for (Finding& finding : wrong.findings()) tell(std::move(finding), result);
  result.measured("seam_calls_watched", static_cast<double>(watched));
  return result.finish("in " + counted(watched, "watched call") +
                       " no seam wrote into what it was given");
}

}  // namespace

Check unmutated() {
  return {"unmutated",
          "no implementation of a seam writes into the tensors that it is given",
          {"ALIAS.MUTATED"},
          &judge_mutations};
}

}  // namespace harness::checks
