// A branch that attends to right queries, keys and values, but computes where they lie with too few bits: from some power of two
// on, offsets begin again at 0. Rows that read nothing from there on are right. Internal to the library.
#pragma once

#include <functional>
#include <vector>

#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace oracles {

inline constexpr Law kOffsetsBeginAgain = {
    "offsets_begin_again",
    "from an element of an operand on, its numbers are read from the operand's beginning again"};

// The forms of the law (which operand, how it lies in memory, at which element) that may give the `wrong` vectors of a branch's
// output and for which `gives_all` says that they do. None where only some rows of the layer are known.
std::vector<LawFit> offset_laws(const Stages& in,
                                Stage stage,
                                const std::vector<std::size_t>& wrong,
                                const std::function<bool(const Tensor& output)>& gives_all);

// What one form of it gives.
enum class Operand { queries, keys, values, keys_and_values };
enum class Order { heads_first, tokens_first };  // [B,H,S,D], [B,S,H,D]
struct OffsetForm {
  Operand operand = Operand::queries;
  Order order = Order::heads_first;
  int bits = 0;  // 2^bits elements
};
Tensor output_under(const OffsetForm& form, const Stages& in, Branch branch);

}  // namespace oracles
