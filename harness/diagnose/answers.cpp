// How a diagnosis is told: its words, and what was answered to each question.
#include <utility>

#include "harness/diagnose/diagnosis.h"

namespace harness {
namespace {

using State = Question::State;
using Certainty = Diagnosis::Certainty;

}  // namespace

bool is_known(Diagnosis::Certainty certainty) {
  return certainty == Certainty::established || certainty == Certainty::recorded ||
         certainty == Certainty::reproduced;
}

std::vector<AnswerGroup> answers_of(const Diagnosis& diagnosis) {
  const std::pair<State, const char*> told[] = {
      {State::stays, "it fails alike without"},
      {State::needed, "needed, but no cause by itself"},
      {State::unclear, "no answer"},
      {State::open, diagnosis.next ? "not asked, the time was over" : "not asked"}};
  std::vector<AnswerGroup> groups;
  for (const auto& [state, words] : told) {
    AnswerGroup group{words, {}};
    for (const Question& question : diagnosis.questions) {
      if (question.state != state) continue;
      const bool why = state == State::unclear;
      group.whats.push_back(question.what + (why ? " (" + question.says + ")" : ""));
    }
    if (!group.whats.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

const char* name_of(Diagnosis::Certainty certainty) {
  switch (certainty) {
    case Certainty::established: return "established";
    case Certainty::recorded: return "recorded";
    case Certainty::reproduced: return "reproduced";
    case Certainty::supported: return "supported";
    case Certainty::unknown: break;
  }
  return "unknown";
}

const char* name_of(Question::State state) {
  switch (state) {
    case State::open: return "not asked";
    case State::stays: return "ruled out";
    case State::established: return "established";
    case State::needed: return "needed";
    case State::unclear: break;
  }
  return "unclear";
}

}  // namespace harness
