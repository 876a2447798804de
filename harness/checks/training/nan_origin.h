// Numbers that are not finite: where and when each was seen, and the finding that follows from the earliest one.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "harness/evidence/evidence.h"
#include "harness/judge/finding.h"

namespace harness::checks {

enum class Moment { weights, forward, loss, backward, gradient, after };

// When: step, moment, and a place within it; then the name.
struct Birth {
  std::int64_t step = 0;
  Moment moment = Moment::forward;
  int place = 0;
  int order = 0;
  std::string name;
  auto operator<=>(const Birth&) const = default;
};

struct Sighting {
  Site site;
  std::string what;
  std::int64_t elements = 0;
};

using Sightings = std::map<Birth, std::map<int, Sighting>>;  // by rank

// A birth certificate without what is of one rank alone.
struct Certificate {
  std::int64_t step = 0;
  int direction = 0;  // 0 forward, 1 backward, 2 optimizer
  int layer = -1;
  std::string seam;
  std::string op;
  auto operator<=>(const Certificate&) const = default;
};
using Certificates = std::map<Certificate, std::map<int, const NanBirth*>>;  // by rank

[[nodiscard]] Certificate certificate_of(const NanBirth& birth);

// The finding of the earliest certificate; what was recorded of its step and layer tells rows and branch. REQUIRES: there is one.
[[nodiscard]] Finding certified(const Evidence& evidence,
                                const Sightings& births,
                                const Certificates& certificates);

// The finding where nobody wrote a certificate: the earliest number recorded. REQUIRES: there is one.
[[nodiscard]] Finding recorded_origin(const Evidence& evidence, const Sightings& births);

}  // namespace harness::checks
