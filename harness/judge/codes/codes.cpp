#include "harness/judge/codes/codes.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace harness {
namespace {

using Names = std::pair<const char*, const char*>;

constexpr std::array kFamilies = {Names{"process", "How processes end"},
                                  Names{"resume", "Going on from a snapshot"},
                                  Names{"data", "Training data"},
                                  Names{"route", "Which implementation ran"},
                                  Names{"forward", "Forward pass of the model"},
                                  Names{"loss", "Loss"},
                                  Names{"graph", "Graph and hooks of the gradients"},
                                  Names{"backward", "Gradients of one rank"},
                                  Names{"collective", "Collective operations"},
                                  Names{"reduction", "Reduction of the gradients"},
                                  Names{"update", "Optimiser and schedule"},
                                  Names{"state", "Parameters across ranks"},
                                  Names{"progress", "Standstill and slowness"},
                                  Names{"memory", "Memory"},
                                  Names{"machine", "The machine and what connects it"}};

}  // namespace

const char* name_of(Family family) {
  return kFamilies.at(static_cast<std::size_t>(family)).first;
}

const char* title_of(Family family) {
  return kFamilies.at(static_cast<std::size_t>(family)).second;
}

const std::vector<Code>& all_codes() {
  static const std::vector<Code> kAll = [] {
    std::vector<Code> all;
    for (const auto& part : {codes_of_machine(),
                             codes_of_processes(),
                             codes_of_setup(),
                             codes_of_forward(),
                             codes_of_gradients(),
                             codes_of_ranks(),
                             codes_of_training()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end(), [](const Code& a, const Code& b) {
      return std::tuple(a.family, a.place) < std::tuple(b.family, b.place);
    });
    return all;
  }();
  return kAll;
}

const Code* find_code(std::string_view name) {
  const std::vector<Code>& all = all_codes();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Code& code) { return code.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::vector<std::string> code_names() {
  std::vector<std::string> names;
  for (const Code& code : all_codes()) names.emplace_back(code.name);
  return names;
}

}  // namespace harness
