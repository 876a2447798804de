// What a failing case depends on, by taking things away one by one. What is asked next and what is concluded is a pure
// function of what was run so far, so that a run and a report made of its rows years later say the same.
//
// *Established*: without the thing nothing fails, with it the same failure is back, and twice more without it nothing
// fails; all else is equal, and the case itself failed alike twice. One contradiction, and nothing is established.
// Where nothing was removed the record may show it (on_record.h). *Recorded*: who ended. *Reproduced*: a known mistake that is
// named wherever the case fails. *Supported*: answers were got, and none of them removed the failure. *Unknown*: no answers, or
// contradictory ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/diagnose/experiments.h"

namespace harness {

// A case that was run: the case itself (no name), or an experiment.
struct Ran {
  std::string name;
  Outcome outcome = Outcome::inconclusive;
  std::vector<Cause> causes;
  std::string reason;
  double seconds = 0.0;
};

struct Question {
  enum class State {
    open,         // not asked, or not to the end
    stays,        // the case fails alike without it
    established,  // the failure goes with it and comes with it
    needed,       // the failure goes with it, but so does what shows it
    unclear       // another failure, none that was judged, or it takes more than this
  };
  std::string about;   // "Which layer?"
  std::string what;    // "layer 1"
  std::string change;  // "model.n_layers 3 -> 1"
  State state = State::open;
  std::string says;  // what the answer means, a sentence without a full stop
  std::vector<Ran> runs;
};

struct Diagnosis {
  enum class Certainty { established, recorded, reproduced, supported, unknown };
  Cause symptom;
  Certainty certainty = Certainty::unknown;
  std::vector<std::string> because;  // what is known, and how; or why nothing is: sentences
  std::vector<Question> questions;   // in the order in which they are asked
  std::vector<Ran> repeats;   // of the case as it was, and the smaller one that stands for it
  std::string smaller;        // in what the smaller one differs; "" where there is none
  std::optional<Case> next;   // the experiment to run; none: there is nothing left to ask
  double next_seconds = 0.0;  // that it will take, as far as earlier runs tell
};

// `causes` are those of the failure that is to be explained, the first one first. `ran`: the case itself first, then
// what was asked for. REQUIRES: at least one cause and one run.
[[nodiscard]] Diagnosis diagnose(const Case& failing,
                                 const std::vector<Cause>& causes,
                                 std::span<const Ran> ran);

// Whether the cause is known: established, recorded or reproduced.
[[nodiscard]] bool is_known(Diagnosis::Certainty certainty);

// What was asked beside what is established, by answer: how the answer is told, and the things that have it, with the reason where
// there was none. Without answers that nothing has.
struct AnswerGroup {
  const char* words;  // "it fails alike without"
  std::vector<std::string> whats;
};
[[nodiscard]] std::vector<AnswerGroup> answers_of(const Diagnosis& diagnosis);

[[nodiscard]] const char* name_of(Diagnosis::Certainty certainty);  // "established"
[[nodiscard]] const char* name_of(Question::State state);           // "established"

}  // namespace harness
