#include "harness/judge/codes/codes.h"

#include <algorithm>

namespace harness {
namespace {

constexpr std::array kFamilyTitles = {"How processes end",
                                      "Going on from a snapshot",
                                      "Training data",
                                      "Which implementation ran",
                                      "Forward pass of the model",
                                      "Loss",
                                      "Graph and hooks of the gradients",
                                      "Gradients of one rank",
                                      "Collective operations",
                                      "Reduction of the gradients",
                                      "Optimiser and schedule",
                                      "Parameters across ranks",
                                      "Standstill and slowness",
                                      "Memory",
                                      "The machine and what connects it"};

constexpr std::array kWitnessTitles = {"the record", "end to end", "a complaint about a peer"};

}  // namespace

const char* name_of(Family family) {
  return kFamilyNames.at(static_cast<std::size_t>(family));
}

const char* title_of(Family family) {
  return kFamilyTitles.at(static_cast<std::size_t>(family));
}

std::string title_of(Node node) {
  std::string title = nsa::name_of(node);
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

const char* title_of(Witness witness) {
  return kWitnessTitles.at(static_cast<std::size_t>(witness));
}

const Code* find_code(std::string_view name) {
  for (const Code& code : all_codes()) {
    if (code.name == name) return &code;
  }
  return nullptr;
}

std::vector<std::string> code_names() {
  std::vector<std::string> names;
  for (const Code& code : all_codes()) names.emplace_back(code.name);
  return names;
}

}  // namespace harness
