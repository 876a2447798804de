#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::array kSetupCodes = {
    Code{{"RESUME.TORN", Family::resume, 52},
         {.meaning = "A snapshot holds a state that there never was: tensors of different steps.",
          .confirmed_by = "Tensors in the file are not, byte by byte, what they were when the "
                          "snapshot was asked for.",
          .next_action = "Copy all of the state before the training goes on, or let it wait until "
                         "the file is there. Look for tensors that are written from live storage.",
          .witness = "Hashes of every tensor when the snapshot was asked for, and of its bytes in "
                     "the file, which the rank reads back."}},
    Code{
        {"RESUME.DIVERGED", Family::resume, 50},
        {.meaning = "A run that went on from a snapshot is not the run that was never interrupted.",
         .confirmed_by =
             "Before the interruption all hashes are those of the twin, and after it they are "
             "not; or the first step after the snapshot's is another one.",
         .next_action =
             "Compare what the snapshot holds with what the run needs: weights, optimiser moments, "
             "schedule, loss scale, random state and the position in the data.",
         .witness = "Hashes of the twin, an uninterrupted process. It shares all code but the "
                    "interruption. The phases of a rank tell the step that it goes on with."}},
    Code{{"DATA.SOURCE", Family::data, 60},
         {.meaning = "A rank trained on other tokens than the scenario asks for.",
          .confirmed_by = "The hash of the source, or of the batch, is not the one of the twin.",
          .next_action =
              "Check the path, the seed and the position that the loader of this rank resolved.",
          .witness = "Hashes of the twin's batches. Twin and rank share the loader: an error in it "
                     "shows on neither."}},
    Code{{"DATA.DUPLICATE", Family::data, 70},
         {.meaning = "Two ranks, or two steps of one rank, trained on the same sequence.",
          .confirmed_by = "Equal hashes of batches that are different on the twin.",
          .next_action =
              "Make the sampler depend on the rank and the step. Look at what advances the loader.",
          .witness = "Hashes of the batches on all ranks, and the twin's batches. Twin and rank "
                     "share the loader."}},
    Code{{"DATA.RNG", Family::data, 72},
         {.meaning = "Ranks drop the same numbers: their random numbers are the same.",
          .confirmed_by = "Equal hashes of dropout masks that are different on the twin.",
          .next_action =
              "Seed the generator that draws masks by the rank, or make masks a function of "
              "the sequence.",
          .witness =
              "Hashes of the masks on all ranks, and the twin's masks. Twin and rank share the "
              "code that draws them; the oracle's own masks are in step_is_oracle."}},
    Code{{"DATA.WRONG", Family::data, 75},
         {.meaning = "The tokens that entered the model are not those of the source.",
          .confirmed_by = "The oracle computes every token of the batch from seed, step, "
                          "micro-batch, rank and row, and finds others.",
          .next_action = "Look at how a batch is found from step, micro-batch, rank and row.",
          .witness = "The oracle's own source, written from docs/data.md. The text is the copy "
                     "that the controller made when the case began."}},
    Code{{"INIT.WRONG", Family::data, 78},
         {.meaning = "Parameters do not begin with values of their law.",
          .confirmed_by = "Their numbers fail a test that fails one healthy model in 10^9.",
          .next_action = "Look at how this parameter is initialised, and at what writes to it "
                         "before the first step.",
          .witness =
              "The laws of docs/data.md, on the values that are recorded before the first step."}},
    Code{{"ROUTE.REFUSED", Family::route, 80},
         {.meaning = "The implementation that was asked for said that it cannot do this case. "
                     "Nothing ran in its place.",
          .confirmed_by =
              "The reason that it gives names a type, size, device or option of this case.",
          .next_action = "Ask for another implementation of this seam in `route`, or change what "
                         "the reason names.",
          .witness = "The implementation's own statement."}},
    Code{{"ROUTE.MISMATCH", Family::route, 90},
         {.meaning = "Another implementation ran than the one that was asked for, or it never ran.",
          .confirmed_by = "The counters of the implementations, and on a card the names of the "
                          "kernels (attention.trace_kernels).",
          .next_action = "Follow the setting from the scenario to the seam. Look for a default, a "
                         "fallback or an exception that somebody swallows.",
          .witness = "A counter inside each implementation: its own statement. A fallback inside "
                     "it is seen only in a trace of the device's kernels."}},
    Code{{"GATE.OVERRIDE", Family::route, 100},
         {.meaning = "Constant gates were asked for, and the learned gates were used.",
          .confirmed_by =
              "The recorded gates equal what the gate network gives for the recorded queries.",
          .next_action = "Follow attention.gate into the implementation that ran. A fused path "
                         "often ignores it.",
          .witness = "The float64 oracle, from the recorded queries and gate weights. It shares no "
                     "code with the model."}},
};

}  // namespace

std::span<const Code> codes_of_setup() {
  return kSetupCodes;
}

}  // namespace harness
