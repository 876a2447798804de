#include "harness/checks/attention/packed/packed_gradients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/checks/attention/accuracy/gradient_judge.h"
#include "harness/checks/attention/packed/document_stages.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "harness/checks/nearer.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"
#include "oracles/attention/backward.h"
#include "oracles/laws/match.h"

namespace harness::checks {
namespace {

using oracles::Branch;
using oracles::Stage;
using oracles::Tensor;

class PackedGradients {
 public:
  PackedGradients(const PackedRecord& packed,
                  const nsa::ModelConfig& model,
                  LayerJudgement& verdict)
      : packed_(packed), model_(model), verdict_(verdict) {}

  void judge() {
    for (const DocumentRecord& document : packed_.documents) {
      if (std::isfinite(largest(document.record.dy->data))) continue;
      verdict_.missing.emplace_back("gradients: the output's is not finite");
      return;
    }
    const Gradients right = gradients();
    if (packed_.shared.kept) yardstick(0);
    scale_of_all_ = oracles::finite_scale(right.dx);
    for (const auto& [name, wanted] : right.weights) {
      scale_of_all_ = std::max(scale_of_all_, oracles::finite_scale(wanted));
    }
    Wrong wrong;
    for (const auto& [name, wanted] : right.weights) {
      if (!compare("g.w." + name, wanted, wrong.seen)) wrong.params.push_back(name);
    }
    if (!compare("dx", right.dx, wrong.seen) || is_added_too_narrow(wrong.seen)) {
      put_tokens(right.dx, wrong);
    }
    if (!wrong.seen.tensors.empty()) tell(std::move(wrong), right);
  }

 private:
  struct Gradients {
    Tensor dx;
    oracles::Weights weights;
  };
  // A branch gives no gradient in documents of at most so many tokens.
  struct LeftOut {
    Branch branch;
    std::int64_t length;
  };

  [[nodiscard]] static oracles::AttentionGradients gradients_of(
      const DocumentRecord& document, const std::optional<LeftOut>& left_out) {
    const DocumentStages stages(document.record);
    const oracles::Backward backward(stages.get(), *document.record.dy);
    if (!left_out || document.at.length > left_out->length) return backward.gradients();
    const auto zeros_of = [&](Stage stage) { return oracles::zeros(stages.get().shape_of(stage)); };
    const Branch branch = left_out->branch;
    return backward.gradients(branch,
                              {zeros_of(Stage::q),
                               zeros_of(oracles::key_stage(branch)),
                               zeros_of(oracles::value_stage(branch))});
  }

  using GradientsOfOne = std::function<oracles::AttentionGradients(const DocumentRecord&)>;

  // By the right law or another one.
  [[nodiscard]] Gradients gradients(const std::optional<LeftOut>& left_out = {}) const {
    return sum_of([&](const DocumentRecord& document) { return gradients_of(document, left_out); });
  }

  // Of all documents.
  [[nodiscard]] Gradients sum_of(const GradientsOfOne& of_one) const {
    Gradients all;
    all.dx = oracles::zeros({packed_.shared.batch, 1, packed_.shared.length, model_.dim});
    for (const auto& [name, weight] : packed_.shared.weights) {
      all.weights[name] = oracles::zeros(weight.shape);
    }
    for (const DocumentRecord& document : packed_.documents) {
      oracles::AttentionGradients own = of_one(document);
      own.x.shape.insert(own.x.shape.begin() + 1, 1);
      oracles::put_tokens(own.x, document.at, all.dx);
      for (const auto& [name, gradient] : own.weights) {
        std::vector<double>& sum = all.weights.at(name).data;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient.data[i];
      }
    }
    all.dx.shape.erase(all.dx.shape.begin() + 1);
    return all;
  }

  struct Wrong {
    Departure seen;
    std::vector<std::string> params;
    std::int64_t longest = 0;  // tokens of the longest document whose input's gradient is wrong
  };

  [[nodiscard]] std::int64_t terms() const {
    return LongestSums(model_, packed_.shared.batch, packed_.shared.length).gradient;
  }

  // Relative, of a tensor that was compared.
  [[nodiscard]] double limit_of(const std::string& name) const { return limits_.at(name); }

  // ---- in a narrow type -------------------------------------------------------------------------

  // What each document gives is rounded, and so is their sum.
  const Gradients& yardstick(int draw) {
    const auto at = yardsticks_.find(draw);
    if (at != yardsticks_.end()) return at->second;
    Gradients all = sum_of([&](const DocumentRecord& document) {
      return oracles::Backward(DocumentStages(document.record, kept(draw)).get(),
                               *document.record.dy)
          .gradients();
    });
    for (auto& [name, sum] : all.weights) {
      for (double& value : sum.data) value = oracles::rounded(value, kept(0).results);
    }
    return yardsticks_.emplace(draw, std::move(all)).first->second;
  }

  [[nodiscard]] oracles::Kept kept(int draw) const {
    oracles::Kept kept = *packed_.shared.kept;
    kept.draw = static_cast<std::uint64_t>(draw);
    return kept;
  }

  [[nodiscard]] static const Tensor& gradient_in(const Gradients& all, const std::string& name) {
    constexpr std::size_t kPrefix = 4;  // "g.w."
    return name == "dx" ? all.dx : all.weights.at(name.substr(kPrefix));
  }

  // As GradientJudge has it, of an input's gradient that is within its budget.
  bool is_added_too_narrow(Departure& seen) {
    const LayerRecord& shared = packed_.shared;
    if (!shared.kept || shared.kept->input != shared.kept->results) return false;
    const Gradients narrow = sum_of([&](const DocumentRecord& document) {
      return oracles::Backward(DocumentStages(document.record, kept(0)).get(), *document.record.dy)
          .gradients_added_narrow();
    });
    const Nearer nearer = nearer_to(narrow.dx, shared.at("dx"), yardstick(0).dx);
    if (!nearer.is_nearer()) return false;
    verdict_.errors["dx"] = {nearer.from_plain, kNearer * nearer.from_other};
    tell_error("dx", kAddedTooNarrow, seen);
    return true;
  }

  void tell_error(const std::string& name, const std::string& where, Departure& seen) const {
    const ErrorOfTensor& error = verdict_.errors.at(name);
    seen.tensors.push_back(name);
    keep_worst(error.value, error.limit, where, seen);
  }

  // A weight's gradient that was not recorded is none at all: right where the weight has no influence.
  [[nodiscard]] Tensor found_of(const std::string& name, const Tensor& wanted) const {
    const LayerRecord& shared = packed_.shared;
    return shared.has(name) ? shared.at(name) : oracles::zeros(wanted.shape);
  }
  [[nodiscard]] double scale_of(const std::string& name, const Tensor& right) const {
    return std::max(oracles::finite_scale(right), smallest_scale_share(name) * scale_of_all_);
  }

  // Of what was recorded, from `wanted`, relative to the size of the right gradient.
  [[nodiscard]] double error_of(const std::string& name,
                                const Tensor& wanted,
                                const Tensor& right) const {
    const Tensor found = found_of(name, wanted);
    const double scale = scale_of(name, right);
    double difference = 0.0;
    for (std::size_t i = 0; i < wanted.data.size(); ++i) {
      raise_to(difference, std::abs(found.data[i] - wanted.data[i]));
    }
    return difference == 0.0 ? 0.0 : difference / scale;
  }

  // True where the gradient is right; else it is noted in `seen`.
  bool compare(const std::string& name, const Tensor& right, Departure& seen) {
    const LayerRecord& shared = packed_.shared;
    const double scale = scale_of(name, right);
    GradientLimits limits{right,
                          scale,
                          ceiling(terms(), shared.unit_roundoff, shared.arithmetic.summed),
                          ceiling(terms(), shared.arithmetic.summed) * scale};
    if (shared.kept) {
      limits.yardstick = [&](int draw) -> const Tensor& {
        return gradient_in(yardstick(draw), name);
      };
    }
    if (name != "dx") {
      limits.tell_heads_apart = [&](Measured& measured) {
        tell_heads_apart(name.substr(4), shared.config, measured);
      };
    }
    const JudgedGradient judged = judge_gradient(shared, found_of(name, right), limits);
    limits_[name] = judged.allowed.relative;
    verdict_.errors[name] = judged.error;
    if (judged.wrong) tell_error(name, judged.where, seen);
    return !judged.wrong;
  }

  // Which tokens, in which documents.
  void put_tokens(const Tensor& right, Wrong& wrong) const {
    std::set<int> rows;
    std::set<int> documents;
    for (const std::size_t vector : oracles::wrong_vectors(
             packed_.shared.at("dx"), right, limit_of("dx") * oracles::finite_scale(right))) {
      const auto row = static_cast<std::int64_t>(vector) / packed_.shared.length;
      const auto token = static_cast<std::int64_t>(vector) % packed_.shared.length;
      rows.insert(static_cast<int>(token));
      for (const DocumentRecord& document : packed_.documents) {
        const oracles::DocumentPlace& at = document.at;
        if (at.row == row && token >= at.begin && token < at.begin + at.length) {
          documents.insert(static_cast<int>(at.number));
          wrong.longest = std::max(wrong.longest, at.length);
        }
      }
    }
    wrong.seen.site.rows = to_ints(rows);
    if (wrong.seen.site.rows.size() > kMostRows) wrong.seen.site.rows.resize(kMostRows);
    wrong.seen.site.detail["documents"] = to_ints(documents);
  }

  // Does a branch that gives nothing in short documents explain every gradient?
  [[nodiscard]] bool explains(const LeftOut& left_out, const Gradients& right) const {
    const Gradients other = gradients(left_out);
    if (!(error_of("dx", other.dx, right.dx) <= limit_of("dx"))) return false;
    return std::all_of(other.weights.begin(), other.weights.end(), [&](const auto& item) {
      const auto& [name, wanted] = item;
      const std::string recorded = "g.w." + name;
      return error_of(recorded, wanted, right.weights.at(name)) <= limit_of(recorded);
    });
  }

  void put_law(const Wrong& wrong, const Gradients& right, Departure& seen) const {
    std::vector<Branch> fitting;
    for (const Branch branch : {Branch::cmp, Branch::sel, Branch::win}) {
      if (wrong.longest > 0 && explains({branch, wrong.longest}, right)) fitting.push_back(branch);
    }
    if (fitting.size() != 1) return;
    seen.site.branch = oracles::branch_name(fitting.front());
    seen.site.op = "attend_" + seen.site.branch;
    seen.laws = {{"short_documents_without_gradient",
                  "the branch passes no gradient back in documents of at most " +
                      std::to_string(wrong.longest) + " tokens"}};
  }

  void tell(Wrong wrong, const Gradients& right) {
    Departure& seen = wrong.seen;
    seen.code = "NUMERIC.GRADIENT";
    std::set<std::string> branches;
    for (const std::string& param : wrong.params) {
      if (param != "W_Q.weight") branches.insert(branch_of(param));
    }
    if (branches.size() == 1) seen.site.branch = *branches.begin();
    if (!seen.site.branch.empty()) seen.site.op = "attend_" + seen.site.branch;
    if (wrong.params.size() == 1) seen.site.param = short_name(wrong.params.front());
    put_law(wrong, right, seen);
    verdict_.departures.push_back(std::move(seen));
  }

  const PackedRecord& packed_;
  const nsa::ModelConfig& model_;
  LayerJudgement& verdict_;
  double scale_of_all_ = 0.0;  // of all gradients
  std::map<std::string, double> limits_;
  std::map<int, Gradients> yardsticks_;  // by draw
};

}  // namespace

void judge_gradients_of_documents(const PackedRecord& packed,
                                  const nsa::ModelConfig& model,
                                  LayerJudgement& verdict) {
  PackedGradients(packed, model, verdict).judge();
}

}  // namespace harness::checks
