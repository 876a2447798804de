// One optimiser step of a few parameters, before and after, as a run would record it in float32.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "oracles/training/update_laws.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {

struct Parameter {
  std::string name;
  std::vector<float> p, m, v, gradient, p_after, m_after, v_after;

  [[nodiscard]] UpdateRecord record() const {
    const auto view = [](const std::vector<float>& values) { return Numbers::of(values); };
    return {name,
            view(p),
            view(m),
            view(v),
            view(gradient),
            view(p_after),
            view(m_after),
            view(v_after)};
  }
};

inline std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

struct UpdateCase {
  std::vector<Parameter> parameters;
  UpdateSettings settings;
  UpdateContext context;

  // Parameters of very different sizes: eps decides where gradients are tiny. `length`: of all
  // gradients together, unscaled.
  UpdateCase(std::uint64_t seed, const TrainConfig& train, std::int64_t n, double length)
      : settings(settings_of(train, n)) {
    Random random(seed);
    context = {.train = train,
               .norm = length,
               .local_norm = 1.7 * length,
               .loss_scale = 1024,
               .world = 4,
               .accumulate = 3,
               .skipped = 2};
    double squares = 0;
    for (const auto& [name, size] : {std::pair("blocks.0.norm1.weight", 1.0),
                                     std::pair("lm_head.weight", 0.3),
                                     std::pair("embed.weight", 3e-7)}) {
      Parameter parameter{name, {}, {}, {}, {}, {}, {}, {}};
      for (int i = 0; i < 700; ++i) {
        // One spike, so that clipping by value has something to cut off.
        const double g = size * (i == 0 ? 20 : random.normal());
        squares += g * g;
        parameter.gradient.push_back(static_cast<float>(g));
        parameter.p.push_back(static_cast<float>(0.05 * random.normal()));
        const double old = n == 1 ? 0 : size * random.normal();
        parameter.m.push_back(static_cast<float>(0.3 * old));
        parameter.v.push_back(static_cast<float>(0.01 * old * old));
      }
      parameters.push_back(std::move(parameter));
    }
    const double stretch = length / std::sqrt(squares);
    for (Parameter& parameter : parameters) {
      for (std::size_t i = 0; i < parameter.p.size(); ++i) {
        parameter.gradient[i] *= static_cast<float>(stretch * context.loss_scale);
        parameter.m[i] *= static_cast<float>(stretch);
        parameter.v[i] *= static_cast<float>(stretch * stretch);
      }
    }
    settings.factor = clip_factor(length, train.max_norm) / context.loss_scale;
    settings.factor_error = 1e-6;
  }

  // What a law gives, within its bounds: somewhere in the inner 80 % of them. False where it has no
  // meaning for some parameter; "right" is the right law.
  bool follow(std::string_view law, std::uint64_t seed) {
    Random random(seed);
    const auto noisy = [&](const std::vector<double>& values, const std::vector<double>& bounds) {
      std::vector<double> moved;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double shift = static_cast<double>(random.from(-400, 400)) / 1000;
        moved.push_back(values[i] + shift * bounds[i]);
      }
      return as_floats(moved);
    };
    for (Parameter& parameter : parameters) {
      parameter.m_after.clear();
      parameter.v_after.clear();
      parameter.p_after = parameter.p;
      const auto moments = prediction(law, parameter);
      if (!moments) {
        return false;
      }
      parameter.m_after = noisy(moments->m, moments->m_bound);
      parameter.v_after = noisy(moments->v, moments->v_bound);
      const auto moved = prediction(law, parameter);
      parameter.p_after = noisy(moved->p, moved->p_bound);
    }
    return true;
  }

  void forget_moments() {
    for (Parameter& parameter : parameters) {
      parameter.m_after.clear();
      parameter.v_after.clear();
    }
  }

  [[nodiscard]] std::vector<UpdateRecord> records() const {
    std::vector<UpdateRecord> all;
    for (const Parameter& parameter : parameters) {
      all.push_back(parameter.record());
    }
    return all;
  }

  [[nodiscard]] Naming naming() const {
    const std::vector<UpdateRecord> all = records();
    std::vector<UpdateJudgement> judgements;
    for (const UpdateRecord& record : all) {
      judgements.push_back(judge_update(record, settings, 1));
    }
    return name_updates(all, judgements, settings, context);
  }

 private:
  [[nodiscard]] std::optional<UpdatePrediction> prediction(std::string_view law,
                                                           const Parameter& parameter) const {
    if (law == "right") {
      return predicted_update(parameter.record(), settings);
    }
    return update_under(law, parameter.record(), settings, context);
  }
};

}  // namespace oracles::testing
