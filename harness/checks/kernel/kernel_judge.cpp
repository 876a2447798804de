#include "harness/checks/kernel/kernel_judge.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/kernel/kernel_gradient.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "harness/checks/kernel/kernel_sequences.h"
#include "harness/checks/largest.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"
#include "oracles/attention/backward.h"
#include "oracles/laws/backward_laws.h"

namespace harness::checks {
namespace {

using oracles::BranchGradients;
using oracles::RecordedGradient;
using oracles::Stages;
using oracles::Tensor;

constexpr double kLn2 = 0.69314718055994530942;

void give(const LayerRecord& record, Stages& stages) {
  for (const auto& [name, tensor] : record.tensors) {
    stages.record(oracles::stage_named(name).value(), tensor);
  }
}

class KernelJudge {
 public:
  KernelJudge(const Scenario& scenario, const KernelCall& call)
      : scenario_(scenario),
        call_(call),
        record_(call.record),
        sums_(kernel_model(scenario), 1, call.record.length) {}

  LayerJudgement judge() {
    verdict_ = judge_layer(record_, kernel_model(scenario_));
    put_sequences(record_, verdict_);
    for (Departure& seen : verdict_.departures) {
      tell_not_finite(record_.at(seen.tensors.front()), seen);
    }
    oracles::AttentionOptions options;
    if (record_.is_sample()) options.rows = record_.rows;
    options.replay = usable_blocks(record_);
    Stages stages(record_.config, record_.weights, record_.x, options);
    give(record_, stages);
    if (call_.lse) judge_lse(stages);
    // What the backward of another function should be, the oracle does not know.
    if (call_.gradients.empty() || !verdict_.departures.empty()) return std::move(verdict_);
    judge_gradients(stages, options);
    return std::move(verdict_);
  }

 private:
  [[nodiscard]] std::string branch() const {
    return std::string(oracles::branch_name(call_.branch));
  }

  [[nodiscard]] Departure departure(const char* code) const {
    Departure seen;
    seen.code = code;
    seen.site.branch = branch();
    seen.site.op = "attend_" + branch();
    return seen;
  }

  // ---- sums of the softmax --------------------------------------------------------------------------------------

  // log sum exp of a row's logits, NaN where it has no keys: what stands there is not judged.
  [[nodiscard]] Tensor right_lse(const Stages& stages) const {
    const oracles::Sizes& n = stages.sizes();
    const std::vector<oracles::KeyBank>& banks = stages.banks(call_.branch);
    const Tensor& q = stages.input(oracles::Stage::q);
    Tensor lse = oracles::filled(call_.lse->shape, std::nan(""));
    std::vector<double> logits;
    for (std::int64_t group = 0; group < n.batch_groups(); ++group) {
      for (std::int64_t row = 0; row < n.rows; ++row) {
        const oracles::KeyList keys = oracles::visible_keys(stages.query(call_.branch, group, row));
        const auto count = static_cast<std::size_t>(oracles::key_count(keys));
        if (count == 0) continue;
        oracles::scaled_logits(banks[static_cast<std::size_t>(group)],
                               keys,
                               oracles::head_rows(q, group, row),
                               logits);
        for (std::int64_t head = 0; head < n.heads; ++head) {
          const auto begin = logits.begin() + head * static_cast<std::ptrdiff_t>(count);
          const auto end = begin + static_cast<std::ptrdiff_t>(count);
          const double most = *std::max_element(begin, end);
          double sum = 0.0;
          for (auto at = begin; at != end; ++at) sum += std::exp(*at - most);
          lse.data[static_cast<std::size_t>((group * n.heads + head) * n.rows + row)] =
              most + std::log(sum);
        }
      }
    }
    return lse;
  }

  // The largest difference from `factor` times the right ones.
  [[nodiscard]] double lse_difference(const Tensor& right, double factor) const {
    double most = 0.0;
    for (std::size_t i = 0; i < right.data.size(); ++i) {
      if (std::isnan(right.data[i])) continue;
      raise_to(most, std::abs(call_.lse->data[i] - factor * right.data[i]));
    }
    return most;
  }

  void judge_lse(const Stages& stages) {
    const Tensor right = right_lse(stages);
    const bool base_two = scenario_.kernel.lse == "2";
    const double factor = base_two ? 1.0 / kLn2 : 1.0;
    const double scale = std::max(1.0, factor * oracles::finite_scale(right));
    const double unit = std::max(call_.lse_unit_roundoff, record_.arithmetic.summed);
    const double limit = ceiling(sums_.gradient, unit, record_.arithmetic.summed);
    const double error = lse_difference(right, factor) / scale;
    verdict_.errors["lse"] = {error, limit};
    if (error <= limit) return;
    Departure seen = departure("NUMERIC.FORWARD");
    seen.tensors = {"lse"};
    seen.error = error;
    seen.limit = limit;
    seen.site.detail["row_count"] = record_.lists() * record_.row_count();
    seen.facts["rows_in_all"] = record_.lists() * record_.row_count();
    if (lse_difference(right, base_two ? 1.0 : 1.0 / kLn2) / scale <= limit) {
      seen.laws = {base_two
                       ? KnownLaw{"logarithm_to_base_e", "the natural logarithm of the sums"}
                       : KnownLaw{"logarithm_to_base_two", "the logarithm of the sums to base 2"}};
    }
    verdict_.departures.push_back(std::move(seen));
  }

  // ---- gradients ------------------------------------------------------------------------------------------------

  void judge_gradients(const Stages& stages, oracles::AttentionOptions options) {
    const oracles::Backward backward(stages, call_.branch, call_.d_o);
    const BranchGradients& right = backward.through(call_.branch);
    if (record_.kept) {
      yardstick_ = [this, &right, options = std::move(options)](int draw) {
        return yardstick(right, options, draw);
      };
    }
    const double all = std::max({oracles::finite_scale(right.q),
                                 oracles::finite_scale(right.k),
                                 oracles::finite_scale(right.v)});
    take("q", &BranchGradients::q, right, kSmallestCancellingShare * all);
    take("k", &BranchGradients::k, right, kSmallestCancellingShare * all);
    take("v", &BranchGradients::v, right, kSmallestScaleShare * all);
    tell(backward);
  }

  // Off by as much as the worst of the computations that are all right. With draw 0 they round to the nearest number, else as
  // oracles::Kept::draw says.
  [[nodiscard]] BranchGradients yardstick(const BranchGradients& right,
                                          oracles::AttentionOptions options,
                                          int draw) const {
    BranchGradients worst = right;
    for (const auto& [narrow, mean] : right_backwards(record_.config.d_k)) {
      options.kept = *record_.kept;
      options.kept.draw = static_cast<std::uint64_t>(draw);
      options.kept.narrow_products.fill(narrow);
      Stages stages(record_.config, record_.weights, record_.x, options);
      give(record_, stages);
      const oracles::Backward backward(stages, call_.branch, call_.d_o, mean);
      const BranchGradients& plain = backward.through(call_.branch);
      keep_further(plain.q, right.q, worst.q);
      keep_further(plain.k, right.k, worst.k);
      keep_further(plain.v, right.v, worst.v);
    }
    return worst;
  }

  const BranchGradients& drawn(int draw) {
    const auto at = drawn_.find(draw);
    return at != drawn_.end() ? at->second : drawn_.emplace(draw, yardstick_(draw)).first->second;
  }

  void take(const std::string& of,
            Tensor BranchGradients::*tensor,
            const BranchGradients& right,
            double least_scale) {
    const Tensor& found = call_.gradients.at(of);
    const Tensor& wanted = right.*tensor;
    GradientLimits limits{wanted, nullptr, least_scale, sums_.gradient};
    if (yardstick_) {
      limits.plain = &(drawn(0).*tensor);
      limits.drawn = [this, tensor](int draw) -> const Tensor& { return drawn(draw).*tensor; };
    }
    const JudgedGradient judged = judge_gradient(record_, found, limits);
    const std::string name = "d" + of;
    verdict_.errors[name] = judged.error;
    where_[name] = judged.where;
    if (judged.wrong) {
      wrong_.push_back(of);
      Tensor mended = found;
      const bool any = mend_not_finite(wanted, mended);
      only_not_finite_ = only_not_finite_ && any && !judge_gradient(record_, mended, limits).wrong;
    }
    judged_.push_back({of, found, wanted, judged.allowed});
  }

  void tell(const oracles::Backward& backward) {
    if (wrong_.empty()) return;
    Departure seen = departure(only_not_finite_ ? kNotFinite : "NUMERIC.GRADIENT");
    seen.site.phase = "backward";
    std::set<int> heads;
    std::map<int, double> counts;
    bool counted = true;
    std::set<int> sequences;
    for (const RecordedGradient& judged : judged_) {
      if (std::find(wrong_.begin(), wrong_.end(), judged.of) == wrong_.end()) continue;
      const std::string name = "d" + judged.of;
      seen.tensors.push_back(name);
      const ErrorOfTensor& error = verdict_.errors.at(name);
      keep_worst(error.value, error.limit, where_[name], seen);
      sequences.merge(sequences_apart(
          judged.found, judged.wanted, judged.allowed.relative * judged.allowed.scale));
      const oracles::WrongHeads of_heads = oracles::wrong_heads(backward, call_.branch, judged);
      heads.insert(of_heads.heads.begin(), of_heads.heads.end());
      counted = counted && !of_heads.counts.empty();
      counts.insert(of_heads.counts.begin(), of_heads.counts.end());
    }
    put_sequences(sequences, record_.batch, seen);
    if (static_cast<std::int64_t>(heads.size()) < record_.config.n_heads)
      seen.site.heads = to_ints(heads);
    if (!only_not_finite_) {
      explain(oracles::name_gradients(backward, call_.branch, judged_), seen);
    } else {
      counted = false;
    }
    if (seen.laws.empty() && counted) put_shares_of_heads(counts, seen);
    verdict_.departures.push_back(std::move(seen));
  }

  const Scenario& scenario_;
  const KernelCall& call_;
  const LayerRecord& record_;
  LongestSums sums_;
  LayerJudgement verdict_;
  std::vector<RecordedGradient> judged_;
  std::vector<std::string> wrong_;
  bool only_not_finite_ =
      true;  // of what is wrong, some numbers are not finite, and all others are right
  std::map<std::string, std::string> where_;       // an error was measured, by tensor
  std::function<BranchGradients(int)> yardstick_;  // of a draw; none where the type is not narrow
  std::map<int, BranchGradients> drawn_;           // by it
};

}  // namespace

LayerJudgement judge_kernel_call(const Scenario& scenario, const KernelCall& call) {
  return KernelJudge(scenario, call).judge();
}

}  // namespace harness::checks
