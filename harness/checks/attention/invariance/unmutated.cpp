// Did an implementation write into what it was given? What a seam gets belongs to its caller, who goes on using it.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"
#include "harness/evidence/seen_by.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// step, op, who wrote
using TensorKey = std::tuple<std::int64_t, std::string, std::string>;

// The choice of blocks is what `select` said, whoever changes it afterwards; else who wrote is to blame.
std::string op_of(const Mutation& row) {
  return row.tensor == "blocks" ? "select" : row.seam;
}

struct Where {
  std::set<int> layers;
  std::set<int> ranks;
  std::set<std::string> tensors;
  std::set<std::string> seen_by;
  std::int64_t elements = 0;
};

Finding finding(const TensorKey& key, const Where& where) {
  const auto& [step, op, seam] = key;
  const bool touched = where.seen_by == std::set<std::string>{kSeenByVersionAlone};
  Finding finding = make_finding("ALIAS.MUTATED", touched ? "touched" : "written");
  finding.site.layers = to_ints(where.layers);
  finding.site.ranks = to_ints(where.ranks);
  finding.site.branch = branch_of_seam(seam);
  finding.site.op = op;
  finding.site.step = step;
  finding.site.detail["tensor"] =
      nsa::join(std::vector<std::string>(where.tensors.begin(), where.tensors.end()));
  finding.site.detail["elements"] = where.elements;
  finding.site.detail["written_by"] = seam;
  finding.site.detail["seen_by"] =
      nsa::join(std::vector<std::string>(where.seen_by.begin(), where.seen_by.end()));
  return finding;
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
  std::map<TensorKey, Where> wrong;
  for (const auto& row : evidence.mutations) {
    if (row.process < 0) continue;
    Where& where = wrong[{row.row.step, op_of(row.row), row.row.seam}];
    if (row.row.layer >= 0) where.layers.insert(row.row.layer);
    where.ranks.insert(row.process);
    where.tensors.insert(row.row.tensor);
    where.elements += row.row.elements;
    where.seen_by.insert(row.row.seen_by.empty() ? "what the rank recorded" : row.row.seen_by);
  }
  for (const auto& [key, where] : wrong) result.found(finding(key, where));
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
