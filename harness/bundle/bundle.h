// One failing case in one file, for whoever shall see it fail elsewhere. An archive (archive.h) of
//   bundle.json       what must be found again, versions, sizes, tries, and size and hash of every other member
//   case.json         the case to run: everything is in it but the text
//   original.json     the case as it ran, where case.json is a smaller one
//   scenario.yaml     the scenario's file as it was, for people
//   findings.txt      what was found, for people
//   operator.safetensors  where a NaN was born in an operator: that one call, to be run alone
//   (harness/worker/record/operator_call.h)
//   texts/HASH.txt    the text of training, where the case reads one
//   bundle.json.hash  hash of bundle.json
// Nothing in it depends on when and by whom it was made: the same case gives the same bytes. The hashes find accidents;
// they do not protect against somebody who recomputes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bundle/archive.h"
#include "harness/bundle/failure.h"
#include "harness/bundle/shrink.h"
#include "harness/store/store.h"

namespace harness {

inline constexpr std::size_t kMostBundleBytes = 20'000'000;
inline constexpr std::size_t kMostOperatorBytes = std::size_t{2} << 20;
inline constexpr const char* kBundleEnding = ".tar.zst";

struct FailingCase {
  Case the_case;
  Outcome outcome = Outcome::fail;
  std::vector<Cause> causes;  // at least one
};

struct Bundle {
  FailingCase failing;  // what is to be run again
  std::optional<FailingCase> original;
  std::string text;       // that both train on; "" where they read none
  Pairs asked;            // what the command line gave: set, seed, profile
  Pairs versions;         // of program and machine that saw `failing` fail
  Pairs environment;      // that steers LibTorch, CUDA, NCCL and OpenMP
  std::string shrinking;  // how the smaller case was found, or why there is none
  std::vector<ShrinkTry> tries;
  std::string findings;
  std::string operator_call;  // of the original; "" where there is none
};

// The case without what does not belong to its failure: what its scenario expects and knows, the search it was a trial
// of, paths of this machine. Its id follows.
[[nodiscard]] Case bare_case(Case the_case);

// Whether the case reads a text.
[[nodiscard]] bool reads_text(const Case& the_case);

// What a stranger will read in it, a line each: every member with its size and how it begins, variables, options, versions.
[[nodiscard]] std::vector<std::string> texts_in(const Bundle& bundle);

// Without what looks like a secret (nsa/base/secrets.h), but for the text of training, which is as it was.
// REQUIRES: bare cases. Throws: nsa::Error where it would be larger than kMostBundleBytes.
[[nodiscard]] std::string write_bundle(const Bundle& bundle);

// Of a stranger's bytes. Whether this program knows the names in its cases is another question. Throws: nsa::Error,
// `where` in front: no bundle, damaged, of another version, of a command, too large.
[[nodiscard]] Bundle read_bundle(std::string_view bytes, const std::string& where);

// The same of what is in the archive.
[[nodiscard]] Bundle read_members(std::vector<Member> members, const std::string& where);

// The same of a file, whose size is looked at first.
[[nodiscard]] Bundle read_bundle_file(const std::string& path);

// "cpu: AMD EPYC there, Intel Xeon here", of each that differs: first those of program and machine.
[[nodiscard]] std::vector<std::string> differences(const Pairs& there, const Pairs& here);

}  // namespace harness
