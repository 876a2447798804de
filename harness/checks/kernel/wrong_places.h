// Where a kernel's result is wrong, in a few words: which heads, which sequences of a batch, which rows. A place is what one head
// holds at one position of one sequence in one trial. Words are found only where the right places agree: all wrong places are
// among those that the words mean, and right places outside of them are too many to be right by chance.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace harness::checks {

struct ResultPlace {
  int trial = 0;            // its number
  std::int64_t length = 0;  // of its sequences
  int sequences = 1;        // of its batch
  int sequence = 0;
  int head = 0;
  std::int64_t row = 0;
  bool wrong = false;
};

// Some of the places, and what they are called. Nothing is wrong outside of it.
struct WrongPart {
  std::string
      words;  // "head 3", "sequence 1 of a batch, rows from 64 on", "rows = 0 mod 8"; "": nothing tells them apart
  std::function<bool(const ResultPlace&)> belongs;
  bool repeats = false;  // its rows come again and again: every eighth
};

// The part of the places that were judged in which the wrong ones lie. `heads_per_group`: heads that share keys and values.
[[nodiscard]] WrongPart part_of(const std::vector<ResultPlace>& places,
                                std::int64_t heads_per_group);

}  // namespace harness::checks
