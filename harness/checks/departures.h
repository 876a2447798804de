// One form for "wrong at this place". A check says what departs at each place that it looks at: on one rank, in one layer, in one
// step. Departures that say the same of several places become one finding.
//
// Example: a tensor that is wrong in layers 1 and 3 of ranks 0 and 1 gives four departures and one finding:
//   Departure seen("NUMERIC.FORWARD", "plain");
//   seen.site = site_of_layer(rank, layer);
//   seen.site.op = "attend_sel";
//   departures.add(seen);
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/checks/result.h"
#include "oracles/naming.h"

namespace harness::checks {

inline constexpr std::size_t kMostRows = 4096;  // of a site: a finding stays a page of text

// A known mistake that gives every number that was found.
struct KnownLaw {
  std::string name;
  std::string about;    // what is done in place of the right thing
  bool fitted = false;  // to the numbers that were found
  double share = 0.0;   // of the rows that would be wrong if the law held everywhere; 0: not known
  double number = 0.0;  // the factor that was fitted, if any
  std::string detail = {};  // the end of `about`: which form of the law, "16 or 32"
};
[[nodiscard]] std::vector<KnownLaw> known_laws(const oracles::Naming& naming);

struct Departure : Finding {
  Departure() = default;
  Departure(std::string its_code, std::string its_variant) {
    code = std::move(its_code);
    variant = std::move(its_variant);
  }

  std::vector<KnownLaw> laws;  // none: no known mistake gives it, or none was asked for
  bool by_law =
      true;  // departures with other laws are other findings; else what is common to all laws is kept
  std::string apart_by;              // departures with another value are other findings
  std::vector<std::string> tensors;  // that are wrong
  std::vector<std::string> params;   // full names of parameters that are wrong
  double error =
      0.0;  // of several departures, the facts of the one with the largest error are kept
  std::optional<double> limit;  // of the error; the finding names both if there is one
  bool counts_each_row_once =
      false;          // "row_count" is the size of the union of rows, not the sum of all counts
  std::string where;  // the error was measured, if that is not the whole tensor

  // The name of the only law, "" for none or several.
  [[nodiscard]] std::string law() const { return laws.size() == 1 ? laws.front().name : ""; }
  [[nodiscard]] std::int64_t row_count() const {
    return site.detail.value("row_count", std::int64_t{0});
  }
};

// Keeps the error that is furthest beyond its limit. A NaN stays.
void keep_worst(double error, double limit, const std::string& where, Departure& seen);

class Departures {
 public:
  enum class Steps {
    apart,  // departures of other steps are other findings
    first   // later steps belong to the first one, which gives the place
  };
  explicit Departures(Steps steps = Steps::apart, FactName about = "about")
      : steps_(steps), about_(about) {}

  void add(Departure departure);
  [[nodiscard]] bool empty() const { return groups_.empty(); }
  // In the order in which their first departures were added.
  [[nodiscard]] std::vector<Finding> findings() const;
  void tell(ResultBuilder& result) const {
    for (Finding& finding : findings()) result.found(std::move(finding));
  }

 private:
  [[nodiscard]] std::string key_of(const Departure& departure) const;

  Steps steps_;
  FactName about_;
  std::map<std::string, std::size_t> place_of_;  // of a key, in groups_
  std::vector<std::vector<Departure>> groups_;
};

}  // namespace harness::checks
