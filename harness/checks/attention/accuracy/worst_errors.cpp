#include "harness/checks/attention/accuracy/worst_errors.h"

#include <cmath>

#include "nsa/base/text.h"

namespace harness::checks {
namespace {

double share_of(const ErrorOfTensor& error) {
  return error.value / error.limit;
}

bool is_worse(const ErrorOfTensor& error, const ErrorOfTensor& than) {
  return !std::isnan(share_of(than)) && !(share_of(error) <= share_of(than));
}

}  // namespace

void WorstErrors::take(const std::map<std::string, ErrorOfTensor>& errors) {
  for (const auto& [tensor, error] : errors) {
    ErrorOfTensor& kept = worst_.try_emplace(tensor, error).first->second;
    if (is_worse(error, kept)) kept = error;
  }
}

void WorstErrors::put_measured(ResultBuilder& result) const {
  for (const auto& [tensor, error] : worst_) {
    result.measured("relative_error_" + tensor, error.value, error.limit);
  }
}

std::string WorstErrors::nearest() const {
  auto nearest = worst_.begin();
  if (nearest == worst_.end()) return "none";
  for (auto at = worst_.begin(); at != worst_.end(); ++at) {
    if (is_worse(at->second, nearest->second)) nearest = at;
  }
  return nearest->first + " (" + nsa::to_text(share_of(nearest->second), 2) + " of it)";
}

}  // namespace harness::checks
