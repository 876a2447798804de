#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::string_view kSupervision =
    "The controller, from outside: it reads states, waits and processor time in /proc. Counters in "
    "heartbeats and the frames of stacks come from the rank.";

constexpr std::array kTrainingCodes = {
    Code{
        {"OPT.UPDATE_LOST", Family::update, 110},
        {.meaning = "What a step wants of a parameter does not arrive in its stored value: it is "
                    "below the last place, or the optimiser passes the parameter over.",
         .confirmed_by =
             "Elements with a gradient keep their stored value, at a large learning rate.",
         .next_action =
             "Keep float32 master weights. An update below half a unit in the last place vanishes.",
         .witness = "The stored parameters before and after the step. The rank itself counts the "
                    "elements that should have moved (`optimizer_sound`); the oracle judges the "
                    "recorded values and moments (`step_is_oracle`)."}},
    Code{{"OPT.SKIPPED", Family::update, 480},
         {.meaning = "Optimiser steps changed no parameter, and no overflow explains it.",
          .confirmed_by = "No element of any parameter moved, gradients were finite or the loss "
                          "scale did not halve.",
          .next_action = "Look at the loss scale and at which gradients overflow in these steps.",
          .witness = "The stored parameters before and after the step, and the loss scale that the "
                     "rank records."}},
    Code{{"LOSS.WRONG", Family::forward, 265},
         {.meaning = "The loss or its gradient is not that of the logits and tokens on record.",
          .confirmed_by = "The oracle computes both again from the recorded logits and tokens.",
          .next_action = "Look at labels, mean and scaling of the loss.",
          .witness = "The oracle, from the logits that left the model and the tokens that entered "
                     "it. The rank records both."}},
    Code{{"SCALER.WRONG", Family::update, 472},
         {.meaning =
              "The loss scale does not follow its rule, or gradients are not divided by it once.",
          .confirmed_by = "What the backward started from over the loss is the scale. Moments and "
                          "parameters show whether the step was taken.",
          .next_action = "Look at the loss scaler: when it halves, when it doubles, which steps it "
                         "skips, and where gradients are divided by the scale.",
          .witness = "The oracle's rule, from recorded gradients and the state before and after "
                     "the step."}},
    Code{
        {"CLIP.WRONG", Family::update, 474},
        {.meaning = "The norm of the gradients or the factor that clips them is wrong.",
         .confirmed_by = "The oracle computes the norm from the recorded gradients. The moments "
                         "show the factor that was used.",
         .next_action =
             "Look at what is summed for the norm, and at what the coefficient is multiplied with.",
         .witness = "The oracle, from the gradients after the reduction and the moments before and "
                    "after the step."}},
    Code{{"OPT.UPDATE_WRONG", Family::update, 476},
         {.meaning = "Parameters, moments or weights after a step are not those of AdamW.",
          .confirmed_by = "The oracle computes the step again, number by number, from the state "
                          "and the gradient before it.",
          .next_action = "Compare the optimiser with its equation in docs/data.md.",
          .witness = "The oracle, from the state and the gradient before the step. The learning "
                     "rate is the schedule's, not the one that the optimiser reports."}},
    Code{{"SCHEDULE.LR", Family::update, 490},
         {.meaning =
              "The learning rate is not the one that the schedule gives for this optimiser step.",
          .confirmed_by =
              "Warm-up and cosine, computed in double from the configuration, give another value.",
          .next_action = "Look at what advances the schedule: optimiser steps that were done, not "
                         "micro-batches, and no step that was skipped.",
          .witness = "The formula of the schedule. The rate that the optimiser reports is its own "
                     "statement (`optimizer_sound`); the rate that moved the parameters is "
                     "attested by their values (`step_is_oracle`)."}},
    Code{
        {"LOSS.BELOW_FLOOR", Family::loss, 270},
        {.meaning = "The loss is lower than any model can reach on these tokens. The model sees "
                    "what it must predict.",
         .confirmed_by = "The distance is above four standard errors, and chance explains it with "
                         "next to no probability.",
         .next_action = "Look at what the loss compares: labels that are not shifted by one token, "
                        "a mask that shows the future (`causal`), or tokens that were seen before.",
         .witness = "The known probabilities of the synthetic source, on the same tokens. The loss "
                    "is the rank's own."}},
    Code{{"LOSS.NOT_FALLING", Family::loss, 570},
         {.meaning =
              "The loss does not fall over the run, or stays above the floor that it must reach.",
          .confirmed_by =
              "The last quarter of the steps is not below the first by more than its scatter.",
          .next_action = "Look at what the loss compares (`step_is_oracle` judges the labels), at "
                         "the learning rate and the updates (`optimizer_sound`), then at the "
                         "gradients and at what the model can see.",
          .witness = "The losses that the ranks record: their own statement."}},
    Code{{"HANG.HOST", Family::progress, 410, Outcome::hang},
         {.meaning =
              "A rank stands still on the host, outside any collective. Its peers may wait for it.",
          .confirmed_by = "No counter of any rank moved. Two looks from outside show no processor "
                          "time and a wait without a time limit, or wake-ups that moved nothing.",
          .next_action = "Read the rank's stack: what does it wait for on the host (a lock, a "
                         "file, a queue, a child)? If it was stopped, find out who sent SIGSTOP.",
          .witness = kSupervision}},
    Code{
        {"HANG.KERNEL", Family::progress, 412, Outcome::hang},
        {.meaning = "A kernel runs on the card and does not end. Its rank waits for it.",
         .confirmed_by = "No counter moved for 20 times as long as ever before, and at least 30 s. "
                         "In two looks the rank waits inside the driver at the same place, in no "
                         "collective, and the driver says that a kernel runs all the time.",
         .next_action =
             "Run the implementation of this layer alone, with the same sizes and inputs, "
             "under compute-sanitizer (synccheck). Look for what a block waits for: a "
             "barrier that not all threads reach, a tile or flag that nobody writes, "
             "such as that of a row without keys.",
         .witness = "The driver's own figure of how busy the card is, and the stacks of the rank. "
                    "Another process on the card would show in that figure too: `doctor` lists "
                    "those there are."}},
    Code{{"HANG.INIT", Family::progress, 415, Outcome::hang},
         {.meaning = "The ranks never met: at least one did not join the rendezvous.",
          .confirmed_by = "All ranks stand still before the first collective.",
          .next_action = "Check that as many processes were started as the group expects, and that "
                         "they use the same address and port.",
          .witness = kSupervision}},
    Code{{"HANG.COLLECTIVE", Family::progress, 530, Outcome::hang},
         {.meaning = "Every live rank waits inside a collective that does not complete.",
          .confirmed_by = "No counter moved, and each rank's record holds a collective that it "
                          "entered and did not leave.",
          .next_action = "Look at `collectives_agree`: do all ranks issue the same operation? If "
                         "they do, look at the transport.",
          .witness = kSupervision}},
    Code{{"SLOW.HOST", Family::progress, 540, Outcome::slow},
         {.meaning = "The case was slow, not stuck: it worked until it was ended, or nothing moved "
                     "for a long time and then it moved on.",
          .confirmed_by = "Counters moved, or processor time, disk or children did; or a wait with "
                          "a time limit ended.",
          .next_action = "Raise budget.seconds, or look for a loop on the host (per token, per "
                         "block) in this phase.",
          .witness = kSupervision}},
    Code{{"SLOW.COMPILE", Family::progress, 542, Outcome::slow},
         {.meaning = "A rank waited for a compiler until the case was ended. It is no hang.",
          .confirmed_by = "No counter moved, and the only children of the rank that used the "
                          "processor between two looks are compilers, assemblers or linkers.",
          .next_action = "Let one process compile before the others start, and keep its cache: "
                         "TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR. Or "
                         "raise budget.seconds, and the time limit of the group.",
          .witness = "The names and the processor time of the rank's children, which the kernel "
                     "tells the controller."}},
    Code{{"SLOW.SYNC_STORM", Family::progress, 545, Outcome::slow},
         {.meaning =
              "An operator makes the host wait for the device much more often than on the twin.",
          .confirmed_by = "The count of host waits for each call is higher than the twin's for the "
                          "same operator.",
          .next_action = "Look for .item(), nonzero or a printed statistic in this operator. Keep "
                         "such values on the device and read them once a step.",
          .witness = "A count of the operators that LibTorch tags as reading a tensor's numbers, "
                     "and of copies from a device to the host, in the rank and in the twin. A back "
                     "end that waits by calling the device's runtime itself is not seen."}},
    Code{
        {"SLOW.DATA", Family::progress, 550, Outcome::slow},
        {.meaning = "A rank waited for its batch much longer than any computation of a step takes.",
         .confirmed_by = "The data phase took more than three seconds and more than five times the "
                         "longest computation.",
         .next_action = "Look at the loader of this rank: storage, decoding, a cold cache. "
                        "Prefetch the next batch.",
         .witness = "The times at which the rank entered its phases: its own statement, stamped by "
                    "the rank."}},
    Code{{"MEM.BUDGET", Family::memory, 580},
         {.meaning = "Memory is above what it should be: it grows from step to step, or a size or "
                     "operator keeps more than expected.",
          .confirmed_by = "Bytes are counted where they are allocated, and the same steps repeat "
                          "the same growth.",
          .next_action = "Look for what is kept: tensors with their graph (a loss without item()), "
                         "copies per head, lists of outputs, hooks that are added again.",
          .witness = "Counted bytes of tensors and the resident memory that the kernel reports. "
                     "What an operator should keep is taken from the same implementation alone."}},
    Code{{"MEM.EXPONENT", Family::memory, 590},
         {.meaning = "Memory grows faster with a size than its parts can explain.",
          .confirmed_by = "The whole interval of the fitted exponent is above the limit.",
          .next_action =
              "Look for a tensor that is kept for each pair of tokens, each head or each step.",
          .witness = "Counted bytes of a sweep over sizes. Quadratic growth along the sequence "
                     "passes where the plain implementation computes every pair of tokens."}},
};

}  // namespace

std::span<const Code> codes_of_training() {
  return kTrainingCodes;
}

}  // namespace harness
