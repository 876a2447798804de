#include "oracles/training/update_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oracles/training/rate_laws.h"

namespace oracles {
namespace {

using F = const UpdateFacts&;
using T = UpdateTerms&;

// Changes the right terms; false where the law has no meaning.
template <typename Change>
UpdateRule changed(const Law& law, Change change) {
  return {law, [change](F f, std::size_t) -> std::optional<Expected> {
            UpdateTerms terms = right_terms(f.settings);
            if (!change(f, terms)) return std::nullopt;
            return updated(f.record, terms);
          }};
}

bool factor_is(T t, F f, double factor) {
  t.factor = factor;
  return factor != f.settings.factor;
}

// The clip coefficient of another norm in the place of the right one.
bool clipped_by(T t, F f, double norm) {
  return factor_is(
      t, f, f.settings.factor / f.clip() * clip_factor(norm, f.context.train.max_norm));
}

// The corrections of step n.
void correct(T t, F f, double n) {
  t.use_m = 1 / (1 - std::pow(f.settings.beta1, n));
  t.root = 1 / std::sqrt(1 - std::pow(f.settings.beta2, n));
}

}  // namespace

Expected updated(const UpdateRecord& record, const UpdateTerms& terms) {
  const UpdatePrediction by = predicted_by(record, terms);
  const std::int64_t count = record.p_before.size();
  Expected e{zeros({count, 3}), zeros({count, 3})};
  for (std::size_t i = 0; i < by.p.size(); ++i) {
    std::copy_n(std::array{by.p[i], by.m[i], by.v[i]}.begin(), 3, e.value.data.begin() + 3 * i);
    std::copy_n(std::array{by.p_bound[i], by.m_bound[i], by.v_bound[i]}.begin(),
                3,
                e.bound.data.begin() + 3 * i);
  }
  return e;
}

std::vector<UpdateRule> gradient_factor_rules() {
  return {
      changed({"gradient_not_unscaled", "the gradient is not divided by the loss scale"},
              [](F f, T t) { return factor_is(t, f, f.settings.factor * f.context.loss_scale); }),
      changed({"gradient_unscaled_twice", "the gradient is divided by the loss scale twice"},
              [](F f, T t) { return factor_is(t, f, f.settings.factor / f.context.loss_scale); }),
      changed({"gradient_times_world", "the gradient is world times as large"},
              [](F f, T t) {
                return factor_is(t, f, f.settings.factor * static_cast<double>(f.context.world));
              }),
      changed({"gradient_over_world", "the gradient is divided by world once more"},
              [](F f, T t) {
                return factor_is(t, f, f.settings.factor / static_cast<double>(f.context.world));
              }),
      changed({"gradient_times_accumulate", "the gradient is accumulate times as large"},
              [](F f, T t) {
                return factor_is(
                    t, f, f.settings.factor * static_cast<double>(f.context.accumulate));
              }),
      changed({"gradient_over_accumulate", "the gradient is divided by accumulate once more"},
              [](F f, T t) {
                return factor_is(
                    t, f, f.settings.factor / static_cast<double>(f.context.accumulate));
              }),
      changed({"clip_missing", "the clip coefficient is not applied"},
              [](F f, T t) { return factor_is(t, f, f.settings.factor / f.clip()); }),
      changed({"clip_twice", "the clip coefficient is applied twice"},
              [](F f, T t) { return factor_is(t, f, f.settings.factor * f.clip()); }),
      changed({"clip_per_tensor", "every parameter is clipped by its own norm"},
              [](F f, T t) { return clipped_by(t, f, f.own_norm); }),
      changed({"clip_by_local_norm", "clipped by the norm of the rank's own gradients"},
              [](F f, T t) {
                return f.context.local_norm > 0 && clipped_by(t, f, f.context.local_norm);
              }),
      changed({"clip_by_square", "clipped by the sum of squares, without the root"},
              [](F f, T t) { return clipped_by(t, f, f.context.norm * f.context.norm); }),
      changed({"clip_norm_over_world", "clipped by the norm divided by world"},
              [](F f, T t) {
                return clipped_by(t, f, f.context.norm / static_cast<double>(f.context.world));
              }),
      changed({"clip_norm_times_world", "clipped by world times the norm"},
              [](F f, T t) {
                return clipped_by(t, f, f.context.norm * static_cast<double>(f.context.world));
              }),
      changed({"clip_norm_reduced_twice", "clipped by sqrt(world) times the norm"},
              [](F f, T t) {
                const double root = std::sqrt(static_cast<double>(f.context.world));
                return clipped_by(t, f, f.context.norm * root);
              }),
      changed(
          {"clip_of_scaled_norm", "clipped by the norm of the gradients before they are unscaled"},
          [](F f, T t) { return clipped_by(t, f, f.context.norm * f.context.loss_scale); }),
      changed({"clip_to_one", "max_norm is taken as 1"},
              [](F f, T t) {
                return factor_is(
                    t, f, f.settings.factor / f.clip() * clip_factor(f.context.norm, 1));
              }),
      changed({"clip_always", "short gradients are stretched to max_norm"},
              [](F f, T t) {
                const double own = f.context.train.max_norm / (f.context.norm + 1e-6);
                return factor_is(t, f, f.settings.factor / f.clip() * own);
              }),
      changed({"clip_by_value", "every number of the gradient is cut off at max_norm"},
              [](F f, T t) {
                t.factor = f.settings.factor / f.clip();
                t.clamp = f.context.train.max_norm;
                return f.clip() < 1 && f.context.largest > t.clamp;  // else nothing is cut off
              })};
}

std::vector<UpdateRule> moment_rules() {
  return {changed({"betas_swapped", "beta1 and beta2 exchanged"},
                  [](F f, T t) {
                    UpdateSettings other = f.settings;
                    std::swap(other.beta1, other.beta2);
                    t = right_terms(other);
                    return f.settings.beta1 != f.settings.beta2;
                  }),
          changed({"m_by_beta2", "m decays by beta2"},
                  [](F f, T t) {
                    t.m_keep = f.settings.beta2;
                    t.m_take = 1 - f.settings.beta2;
                    return f.settings.beta1 != f.settings.beta2;
                  }),
          changed({"v_by_beta1", "v decays by beta1"},
                  [](F f, T t) {
                    t.v_keep = f.settings.beta1;
                    t.v_take = 1 - f.settings.beta1;
                    return f.settings.beta1 != f.settings.beta2;
                  }),
          changed({"m_sums_up", "m = beta1 m + g: without the factor 1 - beta1"},
                  [](F, T t) {
                    t.m_take = 1;
                    return true;
                  }),
          changed({"v_sums_up", "v = beta2 v + g^2: without the factor 1 - beta2"},
                  [](F, T t) {
                    t.v_take = 1;
                    return true;
                  }),
          changed({"m_not_updated", "m stays"},
                  [](F, T t) {
                    t.m_keep = 1;
                    t.m_take = 0;
                    return true;
                  }),
          changed({"v_not_updated", "v stays"},
                  [](F, T t) {
                    t.v_keep = 1;
                    t.v_take = 0;
                    return true;
                  }),
          changed({"moments_not_updated", "m and v stay"},
                  [](F, T t) {
                    t.m_keep = t.v_keep = 1;
                    t.m_take = t.v_take = 0;
                    return true;
                  }),
          changed({"m_forgotten", "m begins at 0 in this step"},
                  [](F f, T t) {
                    t.m_keep = 0;
                    return f.settings.n > 1;
                  }),
          changed({"v_forgotten", "v begins at 0 in this step"},
                  [](F f, T t) {
                    t.v_keep = 0;
                    return f.settings.n > 1;
                  }),
          changed({"moments_forgotten", "m and v begin at 0 in this step"},
                  [](F f, T t) {
                    t.m_keep = t.v_keep = 0;
                    return f.settings.n > 1;
                  }),
          changed({"optimizer_restarted", "m and v begin at 0 and n at 1 in this step"},
                  [](F f, T t) {
                    t.m_keep = t.v_keep = 0;
                    correct(t, f, 1);
                    return f.settings.n > 1;
                  }),
          changed({"v_of_unclipped", "v is made of the gradient before clipping"},
                  [](F f, T t) {
                    t.v_factor = 1 / f.clip();
                    return t.v_factor != 1;
                  }),
          changed({"bias_correction_missing", "m and v are not divided by 1 - beta^n"},
                  [](F, T t) {
                    t.use_m = t.root = 1;
                    return true;
                  }),
          changed({"bias_correction_of_m_missing", "m is not divided by 1 - beta1^n"},
                  [](F, T t) {
                    t.use_m = 1;
                    return true;
                  }),
          changed({"bias_correction_of_v_missing", "v is not divided by 1 - beta2^n"},
                  [](F, T t) {
                    t.root = 1;
                    return true;
                  }),
          changed({"bias_correction_behind", "the bias corrections are those of step n - 1"},
                  [](F f, T t) {
                    correct(t, f, static_cast<double>(f.settings.n - 1));
                    return f.settings.n > 1;
                  }),
          changed({"bias_correction_ahead", "the bias corrections are those of step n + 1"},
                  [](F f, T t) {
                    correct(t, f, static_cast<double>(f.settings.n + 1));
                    return true;
                  }),
          changed({"bias_correction_of_micro_steps", "the bias corrections count micro-batches"},
                  [](F f, T t) {
                    correct(t, f, static_cast<double>(f.settings.n * f.context.accumulate));
                    return f.context.accumulate > 1;
                  }),
          changed({"bias_correction_counts_skipped",
                   "the bias corrections count steps that were skipped"},
                  [](F f, T t) {
                    correct(t, f, static_cast<double>(f.settings.n + f.context.skipped));
                    return f.context.skipped > 0;
                  }),
          changed({"eps_inside_root", "sqrt(v + eps) in place of sqrt(v) + eps"},
                  [](F f, T t) {
                    t.inside = f.settings.eps / (t.root * t.root);
                    t.outside = 0;
                    return f.settings.eps > 0;
                  }),
          changed({"eps_before_correction", "eps is added to sqrt(v) before its bias correction"},
                  [](F f, T t) {
                    t.middle = f.settings.eps;
                    t.outside = 0;
                    return f.settings.eps > 0;
                  }),
          changed({"eps_missing", "eps is taken as 0"}, [](F f, T t) {
            t.outside = 0;
            return f.settings.eps > 0;
          })};
}

namespace {

std::vector<UpdateRule> decay_rules() {
  return {changed({"decay_missing", "no weight decay"},
                  [](F f, T t) {
                    t.keep = 1;
                    return f.settings.weight_decay > 0;
                  }),
          changed({"decay_in_gradient",
                   "weight_decay * p is added to the gradient (L2), p does not decay"},
                  [](F f, T t) {
                    t.l2 = f.settings.weight_decay;
                    t.keep = 1;
                    return f.settings.weight_decay > 0;
                  }),
          changed({"decay_sign", "p grows by lr * weight_decay"},
                  [](F f, T t) {
                    t.keep = 1 + f.settings.lr * f.settings.weight_decay;
                    return f.settings.weight_decay > 0;
                  }),
          changed({"decay_twice", "p decays twice"},
                  [](F f, T t) {
                    t.keep *= t.keep;
                    return f.settings.weight_decay > 0;
                  }),
          changed({"decay_without_lr", "p decays by weight_decay, whatever the learning rate"},
                  [](F f, T t) {
                    t.keep = 1 - f.settings.weight_decay;
                    return f.settings.weight_decay > 0;
                  }),
          changed({"decay_by_base_lr", "p decays by the highest learning rate, not by this step's"},
                  [](F f, T t) {
                    t.keep = 1 - f.context.train.lr * f.settings.weight_decay;
                    return f.settings.weight_decay > 0 && f.context.train.lr != f.settings.lr;
                  })};
}

// Every law of learning rates, as a step that was made with it. A rate of 0 loses the update, which
// has a law of its own.
std::vector<UpdateRule> rate_rules() {
  std::vector<UpdateRule> rules;
  for (const Law& law : rate_laws()) {
    if (law.name == "lr_zero") {
      continue;
    }
    rules.push_back(changed(law, [name = law.name](F f, T t) {
      const UpdateContext& c = f.context;
      const std::optional<double> rate =
          rate_under(name, c.train, c.accumulate, f.settings.n, c.skipped);
      t.lr = rate.value_or(0);
      t.keep = 1 - t.lr * f.settings.weight_decay;
      return rate.has_value() && t.lr != 0;
    }));
  }
  return rules;
}

}  // namespace

std::vector<UpdateRule> step_rules() {
  const std::vector<UpdateRule> others{
      changed({"update_lost", "p stays, m and v are right"},
              [](F, T t) {
                t.keep = 1;
                t.lr = 0;
                return true;
              }),
      changed({"step_skipped", "p, m and v stay"},
              [](F, T t) {
                t.keep = t.m_keep = t.v_keep = 1;
                t.lr = t.m_take = t.v_take = 0;
                return true;
              }),
      changed({"update_ascends", "the step is added in place of subtracted"},
              [](F, T t) {
                t.lr = -t.lr;
                return true;
              }),
      changed({"update_by_old_moments", "p moves by the moments from before the step"},
              [](F f, T t) {
                t.old_moments = true;
                return f.settings.n > 1;
              }),
      changed({"update_by_gradient", "p moves by the gradient in place of m"},
              [](F, T t) {
                t.use_m = 0;
                t.use_g = 1;
                return true;
              }),
      changed({"update_nesterov", "p moves by beta1 m + (1 - beta1) g in place of m"},
              [](F f, T t) {
                t.use_g = (1 - f.settings.beta1) * t.use_m;
                t.use_m *= f.settings.beta1;
                return true;
              }),
      changed({"update_without_v", "p moves by m alone: momentum, not divided by sqrt(v)"},
              [](F, T t) {
                t.root = 0;
                t.outside = 1;
                return true;
              })};
  return joined({decay_rules(), rate_rules(), others});
}

}  // namespace oracles
