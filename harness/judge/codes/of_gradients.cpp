#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::string_view kLedger =
    "The gradient ledger of the rank: a walk from the loss through the graph, and a hook on each "
    "accumulator of gradients. It runs in the same process.";

constexpr std::string_view kAgain =
    "A record of the layer in the forward and in its recomputation, and the twin, which does not "
    "checkpoint.";

constexpr std::array kGradientCodes = {
    Code{
        {"GRAD.MISSING", Family::graph, 300},
        {.meaning =
             "A parameter gets no gradient, although the loss depends on it by the equations.",
         .confirmed_by =
             "A walk from the loss does not reach the parameter, or its backward returned nothing.",
         .next_action = "Look for detach(), no_grad(), .data or a tensor rebuilt from values "
                        "between the parameter and the loss, or a branch that nobody calls.",
         .witness = kLedger}},
    Code{{"GRAD.NOT_FINALIZED", Family::graph, 310},
         {.meaning = "Some ranks do not reach a parameter that other ranks reach in the same step. "
                     "The reduction then waits for ever or raises.",
          .confirmed_by = "The ledgers of the ranks differ in what the loss reaches.",
          .next_action =
              "Find what makes these ranks take another path in this step: a condition on data, "
              "rank or time. Every rank must build the same graph, or find_unused must be on.",
          .witness = kLedger}},
    Code{{"GRAD.DOUBLE_READY", Family::graph, 320},
         {.meaning = "A parameter became ready more than once in one backward that synchronises.",
          .confirmed_by =
              "The count of the hook is above one, or the reducer raised its error about it.",
          .next_action = "Use functional checkpointing instead of a nested backward. Look for a "
                         "parameter that two backwards use, or hooks that were registered twice.",
          .witness = kLedger}},
    Code{{"GRAD.HOOK_LOST", Family::graph, 330},
         {.meaning =
              "The hook that starts the reduction of a parameter is no longer on its accumulator.",
          .confirmed_by = "The accumulator that the graph leads to is another node than the one "
                          "that was hooked.",
          .next_action =
              "Build the reducer last. Do not replace, re-create or re-type parameters after it.",
          .witness = kLedger}},
    Code{{"INPLACE.MODIFIED", Family::backward, 350},
         {.meaning = "A tensor that the backward needs was overwritten after the forward saved it.",
          .confirmed_by =
              "Its version counter or its values changed, or autograd raised its error about it.",
          .next_action = "Do not reuse a workspace that a saved tensor lives in. Allocate one "
                         "buffer for each layer, or copy.",
          .witness = "Version counters and values of saved tensors, read in the rank, and "
                     "autograd's own error."}},
    Code{
        {"CKPT.DTYPE", Family::backward, 360},
        {.meaning = "A checkpointed layer was recomputed in another data type than in the forward.",
         .confirmed_by =
             "An operator of the recomputation puts out another data type than in the forward.",
         .next_action = "Restore the autocast state of the forward, and every other mode, around "
                        "the recomputation.",
         .witness = kAgain}},
    Code{{"CKPT.SELECTION_FLIP", Family::backward, 370},
         {.meaning = "A checkpointed layer chose other blocks when it was recomputed. Its gradient "
                     "belongs to another function.",
          .confirmed_by =
              "The hashes of the chosen blocks differ between forward and recomputation.",
          .next_action = "Keep the blocks that the forward chose (checkpoint.keep_blocks), or make "
                         "the scores deterministic. Near ties flip on the last bit.",
          .witness = kAgain}},
    Code{{"CKPT.GRADIENT", Family::backward, 380},
         {.meaning = "A checkpointed layer has other outputs when it is recomputed, or other "
                     "gradients than without checkpointing.",
          .confirmed_by = "The recomputed output differs in bits, or the gradients differ from the "
                          "twin's by more than rounding.",
          .next_action = "Look at what the recomputation captures: weights by reference to a loop "
                         "variable, random state, buffers that were written since.",
          .witness = kAgain}},
    Code{{"GRAD.ZERO", Family::backward, 390},
         {.meaning = "A gradient exists and is exactly zero in every element, although the "
                     "parameter has influence.",
          .confirmed_by = "The ledger holds a gradient of norm zero, and the equations give the "
                          "parameter influence.",
          .next_action = "Look for a softmax over a single key, a mask that leaves nothing, a "
                         "multiplication by zero, or an underflow.",
          .witness = kLedger}},
    Code{{"NUMERIC.GRADIENT", Family::backward, 400},
         {.meaning =
              "A gradient is not what the equations, the twin or the sum over the ranks give.",
          .confirmed_by = "The error is above a limit from first principles, and the forward of "
                          "this layer is right.",
          .next_action = "Compare the backward of this part with its equation, head by head, on "
                         "the recorded tensors.",
          .witness = "The float64 oracle for recorded layers. Elsewhere the twin, which shares the "
                     "code of the rank: it shows where they differ, not which one is right."}},
    Code{{"GRAD.SCALE", Family::reduction, 460},
         {.meaning = "Gradients are right up to one constant factor.",
          .confirmed_by = "One factor explains every element within rounding.",
          .next_action =
              "Count the divisions by the number of ranks: in the reducer, in a communication hook "
              "and in the loss. Look for a mean over another number of tokens.",
          .witness = "The mean of the ranks' recorded local gradients, or the twin. Twin and rank "
                     "share the code of the model."}}};

}  // namespace

std::span<const Code> codes_of_gradients() {
  return kGradientCodes;
}

}  // namespace harness
