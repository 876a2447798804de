#include <array>

#include "harness/judge/wording/wording.h"

namespace harness {
namespace {

constexpr std::string_view kExactSchedule =
    "It is no rounding: warm-up and cosine were computed in double, over the optimiser steps that "
    "were done.";

constexpr std::array kTrainingWords = {
    // optimizer_sound
    Wording{"OPT.SKIPPED",
            "steps",
            "{skipped} of {total:step} (steps {steps}) changed no parameter on {ranks}: the "
            "optimiser skipped {skipped?it|them}.",
            "The loss scale does not explain it: gradients were finite, or the scale did not "
            "halve, or it had grown too early."},
    Wording{"SCHEDULE.LR",
            "rate",
            "The learning rate of {step} is {found:9}, and the schedule gives {wanted:9}. It is "
            "wrong in {wrong_steps:step}.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "zero",
            "The learning rate of {step} is {found:9}, and the schedule gives {wanted:9}. It is "
            "wrong in {wrong_steps:step}. It is zero in all of them.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "micro_steps",
            "The learning rate of {step} is {found:9}, and the schedule gives {wanted:9}. It is "
            "wrong in {wrong_steps:step}. The schedule counts micro-batches, not optimiser steps.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "skipped_steps",
            "The learning rate of {step} is {found:9}, and the schedule gives {wanted:9}. It is "
            "wrong in {wrong_steps:step}. The schedule also advances on steps that were skipped.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "never_falls",
            "The learning rate of {step} is {found:9}, and the schedule gives {wanted:9}. It is "
            "wrong in {wrong_steps:step}. It does not fall to zero as the schedule does.",
            kExactSchedule},
    Wording{"OPT.UPDATE_LOST",
            "updates",
            "In {step}, updates of {lost} of {total:parameter} are lost. {share_of_elements:%} of "
            "the elements with a gradient keep their stored value in {dtype}.",
            "The gradients are not the cause: they are not zero in these elements. The schedule is "
            "not the cause: the learning rate of this step is large."},
    // loss_floor, loss_falls
    Wording{
        "LOSS.BELOW_FLOOR",
        "below",
        "From step {first_step} to {step}, the loss is {deficit_nats:3} nats below the least "
        "that its source allows on the same {tokens:token}. The standard error is "
        "{standard_error_nats:2} nats.",
        "Chance is not the cause: a model that sees only the past gains {gain_nats:3} nats less "
        "than once in exp(gain)."},
    Wording{
        "LOSS.NOT_FALLING",
        "flat",
        "{Quantity} does not fall: {first_quarter_nats:5} nats over the first quarter of the "
        "steps, {last_quarter_nats:5} over the last.",
        "The scatter of single steps is not the cause: {noise_nats:2} nats are allowed for it."},
    Wording{"LOSS.NOT_FALLING",
            "above_floor",
            "The loss falls, but it ends {above_floor_nats:3} nats above the floor of its source. "
            "It must come within {reach_nats} nats.",
            "The draw of the tokens is not the cause: the floor is that of the same tokens.",
            "Look whether the model sees what the source draws on (branches, masks, lengths). Then "
            "look at the learning rate and the number of steps."},
    // memory_scaling, within_budget
    Wording{
        "MEM.BUDGET",
        "operator",
        "{Op} of {layers} keeps {kept_bytes} bytes at {seq_len} tokens. The same "
        "implementation alone keeps {expected_bytes}.",
        "The allocator is not the cause: bytes of tensors were counted, in the same process "
        "and for the same sizes.",
        "Look for a copy that is kept for the backward: keys and values for each query head, an "
        "input made contiguous, or scores kept twice."},
    Wording{"MEM.BUDGET",
            "prediction",
            "A step of {seq_len} tokens took {measured_bytes:MiB}. Smaller sizes predict "
            "{predicted_bytes:MiB}.",
            "Weights, gradients and moments are not the cause: both figures contain them.",
            "Look for a tensor that grows faster than tokens and query-key pairs do.",
            "batch_size n_layers"},
    Wording{"MEM.EXPONENT",
            "axis",
            "Memory grows with {op} to the power of {exponent:3} ({low:3} to {high:3}). At most "
            "{most} was expected.",
            "The spread of the fit is not the cause: the whole interval is above the limit."},
    Wording{"MEM.BUDGET",
            "tensors",
            "The tensors of {ranks} grow by {growth_bytes_per_step:9} bytes in every step, "
            "{growth_bytes:MiB} over {steps:step}.",
            "The allocator is not the cause: bytes of tensors were counted. The start is not the "
            "cause: the lowest peak rises in each of {parts:part} of the second half.",
            "Look for what is kept from step to step: tensors with their graph (a loss without "
            "item()), lists of outputs, hooks that are added again."},
    Wording{"MEM.BUDGET",
            "resident",
            "Resident memory of {ranks} grows by {growth_bytes_per_step:MiB} in every step "
            "({low:MiB} to {high:MiB}), {growth_bytes:MiB} over {steps:step}.",
            "Tensors are not the cause: their bytes do not grow. The start is not the cause: only "
            "the second half of the steps was judged.",
            "Look for what is kept from step to step outside tensors: lists, strings, handles, "
            "graphs without tensors, the caches of a library."},
    Wording{"MEM.BUDGET",
            "peak",
            "At their peak the ranks take {peak_bytes:MiB}. The scenario says that "
            "{limit_bytes:MiB} are enough.",
            "Other processes are not the cause: this is the resident memory of the ranks alone.",
            "Raise requires.memory_gib if the sizes need it. `nsa-harness run "
            "scenarios/sb_sweep.yaml` shows what sizes take."},
};

}  // namespace

std::span<const Wording> words_of_training() {
  return kTrainingWords;
}

}  // namespace harness
