#include "harness/checks/training/nan_origin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/parameter_names.h"

namespace harness::checks {
namespace {

// Operators that hand out memory and compute nothing. Poison is written by a fill.
constexpr std::array kAllocations = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize"};

bool allocates(std::string_view op, bool poisoned) {
  if (const auto colon = op.rfind("::"); colon != std::string_view::npos) {
    op.remove_prefix(colon + 2);
  }
  while (!op.empty() && op.back() == '_') op.remove_suffix(1);
  if (poisoned && op == "fill") return true;
  return std::find(kAllocations.begin(), kAllocations.end(), op) != kAllocations.end();
}

constexpr std::array kDirections = {"forward", "backward", "optimizer"};

int order_of(const std::string& direction) {
  const auto* const at = std::find(kDirections.begin(), kDirections.end(), direction);
  return static_cast<int>(at - kDirections.begin());
}

class Certified {
 public:
  Certified(const Evidence& evidence, const Sightings& births, const Certificates& certificates)
      : evidence_(evidence), births_(births), certificates_(certificates) {}

  [[nodiscard]] Finding finding() const {
    const auto& [certificate, of_rank] = *certificates_.begin();
    const NanBirth& birth = *of_rank.begin()->second;
    std::set<int> ranks;
    for (const auto& [rank, row] : of_rank) ranks.insert(rank);
    const bool unwritten = certificate.op.empty() || allocates(certificate.op, birth.poisoned);
    const auto seen = place_of(certificate);
    Finding finding = make_finding(unwritten ? "NAN.UNINIT" : "NAN.ORIGIN", "operator");
    Site& site = finding.site;
    site.ranks = to_ints(ranks);
    site.step = certificate.step;
    site.phase = unwritten && seen && seen->backward ? "backward" : birth.direction;
    if (certificate.layer >= 0) site.layers = {certificate.layer};
    site.branch = branch_of_seam(certificate.seam);
    site.op = birth.direction == "optimizer" ? "optimizer"
              : unwritten                    ? certificate.seam
                                             : certificate.op;
    if (seen) {
      site.rows = seen->site.rows;
      if (site.layers.empty()) site.layers = seen->site.layers;
      if (site.branch.empty()) site.branch = seen->site.branch;
      if (site.op.empty()) site.op = seen->site.op;
    }
    if (!certificate.seam.empty()) site.detail["seam"] = certificate.seam;
    if (birth.elements > 0) site.detail["elements"] = birth.elements;
    const std::vector<int> without_keys = rows_without_keys(site, birth, !seen || !seen->backward);
    if (!without_keys.empty()) {
      site.rows = without_keys;
      site.detail["keys"] = 0;
      if (!unwritten) finding.variant = "keyless";
    }
    finding.facts["direction"] = "in the " + site.phase;
    if (!unwritten) {
      finding.facts["operator"] = certificate.op;
      tell_inputs(birth, of_rank.begin()->first, finding);
    }
    if (seen) finding.facts["seen"] = seen->what;
    return finding;
  }

 private:
  // Where the recorded numbers of that step and layer show it.
  struct Place {
    Site site;
    std::string what;
    bool backward = false;
  };

  // What the seam itself made comes first, then the earliest tensor of the forward. A number that was masked away in the
  // forward shows in the backward alone.
  [[nodiscard]] std::optional<Place> place_of(const Certificate& certificate) const {
    const Sighting* first = nullptr;
    for (const auto& [birth, of_rank] : births_) {
      const Sighting& seen = of_rank.begin()->second;
      if (birth.step != certificate.step || birth.moment != Moment::forward) continue;
      if (!in_layer(seen, certificate.layer)) continue;
      if (seen.site.op == certificate.seam) return Place{seen.site, seen.what, false};
      if (first == nullptr) first = &seen;
    }
    const bool forward = certificate.direction == 0 && first != nullptr;
    if (forward && (certificate.seam.empty() || allocates(certificate.op, true))) {
      return Place{first->site, first->what, false};
    }
    return backward_place(certificate);
  }

  [[nodiscard]] static bool in_layer(const Sighting& seen, int layer) {
    return layer < 0 || seen.site.layers == std::vector<int>{layer};
  }

  // Rows from the gradient of the layer's input, the branch from the weights whose gradients are not finite.
  [[nodiscard]] std::optional<Place> backward_place(const Certificate& certificate) const {
    std::optional<Place> place;
    std::set<std::string> branches;
    for (const auto& [birth, of_rank] : births_) {
      const Sighting& seen = of_rank.begin()->second;
      if (birth.step != certificate.step || birth.moment != Moment::backward) continue;
      if (birth.name == "dy" || !in_layer(seen, certificate.layer)) continue;
      if (!place) {
        place = Place{Site{}, seen.what, true};
        place->site.layers = seen.site.layers;
      }
      if (seen.site.layers != place->site.layers) break;
      if (birth.name == "dx") place->site.rows = seen.site.rows;
      if (const std::string branch = branch_of(seen.site.param); !branch.empty()) {
        branches.insert(branch);
      }
    }
    if (place && branches.size() == 1) {
      place->site.branch = *branches.begin();
      place->site.op = "attend_" + place->site.branch;
    }
    return place;
  }

  // Rows of queries that see no key: the compressed branch alone has such. Where the forward masked them away, as many rows of
  // the operator's output as there are such queries tell them.
  [[nodiscard]] std::vector<int> rows_without_keys(const Site& site,
                                                   const NanBirth& birth,
                                                   bool seen_forward) const {
    const Scenario& scenario = evidence_.the_case.scenario;
    const auto keyless =
        static_cast<int>(std::min(scenario.model.l - 1, scenario.training.seq_len));
    if (site.branch != "cmp" || site.rows.empty()) return {};
    if (site.rows.back() < keyless) return site.rows;
    if (seen_forward || birth.shape.empty() || birth.shape.back() < 1) return {};
    const std::int64_t lanes = scenario.training.batch_size * scenario.model.n_heads;
    const std::int64_t vectors = birth.elements / birth.shape.back();
    if (birth.elements % birth.shape.back() != 0 || vectors > lanes * keyless) return {};
    std::vector<int> rows;
    for (const int row : site.rows) {
      if (row < keyless) rows.push_back(row);
    }
    return rows;
  }

  // The largest number that went in. Of the optimiser the ledger of the gradients tells it: its certificate has seen only what
  // came out. Nothing where neither knows.
  [[nodiscard]] std::optional<double> largest_input(int rank, const NanBirth& birth) const {
    if (birth.direction != "optimizer") return birth.largest_input.value;
    std::optional<double> largest;
    for (const auto& row : evidence_.gradients) {
      if (row.process != rank || row.row.step != birth.step || row.row.state == "none") continue;
      const bool infinite = row.row.state == "inf";
      const double here = infinite ? INFINITY : row.row.absmax.value;
      if (!largest || !(here <= *largest)) largest = here;
    }
    return largest;
  }

  // What is known of the operator's inputs chooses the words: that they were finite is said only where they were.
  void tell_inputs(const NanBirth& birth, int rank, Finding& finding) const {
    const std::optional<double> largest = largest_input(rank, birth);
    if (largest && std::isfinite(*largest)) {
      finding.facts["largest_input"] = *largest;
    } else if (largest && finding.variant == "operator") {
      finding.variant =
          std::isnan(*largest) && birth.direction != "optimizer" ? "written" : "infinite";
    }
  }

  const Evidence& evidence_;
  const Sightings& births_;
  const Certificates& certificates_;
};

}  // namespace

Certificate certificate_of(const NanBirth& birth) {
  return {birth.step, order_of(birth.direction), birth.layer, birth.seam, birth.op};
}

Finding certified(const Evidence& evidence,
                  const Sightings& births,
                  const Certificates& certificates) {
  return Certified(evidence, births, certificates).finding();
}

Finding recorded_origin(const Evidence& evidence, const Sightings& births) {
  const auto& [birth, of_rank] = *births.begin();
  std::set<int> ranks;
  for (const auto& [rank, seen] : of_rank) ranks.insert(rank);
  const Sighting& seen = of_rank.begin()->second;
  // Poisoned memory is NaN where nobody wrote; no operator was seen to make one.
  const bool unwritten = evidence.the_case.scenario.attention.poison && runs_layers_alone(evidence);
  Finding finding = make_finding(unwritten ? "NAN.UNINIT" : "NAN.ORIGIN", "recorded");
  finding.site = seen.site;
  finding.site.ranks = to_ints(ranks);
  finding.site.step = birth.step;
  finding.site.phase = birth.moment == Moment::weights || birth.moment == Moment::after
                           ? "optimizer"
                       : birth.moment <= Moment::loss ? "forward"
                                                      : "backward";
  if (seen.elements > 0) finding.site.detail["elements"] = seen.elements;
  finding.facts["seen"] = seen.what;
  if (births.size() > 1) finding.facts["later"] = births.size() - 1;
  return finding;
}

}  // namespace harness::checks
