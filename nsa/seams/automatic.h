// `auto` in a route: the fastest implementation of a seam that can serve there. It is resolved once, before the model is made,
// from what configuration, device and dtype tell. What refuses a call afterwards ends the run as if it had been asked for by
// name: nothing falls back once something has started.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nsa/seams/seams.h"

namespace nsa {

inline constexpr const char* kAutomatic = "auto";

// An implementation that was considered for a seam.
struct Candidate {
  std::string seam;
  std::string implementation;
  std::string passed_over;  // why, as in "cannot do " + passed_over; "" for the one that was taken
};

struct ResolvedRoute {
  std::map<std::string, std::string> route;  // what was asked for, without `auto`
  // Of the seams that asked for `auto`, the fastest first, up to the one that was taken. A seam that a whole layer leaves out
  // has none.
  std::vector<Candidate> candidates;
};

// Whether a route may ask for `auto` in this seam: where several implementations compute the same.
[[nodiscard]] bool has_automatic(const std::string& seam);

// On a CPU and under autocast every `auto` is the reference: the order was measured on cards, in one dtype.
// Throws: Error on a seam that has no `auto`.
[[nodiscard]] ResolvedRoute resolve_route(const ModelConfig& config,
                                          const std::map<std::string, std::string>& route,
                                          const Surroundings& where);

}  // namespace nsa
