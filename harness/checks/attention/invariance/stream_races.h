// Do the streams of a card race? A layer was called twice with every operator waiting for the one before it, and with either side
// of the streams late. Where those two calls give equal bits and another one does not, what differs is the order in which streams
// came.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/checks/departures.h"
#include "harness/evidence/evidence.h"
#include "nsa/base/safetensors.h"

namespace harness::checks {

class StreamRaces {
 public:
  StreamRaces(const Evidence& evidence, ResultBuilder& result)
      : evidence_(evidence), result_(result) {}

  // True where streams race in this layer: then calls that differ tell no more. `plain`: calls in which nobody was late; a single
  // one that differs is no race, but the odd one of them. What is not recorded is missing.
  bool judge_layer(const std::vector<nsa::SafetensorsFile>& plain, int layer);
  [[nodiscard]] const Departures& found() const { return found_; }

 private:
  bool compare(const nsa::SafetensorsFile& in_series,
               const nsa::SafetensorsFile& other,
               const std::string& late,
               int layer);

  const Evidence& evidence_;
  ResultBuilder& result_;
  Departures found_;
};

}  // namespace harness::checks
