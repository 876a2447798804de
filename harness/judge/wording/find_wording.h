// Sentences of findings. A check gives code, variant (a short key of the situation), site and facts; the sentences stand below
// their code in the YAML files of harness/judge/codes. So a stored finding can be told again with better words.
//
// In a sentence, {name} is a fact, a detail of the site, or a part of the site in words ({ranks}: "ranks 0-3"); {Name} the same
// with a capital letter. {name:3} has three significant digits, {name:step} counts ("1 step", "2 steps"), {name:%} and
// {name:MiB} convert, and {name?was|were} is one of two words, by how many there are. [A part in brackets] is left out where
// one of its facts is not there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/judge/codes/codes.h"
#include "harness/judge/finding.h"

namespace harness {

struct Wording {
  std::string_view code;
  std::string_view variant;
  std::string_view statement;       // what happened
  std::string_view ruled_out = "";  // what it is not, with the evidence; "": nothing was ruled out
  std::string_view next_action = "";  // "": that of the table of codes
  std::string_view details = "";      // facts that are listed below the sentences: "stacks waits"
  Node node = Node::process;          // the code's, or the variant's own
  Witness known_from = Witness::record;
};

// Those of one code together, in the order of its file.
[[nodiscard]] std::span<const Wording> all_wordings();

// nullptr where nobody has words for it.
[[nodiscard]] const Wording* find_wording(std::string_view code, std::string_view variant);

// Whether its sentences or its details use the fact.
[[nodiscard]] bool uses_fact(const Wording& words, std::string_view fact);

// The finding with its three sentences. One whose variant is unknown keeps the sentences that it has.
[[nodiscard]] Finding worded(Finding finding);

// "rank 0: wait < poll" and the like: facts that are listed, not told. Name and text, in the order of the wording.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> details_of(const Finding& finding);

// Of one pattern. Names outside of brackets that the finding lacks are added to `missing`, where it is given.
[[nodiscard]] std::string rendered(std::string_view pattern,
                                   const Finding& finding,
                                   std::vector<std::string>* missing = nullptr);

// The names in a pattern, in lower case.
[[nodiscard]] std::vector<std::string> names_in(std::string_view pattern);

}  // namespace harness
