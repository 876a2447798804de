#include "harness/diagnose/on_record.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/judge/patterns.h"

namespace harness {
namespace {

// Of a rank's own doing, which its process or its own lines attest: no peer and no comparison is needed.
constexpr std::array kOfOneRank = {std::string_view("CRASH.SIGNAL"),
                                   std::string_view("CRASH.EXCEPTION"),
                                   std::string_view("OOM.HOST"),
                                   std::string_view("HANG.HOST"),
                                   std::string_view("HANG.INIT"),
                                   std::string_view("HANG.KERNEL"),
                                   std::string_view("DESYNC.MISSING_RANK"),
                                   std::string_view("DATA.DUPLICATE"),
                                   std::string_view("INFRA.STALE_BUILD"),
                                   std::string_view("SLOW.COMPILE"),
                                   std::string_view("SLOW.DATA")};

// The law of the oracle that the cause names: with this one mistake the recorded inputs give every wrong number that was compared.
// "" where it names none, or one that says that it is fitted: that fits other numbers with another fit.
std::string mistake_of(const Cause& cause) {
  return has_fitted_law(cause.site) ? "" : law_of(cause.site);
}

}  // namespace

std::string shown_by_record(const Scenario& scenario, const std::vector<Cause>& causes) {
  const Cause& first = causes.front();
  const bool own = std::find(kOfOneRank.begin(), kOfOneRank.end(), first.code) != kOfOneRank.end();
  const bool one_of_several = first.site.ranks.size() == 1 && scenario.parallel.ranks > 1;
  if (!own || !one_of_several || causes.size() != 1) return "";
  std::string statement = first.statement;
  while (statement.ends_with('.')) statement.pop_back();
  return "It is rank " + std::to_string(first.site.ranks.front()) +
         ", as its own record shows: " + statement;
}

std::string reproduced_by_law(const std::vector<Cause>& causes,
                              const std::vector<std::vector<Cause>>& alike) {
  const std::string law = mistake_of(causes.front());
  const bool everywhere = std::all_of(alike.begin(), alike.end(), [&](const auto& seen) {
    return seen.size() == 1 && mistake_of(seen.front()) == law;
  });
  if (law.empty() || causes.size() != 1 || !everywhere) return "";
  const std::string& op = causes.front().site.op;
  return "The mistake is in " + (op.empty() ? std::string("the stage") : op) + " itself: the law " +
         law +
         " gives every wrong number that was compared, wherever the case failed alike: again, and "
         "with other numbers drawn. Nothing was removed";
}

}  // namespace harness
