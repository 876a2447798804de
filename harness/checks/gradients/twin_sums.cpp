// Reduced gradients against the mean of the ranks' local ones.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "harness/checks/ceilings.h"
#include "harness/checks/departed.h"
#include "harness/checks/gradients/sum_law.h"
#include "harness/checks/gradients/twin_parts.h"
#include "harness/checks/largest.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/training/overflow.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class SumComparison {
 public:
  SumComparison(const TwinCase& the_case, ResultBuilder& result)
      : evidence_(the_case.evidence),
        ledger_(the_case.ledger),
        params_(the_case.params),
        overflowed_(overflowed_steps(the_case.evidence)),
        result_(result) {}

  void judge(std::int64_t step) {
    if (overflowed_.count(step) > 0) return;  // infinities have no mean
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
      } else {
        judge_rank_sums(step, rank, *reduced, locals);
      }
      depart(step, rank, at->second, locals);
    }
  }

  // True when something was found.
  bool tell() {
    Departures all;
    for (const Departure& departure : departures_) all.add(departure);
    for (Finding& finding : all.findings()) {
      const bool everywhere = finding.site.ranks.size() == all_ranks(evidence_).size();
      finding.facts["where"] = everywhere ? "every rank" : ranks_text(finding.site.ranks);
      if (everywhere) finding.site.ranks.clear();
      result_.found(std::move(finding));
    }
    return !departures_.empty();
  }

  [[nodiscard]] double worst_share() const { return worst_share_; }

 private:
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
    for (std::size_t i = 0, count = departures_.size(); i < count; ++i) {
      if (departures_[i].site.ranks != std::vector<int>{as_rank}) continue;
      departures_.push_back(departures_[i]);
      departures_.back().site.ranks = {rank};
    }
  }

  // The sums of `rank`, which are those of `as_rank`, that are not the mean.
  void depart(std::int64_t step,
              int rank,
              int as_rank,
              const std::deque<nsa::SafetensorsFile>& locals) {
    for (const std::string& param : violated_[{step, as_rank}]) {
      std::vector<std::vector<double>> parts;
      for (const auto& local : locals) parts.push_back(nsa::to_doubles(local.at(param)));
      const std::string path = path_of(evidence_, {rank, "reduced_gradients", step, rank});
      result_.departed(departed_tensor(path, param, mean_of(parts)));
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
      SumOfTensor seen = compare_with_mean(reduced.at(param), views, travelling());
      seen.param = param;
      const Gradient* row = ledger_.ranks.find({step, rank, param});
      seen.bucket = row == nullptr ? -1 : row->bucket;
      raise_to(worst_share_, seen.worst);
      if (seen.violated) violated_[{step, rank}].push_back(param);
      buckets[seen.bucket].push_back(seen);
    }
    explain_sums(step, rank, reduced, locals, buckets);
  }

  // What a sum of bfloat16 numbers can lose binds where gradients are sent as such, whatever they are kept in.
  [[nodiscard]] double travelling() const {
    return evidence_.the_case.scenario.parallel.compress == "bf16" ? kBf16Roundoff : 0.0;
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
        raise_to(worst, seen.worst);
      }
    }
    for (const auto& [text, found] : scaled) {
      const bool all = found.second.size() == buckets.size();
      add_scaled(step, rank, found.first, all ? std::vector<int>{} : found.second);
    }
    if (unexplained.empty()) return;
    const std::string narrowed = narrowed_in_all(unexplained, reduced, locals);
    Departure seen(narrowed.empty() ? "NUMERIC.GRADIENT" : "COMM.DTYPE",
                   narrowed.empty() ? "sum" : "values");
    seen.site = site_of_params(unexplained);
    seen.site.op = "grad_sync";
    seen.site.step = step;
    seen.site.ranks = {rank};
    seen.apart_by = narrowed + nsa::join(unexplained);
    seen.error = worst;
    seen.facts = {{"differing", unexplained.size()}, {"bound", Real(worst)}};
    seen.facts.put_some("params", unexplained);
    if (!narrowed.empty()) seen.site.detail["narrowed"] = seen.facts["narrowed"] = narrowed;
    departures_.push_back(std::move(seen));
  }

  // What of these sums has the digits of bfloat16 alone, in words; "" where they do not have it in common, or nobody asked for
  // more digits.
  [[nodiscard]] std::string narrowed_in_all(const std::vector<std::string>& params,
                                            const nsa::SafetensorsFile& reduced,
                                            const std::deque<nsa::SafetensorsFile>& locals) const {
    if (travelling() > 0.0) return "";
    Narrowed common{true, true};
    for (const std::string& param : params) {
      const Narrowed one = narrowed_to_bf16(reduced.at(param), views_of(param, reduced, locals));
      common = {common.sums && one.sums, common.addends && one.addends};
    }
    return common.sums ? "sums" : common.addends ? "addends" : "";
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

  // `buckets`: none for all.
  void add_scaled(std::int64_t step, int rank, double factor, const std::vector<int>& buckets) {
    Departure seen("GRAD.SCALE", "sum");
    seen.site = site_of_rank(rank);
    seen.site.step = step;
    if (buckets.size() == 1 && buckets.front() >= 0) seen.site.bucket = buckets.front();
    if (buckets.size() > 1) seen.site.detail["buckets"] = buckets;
    seen.site.detail["factor"] = factor;
    seen.apart_by = nsa::to_text(factor, 3) + nsa::ranges_text(buckets);
    departures_.push_back(std::move(seen));
  }

  const Evidence& evidence_;
  const Ledger& ledger_;
  const std::vector<std::string>& params_;
  std::set<std::int64_t> overflowed_;
  ResultBuilder& result_;
  std::vector<Departure> departures_;                                          // of one rank each
  std::map<std::pair<std::int64_t, int>, std::vector<std::string>> violated_;  // by step and rank
  double worst_share_ = 0.0;
};

}  // namespace

PartOfTwin compare_sums(const TwinCase& the_case, std::int64_t step, ResultBuilder& result) {
  SumComparison comparison(the_case, result);
  comparison.judge(step);
  PartOfTwin part;
  part.found = comparison.tell();
  part.worst_share = comparison.worst_share();
  return part;
}

}  // namespace harness::checks
