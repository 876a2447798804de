// Local gradients against the twin's: equal bytes on a CPU, within the ceiling on a device.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/checks/ceilings.h"
#include "harness/checks/gradients/sum_law.h"
#include "harness/checks/gradients/twin_difference.h"
#include "harness/checks/gradients/twin_parts.h"
#include "harness/checks/largest.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class LocalComparison {
 public:
  LocalComparison(const TwinCase& the_case, ResultBuilder& result)
      : evidence_(the_case.evidence),
        ledger_(the_case.ledger),
        params_(the_case.params),
        result_(result) {}

  void judge(std::int64_t step, int rank) {
    std::vector<std::string> differ;
    for (const std::string& param : params_) {
      const Gradient* own = ledger_.ranks.find({step, rank, param});
      const Gradient* twin = ledger_.twin.find({step, rank, param});
      if (own == nullptr || twin == nullptr) {
        result_.missing(
            "gradient rows of " + process_name(own == nullptr ? rank : kTwin) +
            (own == nullptr ? ", step " : " for rank " + std::to_string(rank) + ", step ") +
            std::to_string(step));
        continue;
      }
      switch (agree(*own, *twin)) {
        case Agree::equal: ++equal_; break;
        case Agree::differ: differ.push_back(param); break;
        case Agree::absent: break;  // gradients_arrived judges that
        case Agree::unread:
          result_.missing("the hash of a local gradient of " + process_name(rank) +
                              " or its twin, step " + std::to_string(step) + ": " + param,
                          site_of_rank(rank));
      }
    }
    if (!differ.empty()) explain_local(step, rank, differ);
  }

  // True when something was found.
  bool tell() {
    for (const auto& [place, told] : told_) result_.found(finding(place, told));
    return !told_.empty();
  }

  [[nodiscard]] std::int64_t equal() const { return equal_; }

 private:
  [[nodiscard]] bool on_device() const {
    return evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
  }

  void explain_local(std::int64_t step, int rank, std::vector<std::string> differ) {
    const auto own = open_artefact(evidence_, {rank, "local_gradients", step, rank}, files_);
    const auto twin = open_artefact(evidence_, {kTwin, "local_gradients", step, rank}, files_);
    const bool readable = own && twin;
    if (on_device()) {
      if (!readable) {
        result_.missing("the local gradients of " + process_name(rank) + " and of its twin, step " +
                            std::to_string(step) +
                            " (their hashes differ, as they may on this device)",
                        site_of_rank(rank));
        return;
      }
      const std::size_t before = differ.size();
      differ = above_ceiling(evidence_.the_case.scenario, *own, *twin, differ);
      equal_ += static_cast<std::int64_t>(before - differ.size());
      if (differ.empty()) return;
    }
    GradientPlace place{step, "NUMERIC.GRADIENT", first_in_backward(differ), {}, ""};
    ToldGradient told;
    if (readable) {
      if (const auto factor = constant_factor(*own, *twin, differ)) {
        place = {step, "GRAD.SCALE", differ, {}, nsa::to_text(*factor, 4)};
        told.factor = *factor;
      } else {
        told.worst = worst_relative(*own, *twin, place.params);
      }
    }
    ToldGradient& kept = told_.try_emplace(place, told).first->second;
    kept.ranks.insert(rank);
    kept.differing = std::max(kept.differing, differ.size());
  }

  [[nodiscard]] static double worst_relative(const nsa::SafetensorsFile& own,
                                             const nsa::SafetensorsFile& twin,
                                             const std::vector<std::string>& params) {
    double worst = 0.0;
    for (const std::string& param : params) {
      if (!own.contains(param) || !twin.contains(param)) continue;
      const Relative seen = relative_error(own.at(param), twin.at(param));
      const double relative = seen.worst / (seen.scale > 0.0 ? seen.scale : 1.0);
      raise_to(worst, relative);
    }
    return worst;
  }

  [[nodiscard]] Finding finding(const GradientPlace& place, const ToldGradient& told) const {
    const bool scaled = place.code == "GRAD.SCALE";
    Finding finding = make_finding(place.code, "twin");
    const bool all = scaled && place.params.size() == params_.size();
    if (!all) finding.site = site_of_params(place.params);
    finding.site.step = place.step;
    finding.site.ranks = to_ints(told.ranks);
    finding.facts = {{"differing", told.differing}, {"total", params_.size()}};
    if (scaled) {
      finding.site.detail["factor"] = told.factor;
      return finding;
    }
    put_some(finding, "params", place.params);
    if (told.worst > 0.0) finding.facts["error"] = Real(told.worst);
    return finding;
  }

  const Evidence& evidence_;
  const Ledger& ledger_;
  const std::vector<std::string>& params_;
  ResultBuilder& result_;
  ResultBuilder
      files_;  // what explain_local() could not open: an explanation less, no verdict less
  std::map<GradientPlace, ToldGradient> told_;
  std::int64_t equal_ = 0;
};

}  // namespace

PartOfTwin compare_local(const TwinCase& the_case, std::int64_t step, ResultBuilder& result) {
  LocalComparison comparison(the_case, result);
  for (const int rank : all_ranks(the_case.evidence)) comparison.judge(step, rank);
  PartOfTwin part;
  part.found = comparison.tell();
  part.equal = comparison.equal();
  return part;
}

}  // namespace harness::checks
