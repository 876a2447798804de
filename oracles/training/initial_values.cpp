#include "oracles/training/initial_values.h"

#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "oracles/training/initial_laws.h"

namespace oracles {
namespace {

constexpr double kFalseAlarm = 1e-9;  // of a whole model
constexpr std::int64_t kSome = 65536;

bool ends_with(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

const Shape& shape_of(const std::map<std::string, Shape>& shapes, const std::string& name) {
  const auto found = shapes.find(name);
  if (found == shapes.end()) {
    throw std::invalid_argument("parameter " + name + " is not one of this model's");
  }
  return found->second;
}

InitialLaw law_of(const LmConfig& config, const std::string& name, const Shape& shape) {
  using Kind = InitialLaw::Kind;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  if (name == "embed.weight") {
    return {Kind::normal, 1};
  }
  if (ends_with(name, "norm1.weight") || ends_with(name, "norm2.weight") ||
      name == "norm_f.weight") {
    return {Kind::constant, 1};
  }
  if (ends_with(name, "_conv.weight")) {
    return {Kind::constant, 1 / real(config.attention.l)};
  }
  if (ends_with(name, "gate.fc2.bias") || ends_with(name, ".pe")) {
    return {Kind::constant, 0};
  }
  if (ends_with(name, "gate.fc2.weight")) {
    return {Kind::uniform, 0.1 * std::sqrt(6 / (real(shape[1]) + 3))};
  }
  if (ends_with(name, "gate.fc1.bias")) {
    return {Kind::uniform, 1 / std::sqrt(real(config.attention.d_k))};
  }
  return {Kind::uniform, 1 / std::sqrt(real(shape.at(1)))};
}

// "blocks.*." in the place of "blocks.3."
std::string kind_of(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  if (name.compare(0, kBlocks.size(), kBlocks) != 0) {
    return name;
  }
  return "blocks.*" + name.substr(name.find('.', kBlocks.size()));
}

std::vector<double> some_of(const Numbers& values) {
  std::vector<double> some;
  const std::int64_t count = std::min(kSome, values.size());
  for (std::int64_t i = 0; i < count; ++i) {
    some.push_back(values[i * values.size() / count]);
  }
  return some;
}

class Judge {
 public:
  Judge(double alarm, int threads) : alarm_(alarm), threads_(threads) {}

  // A tensor alone; keeps what its kind needs.
  std::optional<InitialWrong> one(const InitialRecord& record, const InitialLaw& law) {
    const Distribution distribution{usable(law)};
    const Places places(distribution, record.values.number());
    InitialSample sample{record.name,
                         record.shape,
                         law,
                         record.values.number(),
                         moments_of(record.values, places, threads_),
                         some_of(record.values)};
    if (!is_right(sample, distribution, places)) {
      wrong_kinds_[kind_of(record.name)] = true;
      return told(sample, alarm_);
    }
    const auto [kind, is_first] = kinds_.try_emplace(kind_of(record.name), sample);
    if (!is_first) {
      kind->second.moments.add(sample.moments);
      kind->second.some.insert(kind->second.some.end(), sample.some.begin(), sample.some.end());
      ++members_[kind->first];
    }
    return std::nullopt;
  }

  // Tensors of one kind together, where none is wrong alone.
  std::vector<InitialWrong> together() {
    std::vector<InitialWrong> wrong;
    for (auto& [name, sample] : kinds_) {
      if (members_[name] == 0 || wrong_kinds_[name]) {
        continue;
      }
      const Distribution distribution{usable(sample.law)};
      const Places places(distribution, sample.number);
      if (!is_right(sample, distribution, places)) {
        sample.name = name;
        wrong.push_back(told(sample, alarm_));
      }
    }
    return wrong;
  }

 private:
  // A constant has no places to count at; any will do.
  static InitialLaw usable(const InitialLaw& law) {
    return law.kind == InitialLaw::Kind::constant ? InitialLaw{InitialLaw::Kind::uniform, 1} : law;
  }

  [[nodiscard]] bool is_right(const InitialSample& s,
                              const Distribution& distribution,
                              const Places& places) const {
    if (s.law.kind == InitialLaw::Kind::constant) {
      const double wanted = rounded(s.law.size, s.number);
      return s.moments.not_finite == 0 && s.moments.lowest == wanted && s.moments.largest == wanted;
    }
    // That 16 numbers of float32 all end in 16 zeros by chance has a probability of 2^-256.
    const bool drawn_narrow = s.moments.narrow && s.moments.count >= 16 &&
                              s.number != Number::bf16 && s.number != Number::f16;
    return !drawn_narrow && is_possible(s.moments, distribution, places, s.number, alarm_);
  }

  double alarm_;
  int threads_;
  std::map<std::string, InitialSample> kinds_;
  std::map<std::string, int> members_;  // beside the first
  std::map<std::string, bool> wrong_kinds_;
};

}  // namespace

InitialLaw initial_law(const LmConfig& config, const std::string& name) {
  const std::map<std::string, Shape> shapes = parameter_shapes(config);
  return law_of(config, name, shape_of(shapes, name));
}

InitialJudgement judge_initial_values(const LmConfig& config,
                                      std::span<const InitialRecord> records,
                                      int threads) {
  const std::map<std::string, Shape> shapes = parameter_shapes(config);
  InitialJudgement judgement;
  // Every tensor is tested alone, and at most as many kinds.
  Judge judge(kFalseAlarm / (2 * static_cast<double>(records.size()) + 1), threads);
  std::vector<InitialLaw> laws;
  for (const InitialRecord& record : records) {
    require_shape(record.shape,
                  static_cast<std::size_t>(record.values.size()),
                  shape_of(shapes, record.name),
                  record.name.c_str());
    laws.push_back(law_of(config, record.name, record.shape));
    ++judgement.tensors;
    judgement.numbers += record.values.size();
    if (auto wrong = judge.one(record, laws.back())) {
      judgement.wrong.push_back(std::move(*wrong));
    }
  }
  const std::vector<InitialWrong> kinds = judge.together();
  judgement.wrong.insert(judgement.wrong.end(), kinds.begin(), kinds.end());
  // That numbers are another tensor's says more than that they have its distribution.
  for (InitialWrong& wrong : repeated(records, laws)) {
    std::erase_if(judgement.wrong,
                  [&](const InitialWrong& other) { return other.parameter == wrong.parameter; });
    judgement.wrong.push_back(std::move(wrong));
  }
  return judgement;
}

}  // namespace oracles
