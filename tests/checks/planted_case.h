// One defect that is planted into healthy evidence, and what a check must say of it.
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/checks/fixtures.h"

namespace fixtures {

struct Planted {
  std::string check;
  std::string name;
  harness::Verdict verdict;
  std::string code;  // of the first finding; "" for none
  std::string site;  // JSON, what the site must at least say
  std::function<void(Healthy&)> spoil;
  int ranks = 2;
  int steps = 1;
  std::string kind = "training";
  bool of_record = false;  // wrong is what was written, and nothing that was computed
};

using harness::Gradient;
using harness::Verdict;

// Adds defects that one check judges in runs of one size.
struct PlantedAdder {
  std::vector<Planted>& list;
  std::string check;
  int ranks = 2;
  int steps = 1;
  std::string kind = "training";

  void operator()(const std::string& name,
                  Verdict verdict,
                  const std::string& code,
                  const std::string& site,
                  const std::function<void(Healthy&)>& spoil) const {
    list.push_back({check, name, verdict, code, site, spoil, ranks, steps, kind, false});
  }
};

inline const auto kLeaveAsItIs = [](Healthy&) {};

template <typename Rows, typename Which>
void remove_if(Rows& rows, Which which) {
  std::erase_if(rows, which);
}

}  // namespace fixtures
