#include "harness/checks/kernel/laws_in_trials.h"

#include <algorithm>
#include <numeric>

#include "harness/checks/kernel/kernel_attention.h"
#include "harness/checks/kernel/kernel_call.h"

namespace harness::checks {
namespace {

// Of gradients, of the first that is wrong in this call.
const ComparedTensor* compared_in(const JudgedCall& call, const std::string& about) {
  if (about != kGradients) {
    const auto at = call.compared.find(about);
    return at == call.compared.end() ? nullptr : &at->second;
  }
  for (const auto& [name, compared] : call.compared) {
    if (name.front() == 'd' && !compared.wrong.empty()) return &compared;
  }
  return nullptr;
}

std::int64_t rows_of(const ComparedTensor& compared) {
  return compared.shape[compared.shape.size() - 2];
}

// Heads or groups of a sequence: all axes between the batch and the rows.
std::int64_t lanes_of(const ComparedTensor& compared) {
  return std::accumulate(
      compared.shape.begin() + 1, compared.shape.end() - 2, std::int64_t{1}, std::multiplies<>());
}

std::size_t count_of(const ComparedTensor& compared) {
  return static_cast<std::size_t>(compared.shape.front() * lanes_of(compared) * rows_of(compared));
}

}  // namespace

LawsInTrials::LawsInTrials(const Evidence& evidence, const std::vector<JudgedCall>& calls)
    : evidence_(evidence), scenario_(evidence.the_case.scenario), calls_(calls) {}

std::vector<std::size_t> LawsInTrials::refuting(const JudgedCall& call,
                                                const AskedLaw& asked) const {
  ResultBuilder unused;
  const TrialOnRecord& trial = *call.trial;
  const auto outputs = open_outputs(evidence_, trial, call.call, unused);
  if (!outputs) return {};
  const Scenario own = scenario_of_trial(scenario_, trial.inputs);
  if (!own.kernel.is_whole()) {
    return checks::refuting(own, read_kernel_call(own, trial.inputs, *outputs), asked);
  }
  return checks::refuting(own, trial.inputs, *outputs, trial.said("gate"), asked);
}

ResultPlace LawsInTrials::place_of(const JudgedCall& call,
                                   const ComparedTensor& compared,
                                   std::size_t vector) const {
  const auto at = static_cast<std::int64_t>(vector);
  const std::int64_t rows = rows_of(compared);
  const std::int64_t lanes = lanes_of(compared);
  const std::int64_t lane = at / rows;
  const bool of_queries = rows == static_cast<std::int64_t>(call.positions.size());
  ResultPlace place;
  place.trial = call.trial->number;
  place.sequences = static_cast<int>(compared.shape.front());
  place.sequence = static_cast<int>(lane / lanes);
  place.head = static_cast<int>(lane % lanes);
  place.row = of_queries ? call.positions[static_cast<std::size_t>(at % rows)] : at % rows;
  place.length = of_queries ? call.positions.back() + 1 : rows;
  return place;
}

std::vector<ResultPlace> LawsInTrials::refuting(const std::string& about,
                                                const KnownLaw& law,
                                                const std::set<std::string>& tensors) const {
  std::vector<ResultPlace> places;
  for (const JudgedCall& call : calls_) {
    const auto at = call.compared.find(about);
    for (const std::size_t vector : refuting(call, {about, law, tensors, call.compared})) {
      const bool placed = at != call.compared.end();
      places.push_back(placed ? place_of(call, at->second, vector) : ResultPlace{});
    }
  }
  return places;
}

// The first call of all, itself among them, whose input has this shape.
const JudgedCall& LawsInTrials::first_like(const JudgedCall& call, const std::string& input) const {
  return *std::find_if(calls_.begin(), calls_.end(), [&](const JudgedCall& other) {
    return other.trial->inputs.at(input).shape == call.trial->inputs.at(input).shape;
  });
}

// Is every row of every call what the oracle gives with these inputs of the first call like it?
bool LawsInTrials::gives_all(const std::string& about,
                             const std::vector<std::string>& inputs) const {
  const std::string branch = about.substr(about.find('_'));
  ResultBuilder unused;
  return std::all_of(calls_.begin(), calls_.end(), [&](const JudgedCall& call) {
    const auto outputs = open_outputs(evidence_, *call.trial, call.call, unused);
    const auto at = call.compared.find(about);
    if (!outputs || at == call.compared.end()) return false;
    const Scenario own = scenario_of_trial(scenario_, call.trial->inputs);
    KernelCall read = read_kernel_call(own, call.trial->inputs, *outputs);
    for (const std::string& input : inputs) {
      const JudgedCall& first = first_like(call, input);
      if (&first == &call) continue;
      const auto of_first = open_outputs(evidence_, *first.trial, first.call, unused);
      if (!of_first) return false;
      KernelCall other = read_kernel_call(own, first.trial->inputs, *of_first);
      if (input == "blocks") {
        read.record.blocks = std::move(other.record.blocks);
      } else {
        read.record.tensors.at(input + branch) = std::move(other.record.tensors.at(input + branch));
      }
    }
    const oracles::Tensor output = right_output(read);
    return oracles::wrong_vectors(read.record.at(about), output, at->second.allowed.of(output))
        .empty();
  });
}

std::optional<KnownLaw> LawsInTrials::kept_law(const std::string& about) const {
  struct Kept {
    const char* law;
    const char* words;
    std::vector<std::string> inputs;
  };
  static const std::vector<Kept> kKept = {
      {"lists_of_an_earlier_call", "lists of blocks", {"blocks"}},
      {"keys_of_an_earlier_call", "keys", {"k"}},
      {"values_of_an_earlier_call", "values", {"v"}},
      {"keys_and_values_of_an_earlier_call", "keys and values", {"k", "v"}}};
  if (scenario_.kernel.is_whole() || !about.starts_with("o_")) return std::nullopt;
  for (const Kept& kept : kKept) {
    if (kept.inputs.front() == "blocks" && !scenario_.kernel.takes_picks()) continue;
    if (!gives_all(about, kept.inputs)) continue;
    return KnownLaw{kept.law,
                    std::string("the ") + kept.words +
                        " of the first call with this shape are kept for later calls"};
  }
  return std::nullopt;
}

std::vector<ResultPlace> LawsInTrials::places(const std::string& about) const {
  std::vector<ResultPlace> places;
  for (const JudgedCall& call : calls_) {
    const ComparedTensor* const compared = compared_in(call, about);
    if (compared == nullptr || compared->shape.size() < 3) continue;
    const std::size_t begin = places.size();
    for (std::size_t vector = 0; vector < count_of(*compared); ++vector) {
      places.push_back(place_of(call, *compared, vector));
    }
    for (const std::size_t vector : compared->wrong) places[begin + vector].wrong = true;
  }
  return places;
}

std::set<int> LawsInTrials::wrong_sequences(const std::string& about) const {
  std::map<int, std::set<int>> wrong;  // by trial
  std::map<int, std::size_t> batches;
  for (const ResultPlace& place : places(about)) {
    batches[place.trial] = static_cast<std::size_t>(place.sequences);
    if (place.wrong) wrong[place.trial].insert(place.sequence);
  }
  if (wrong.empty()) return {};
  const std::set<int>& first = wrong.begin()->second;
  const bool same = std::all_of(wrong.begin(), wrong.end(), [&](const auto& of_trial) {
    const auto& [trial, sequences] = of_trial;
    return sequences == first && sequences.size() < batches.at(trial);
  });
  return same ? first : std::set<int>();
}

std::optional<LawsInTrials::FirstWrong> LawsInTrials::first_wrong(const std::string& about) const {
  for (const JudgedCall& call : calls_) {
    const ComparedTensor* const compared = compared_in(call, about);
    if (compared == nullptr || compared->wrong.empty()) continue;
    const std::size_t width = static_cast<std::size_t>(compared->shape.back());
    const ResultPlace place = place_of(call, *compared, compared->at / width);
    std::string words = "row " + std::to_string(place.row);
    const bool side_by_side = about == "y";  // its heads
    const auto column = static_cast<std::int64_t>(compared->at % width);
    const std::int64_t head =
        side_by_side ? column / (static_cast<std::int64_t>(width) / scenario_.model.n_heads)
                     : place.head;
    const bool of_groups = lanes_of(*compared) < scenario_.model.n_heads && !side_by_side;
    words += (of_groups ? " of group " : " of head ") + std::to_string(head);
    if (place.sequences > 1) words += " in sequence " + std::to_string(place.sequence);
    return FirstWrong{
        words + ", with the inputs " + call.trial->name, compared->found, compared->wanted};
  }
  return std::nullopt;
}

std::optional<std::int64_t> LawsInTrials::right_alone(const std::string& about) const {
  for (const JudgedCall& alone : calls_) {
    const ComparedTensor* const own = compared_in(alone, about);
    const auto of = alone.trial->number_said("alone_of");
    if (!of || own == nullptr || !own->wrong.empty()) continue;
    for (const JudgedCall& call : calls_) {
      const ComparedTensor* const compared = compared_in(call, about);
      if (call.trial->number != *of || compared == nullptr || compared->wrong.empty()) continue;
      const ResultPlace last = place_of(call, *compared, compared->wrong.back());
      if (last.sequence == last.sequences - 1) return last.sequence;  // it is the last of the batch
    }
  }
  return std::nullopt;
}

}  // namespace harness::checks
