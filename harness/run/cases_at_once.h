// Which cases may run at the same time: each says what it takes of the machine, and what is left must be enough for the next.
// Pure bookkeeping: no clock, no process. One caller at a time.
//
// Laws: what is taken never exceeds what there is, except by a case that runs alone; a case that says nothing runs alone; where
// nothing runs, every case is admitted; no card has more than kMostOnACard cases.
#pragma once

#include <optional>
#include <vector>

#include "harness/scenario/scenario.h"

namespace harness {

// A card gives its processes turns of some milliseconds. With 60 small cases on one card of a machine with 64 cores, one in four
// used up its time; with 16 none does.
inline constexpr int kMostOnACard = 16;

struct Capacity {
  int cores = 1;
  double memory_gib = 0.0;
  std::vector<double> gpu_memory_gib;  // of each card
};

struct Needs {
  int cores = 0;
  double memory_gib = 0.0;
  int gpus = 0;
  double gpu_memory_gib = 0.0;  // of each of its cards
  bool alone = true;            // nothing else runs meanwhile
  double seconds = 0.0;         // at most

  bool operator==(const Needs&) const = default;
};

// A case that leaves open how many cores, how much memory or how much of its cards it takes runs alone.
[[nodiscard]] Needs needs_of(const Scenario& scenario);

// What a case was given.
struct Place {
  std::vector<int>
      gpus;  // cards, counted from 0, ascending: as many as it needs; all where too few have room
};

class Admission {
 public:
  explicit Admission(Capacity capacity)
      : all_(std::move(capacity)), free_(all_), cases_on_card_(all_.gpu_memory_gib.size()) {}

  // Nothing: it has to wait until something is released. Cards are given where most of their memory is free.
  [[nodiscard]] std::optional<Place> admit(const Needs& needs);
  void release(const Needs& needs, const Place& place);

 private:
  [[nodiscard]] std::optional<std::vector<int>> cards_for(const Needs& needs) const;
  void take(const Needs& needs, const Place& place, int sign);

  Capacity all_;
  Capacity free_;
  std::vector<int> cases_on_card_;
  int running_ = 0;
  bool taken_alone_ = false;
};

}  // namespace harness
