// Are the gradients those of a single process? (1) every rank's local gradient is the twin's for the same micro-batch, bit by
// bit on a CPU; (2) the reduced gradient is the mean of the ranks' local ones. A constant factor is told as such.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "harness/checks/ceilings.h"
#include "harness/checks/ledger.h"
#include "harness/checks/list.h"
#include "harness/checks/params.h"
#include "harness/checks/sum_law.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Place {  // what the same finding on several ranks has in common
  std::int64_t step = 0;
  std::string code;
  std::vector<std::string> params;
  std::vector<int> buckets;
  std::string factor;
  auto operator<=>(const Place&) const = default;
};

struct Told {
  std::set<int> ranks;
  std::size_t differing = 0;
  double factor = 1.0;
  double worst = 0.0;
};

// The parameters of the layer that the backward meets first, of those given: head and final norm, then the last layer.
std::vector<std::string> first_in_backward(const std::vector<std::string>& params) {
  const auto rank_of = [](const std::string& param) {
    if (layer_of(param) >= 0) return layer_of(param);
    return param == "embed.weight" ? -1 : 1 << 20;
  };
  int last = -1;
  for (const std::string& param : params) last = std::max(last, rank_of(param));
  std::vector<std::string> first;
  std::copy_if(
      params.begin(), params.end(), std::back_inserter(first), [&](const std::string& param) {
        return rank_of(param) == last;
      });
  return first;
}

struct Relative {
  double worst = 0.0;  // largest |a - b|
  double scale = 0.0;  // largest |b|
};

Relative relative_error(const nsa::TensorView& a, const nsa::TensorView& b) {
  const Reals x(a);
  const Reals y(b);
  Relative seen;
  if (x.size() != y.size()) return {std::nan(""), 1.0};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(x[i] - y[i]);
    if (!(difference <= seen.worst)) seen.worst = difference;
    seen.scale = std::max(seen.scale, std::abs(y[i]));
  }
  return seen;
}

class TwinComparison {
 public:
  explicit TwinComparison(const Evidence& evidence)
      : evidence_(evidence),
        ledger_(evidence),
        params_(parameter_names(evidence.the_case.scenario.model)) {}

  CheckResult judge() {
    if (!evidence_.twin_ran()) {
      return inconclusive(
          "the twin did not run, or not to its end: there is nothing to compare with");
    }
    const Scenario& scenario = evidence_.the_case.scenario;
    for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
      for (const int rank : all_ranks(evidence_)) judge_local(step, rank);
      judge_sums(step);
      if (!local_.empty() || !sums_.empty()) break;  // later steps start from other parameters
    }
    for (const auto& [place, told] : local_) result_.found(local_finding(place, told));
    for (const auto& [place, told] : sums_) result_.found(sum_finding(place, told));
    result_.measured("gradients_equal_to_twin", static_cast<double>(equal_));
    result_.measured("worst_share_of_sum_bound", worst_share_, 1.0);
    return result_.finish(std::to_string(equal_) + " local gradients equal the twin's" +
                          (on_device() ? " within the ceiling" : " bit by bit") +
                          "; the reduced ones are their mean (worst " +
                          nsa::to_text(worst_share_, 3) + " of the bound)");
  }

 private:
  [[nodiscard]] bool on_device() const {
    return evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
  }

  // ---- local gradients -----------------------------------------------------------------------------------------------

  void judge_local(std::int64_t step, int rank) {
    std::vector<std::string> differ;
    for (const std::string& param : params_) {
      const Gradient* own = ledger_.ranks.find({step, rank, param});
      const Gradient* twin = ledger_.twin.find({step, rank, param});
      if (own == nullptr || twin == nullptr) {
        result_.missing(
            "gradient rows of " + process_name(own == nullptr ? rank : kTwin) +
            (own == nullptr ? ", step " : " for rank " + std::to_string(rank) + ", step ") +
            std::to_string(step));
      } else if (own->hash_before == twin->hash_before) {
        ++equal_;
      } else {
        differ.push_back(param);
      }
    }
    if (!differ.empty()) explain_local(step, rank, differ);
  }

  void explain_local(std::int64_t step, int rank, std::vector<std::string> differ) {
    const auto own = open_artefact(evidence_, {rank, "local_gradients", step, rank}, files_);
    const auto twin = open_artefact(evidence_, {kTwin, "local_gradients", step, rank}, files_);
    const bool readable = own && twin;
    if (on_device()) {
      if (!readable) {
        result_.missing("the local gradients of " + process_name(rank) + " and of its twin, step " +
                        std::to_string(step) +
                        " (their hashes differ, as they may on this device)");
        return;
      }
      keep_above_ceiling(*own, *twin, differ);
      if (differ.empty()) return;
    }
    Place place{step, "NUMERIC.GRADIENT", first_in_backward(differ), {}, ""};
    Told told;
    if (readable) {
      if (const auto factor = constant_factor(*own, *twin, differ)) {
        place = {step, "GRAD.SCALE", differ, {}, nsa::to_text(*factor, 4)};
        told.factor = *factor;
      } else {
        told.worst = worst_relative(*own, *twin, place.params);
      }
    }
    Told& kept = local_.try_emplace(place, told).first->second;
    kept.ranks.insert(rank);
    kept.differing = std::max(kept.differing, differ.size());
  }

  void keep_above_ceiling(const nsa::SafetensorsFile& own,
                          const nsa::SafetensorsFile& twin,
                          std::vector<std::string>& differ) {
    const Scenario& scenario = evidence_.the_case.scenario;
    const LongestSums sums(scenario.model, scenario.training.batch_size, scenario.training.seq_len);
    double largest = 0.0;
    std::map<std::string, Relative> errors;
    for (const std::string& param : differ) {
      if (!own.contains(param) || !twin.contains(param)) continue;
      errors[param] = relative_error(own.at(param), twin.at(param));
      largest = std::max(largest, errors[param].scale);
    }
    const auto within = [&](const std::string& param) {
      const auto at = errors.find(param);
      if (at == errors.end()) return false;
      const double scale = std::max(at->second.scale, kSmallestScaleShare * largest);
      const double limit = ceiling(sums.gradient, Reals(own.at(param)).unit_roundoff()) * scale;
      return at->second.worst <= limit;
    };
    const std::size_t before = differ.size();
    differ.erase(std::remove_if(differ.begin(), differ.end(), within), differ.end());
    equal_ += static_cast<std::int64_t>(before - differ.size());
  }

  [[nodiscard]] static std::optional<double> constant_factor(
      const nsa::SafetensorsFile& own,
      const nsa::SafetensorsFile& twin,
      const std::vector<std::string>& params) {
    double with = 0.0;
    double square = 0.0;
    double limit = 0.0;
    for (const std::string& param : params) {
      if (!own.contains(param) || !twin.contains(param)) return std::nullopt;
      const SumOfTensor seen = compare_with_mean(own.at(param), {twin.at(param)});
      with += seen.with_mean;
      square += seen.mean_mean;
      limit = factor_limit(seen.unit_roundoff);
    }
    const double factor = with / square;
    if (!(std::abs(factor - 1.0) > limit) || !std::isfinite(factor)) return std::nullopt;
    for (const std::string& param : params) {
      if (!(factor_residual(own.at(param), {twin.at(param)}, factor) <= limit)) return std::nullopt;
    }
    return factor;
  }

  [[nodiscard]] static double worst_relative(const nsa::SafetensorsFile& own,
                                             const nsa::SafetensorsFile& twin,
                                             const std::vector<std::string>& params) {
    double worst = 0.0;
    for (const std::string& param : params) {
      if (!own.contains(param) || !twin.contains(param)) continue;
      const Relative seen = relative_error(own.at(param), twin.at(param));
      const double relative = seen.worst / (seen.scale > 0.0 ? seen.scale : 1.0);
      if (!(relative <= worst)) worst = relative;
    }
    return worst;
  }

  [[nodiscard]] Finding local_finding(const Place& place, const Told& told) const {
    const bool scaled = place.code == "GRAD.SCALE";
    Finding finding;
    finding.code = place.code;
    const bool all = scaled && place.params.size() == params_.size();
    if (!all) finding.site = site_of_params(place.params);
    finding.site.step = place.step;
    finding.site.ranks = to_ints(told.ranks);
    finding.statement = "the local gradients of " + std::to_string(told.differing) + " of " +
                        std::to_string(params_.size()) + " parameters on " +
                        ranks_text(finding.site.ranks) + " are not the twin's";
    if (scaled) {
      finding.site.detail["factor"] = told.factor;
      finding.statement += " but " + place.factor + " times those";
      finding.ruled_out =
          "not rounding and not one operation: one factor explains every element of them";
      finding.next_action =
          "look for a loss that is scaled or averaged over another number of tokens on this rank";
      return finding;
    }
    finding.statement +=
        "; in the order of the backward the first are " + some_of(place.params) +
        (told.worst > 0.0 ? " (largest relative error " + nsa::to_text(told.worst, 3) + ")" : "");
    finding.ruled_out =
        "not the reduction: the gradients differ before it; no constant factor explains them";
    finding.next_action =
        layer_of(place.params.front()) >= 0
            ? "see close_to_oracle for this layer: forward or backward"
            : "the forward itself differs, or its data: see data_distinct and close_to_oracle";
    return finding;
  }

  // ---- reduced gradients ---------------------------------------------------------------------------------------------

  void judge_sums(std::int64_t step) {
    std::deque<nsa::SafetensorsFile> locals;
    for (const int rank : all_ranks(evidence_)) {
      auto file = open_artefact(evidence_, {rank, "local_gradients", step, rank}, result_);
      if (file) locals.push_back(std::move(*file));
    }
    std::map<std::vector<std::string>, int>
        compared;  // hashes after reduction -> a rank that has them
    for (const int rank : all_ranks(evidence_)) {
      const auto reduced =
          open_artefact(evidence_, {rank, "reduced_gradients", step, rank}, result_);
      if (!reduced || locals.size() != static_cast<std::size_t>(evidence_.ranks())) continue;
      const auto [at, is_new] = compared.try_emplace(hashes_after(step, rank), rank);
      if (!is_new) {
        repeat_for(rank, at->second);
        continue;
      }
      judge_rank_sums(step, rank, *reduced, locals);
    }
  }

  [[nodiscard]] std::vector<std::string> hashes_after(std::int64_t step, int rank) const {
    std::vector<std::string> hashes;
    for (const std::string& param : params_) {
      const Gradient* row = ledger_.ranks.find({step, rank, param});
      // Without a hash nothing tells that two ranks have the same.
      const bool known = row != nullptr && !row->hash_after.empty();
      hashes.push_back(known ? row->hash_after : "rank " + std::to_string(rank));
    }
    return hashes;
  }

  void repeat_for(int rank, int as_rank) {
    for (auto& [place, told] : sums_) {
      if (told.ranks.count(as_rank) > 0) told.ranks.insert(rank);
    }
  }

  void judge_rank_sums(std::int64_t step,
                       int rank,
                       const nsa::SafetensorsFile& reduced,
                       const std::deque<nsa::SafetensorsFile>& locals) {
    std::map<int, std::vector<SumOfTensor>> buckets;
    for (const std::string& param : params_) {
      const auto views = views_of(param, reduced, locals);
      if (views.empty()) {
        result_.missing("tensor " + param + " in the gradients of step " + std::to_string(step));
        continue;
      }
      SumOfTensor seen = compare_with_mean(reduced.at(param), views);
      seen.param = param;
      const Gradient* row = ledger_.ranks.find({step, rank, param});
      seen.bucket = row == nullptr ? -1 : row->bucket;
      if (!(seen.worst <= worst_share_)) worst_share_ = seen.worst;
      buckets[seen.bucket].push_back(seen);
    }
    explain_sums(step, rank, reduced, locals, buckets);
  }

  [[nodiscard]] static std::vector<nsa::TensorView> views_of(
      const std::string& param,
      const nsa::SafetensorsFile& reduced,
      const std::deque<nsa::SafetensorsFile>& locals) {
    std::vector<nsa::TensorView> views;
    if (!reduced.contains(param)) return {};
    for (const nsa::SafetensorsFile& local : locals) {
      if (!local.contains(param)) return {};
      views.push_back(local.at(param));
    }
    return views;
  }

  void explain_sums(std::int64_t step,
                    int rank,
                    const nsa::SafetensorsFile& reduced,
                    const std::deque<nsa::SafetensorsFile>& locals,
                    const std::map<int, std::vector<SumOfTensor>>& buckets) {
    std::map<std::string, std::pair<double, std::vector<int>>> scaled;  // factor -> buckets
    std::vector<std::string> unexplained;
    double worst = 0.0;
    for (const auto& [bucket, tensors] : buckets) {
      const bool violated = std::any_of(
          tensors.begin(), tensors.end(), [](const SumOfTensor& seen) { return seen.violated; });
      if (!violated) continue;
      if (const auto factor = factor_of(reduced, locals, tensors)) {
        auto& [value, numbers] = scaled[nsa::to_text(*factor, 3)];
        value = *factor;
        numbers.push_back(bucket);
        continue;
      }
      for (const SumOfTensor& seen : tensors) {
        if (!seen.violated) continue;
        unexplained.push_back(seen.param);
        if (!(seen.worst <= worst)) worst = seen.worst;
      }
    }
    for (const auto& [text, found] : scaled) {
      const bool all = found.second.size() == buckets.size();
      add_sum({step, "GRAD.SCALE", {}, all ? std::vector<int>{} : found.second, text},
              rank,
              found.first,
              0.0);
    }
    if (!unexplained.empty())
      add_sum({step, "NUMERIC.GRADIENT", unexplained, {}, ""}, rank, 1.0, worst);
  }

  // One factor for the whole bucket, with next to nothing left.
  [[nodiscard]] static std::optional<double> factor_of(
      const nsa::SafetensorsFile& reduced,
      const std::deque<nsa::SafetensorsFile>& locals,
      const std::vector<SumOfTensor>& tensors) {
    double with = 0.0;
    double square = 0.0;
    for (const SumOfTensor& seen : tensors) {
      with += seen.with_mean;
      square += seen.mean_mean;
    }
    const double factor = with / square;
    if (!std::isfinite(factor)) return std::nullopt;
    for (const SumOfTensor& seen : tensors) {
      const double limit = factor_limit(seen.unit_roundoff);
      const double residual =
          factor_residual(reduced.at(seen.param), views_of(seen.param, reduced, locals), factor);
      if (!(std::abs(factor - 1.0) > limit) || !(residual <= limit)) return std::nullopt;
    }
    return factor;
  }

  void add_sum(const Place& place, int rank, double factor, double worst) {
    Told& told = sums_[place];
    told.ranks.insert(rank);
    told.factor = factor;
    told.worst = std::max(told.worst, worst);
    told.differing = place.params.size();
  }

  [[nodiscard]] Finding sum_finding(const Place& place, const Told& told) const {
    Finding finding;
    finding.code = place.code;
    const bool everywhere = told.ranks.size() == static_cast<std::size_t>(evidence_.ranks());
    const std::string who = everywhere ? "every rank" : ranks_text(to_ints(told.ranks));
    if (place.code == "GRAD.SCALE") {
      if (place.buckets.size() == 1 && place.buckets.front() >= 0) {
        finding.site.bucket = place.buckets.front();
      } else if (place.buckets.size() > 1) {
        finding.site.detail["buckets"] = place.buckets;
      }
      finding.site.detail["factor"] = told.factor;
      finding.statement = "the reduced gradient on " + who + " is " + place.factor +
                          " times the mean of the ranks' local gradients";
      finding.ruled_out =
          "not rounding: one factor explains every element; not the local gradients: the mean is "
          "taken of them as they were";
      finding.next_action =
          "count the divisions by the number of ranks: in the reducer, in a communication hook, in "
          "the loss";
    } else {
      finding.site = site_of_params(place.params);
      finding.site.op = "grad_sync";
      finding.statement =
          "the reduced gradient of " + std::to_string(place.params.size()) + " parameters (" +
          some_of(place.params) + ") on " + who +
          " is not the mean of the ranks' local ones: " + nsa::to_text(told.worst, 3) +
          " times the bound world * u * sum|g_r|";
      finding.ruled_out =
          "not rounding: it is beyond what adding these numbers can lose; no constant factor "
          "explains it";
      finding.next_action =
          "compare what each rank put into the bucket with its own local gradient, and the "
          "operation used";
    }
    finding.site.step = place.step;
    if (!everywhere) finding.site.ranks = to_ints(told.ranks);
    return finding;
  }

  const Evidence& evidence_;
  Ledger ledger_;
  std::vector<std::string> params_;
  ResultBuilder result_;
  ResultBuilder
      files_;  // what explain_local() could not open: an explanation less, no verdict less
  std::map<Place, Told> local_;
  std::map<Place, Told> sums_;
  std::int64_t equal_ = 0;
  double worst_share_ = 0.0;
};

}  // namespace

Check matches_twin() {
  return {"matches_twin",
          "local gradients equal those of a single process, and the reduced ones are their mean",
          {"GRAD.SCALE", "NUMERIC.GRADIENT"},
          [](const Evidence& evidence) { return TwinComparison(evidence).judge(); }};
}

}  // namespace harness::checks
