#include "harness/run/cases_at_once.h"

#include <algorithm>
#include <numeric>

namespace harness {

Needs needs_of(const Scenario& scenario) {
  const bool on_gpu = scenario.parallel.device == nsa::Device::cuda;
  const bool known = scenario.budget_cores > 0 && scenario.requires_memory_gib > 0.0 &&
                     (!on_gpu || scenario.requires_gpu_memory_gib > 0.0);
  Needs needs;
  // What is compared over levels of observation depends on times, and on the order of its cases.
  needs.alone = !known || scenario.has_check("levels_agree");
  needs.cores = scenario.budget_cores;
  needs.memory_gib = scenario.requires_memory_gib;
  needs.gpus = on_gpu ? scenario.requires_gpus : 0;
  needs.gpu_memory_gib = on_gpu ? scenario.requires_gpu_memory_gib : 0.0;
  needs.seconds = scenario.budget_seconds;
  return needs;
}

std::optional<std::vector<int>> Admission::cards_for(const Needs& needs) const {
  std::vector<int> cards(free_.gpu_memory_gib.size());
  std::iota(cards.begin(), cards.end(), 0);
  const auto free_on = [&](int card) {
    return free_.gpu_memory_gib[static_cast<std::size_t>(card)];
  };
  std::erase_if(cards, [&](int card) {
    return cases_on_card_[static_cast<std::size_t>(card)] >= kMostOnACard;
  });
  std::stable_sort(
      cards.begin(), cards.end(), [&](int a, int b) { return free_on(a) > free_on(b); });
  const auto wanted = static_cast<std::size_t>(needs.gpus);
  if (wanted > cards.size()) return std::nullopt;
  cards.resize(wanted);
  if (!cards.empty() && free_on(cards.back()) < needs.gpu_memory_gib) return std::nullopt;
  std::sort(cards.begin(), cards.end());
  return cards;
}

std::optional<Place> Admission::admit(const Needs& needs) {
  Place place;
  if (running_ > 0) {
    const bool fits = !taken_alone_ && !needs.alone && needs.cores <= free_.cores &&
                      needs.memory_gib <= free_.memory_gib;
    const auto cards = fits ? cards_for(needs) : std::nullopt;
    if (!cards) return std::nullopt;
    place.gpus = *cards;
  } else if (const auto cards = cards_for(needs)) {
    place.gpus = *cards;
  } else {
    place.gpus.resize(all_.gpu_memory_gib.size());
    std::iota(place.gpus.begin(), place.gpus.end(), 0);
  }
  take(needs, place, 1);
  return place;
}

void Admission::release(const Needs& needs, const Place& place) {
  take(needs, place, -1);
}

void Admission::take(const Needs& needs, const Place& place, int sign) {
  running_ += sign;
  if (needs.alone) taken_alone_ = sign > 0;
  free_.cores -= sign * needs.cores;
  free_.memory_gib -= sign * needs.memory_gib;
  for (const int card : place.gpus) {
    free_.gpu_memory_gib[static_cast<std::size_t>(card)] -= sign * needs.gpu_memory_gib;
    cases_on_card_[static_cast<std::size_t>(card)] += sign;
  }
}

}  // namespace harness
