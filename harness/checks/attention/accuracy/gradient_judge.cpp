#include "harness/checks/attention/accuracy/gradient_judge.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "harness/checks/nearer.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"
#include "oracles/laws/backward_laws.h"

namespace harness::checks {
namespace {

using oracles::RecordedGradient;
using oracles::Stage;
using oracles::Tensor;

constexpr const char* kInput = "x";  // the oracle's name for the gradient of the layer's input

std::string recorded_name(const std::string& of) {
  return of == kInput ? "dx" : "g.w." + of;
}

bool all_finite(const Tensor& tensor) {
  return std::all_of(
      tensor.data.begin(), tensor.data.end(), [](double value) { return std::isfinite(value); });
}

class GradientJudge {
 public:
  GradientJudge(const LayerRecord& record,
                const Forwards& forwards,
                const std::set<Stage>& wrong,
                double limit,
                LayerJudgement& verdict)
      : record_(record),
        wrong_stages_(wrong),
        limit_(limit),
        summed_(forwards.summed),
        drawn_forward_(forwards.drawn),
        verdict_(verdict),
        backward_(forwards.right, *record.dy),
        wanted_(backward_.gradients()) {
    if (forwards.plain != nullptr) {
      plain_backward_.emplace(*forwards.plain, *record.dy);
      plain_ = plain_backward_->gradients();
    }
  }

  void judge() {
    scale_of_all_ = 0.0;
    for_each_wanted([&](const std::string&, const Tensor& wanted) {
      scale_of_all_ = std::max(scale_of_all_, oracles::finite_scale(wanted));
    });
    for_each_wanted([&](const std::string& of, const Tensor& wanted) { take(of, wanted); });
    say_what_is_not_judged();
    for (const std::string& of : wrong_) verdict_.departed.push_back(departed(of));
    for (const std::vector<std::string>& cause : causes()) tell(cause);
  }

 private:
  template <typename Visit>
  void for_each_wanted(Visit visit) const {
    for (const auto& [name, gradient] : wanted_.weights) visit(name, gradient);
    visit(kInput, wanted_.x);
  }

  void take(const std::string& of, const Tensor& wanted) {
    std::vector<std::string> blocking;
    for (const Stage stage : oracles::stages_on_the_way(of, record_.config)) {
      if (wrong_stages_.count(stage) > 0) blocking.emplace_back(oracles::stage_name(stage));
    }
    if (blocking.empty() && !all_finite(wanted))
      blocking.emplace_back("numbers that are not finite");
    if (!blocking.empty()) {
      std::sort(blocking.begin(), blocking.end());
      not_judged_[nsa::join(blocking)].push_back(short_name(of));
      return;
    }
    const std::string name = recorded_name(of);
    const Tensor* found = nullptr;
    if (record_.has(name)) {
      found = &record_.at(name);
    } else if (of == kInput) {
      verdict_.missing.push_back("tensor " + name);
      return;
    } else {
      // A weight's gradient that was not recorded is none at all: right where the weight has no
      // influence.
      found = &zeros_.emplace_back(oracles::zeros(wanted.shape));
    }
    const double scale =
        std::max(oracles::finite_scale(wanted), smallest_scale_share(name) * scale_of_all_);
    GradientLimits limits{wanted, scale, limit_, summed_ * scale};
    if (plain_) {
      limits.yardstick = [&](int draw) -> const Tensor& {
        return gradient_in(draw == 0 ? *plain_ : drawn(draw), of);
      };
      limits.tell_heads_apart = [&](Measured& measured) {
        tell_heads_apart(of, record_.config, measured);
      };
    }
    const JudgedGradient judged = judge_gradient(record_, *found, limits);
    judged_.push_back({of, *found, wanted, judged.allowed});
    verdict_.errors[name] = judged.error;
    where_[name] = judged.where;
    const bool narrow = plain_ && of == kInput;
    if (judged.wrong || (narrow && is_added_too_narrow(*found))) wrong_.push_back(of);
  }

  static const Tensor& gradient_in(const oracles::AttentionGradients& all, const std::string& of) {
    return of == kInput ? all.x : all.weights.at(of);
  }

  // By the yardstick of a draw.
  const oracles::AttentionGradients& drawn(int draw) {
    const auto at = drawn_.find(draw);
    if (at != drawn_.end()) return at->second;
    return drawn_.emplace(draw, oracles::Backward(drawn_forward_(draw), *record_.dy).gradients())
        .first->second;
  }

  // A sum of eight gradients in the narrow type costs hardly more than their own rounding; number by number it is met.
  bool is_added_too_narrow(const Tensor& found) {
    if (record_.kept->input != record_.kept->results) return false;
    const Nearer seen = nearer_to(plain_backward_->gradients_added_narrow().x, found, plain_->x);
    if (!seen.is_nearer()) return false;
    const std::string name = recorded_name(kInput);
    verdict_.errors[name] = {seen.from_plain, kNearer * seen.from_other};
    where_[name] = kAddedTooNarrow;
    return true;
  }

  void say_what_is_not_judged() {
    for (const auto& [blocking, gradients] : not_judged_) {
      verdict_.missing.push_back("the gradients of " + nsa::join(gradients) +
                                 ", which go through " + blocking);
    }
  }

  // What is wrong together. Two of the three branches with wrong gradients of their own are two
  // causes: what is wrong before the branches part makes all three wrong. The gradients of queries
  // and input are sums over the branches, and are part of both.
  [[nodiscard]] std::vector<std::vector<std::string>> causes() const {
    if (wrong_.empty()) return {};
    std::map<std::string, std::vector<std::string>> of_branch;
    std::vector<std::string> shared;
    bool before_the_branches = false;
    for (const std::string& of : wrong_) {
      const std::string branch = branch_of(of);
      if (!branch.empty()) {
        of_branch[branch].push_back(of);
      } else {
        shared.push_back(of);
        before_the_branches = before_the_branches || (of != kInput && of != "W_Q.weight");
      }
    }
    if (of_branch.size() != 2 || before_the_branches) return {wrong_};
    std::vector<std::vector<std::string>> causes;
    for (auto& [branch, own] : of_branch) {
      own.insert(own.end(), shared.begin(), shared.end());
      causes.push_back(std::move(own));
    }
    return causes;
  }

  void tell(const std::vector<std::string>& wrong) {
    Departure seen;
    seen.code = "NUMERIC.GRADIENT";
    std::set<std::string> branches;
    std::vector<std::string> params;
    for (const std::string& of : wrong) {
      seen.tensors.push_back(recorded_name(of));
      put_error(recorded_name(of), seen);
      if (of == kInput || of == "W_Q.weight") continue;  // sums over the branches
      params.push_back(of);
      branches.insert(branch_of(of));
    }
    if (branches.size() == 1) seen.site.branch = *branches.begin();
    if (!seen.site.branch.empty()) {
      seen.site.op = compression_alone(wrong) ? "compress" : "attend_" + seen.site.branch;
    }
    if (params.size() == 1) seen.site.param = short_name(params.front());
    put_heads(wrong, seen);
    put_law(wrong, seen);
    if (std::find(wrong.begin(), wrong.end(), kInput) != wrong.end()) put_tokens(seen);
    verdict_.departures.push_back(std::move(seen));
  }

  // Compressed keys, and compressed values, pass their gradient on to phi's weights and to the
  // projection. Where one of these is right, what came back from the attention was right too.
  [[nodiscard]] bool compression_alone(const std::vector<std::string>& wrong) const {
    return std::all_of(wrong.begin(), wrong.end(), [this](const std::string& of) {
      if (of == kInput) return true;  // as wrong as what the projection passes on
      const Stage made = compressed_on_the_way(of);
      return made != Stage::y && any_right_through(made);
    });
  }

  // The compressed keys or values that a gradient goes through; `y` where it goes through neither, or both.
  [[nodiscard]] Stage compressed_on_the_way(const std::string& of) const {
    const auto way = oracles::stages_on_the_way(of, record_.config);
    const bool keys = std::find(way.begin(), way.end(), Stage::k_cmp) != way.end();
    const bool values = std::find(way.begin(), way.end(), Stage::v_cmp) != way.end();
    if (keys == values) return Stage::y;
    return keys ? Stage::k_cmp : Stage::v_cmp;
  }

  [[nodiscard]] bool any_right_through(Stage made) const {
    return std::any_of(judged_.begin(), judged_.end(), [&](const RecordedGradient& judged) {
      return judged.of != kInput && compressed_on_the_way(judged.of) == made &&
             std::find(wrong_.begin(), wrong_.end(), judged.of) == wrong_.end();
    });
  }

  // A weight's gradient is on record in the step's file too.
  [[nodiscard]] DepartedTensor departed(const std::string& of) const {
    if (of != kInput) return {recorded_name(of), std::nullopt};
    const RecordedGradient& dx = gradient(of);
    return {recorded_name(of),
            Right{(plain_ ? plain_->x : dx.wanted).data, dx.allowed.of(dx.wanted)}};
  }

  void put_error(const std::string& name, Departure& seen) const {
    const ErrorOfTensor& error = verdict_.errors.at(name);
    const auto at = where_.find(name);
    keep_worst(error.value, error.limit, at == where_.end() ? std::string() : at->second, seen);
  }

  [[nodiscard]] const RecordedGradient& gradient(const std::string& of) const {
    return *std::find_if(judged_.begin(), judged_.end(), [&](const RecordedGradient& judged) {
      return judged.of == of;
    });
  }

  // A law is asked for all gradients that were judged, or, where there are two causes, for those of
  // its own branch alone.
  void put_law(const std::vector<std::string>& wrong, Departure& seen) const {
    std::vector<RecordedGradient> asked;
    for (const RecordedGradient& judged : judged_) {
      if (wrong.size() == wrong_.size() || branch_of(judged.of) == seen.site.branch) {
        asked.push_back(judged);
      }
    }
    const oracles::GradientNaming found = oracles::name_gradients(backward_, asked);
    if (found.naming.fitting.empty()) return;
    explain(found.naming, seen);
    if (!found.branch) return;
    if (seen.site.branch.empty()) seen.site.branch = oracles::branch_name(*found.branch);
    seen.site.op = "attend_" + seen.site.branch;
  }

  // Heads and groups of all wrong gradients together. Counts are a law where they explain every one
  // of them and agree.
  void put_heads(const std::vector<std::string>& wrong, Departure& seen) const {
    std::set<int> heads;
    std::set<int> groups;
    std::map<int, double> counts;
    bool agree = true;
    bool any = false;
    for (const std::string& of : wrong) {
      const auto told = oracles::wrong_heads(backward_, gradient(of));
      if (!told) continue;
      heads.insert(told->heads.begin(), told->heads.end());
      groups.insert(told->groups.begin(), told->groups.end());
      agree = agree && !told->counts.empty() && (counts.empty() || counts == told->counts);
      counts = told->counts;
      any = true;
    }
    if (static_cast<std::int64_t>(heads.size()) < record_.config.n_heads) {
      seen.site.heads = to_ints(heads);
    }
    seen.site.detail["groups"] = to_ints(groups);
    if (!any || !agree) return;
    put_shares_of_heads(counts, seen);
  }

  // The tokens whose own gradient is wrong, where not all are: what was left out of a weight's
  // gradient was left out there.
  void put_tokens(Departure& seen) const {
    const RecordedGradient& dx = gradient(kInput);
    std::set<int> tokens;
    for (const std::size_t vector :
         oracles::wrong_vectors(dx.found, dx.wanted, dx.allowed.of(dx.wanted))) {
      tokens.insert(static_cast<int>(vector % static_cast<std::size_t>(record_.length)));
    }
    if (static_cast<std::int64_t>(tokens.size()) == record_.length) return;
    seen.site.rows = to_ints(tokens);
    if (seen.site.rows.size() > kMostRows) seen.site.rows.resize(kMostRows);
  }

  const LayerRecord& record_;
  const std::set<Stage>& wrong_stages_;
  double limit_;
  double summed_;
  std::function<const oracles::Stages&(int)> drawn_forward_;
  LayerJudgement& verdict_;
  oracles::Backward backward_;
  oracles::AttentionGradients wanted_;
  std::optional<oracles::Backward> plain_backward_;  // by the yardstick
  std::optional<oracles::AttentionGradients> plain_;
  std::map<int, oracles::AttentionGradients> drawn_;
  std::map<std::string, std::string> where_;  // an error was measured, by tensor
  double scale_of_all_ = 0.0;
  std::deque<Tensor> zeros_;
  std::vector<RecordedGradient> judged_;
  std::vector<std::string> wrong_;
  std::map<std::string, std::vector<std::string>> not_judged_;  // by what stands in the way
};

}  // namespace

void tell_heads_apart(const std::string& of,
                      const oracles::AttentionConfig& config,
                      Measured& gradient) {
  const bool out = of == "out.weight";
  const bool queries = of == "W_Q.weight";
  if (!out && !queries && of.rfind("W_", 0) != 0) return;
  gradient.heads = out || queries ? config.n_heads : config.n_kv_groups;
  const std::int64_t columns = gradient.wanted.shape.back();
  const std::int64_t size = (out ? columns : gradient.wanted.shape.front()) / gradient.heads;
  gradient.head_of = [out, columns, size](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return (out ? at % columns : at / columns) / size;
  };
}

JudgedGradient judge_gradient(const LayerRecord& record,
                              const Tensor& found,
                              const GradientLimits& limits) {
  const double scale = limits.scale;
  JudgedGradient judged;
  judged.allowed = {limits.ceiling, scale, record.arithmetic.stored};
  if (!limits.yardstick) {
    double difference = 0.0;
    for (std::size_t i = 0; i < found.data.size(); ++i) {
      raise_to(difference, std::abs(found.data[i] - limits.wanted.data[i]));
    }
    judged.error = {difference == 0.0 ? 0.0 : difference / scale, limits.ceiling};
    judged.wrong = !(judged.error.value <= judged.error.limit);
    return judged;
  }
  Measured measured{
      found, limits.wanted, limits.yardstick(0), record.kept->results, kGradientBudget};
  measured.summed = limits.summed;
  if (limits.tell_heads_apart) limits.tell_heads_apart(measured);
  const Spent budget = spent(measured, limits.yardstick);
  judged.error = {budget.error, budget.limit};
  judged.where = budget.where;
  judged.allowed.relative = scale > 0.0 ? budget.whole / scale : 0.0;
  judged.wrong = !budget.within();
  return judged;
}

void judge_gradients(const LayerRecord& record,
                     const Forwards& forwards,
                     const std::set<Stage>& wrong,
                     double limit,
                     LayerJudgement& verdict) {
  GradientJudge(record, forwards, wrong, limit, verdict).judge();
}

}  // namespace harness::checks
