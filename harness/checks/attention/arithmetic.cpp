#include "harness/checks/attention/arithmetic.h"

#include <algorithm>
#include <string_view>

namespace harness::checks {
namespace {

struct Statement {
  std::string_view back_end;
  bool narrow_products;
};
constexpr std::array kStatements = {Statement{"reference", false},
                                    Statement{"masked", false},
                                    Statement{"packed", false},
                                    Statement{"gather", false},
                                    Statement{"sdpa", true},
                                    Statement{"fa2", true},
                                    Statement{"fa2_varlen", true}};

std::string_view back_end_of(const std::map<std::string, std::string>& route, const char* seam) {
  const auto at = route.find(seam);
  return at == route.end() ? std::string_view("reference") : std::string_view(at->second);
}

}  // namespace

std::optional<std::array<bool, 3>> narrow_products_of(
    const std::map<std::string, std::string>& route) {
  for (const char* seam : {"attention", "project", "rope", "compress", "gate"}) {
    if (back_end_of(route, seam) != "reference") return std::nullopt;
  }
  std::array<bool, 3> narrow{};
  std::size_t branch = 0;
  for (const char* seam : {"attend_cmp", "attend_sel", "attend_win"}) {
    const auto* const at =
        std::find_if(kStatements.begin(), kStatements.end(), [&](const Statement& statement) {
          return statement.back_end == back_end_of(route, seam);
        });
    if (at == kStatements.end()) return std::nullopt;
    narrow[branch++] = at->narrow_products;
  }
  return narrow;
}

}  // namespace harness::checks
