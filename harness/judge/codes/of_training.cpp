#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

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
         {.meaning = "Optimiser steps changed no parameter, and no overflow explains it; or a rank "
                     "left out an optimiser step that others took.",
          .confirmed_by = "No element of any parameter moved, gradients were finite or the loss "
                          "scale did not halve (`optimizer_sound`). Or the rank went on to a later "
                          "step, or ended, without calling the optimiser (`steps_agree`).",
          .next_action = "Look at the loss scale and at which gradients overflow in these steps.",
          .witness = "The stored parameters before and after the step, and the loss scale that the "
                     "rank records. For a rank that left a step out: the phases that the other "
                     "ranks report."}},
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
          .confirmed_by = "The whole interval of the fitted exponent is above the limit, or memory "
                          "rises faster than that twice, up to the largest size.",
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
