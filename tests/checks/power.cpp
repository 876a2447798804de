// The power of the limits: for each of them the smallest fault that its check still sees, as rows of Markdown. A fault multiplies
// numbers of a healthy record by 1 + e; e is looked for among the powers of two. tests/checks/power.py puts the rows into
// docs/arithmetic.md.
#include <cstdio>
#include <iostream>

#include "tests/checks/made_steps.h"
#include "tests/checks/planted.h"
#include "tests/checks/planted_numbers.h"

namespace {

using fixtures::Healthy;
using fixtures::LayerSetting;
using fixtures::Tensors;
using fixtures::Training;
using harness::Verdict;

constexpr int kLargest = 6;     // 2^6: what is not seen then is not seen
constexpr int kSmallest = -40;  // below the last bit of a float32

bool fails(const char* check, const Healthy& healthy) {
  return fixtures::run(check, healthy.evidence).verdict == Verdict::fail;
}

// The smallest power of two at which the fault is seen; kLargest + 1 if none is. What is seen at one size is seen at larger ones.
template <typename Seen>
int smallest(const Seen& seen) {
  int unseen = kSmallest - 1;
  int found = kLargest + 1;
  while (found - unseen > 1) {
    const int middle = (found + unseen) / 2;
    (seen(std::exp2(middle)) ? found : unseen) = middle;
  }
  return found;
}

std::string size_text(int power) {
  if (power > kLargest) return "none";
  if (power < kSmallest + 1) return "the last bit";
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", std::exp2(power));
  return text;
}

void row(const std::string& check, const std::string& what, int all, int one) {
  std::cout << "| " << check << " | " << what << " | " << size_text(all) << " | " << size_text(one)
            << " |" << std::endl;
}

void scale_all(oracles::Tensor& tensor, double factor) {
  for (double& x : tensor.data) x *= factor;
}

// The last vector of the last axis: of a query in one head, of a token. An early one may be zero.
void scale_one(oracles::Tensor& tensor, double factor) {
  const auto width = static_cast<std::size_t>(tensor.shape.back());
  const std::size_t vectors = tensor.data.size() / width;
  for (std::size_t i = 0; i < width; ++i) tensor.data[(vectors - 1) * width + i] *= factor;
}

using Scale = void (*)(oracles::Tensor&, double);

// ---- attention ------------------------------------------------------------------------------------------------------------

bool layer_fails(const char* check, const LayerSetting& setting) {
  Healthy healthy(1, 1, "attention");
  for (int layer = 0; layer < 3; ++layer) {
    healthy.write_layer(0, 1, 0, layer, fixtures::made_layer(setting, 0, layer));
    if (setting.number == oracles::Number::f32) continue;
    healthy.evidence.the_case.scenario.training.precision = nsa::Precision::bf16;
  }
  return fails(check, healthy);
}

int of_layer(const char* check, const std::string& name, oracles::Number number, Scale scale) {
  return smallest([&](double size) {
    LayerSetting setting;
    setting.number = number;
    setting.spoil = [&](const std::string& tensor, oracles::Tensor& made) {
      if (tensor == name) scale(made, 1.0 + size);
    };
    return layer_fails(check, setting);
  });
}

void attention() {
  std::vector<std::string> names;
  LayerSetting listing;
  listing.spoil = [&](const std::string& name, oracles::Tensor&) {
    const bool input = name == "x" || name == "dy" || name.starts_with("w.");
    if (!input && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  (void)fixtures::made_layer(listing, 0, 0);
  for (const auto& [number, type] :
       {std::pair(oracles::Number::f32, "float32"), std::pair(oracles::Number::bf16, "bfloat16")}) {
    for (const std::string& name : names) {
      const char* const check = name == "p_grp" ? "selection_valid" : "close_to_oracle";
      row(check,
          "`" + name + "`, " + type,
          of_layer(check, name, number, scale_all),
          of_layer(check, name, number, scale_one));
    }
  }
}

// ---- the training step -----------------------------------------------------------------------------------------------------

int of_step(const std::function<void(Training&, double)>& plant) {
  return smallest([&](double size) {
    Training training;
    plant(training, size);
    Healthy healthy;
    fixtures::StepMaker(healthy, training).write();
    return fails("step_is_oracle", healthy);
  });
}

int of_stage(int layer, const std::string& name, Scale scale) {
  return of_step([&](Training& training, double size) {
    training.stage = [&, size](int at, const std::string& tensor, oracles::Tensor& made) {
      if (at == layer && tensor == name) scale(made, 1.0 + size);
    };
  });
}

void step() {
  std::vector<std::pair<int, std::string>> stages;
  Training listing;
  listing.stage = [&](int layer, const std::string& name, oracles::Tensor&) {
    const std::pair<int, std::string> stage{layer, name};
    const bool known = std::find(stages.begin(), stages.end(), stage) != stages.end();
    if (layer != 0 && layer != 2 && !known) stages.push_back(stage);  // the head, and one block
  };
  Healthy healthy;
  fixtures::StepMaker(healthy, listing).write();
  for (const auto& [layer, name] : stages) {
    const char* const where = name.starts_with("g.") ? ""
                              : layer < 0            ? " of the head"
                              : layer > 2            ? " behind the last block"
                                                     : " of a block";
    row("step_is_oracle",
        "`" + name + "`" + where,
        of_stage(layer, name, scale_all),
        of_stage(layer, name, scale_one));
  }
  const auto number = [](const char* what, const std::function<void(Training&, double)>& plant) {
    const int seen = of_step(plant);
    row("step_is_oracle", what, seen, seen);
  };
  number("recorded norm of the gradients", [](Training& t, double size) {
    t.optimizer = [size](fixtures::MadeStep& made) { made.norm *= 1.0 + size; };
  });
  number("clipping factor", [](Training& t, double size) {
    t.optimizer = [size](fixtures::MadeStep& made) { made.factor *= 1.0 + size; };
  });
  number("learning rate of the update", [](Training& t, double size) {
    t.optimizer = [size](fixtures::MadeStep& made) { made.rate *= 1.0 + size; };
  });
  number("share of a micro-batch in the loss", [](Training& t, double size) {
    t.accumulate = 2;
    t.of_micro = [size](std::size_t) { return 1.0 + size; };
  });
  number("reported loss", [](Training& t, double size) { t.reported["loss"] = 1.0 + size; });
}

// ---- ranks and twin --------------------------------------------------------------------------------------------------------

int of_gradients(const char* check, const char* file, bool all) {
  return smallest([&](double size) {
    Healthy healthy;
    const bool reduced = std::string(file) == "reduced_gradients";
    for (int rank = 0; rank < 2; ++rank) {
      if (!reduced && rank == 0) continue;
      Tensors tensors = reduced ? healthy.means() : healthy.locals(rank);
      auto& values = tensors.begin()->second;
      const std::size_t count = all ? values.size() : 1;
      for (std::size_t i = 0; i < count; ++i) values[i] *= static_cast<float>(1.0 + size);
      healthy.write_gradients(rank, file, 1, rank, tensors);
    }
    return fails(check, healthy);
  });
}

void ranks() {
  for (const auto& [what, file] :
       {std::pair("local gradients of a rank, CPU", "local_gradients"),
        std::pair("reduced gradients of all ranks", "reduced_gradients")}) {
    row("matches_twin",
        what,
        of_gradients("matches_twin", file, true),
        of_gradients("matches_twin", file, false));
  }
  const auto with_sample = [](const char* check, const char* metric) {
    return smallest([&](double size) {
      Healthy healthy(2, 3);
      for (auto& row : healthy.evidence.samples) {
        if (row.process == 1 && row.row.metric == metric)
          row.row.value = row.row.value * (1 + size);
      }
      return fails(check, healthy);
    });
  };
  const int rate = with_sample("optimizer_sound", "lr");
  row("optimizer_sound", "learning rate that a rank reports", rate, rate);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string part = count > 1 ? arguments[1] : "";
  if (part.empty() || part == "attention") attention();
  if (part.empty() || part == "step") step();
  if (part.empty() || part == "ranks") ranks();
  return 0;
}
