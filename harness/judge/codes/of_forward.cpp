#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::string_view kOracle =
    "The float64 oracle, from the tensors that went into the operation. It shares no code with the "
    "model, but it reads the sizes from the same scenario.";

constexpr std::array kForwardCodes = {
    Code{{"ALIAS.MUTATED", Family::forward, 120},
         {.meaning = "An implementation wrote into a tensor that it was given. Its caller still "
                     "uses that tensor.",
          .confirmed_by =
              "Directly after the call the tensor had other values than directly before it, or "
              "its version counter had moved.",
          .next_action = "Copy before writing. Look for clamp_, masked_fill_, a sort into the "
                         "input, or a view of it.",
          .witness = "The values before and after each call, and LibTorch's version counter. Of a "
                     "float tensor of more than 8 MiB the sum of all bits is compared in place of "
                     "the values, which an exchange of numbers leaves as it is."}},
    Code{{"RACE.STREAM", Family::forward, 118},
         {.meaning = "A result depends on which stream of the card comes first: something is read "
                     "before it is written, or "
                     "after its memory was given to somebody else.",
          .confirmed_by = "With every operator waiting for the one before it, two calls give equal "
                          "bits; with some streams late, or as it is, a call gives others.",
          .next_action = "Look for a tensor that one stream writes and another one reads: it needs "
                         "an event to wait for. If it is freed on another stream than the one "
                         "that still reads it, the allocator must be told (record_stream).",
          .witness = "The recorded tensors of all calls, compared by the controller. Kernels that "
                     "one operator launches on several streams by itself are never in series."}},
    Code{{"NAN.UNINIT", Family::forward, 130},
         {.meaning = "A number that is not finite came out of memory that nobody wrote.",
          .confirmed_by = "With attention.poison, uninitialised memory starts as NaN, and the NaN "
                          "shows in these rows.",
          .next_action = "Find the buffer that is handed out and not written in full. Look at its "
                         "last rows first.",
          .witness =
              "A record of every operator: no operator made the number out of finite inputs."}},
    Code{{"NAN.ORIGIN", Family::forward, 140},
         {.meaning = "This is the first place where a number is not finite.",
          .confirmed_by = "Everything that was recorded before it is finite.",
          .next_action = "Look at this operation for rows without any key, a division by zero, a "
                         "logarithm or an overflow.",
          .witness =
              "A record of every operator with its inputs and outputs, and the recorded tensors."}},
    Code{{"RANGE.INVALID", Family::forward, 150},
         {.meaning = "A query chose a block that lies after it, or outside the sequence; or it "
                     "attended to an empty slot of its list.",
          .confirmed_by = "The recorded list of blocks holds an index above t / l_sel, or below "
                          "zero. Where empty slots were read: the oracle that reads them as "
                          "block 0 gives exactly the wrong rows.",
          .next_action = "Look at the bounds of the candidates. A query at position t may take "
                         "blocks 0 to t / l_sel.",
          .witness = "The recorded blocks against the definition of the selection. No score enters "
                     "the judgement. Where empty slots were read: the float64 oracle, from the "
                     "recorded operands."}},
    Code{{"MASK.ALIGNMENT", Family::forward, 160},
         {.meaning = "The causal mask is aligned with the wrong corner: queries see the keys of "
                     "earlier queries.",
          .confirmed_by = "The oracle with a mask aligned top left gives exactly the wrong rows.",
          .next_action = "Align a causal mask for fewer queries than keys to the bottom right. "
                         "Compare the mask for the rows that are listed.",
          .witness = kOracle}},
    Code{{"MASK.POLARITY", Family::forward, 170},
         {.meaning = "The mask is inverted: forbidden keys are attended and allowed keys are not.",
          .confirmed_by = "The oracle with the inverted mask gives exactly the wrong rows.",
          .next_action = "True must mean \"attend\", or minus infinity must be added where "
                         "attention is forbidden. Compare the mask for the rows that are listed.",
          .witness = kOracle}},
    Code{{"MASK.ABSENT", Family::forward, 180},
         {.meaning = "No mask was applied: queries see keys after them or outside their branch.",
          .confirmed_by = "The oracle without a mask gives exactly the wrong rows.",
          .next_action = "Apply the mask in every case, short sequences included. Compare the mask "
                         "for the rows that are listed.",
          .witness = kOracle}},
    Code{{"OVERFLOW.INDEX", Family::forward, 190},
         {.meaning = "An operation reads an operand elsewhere from some element on: an offset has "
                     "too few bits. Rows that read nothing from there on are right.",
          .confirmed_by = "The oracle, with the operand's offsets begun again at a power of two, "
                          "gives exactly the wrong rows.",
          .next_action = "Compute offsets in 64 bits: batch, head and row times their strides, "
                         "before they are added. The finding tells operand, order and element.",
          .witness = kOracle}},
    Code{{"SELECTION.WRONG", Family::forward, 200},
         {.meaning = "The scores of the blocks are wrong, or other blocks were chosen than the "
                     "scores demand.",
          .confirmed_by = "The difference of the scores is above a strict bound on their rounding, "
                          "or the choice contradicts the recorded scores.",
          .next_action = "For op score, look at the overlap map, the mask and the precision of the "
                         "scores. For op select, look at forced blocks, order and ties.",
          .witness = kOracle}},
    Code{
        {"DETERMINISM.SELECTION", Family::forward, 202},
        {.meaning = "The same inputs in the same process gave other blocks when they were computed "
                    "again.",
         .confirmed_by = "Three calls on inputs with equal bits, of one shape: the lists of "
                         "blocks, or their scores, have other bits in one of them.",
         .next_action = "Look for ties that atomics or an unordered sort break, for scores that "
                        "are summed in the order in which threads come, and for memory that an "
                        "earlier call left.",
         .witness = "The recorded scores and lists of all calls, compared by the controller."}},
    Code{
        {"DESYNC.SELECTION", Family::forward, 203},
        {.meaning = "Ranks that were given the same inputs chose other blocks.",
         .confirmed_by =
             "The scores of the layer have the same bits on all ranks, and the lists of "
             "blocks do not.",
         .next_action =
             "Compare what the ranks do between score and list: how ties are broken, the "
             "library and its version, an option that only one rank has, memory that an "
             "earlier call left.",
         .witness = "The decision ledger: hashes of scores and lists that each rank records, "
                    "compared by the controller. The twin, which chose from the same scores, tells "
                    "which rank is the odd one."}},
    Code{{"SELECTION.TIE", Family::forward, 205, Outcome::pass},
         {.meaning = "A note, not a failure: other blocks were chosen than the oracle's, and their "
                     "scores are closer than rounding.",
          .confirmed_by = "The margin between the scores is below a strict bound on their error.",
          .next_action =
              "Nothing has to be done. The values are judged with the blocks that were chosen.",
          .witness = kOracle}},
    Code{
        {"CAUSALITY.LEAK", Family::forward, 210},
        {.meaning =
             "A result before position p changed when only the input from p on changed, or a "
             "query saw another document of its packed sequence.",
         .confirmed_by = "Two passes with the same prefix differ in bits before p, and all inputs "
                         "of the stage are equal there. Where documents are mixed: the oracle "
                         "that attends across their border gives exactly the wrong rows.",
         .next_action = "Look at which keys this stage normalises or attends over. No key after "
                        "the query may enter, and none of another document.",
         .witness = "The model against itself with another future, bit by bit. Where documents are "
                    "mixed: the float64 oracle, from what was recorded of the sequence."}},
    Code{{"NUMERIC.FORWARD", Family::forward, 220},
         {.meaning =
              "The result of an operation is not what its equation gives for the recorded inputs.",
          .confirmed_by = "The error is above a limit from first principles. Where a law is named, "
                          "the oracle with that mistake gives exactly the wrong rows.",
          .next_action = "Compare this operation with its equation on the recorded tensors. Where "
                         "a law is named, look for that mistake.",
          .witness = kOracle}},
    Code{{"DETERMINISM.BATCH", Family::forward, 222},
         {.meaning = "What a sequence gives depends on its neighbours in the batch or on its place "
                     "among them.",
          .confirmed_by = "The same sequence, alone or after three others, gives numbers that are "
                          "further apart than rounding can make them, or other blocks from scores "
                          "with equal bits.",
          .next_action = "Look at what depends on the number of sequences: tiles, splits of the "
                         "keys, strides over the batch, buffers that sequences share.",
          .witness = "The recorded tensors of both placements, compared by the controller. Both "
                     "come from the same code: the oracle tells which one is right."}},
    Code{
        {"DECODE.MISMATCH", Family::forward, 230},
        {.meaning = "Decoding token by token gives another result than the whole sequence at once.",
         .confirmed_by = "Outputs or chosen blocks differ at a position, and all earlier layers "
                         "agree there. The "
                         "operation is the first one in the layer whose recorded results differ.",
         .next_action = "Compare the caches after the prompt: which tokens the next compressed "
                        "token covers, the positions of the keys, and the first key of the window.",
         .witness = "The model against itself: both passes share code and weights. An error in "
                    "both is not seen."}},
    Code{{"READS.MISMATCH", Family::forward, 240},
         {.meaning = "A branch reports another number of keys read than the query may see.",
          .confirmed_by = "The count differs from the keys in the recorded blocks, the window and "
                          "the compressed tokens.",
          .next_action = "Count where the keys are read, not by a formula. Look at blocks that are "
                         "not full yet and at windows longer than the past.",
          .witness = "The oracle's rules of visibility, applied to the recorded blocks."}},
    Code{
        {"GATE.DEAD", Family::forward, 250},
        {.meaning = "The gates of a layer do not depend on the token, or never change in training.",
         .confirmed_by =
             "The gates are the same for all rows, or bit by bit the same in all steps.",
         .next_action = "Look at how the gate's last weights are initialised, and whether they get "
                        "a gradient.",
         .witness = "Statistics of the recorded gates over all rows and steps. No reference is "
                    "involved."}},
    Code{{"GATE.COLLAPSED", Family::forward, 260},
         {.meaning = "One branch has practically the whole weight of the gates, in all rows.",
          .confirmed_by = "The mean of one gate is above 0.99, the others are below 0.01, and rows "
                          "hardly differ.",
          .next_action =
              "Look at the scale of the gate's logits, its temperature and its learning rate.",
          .witness = "Statistics of the recorded gates over all rows and steps. No reference is "
                     "involved."}},
};

}  // namespace

std::span<const Code> codes_of_forward() {
  return kForwardCodes;
}

}  // namespace harness
