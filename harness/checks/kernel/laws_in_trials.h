// What the trials of a foreign kernel say together: which rows are wrong in all of them, and which laws a right row of any of them
// refutes. A law that gives every wrong row of the trials in which something is wrong may still be refuted by the others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/checks/kernel/kernel_judge.h"
#include "harness/checks/kernel/kernel_trials.h"
#include "harness/checks/kernel/wrong_places.h"

namespace harness::checks {

// One call of a trial that was judged.
struct JudgedCall {
  const TrialOnRecord* trial = nullptr;
  int call = 1;
  std::map<std::string, ComparedTensor> compared;
  std::vector<std::int64_t> positions;
};

class LawsInTrials {
 public:
  // Refers to its arguments. What cannot be opened was reported before.
  LawsInTrials(const Evidence& evidence, const std::vector<JudgedCall>& calls);

  // The places of all calls that refute a law of what `about` names (kernel_judge.h). Of a whole layer and of gradients, which have
  // no heads and rows in common, they are only counted. `tensors` are those that are wrong anywhere.
  [[nodiscard]] std::vector<ResultPlace> refuting(const std::string& about,
                                                  const KnownLaw& law,
                                                  const std::set<std::string>& tensors) const;

  // The law by which an input of the first call with this shape is kept for later ones: lists, keys, values.
  [[nodiscard]] std::optional<KnownLaw> kept_law(const std::string& about) const;

  // All places of that result.
  [[nodiscard]] std::vector<ResultPlace> places(const std::string& about) const;

  // Of every batch with something wrong there the same ones, and not all of it. Empty: it is not so.
  [[nodiscard]] std::set<int> wrong_sequences(const std::string& about) const;

  // "row 64 of head 3 in sequence 1, with the inputs normal", and what was found and wanted there.
  struct FirstWrong {
    std::string words;
    double found = 0.0;
    double wanted = 0.0;
  };
  [[nodiscard]] std::optional<FirstWrong> first_wrong(const std::string& about) const;

  // The sequence of a batch that is wrong there and right when it is called alone.
  [[nodiscard]] std::optional<std::int64_t> right_alone(const std::string& about) const;

 private:
  [[nodiscard]] std::vector<std::size_t> refuting(const JudgedCall& call,
                                                  const AskedLaw& asked) const;
  [[nodiscard]] const JudgedCall& first_like(const JudgedCall& call,
                                             const std::string& input) const;
  [[nodiscard]] bool gives_all(const std::string& about,
                               const std::vector<std::string>& inputs) const;
  [[nodiscard]] ResultPlace place_of(const JudgedCall& call,
                                     const ComparedTensor& compared,
                                     std::size_t vector) const;

  const Evidence& evidence_;
  const Scenario& scenario_;
  const std::vector<JudgedCall>& calls_;
};

}  // namespace harness::checks
