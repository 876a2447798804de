#include "harness/checks/attention/backend/arithmetic.h"

#include <algorithm>
#include <string_view>

#include "harness/checks/attention/backend/whole_layer.h"

namespace harness::checks {
namespace {

struct Statement {
  std::string_view back_end;
  bool narrow_products;
};
constexpr std::string_view kByHand = "by_hand";  // rounds nothing but what it gives back
constexpr std::array kStatements = {Statement{"reference", false},
                                    Statement{kByHand, false},
                                    Statement{"masked", false},
                                    Statement{"packed", false},
                                    Statement{"gather", false},
                                    Statement{"sdpa", true},
                                    Statement{"fa2", true},
                                    Statement{"fa2_varlen", true},
                                    Statement{"cuda", true},
                                    Statement{"cuda_mma", true}};

std::string_view back_end_of(const std::map<std::string, std::string>& route, const char* seam) {
  const auto at = route.find(seam);
  return at == route.end() ? std::string_view("reference") : std::string_view(at->second);
}

// The pooling kernels sum in float32 and round once, as the reference does.
bool rounds_alike(std::string_view seam, std::string_view back_end) {
  if (back_end == kByHand) return true;
  return seam == "compress" &&
         std::find(kWholeLayers.begin(), kWholeLayers.end(), back_end) != kWholeLayers.end();
}

}  // namespace

std::optional<std::array<bool, 3>> narrow_products_of(
    const std::map<std::string, std::string>& route) {
  if (computes_whole_layer(route)) return std::array{true, true, true};
  for (const char* seam : {"attention", "project", "rope", "compress", "gate"}) {
    const std::string_view name = back_end_of(route, seam);
    if (name != "reference" && !rounds_alike(seam, name)) return std::nullopt;
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
