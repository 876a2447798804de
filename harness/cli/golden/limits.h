// How far each result of a golden file may be from what is wanted, by the result's own type and those it is made of. A result of
// an attention layer in bfloat16 or float16 has the budget of error_budget.h; all others have a ceiling, which in these types is
// wide (a quarter in bfloat16): a result of a whole model has a limit on average besides.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/checks/error_budget.h"
#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"
#include "oracles/laws/match.h"

namespace harness::cli::golden {

// Two float64 implementations that sum in other orders; 64 sqrt(n) u with n = 10^3 terms is 2e-13,
// and gradients cancel. The model sums in blocks of its libraries' choice besides.
inline constexpr double kFloat64Oracle = 1e-11;
inline constexpr double kFloat64Model = 1e-10;

class Limits {
 public:
  // Refers to both.
  Limits(const Case& the_case, const Wanted& oracle);

  // Largest number of a result, or a thousandth of the largest of its kind where that is more.
  [[nodiscard]] double scale_of(const std::string& name, const oracles::Tensor& wanted) const;
  // Relative, where the result has no budget.
  [[nodiscard]] double ceiling_of(const std::string& name, double of_float64) const;
  // A result of a whole model in bfloat16 or float16, by root mean squares: of the whole tensor, and of its rows.
  struct Mean {
    double error = 0.0;  // relative
    double limit = 0.0;
    std::string where;  // "on average", "on average of one row"
  };
  // Of what comes nearest to its limit; nothing where a ceiling or a budget suffices.
  [[nodiscard]] std::optional<Mean> mean_of(const std::string& name,
                                            const oracles::Tensor& found,
                                            const oracles::Tensor& wanted) const;
  // Any number of the result, from the oracle's.
  [[nodiscard]] oracles::Allowed allowed(const std::string& name) const;

  [[nodiscard]] bool has_budget(const std::string& name) const;
  // REQUIRES: it has a budget.
  [[nodiscard]] checks::Spent spent(const std::string& name,
                                    const oracles::Tensor& found,
                                    const oracles::Tensor& wanted) const;

 private:
  [[nodiscard]] const Wanted& narrow(oracles::Number number, int draw) const;
  [[nodiscard]] const oracles::Tensor& plain(const std::string& name, int draw = 0) const;

  const Case& c_;
  const Wanted& oracle_;
  std::map<std::string, double> largest_;  // by kind
  std::set<oracles::Number> narrow_types_;
  mutable std::map<std::pair<oracles::Number, int>, Wanted> narrow_;      // by draw
  mutable std::map<std::pair<std::string, int>, oracles::Tensor> plain_;  // as stored, by draw
};

}  // namespace harness::cli::golden
