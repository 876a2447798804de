#include "oracles/naming.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace oracles {

void Misfit::add(std::int64_t place, double found, double wanted, double bound) {
  ++judged;
  const double difference = std::abs(found - wanted);
  // Equal infinities differ by a NaN, and equal numbers need no bound.
  if (difference <= bound || found == wanted) {
    if (difference > 0 && bound > 0) {
      worst = std::max(worst, difference / bound);
    }
    return;
  }
  ++wrong;
  first = first < 0 ? place : first;
  const double times = difference / bound;
  worst = times > worst || std::isnan(times)
              ? (std::isnan(times) ? std::numeric_limits<double>::infinity() : times)
              : worst;
}

void Misfit::add(const Misfit& other, std::int64_t offset) {
  judged += other.judged;
  wrong += other.wrong;
  if (first < 0 && other.first >= 0) {
    first = other.first + offset;
  }
  worst = std::max(worst, other.worst);
}

std::string Naming::text() const {
  if (right.fits()) {
    return "right";
  }
  if (fitting.empty()) {
    return "no known law";
  }
  if (const LawFit* const law = alone()) {
    return std::string(law->law.name) + ": " + std::string(law->law.about) +
           (law->detail.empty() ? "" : " (" + law->detail + ")");
  }
  std::string names;
  for (const LawFit& law : fitting) {
    names += (names.empty() ? "" : ", ") + std::string(law.law.name);
  }
  return "no law alone: " + names;
}

namespace {
constexpr std::string_view kOr = " or ";
}

std::vector<std::string> forms_in(std::string_view detail) {
  std::vector<std::string> forms;
  for (std::size_t end = detail.find(kOr); end != detail.npos; end = detail.find(kOr)) {
    forms.emplace_back(detail.substr(0, end));
    detail.remove_prefix(end + kOr.size());
  }
  forms.emplace_back(detail);
  return forms;
}

void merge_forms(std::vector<LawFit>& fitting) {
  std::vector<LawFit> merged;
  for (LawFit& fit : fitting) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const LawFit& other) {
      return other.law.name == fit.law.name;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(fit));
    } else {
      same->detail += std::string(kOr) + fit.detail;
    }
  }
  fitting = std::move(merged);
}

void keep_the_strongest(std::vector<LawFit>& fitting) {
  const auto everywhere = [](const LawFit& law) { return law.share >= 1; };
  if (std::any_of(fitting.begin(), fitting.end(), everywhere)) {
    std::erase_if(fitting, [&](const LawFit& law) { return !everywhere(law); });
  }
}

}  // namespace oracles
