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
      const Said said = agree(*own, *twin);  // gradients_arrived judges what is absent
      if (said == Said::equal) ++equal_;
      if (said == Said::differ) differ.push_back(param);
      if (said == Said::unread) {
        result_.missing("the hash of a local gradient of " + process_name(rank) +
                            " or its twin, step " + std::to_string(step) + ": " + param,
                        site_of_rank(rank));
      }
    }
    if (!differ.empty()) explain_local(step, rank, differ);
  }

  // True when something was found.
  bool tell() {
    departures_.tell(result_);
    return !departures_.empty();
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
    const auto factor = readable ? constant_factor(*own, *twin, differ) : std::nullopt;
    const std::vector<std::string> params = factor ? differ : first_in_backward(differ);
    Departure seen(factor ? "GRAD.SCALE" : "NUMERIC.GRADIENT", "twin");
    const bool all = factor && params.size() == params_.size();
    if (!all) seen.site = site_of_params(params);
    seen.site.step = step;
    seen.site.ranks = {rank};
    seen.apart_by = nsa::join(params);
    seen.facts = {{"differing", differ.size()}, {"total", params_.size()}};
    if (factor) {
      seen.apart_by += nsa::to_text(*factor, 4);
      seen.site.detail["factor"] = *factor;
    } else {
      seen.facts.put_some("params", params);
      if (readable) seen.error = worst_relative(*own, *twin, params);
      if (seen.error != 0.0) seen.facts["error"] = Real(seen.error);
    }
    departures_.add(std::move(seen));
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

  const Evidence& evidence_;
  const Ledger& ledger_;
  const std::vector<std::string>& params_;
  ResultBuilder& result_;
  ResultBuilder
      files_;  // what explain_local() could not open: an explanation less, no verdict less
  Departures departures_;
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
