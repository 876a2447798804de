#include "reports/partings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "harness/evidence/step_fold.h"
#include "harness/evidence/step_ring.h"
#include "harness/evidence/tensor_classes.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {
namespace {

using harness::Evidence;

// In the order of a step.
constexpr const char* kInputs = "what the model is called with";
constexpr const char* kLoss = "the loss";
constexpr std::array kFacts = {kInputs,
                               harness::kBufferClass.in_words,
                               kLoss,
                               harness::kGradientClass.in_words,
                               harness::kParameterClass.in_words,
                               harness::kFrozenClass.in_words,
                               harness::kStateClass.in_words};
constexpr std::size_t kMostNames = 4;

using OfRanks = std::map<int, std::string>;
using Step = std::map<std::string, OfRanks>;  // by fact
using Tensors = std::map<std::string, OfRanks>;

struct Told {
  std::map<std::int64_t, Step> steps;
  std::map<std::int64_t, Tensors> gradients;
  std::map<std::int64_t, Tensors> parameters;

  explicit Told(const Evidence& evidence) {
    for (const auto& from : evidence.digests) {
      if (from.process < 0) continue;
      Step& step = steps[from.row.step];
      put(step, kInputs, from.process, from.row.inputs);
      for (const harness::TensorClass& of : harness::kTensorClasses) {
        put(step, of.in_words, from.process, harness::digest_of(from.row, of));
      }
    }
    for (const auto& from : evidence.samples) {
      if (from.process < 0 || from.row.metric != "loss") continue;
      put(steps[from.row.step], kLoss, from.process, nsa::to_text(from.row.value));
    }
    for (const auto& from : evidence.stretches) read(from.row);
    for (const auto& from : evidence.gradients) {
      if (from.process >= 0)
        put(gradients[from.row.step], from.row.param, from.process, from.row.hash_after);
    }
    for (const auto& from : evidence.parameters) {
      if (from.process >= 0)
        put(parameters[from.row.step], from.row.param, from.process, from.row.hash);
    }
  }

 private:
  static void put(std::map<std::string, OfRanks>& facts,
                  const std::string& fact,
                  int rank,
                  const std::string& value) {
    if (!value.empty()) facts[fact][rank] = value;
  }

  void read(const harness::Stretch& stretch) {
    if (stretch.of_ranks.empty()) return;
    for (const auto& [number, loss] : harness::losses_of(stretch)) {
      put(steps[number], kLoss, stretch.of_ranks.front().rank, nsa::to_text(loss));
    }
    for (const harness::Stretch::OfRank& of : stretch.of_ranks) {
      put(steps[stretch.last], harness::kParameterClass.in_words, of.rank, of.parameters);
    }
  }
};

// Of ranks that both have. Nothing: there is none.
std::optional<std::vector<int>> differing(const OfRanks& before, const OfRanks& now) {
  std::optional<std::vector<int>> ranks;
  for (const auto& [rank, value] : now) {
    const auto was = before.find(rank);
    if (was == before.end()) continue;
    if (!ranks) ranks.emplace();
    if (was->second != value) ranks->push_back(rank);
  }
  return ranks;
}

std::optional<std::vector<int>> differing(const Step& before,
                                          const Step& now,
                                          const std::string& fact) {
  const auto was = before.find(fact);
  const auto is = now.find(fact);
  if (was == before.end() || is == now.end()) return std::nullopt;
  return differing(was->second, is->second);
}

void compare_step(std::int64_t number, const Step& before, const Step& now, Parting& parting) {
  std::vector<std::string> same;
  for (const char* fact : kFacts) {
    const auto ranks = differing(before, now, fact);
    if (!ranks) continue;
    if (!ranks->empty()) {
      parting.step = number;
      parting.what = fact;
      parting.same = same;
      parting.ranks = *ranks;
      return;
    }
    same.emplace_back(fact);
    if (fact == harness::kParameterClass.in_words) parting.last_same = number;
  }
}

void name_tensors(const std::map<std::int64_t, Tensors>& before,
                  const std::map<std::int64_t, Tensors>& now,
                  Parting& parting) {
  for (auto step = now.lower_bound(*parting.step); step != now.end(); ++step) {
    const auto was = before.find(step->first);
    if (was == before.end()) continue;
    std::set<std::string> differ;
    std::int64_t compared = 0;
    for (const auto& [name, values] : step->second) {
      const auto earlier = was->second.find(name);
      const auto ranks =
          earlier == was->second.end() ? std::nullopt : differing(earlier->second, values);
      compared += ranks.has_value();
      if (ranks && !ranks->empty()) differ.insert(name);
    }
    if (differ.empty()) continue;
    parting.recorded = step->first;
    parting.tensors.assign(differ.begin(), differ.end());
    parting.tensors_compared = compared;
    return;
  }
}

void read_rings(const Training& before, const Training& now, Parting& parting) {
  for (const harness::TensorClass& of : harness::kTensorClasses) {
    if (parting.what != of.in_words) continue;
    const int rank = parting.ranks.front();
    const auto was =
        harness::read_ring(harness::ring_path(before.folder, rank), *parting.step, of.name);
    const auto is =
        harness::read_ring(harness::ring_path(now.folder, rank), *parting.step, of.name);
    if (!was || !is) return;
    for (const auto& [name, row] : *is) {
      const auto earlier = was->find(name);
      if (earlier == was->end()) continue;
      ++parting.tensors_compared;
      if (earlier->second.fingerprint != row.fingerprint) parting.tensors.push_back(name);
    }
    if (!parting.tensors.empty()) parting.recorded = parting.step;
  }
}

std::string text_of(const Parting& parting) {
  const std::string head = "**" + escape(parting.label) + "**: ";
  if (!parting.step) {
    return head + "the two trainings computed the same in each of " +
           counted(parting.steps, "step") + " that both told.";
  }
  std::string text =
      head + "the two trainings part in step " + std::to_string(*parting.step) + ". There " +
      parting.what + " differ" + (parting.what == kLoss || parting.what == kInputs ? "s" : "") +
      " on " + (parting.ranks.size() == 1 ? "rank " : "ranks ") + nsa::ranges_text(parting.ranks);
  if (!parting.same.empty()) text += ", and " + nsa::join(parting.same) + " are the same";
  text += ".";
  if (parting.last_same && *parting.last_same + 1 < *parting.step) {
    text += " The parameters were last compared, and the same, after step " +
            std::to_string(*parting.last_same) + ".";
  }
  if (parting.recorded) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::min(parting.tensors.size(), kMostNames); ++i) {
      names.push_back(escape(parting.tensors[i]));
    }
    if (parting.tensors.size() > kMostNames)
      names.push_back(std::to_string(parting.tensors.size() - kMostNames) + " more");
    text += " In step " + std::to_string(*parting.recorded) + ", " +
            std::to_string(parting.tensors.size()) + " of " +
            counted(parting.tensors_compared, "tensor") + " differ: " + nsa::join(names) + ".";
  }
  return text;
}

}  // namespace

std::optional<Parting> find_parting(const std::string& label,
                                    const Training& before,
                                    const Training& now) {
  const Told was(before.evidence);
  const Told is(now.evidence);
  Parting parting;
  parting.label = label;
  for (const auto& [number, step] : is.steps) {
    const auto earlier = was.steps.find(number);
    if (earlier == was.steps.end()) continue;
    ++parting.steps;
    if (!parting.step) compare_step(number, earlier->second, step, parting);
  }
  if (parting.steps == 0) return std::nullopt;
  if (parting.step) {
    read_rings(before, now, parting);
    if (!parting.recorded) name_tensors(was.gradients, is.gradients, parting);
    if (!parting.recorded) name_tensors(was.parameters, is.parameters, parting);
  }
  return parting;
}

std::string partings_text(const std::vector<Parting>& partings) {
  std::string text;
  for (const Parting& parting : partings) text += text_of(parting) + "\n\n";
  return text;
}

}  // namespace reports
