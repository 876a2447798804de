#include "harness/checks/step/step_update.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/checks/departed.h"
#include "harness/checks/largest.h"
#include "harness/checks/series.h"
#include "oracles/training/norms.h"
#include "oracles/training/update_laws.h"
#include "oracles/training/weights_copy.h"

namespace harness::checks {
namespace {

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

constexpr double kSameRate = 0x1p-20;

// What a mistake of the update is a mistake of.
struct UpdateStage {
  const char* code = "OPT.UPDATE_WRONG";
  const char* op = "optimizer";
  bool operator==(const UpdateStage& other) const { return std::string_view(op) == other.op; }
};

UpdateStage stage_of(std::string_view law) {
  if (begins_with(law, "clip_")) return {"CLIP.WRONG", "clip"};
  if (begins_with(law, "lr_")) return {"SCHEDULE.LR", "schedule"};
  if (law == "gradient_not_unscaled" || law == "gradient_unscaled_twice") {
    return {"SCALER.WRONG", "unscale"};
  }
  return {};
}

bool is_of_loss_scale(const oracles::LawFit& fit) {
  return stage_of(fit.law.name).op == std::string_view("unscale") ||
         fit.law.name == "clip_of_scaled_norm";
}

// The one that all fitting laws agree in, if there is one. Where gradients are clipped, unscaling them twice and clipping by the
// norm of scaled ones make the same numbers: in both the loss scale is taken out wrongly.
std::optional<UpdateStage> stage_of(const oracles::Naming& naming) {
  const auto& fitting = naming.fitting;
  if (fitting.empty()) return std::nullopt;
  if (fitting.size() > 1 && std::all_of(fitting.begin(), fitting.end(), is_of_loss_scale)) {
    return UpdateStage{"SCALER.WRONG", "unscale"};
  }
  const UpdateStage first = stage_of(fitting.front().law.name);
  const bool agree =
      std::all_of(naming.fitting.begin(), naming.fitting.end(), [&](const oracles::LawFit& fit) {
        return stage_of(fit.law.name) == first;
      });
  return agree ? std::optional(first) : std::nullopt;
}

class RankStepJudge final : public OptimizerStepJudge {
 public:
  RankStepJudge(StepJudge& judge, const StepFile& file, const nsa::SafetensorsFile& reduced)
      : judge_(judge), run_(judge.run), file_(file), reduced_(reduced) {
    for (const std::string& param : run_.params) {
      const bool on_record =
          file.has("p." + param) && file.has("p1." + param) && reduced.contains(param);
      if (!on_record) {
        lacking_.push_back(param);
      } else if (judge.has_gradient(file.rank, file.step, param)) {
        with_gradient_.push_back(param);
        gradients_.push_back(numbers_of(reduced.at(param)));
      } else {
        without_gradient_.push_back(param);
      }
    }
    norms_ = oracles::gradient_norms(gradients_);
  }

  [[nodiscard]] bool finite() const override { return std::isfinite(norms_.all); }
  [[nodiscard]] std::size_t lacking() const override { return lacking_.size(); }
  [[nodiscard]] std::int64_t elements() const override { return elements_; }

  void judge_taken(std::int64_t n, std::int64_t skipped, double scale) override {
    const double norm = judge_norm(scale);
    oracles::UpdateSettings settings = oracles::settings_of(run_.train, n);
    settings.number = run_.stored;
    settings.factor = oracles::clip_factor(norm, run_.train.max_norm) / scale;
    settings.factor_error = 16 * oracles::unit_roundoff(oracles::Number::f32);
    if (run_.stored == oracles::Number::f64) settings.factor_error = 0x1p-48;
    if (!norm_is_recorded_ && norm * (1 + norm_error_) > run_.train.max_norm) {
      settings.factor_error += norm_error_;
    }
    oracles::UpdateContext context;
    context.train = run_.train;
    context.norm = norm;
    context.largest = norms_.largest / scale;
    context.local_norm = local_norm() / scale;
    context.loss_scale = scale;
    context.world = run_.data.world;
    context.accumulate = run_.data.accumulate;
    context.skipped = skipped;
    judge_update(settings, context);
    judge_unmoved(without_gradient_, true);
    judge_masters();
  }

  void judge_left_out() override {
    judge_unmoved(run_.params, false);
    judge_masters();
  }

 private:
  [[nodiscard]] Departure departure(const std::string& code, const std::string& op) const {
    return step_departure(code, op, file_.rank, file_.step, "optimizer");
  }

  // Of this rank's own gradients before the reduction; 0 where it is not on record.
  [[nodiscard]] double local_norm() const {
    double squares = 0;
    for (const std::string& param : with_gradient_) {
      const Gradient* row = judge_.ledger.ranks.find({file_.step, file_.rank, param});
      if (row != nullptr) squares += static_cast<double>(row->l2) * static_cast<double>(row->l2);
    }
    return std::sqrt(squares);
  }

  // The norm to go on with.
  double judge_norm(double scale) {
    const double own = norms_.all / scale;
    std::int64_t largest = 0;
    for (const oracles::Numbers& gradient : gradients_)
      largest = std::max(largest, gradient.size());
    norm_error_ = oracles::norm_roundoff(largest, run_.stored);
    const Series series = series_of(judge_.run.evidence, "grad_norm");
    const Sample* row = series.find({file_.rank, file_.step});
    if (row == nullptr) {
      judge_.result.missing("the norm of the gradients of " + process_name(file_.rank) + ", step " +
                            std::to_string(file_.step));
      return own;
    }
    oracles::NormFacts facts;
    facts.gradients = gradients_;
    facts.loss_scale = scale;
    facts.max_norm = run_.train.max_norm;
    facts.world = run_.data.world;
    facts.local_norm = local_norm() / scale;
    facts.number = run_.stored;
    const double recorded = static_cast<double>(row->value);
    const oracles::Naming naming = oracles::name_norm(recorded, facts);
    if (naming.right.fits()) {
      norm_is_recorded_ = true;
      return recorded;
    }
    const oracles::LawFit* const law = naming.alone();
    const bool scaled = law != nullptr && law->law.name == "norm_scaled";
    Departure wrong =
        scaled ? departure("SCALER.WRONG", "unscale") : departure("CLIP.WRONG", "norm");
    wrong.laws = known_laws(naming);
    wrong.site.detail["found"] = Real(recorded);
    wrong.site.detail["wanted"] = own;
    judge_.told.add(std::move(wrong));
    // A wrong norm is told once: the step may have been made with it.
    wrong_norm_ = recorded;
    return own;
  }

  [[nodiscard]] oracles::UpdateRecord record_of(const std::string& param) {
    std::vector<double>& gradient =
        taken_.emplace_back(taken_rows(reduced_.at(param), file_.rows(param)));
    return {param,
            file_.numbers("p." + param),
            file_.numbers("m." + param),
            file_.numbers("v." + param),
            oracles::Numbers::of(gradient),
            file_.numbers("p1." + param),
            file_.numbers("m1." + param),
            file_.numbers("v1." + param)};
  }

  using Judgements = std::vector<oracles::UpdateJudgement>;
  static Judgements judged(const std::vector<oracles::UpdateRecord>& records,
                           const oracles::UpdateSettings& settings) {
    Judgements judgements;
    judgements.reserve(records.size());
    for (const auto& record : records) {
      judgements.push_back(oracles::judge_update(record, settings));
    }
    return judgements;
  }
  static bool fit(const Judgements& judgements) {
    return std::all_of(
        judgements.begin(), judgements.end(), [](const auto& j) { return j.fits(); });
  }

  void judge_update(const oracles::UpdateSettings& settings,
                    const oracles::UpdateContext& context) {
    std::vector<oracles::UpdateRecord> records;
    for (const std::string& param : with_gradient_) {
      records.push_back(record_of(param));
      elements_ += records.back().p_before.size();
    }
    const Judgements judgements = judged(records, settings);
    if (fit(judgements)) {
      depart_from_reports(records, settings, context);
      return;
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!judgements[i].fits()) depart(records[i], settings, judgements[i]);
    }
    if (std::isfinite(wrong_norm_)) {
      oracles::UpdateSettings with_wrong = settings;
      with_wrong.factor =
          oracles::clip_factor(wrong_norm_, run_.train.max_norm) / context.loss_scale;
      if (fit(judged(records, with_wrong))) return;
    }
    if (tell_reported_rate(records, settings)) return;
    const oracles::Naming naming = oracles::name_updates(records, judgements, settings, context);
    const std::optional<UpdateStage> known = stage_of(naming);
    if (!known && tell_factor(records, settings, context)) return;
    const UpdateStage stage = known.value_or(UpdateStage{});
    Departure wrong = departure(stage.code, stage.op);
    wrong.laws = known_laws(naming);
    std::int64_t m = 0;
    std::int64_t v = 0;
    std::int64_t p = 0;
    for (std::size_t i = 0; i < judgements.size(); ++i) {
      if (!judgements[i].fits()) wrong.params.push_back(records[i].name);
      m += judgements[i].m.wrong;
      v += judgements[i].v.wrong;
      p += judgements[i].p.wrong;
    }
    const oracles::LawFit* const law = naming.alone();
    if (wrong.params.size() == records.size()) {
      wrong.params.clear();
    } else if (law != nullptr && law->law.name == "step_skipped") {
      wrong.code = "OPT.UPDATE_LOST";  // the others took the step
    }
    wrong.site.detail["wrong_elements"] = {{"m", m}, {"p", p}, {"v", v}};
    // What scales the gradient moves the moments: where they are right it has no part in it.
    if (m == 0 && v == 0) wrong.site.detail["parts"] = nlohmann::json::array({"values_alone"});
    judge_.told.add(std::move(wrong));
  }

  // What the state before the step gives is on record as it is in the file: whole parameters alone.
  void depart(const oracles::UpdateRecord& record,
              const oracles::UpdateSettings& settings,
              const oracles::UpdateJudgement& judgement) {
    const oracles::UpdatePrediction right = oracles::predicted_update(record, settings);
    const auto add = [&](const oracles::Misfit& misfit,
                         const oracles::Numbers& found,
                         const std::vector<double>& values,
                         const std::vector<double>& bounds) {
      if (misfit.fits()) return;
      for (const auto& [name, view] : file_.file.tensors()) {
        const void* begin = view.bytes.data();
        if (begin != found.bytes()) continue;
        judge_.result.departed(departed_tensor(path(), name, Right{values, largest(bounds)}));
        return;
      }
    };
    add(judgement.m, record.m_after, right.m, right.m_bound);
    add(judgement.v, record.v_after, right.v, right.v_bound);
    add(judgement.p, record.p_after, right.p, right.p_bound);
  }

  [[nodiscard]] std::string path() const {
    return path_of(run_.evidence, {file_.rank, "optimizer_step", file_.step, file_.rank});
  }

  // The update is right. Would it be, had it been made with the norm and the learning rate that the rank reports?
  void depart_from_reports(const std::vector<oracles::UpdateRecord>& records,
                           const oracles::UpdateSettings& settings,
                           const oracles::UpdateContext& context) {
    oracles::UpdateSettings with_norm = settings;
    with_norm.factor = oracles::clip_factor(wrong_norm_, run_.train.max_norm) / context.loss_scale;
    if (std::isfinite(wrong_norm_) && with_norm.factor != settings.factor) {
      depart_from("grad_norm", context.norm, records, with_norm);
    }
    const Series rates = series_of(run_.evidence, "lr");
    const Sample* row = rates.find({file_.rank, file_.step});
    oracles::UpdateSettings with_rate = settings;
    if (row != nullptr) with_rate.lr = row->value;
    if (std::abs(with_rate.lr - settings.lr) <= kSameRate * settings.lr) return;
    depart_from("lr", settings.lr, records, with_rate);
  }

  void depart_from(const char* metric,
                   double right,
                   const std::vector<oracles::UpdateRecord>& records,
                   const oracles::UpdateSettings& reported) {
    if (fit(judged(records, reported))) return;  // it shows nothing of what was used
    judge_.result.departed(departed_sample(metric, file_.rank, file_.step, right));
  }

  // Was the step made with the learning rate that the rank reports, where that is another one than the schedule's?
  bool tell_reported_rate(const std::vector<oracles::UpdateRecord>& records,
                          oracles::UpdateSettings settings) {
    const Series rates = series_of(run_.evidence, "lr");
    const Sample* row = rates.find({file_.rank, file_.step});
    if (row == nullptr || static_cast<double>(row->value) == settings.lr) return false;
    const double wanted = std::exchange(settings.lr, static_cast<double>(row->value));
    if (!fit(judged(records, settings))) return false;
    Departure wrong = departure("SCHEDULE.LR", "schedule");
    wrong.site.detail["found"] = Real(settings.lr);
    wrong.site.detail["wanted"] = wanted;
    judge_.told.add(std::move(wrong));
    return true;
  }

  // Is all of it explained by one factor of the gradient? Then what scales gradients is wrong, and AdamW is not.
  bool tell_factor(const std::vector<oracles::UpdateRecord>& records,
                   oracles::UpdateSettings settings,
                   const oracles::UpdateContext& context) {
    const double wanted = settings.factor;
    try {
      const oracles::FittedFactor fitted = oracles::fitted_factor(records, settings);
      settings.factor = fitted.value;
      settings.factor_error = fitted.error;
    } catch (const std::invalid_argument&) {
      return false;  // no moments, or no gradient that is not 0
    }
    if (!fit(judged(records, settings))) return false;
    Departure wrong = departure("CLIP.WRONG", "clip");
    wrong.laws = known_laws(oracles::name_coefficient(
        settings.factor * context.loss_scale, context.norm, run_.train.max_norm, run_.stored));
    wrong.site.detail["factor"] = settings.factor / wanted;
    judge_.told.add(std::move(wrong));
    return true;
  }

  // Parameters that the step passes over: bit by bit what they were.
  void judge_unmoved(const std::vector<std::string>& params, bool taken) {
    Departure wrong =
        departure(taken ? "OPT.UPDATE_WRONG" : "SCALER.WRONG", taken ? "optimizer" : "scaler");
    for (const std::string& param : params) {
      if (!file_.has("p." + param) || !file_.has("p1." + param)) continue;
      const bool kept =
          same_bytes(file_.file.at("p." + param), file_.file.at("p1." + param)) && unmoved(param);
      if (!kept) wrong.params.push_back(param);
    }
    if (wrong.params.empty()) return;
    if (taken) wrong.site.detail["without_gradient"] = true;
    if (!taken) wrong.site.detail["not_finite"] = true;
    judge_.told.add(std::move(wrong));
  }

  // Moments that were not there before the step may be there after it, as zeros.
  [[nodiscard]] bool unmoved(const std::string& param) const {
    for (const char* part : {"m", "v"}) {
      const oracles::Numbers before = file_.numbers(std::string(part) + "." + param);
      const oracles::Numbers after = file_.numbers(std::string(part) + "1." + param);
      for (std::int64_t i = 0; i < after.size(); ++i) {
        const double was = before.empty() ? 0.0 : before[i];
        if (!(after[i] == was || (std::isnan(after[i]) && std::isnan(was)))) return false;
      }
    }
    return true;
  }

  void judge_masters() {
    if (!run_.has_masters) return;
    std::vector<oracles::WeightRecord> records;
    for (const std::string& param : run_.params) {
      if (!file_.has("w." + param) || !file_.has("w1." + param)) continue;
      records.push_back({file_.numbers("p." + param),
                         file_.numbers("p1." + param),
                         file_.numbers("w." + param),
                         file_.numbers("w1." + param)});
    }
    if (records.empty()) {
      judge_.result.missing("weights beside their masters of " + process_name(file_.rank) +
                            ", step " + std::to_string(file_.step));
      return;
    }
    const oracles::Naming naming = oracles::name_weights(records);
    if (naming.right.fits()) return;
    Departure wrong = departure("OPT.UPDATE_WRONG", "masters");
    wrong.laws = known_laws(naming);
    judge_.told.add(std::move(wrong));
  }

  StepJudge& judge_;
  const StepRun& run_;
  const StepFile& file_;
  const nsa::SafetensorsFile& reduced_;
  std::vector<std::string> lacking_;
  std::vector<std::string> with_gradient_;
  std::vector<std::string> without_gradient_;
  std::vector<oracles::Numbers> gradients_;  // of with_gradient_, whole
  std::vector<std::vector<double>> taken_;   // their rows that are on record
  oracles::GradientNorms norms_;
  double norm_error_ = 0;
  bool norm_is_recorded_ = false;
  double wrong_norm_ = NAN;  // the recorded one, where it is wrong
  std::int64_t elements_ = 0;
};

}  // namespace

std::unique_ptr<OptimizerStepJudge> optimizer_step_judge(StepJudge& judge,
                                                         const StepFile& file,
                                                         const nsa::SafetensorsFile& reduced) {
  return std::make_unique<RankStepJudge>(judge, file, reduced);
}

}  // namespace harness::checks
