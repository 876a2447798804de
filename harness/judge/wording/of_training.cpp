#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::string_view kExactSchedule =
    "It is no rounding: warm-up and cosine were computed in double, over the optimiser steps that "
    "were done.";

constexpr std::array kTrainingWords = {
    // step_is_oracle
    Wording{
        "LOSS.WRONG",
        "loss",
        "In {step}, the loss of {ranks} or its gradient is not that of the recorded logits and "
        "tokens. The loss is {found:6} and the oracle has {wanted:6}.[ This explains every wrong "
        "number: {known}.][ Each of these mistakes explains every wrong number: {laws}.]",
        "The model is not the cause: the loss was computed again from the logits that left it."},
    Wording{"LOSS.WRONG",
            "reported",
            "In {step}, {ranks} report {found:6} as the {what}. By the losses and tokens on record "
            "it is {wanted:6}.",
            "The loss itself is not the cause: it was judged from the recorded logits.",
            "Look at what the ranks report, not at what they compute."},
    Wording{"SCALER.WRONG",
            "reported",
            "After {step}, {ranks} report {found:6} as the {what}. By what is on record "
            "it is {wanted:6}.",
            "The scaler is not the cause: the scale of a step is what its backward started from, "
            "over its loss, and a step that was left out moved no number of the state.",
            "Look at what the ranks report, not at what they compute."},
    Wording{"LOSS.WRONG",
            "timed",
            "In {step}, {ranks} {ranks?has|have} the loss {found:6}. The same step of the twin has "
            "{wanted:6}, and all earlier ones agree.",
            "Chance is not the cause: seed, tokens and first weights are the twin's.",
            "Look at what the timed step leaves out or does twice: the update, gradients that are "
            "not dropped, another batch."},
    Wording{"LOSS.WRONG",
            "timed_parameters",
            "After {step}, {count:parameter} of {ranks} {count?is|are} not the twin's, though all "
            "losses agree ({params}).",
            "Chance is not the cause: seed, tokens and first weights are the twin's.",
            "Look at the update of the last step, which no later loss shows."},
    Wording{"LOSS.WRONG",
            "accumulate",
            "In {step}, the backward of {ranks} starts from {factor:4} times the share that the "
            "loss has in its step.[ This explains every wrong number: {known}.][ Each of these "
            "mistakes explains every wrong number: {laws}.]",
            "The loss is not the cause: its value is on record.",
            "Look at what divides the loss by the number of micro-batches."},
    Wording{"SCALER.WRONG",
            "scale",
            "In {step}, the loss of {ranks} was multiplied by {found:6}. By the rule of the loss "
            "scale it is {wanted:6}.[ This explains every wrong number: {known}.][ Each of these "
            "mistakes explains every wrong number: {laws}.]",
            "The gradients are not the cause: whether they were finite in the steps before is on "
            "record."},
    Wording{"SCALER.WRONG",
            "scaler",
            "In {step}, the choice of {ranks} to take the step or to leave it out does not follow "
            "its rule.[ This explains every wrong number: {known}.][ Each of these mistakes "
            "explains every wrong number: {laws}.]",
            "The gradients are not the cause: whether they are finite is on record."},
    Wording{"SCALER.WRONG",
            "unscale",
            "In {step}, the gradients of {ranks} are not divided by the loss scale once.[ This "
            "explains every wrong number: {known}.][ Each of these mistakes explains every wrong "
            "number: {laws}.]",
            "The gradient is not the cause: what the optimiser got is on record."},
    Wording{"CLIP.WRONG",
            "norm",
            "In {step}, the norm of the gradients on {ranks} is {found:6}. The gradients on record "
            "have {wanted:6}.[ This explains every wrong number: {known}.][ Each of these mistakes "
            "explains every wrong number: {laws}.]",
            "It is no rounding: the bound holds for float32 sums in any order."},
    Wording{"CLIP.WRONG",
            "clip",
            "In {step}, the gradients of {ranks} are not multiplied with min(1, max_norm / (norm + "
            "1e-6)).[ The factor is {factor:4} times that.][ This explains every wrong number: "
            "{known}.][ Each of these mistakes explains every wrong number: {laws}.]",
            "The gradients are not the cause: they are on record, and the moments show what was "
            "made of them."},
    Wording{"SCHEDULE.LR",
            "applied",
            "In {step}, the parameters of {ranks} moved by another learning rate than the one that "
            "the schedule gives.[ This explains every wrong number: {known}.][ Each of these "
            "mistakes explains every wrong number: {laws}.]",
            "The gradients and the moments are not the cause: both are right."},
    Wording{"OPT.UPDATE_WRONG",
            "optimizer",
            "In {step}, parameters or moments of {ranks} are not those of AdamW[ in "
            "{count:parameter} ({params})].[ This explains every wrong number: {known}.][ Each of "
            "these mistakes explains every wrong number: {laws}.]",
            "The state and the gradient before the step are not the cause: the step was computed "
            "again from both."},
    Wording{"OPT.UPDATE_LOST",
            "left_out",
            "In {step}, the optimiser passes {count:parameter} ({params}) over on {ranks}: values "
            "and moments stay, although {count?it has a gradient|they have gradients} and the "
            "other parameters take the step.[ This explains every wrong number: {known}.]",
            "Rounding is not the cause: it spares no element's moments.",
            "Look whether the optimiser was given {params}: a list or group of parameters that was "
            "made before {params} existed, or that leaves them out."},
    Wording{"OPT.UPDATE_WRONG",
            "masters",
            "In {step}, the weights of the model on {ranks} are not its float32 masters, rounded "
            "to nearest.[ This explains every wrong number: {known}.][ Each of these mistakes "
            "explains every wrong number: {laws}.]",
            "The masters are not the cause: the weights were computed again from them.",
            "Look at what copies masters to the model."},
    Wording{"OPT.UPDATE_WRONG",
            "between_steps",
            "At the beginning of {step}, {count:parameter} ({params}) on {ranks} {count?has|have} "
            "another state than at the end of the step before.[ This explains every wrong number: "
            "{known}.][ Each of these mistakes explains every wrong number: {laws}.]",
            "The optimiser is not the cause: what it left is on record.",
            "Look at what writes to parameters or moments between two steps."},
    Wording{"OPT.UPDATE_WRONG",
            "reported",
            "In {step}, {ranks} report {found} lost updates of {count:parameter} ({params}). By "
            "the numbers on record before and after the step it is {wanted}.",
            "The optimiser is not the cause: its state is on record before and after the step.",
            "Look at what the ranks report, not at what they compute."},
    // steps_agree
    Wording{"OPT.SKIPPED",
            "rank",
            "{Ranks} took no optimiser step in {which}. {Others} did. {Skipped:step} of {total} "
            "{skipped?differs|differ}.",
            "The end of the run is not the cause: {ranks} went on to a later step, or ended well.",
            "Look at what decides on {ranks} whether the optimiser is called. From {step} on the "
            "weights of the ranks are not the same."},
    // optimizer_sound
    Wording{"OPT.SKIPPED",
            "steps",
            "{skipped} of {total:step} (steps {steps}) changed no parameter on {ranks}: the "
            "optimiser skipped {skipped?it|them}.",
            "The loss scale does not explain it: gradients were finite, or the scale did not "
            "halve, or it had grown too early."},
    Wording{
        "OPT.SKIPPED",
        "uncounted",
        "{skipped} of {total:step} (steps {steps}) changed no parameter on {ranks}, and nothing "
        "says that {skipped?it was|they were} left out.",
        "No loss scaler counted {skipped?it|them}: look at what calls the optimiser."},
    Wording{"SCHEDULE.LR",
            "rate",
            "The optimiser reports a learning rate of {found:14} in {step}, and the schedule gives "
            "{wanted:14}. It is "
            "wrong in {wrong_steps:step}.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "zero",
            "The optimiser reports a learning rate of {found:14} in {step}, and the schedule gives "
            "{wanted:14}. It is "
            "wrong in {wrong_steps:step}. It is zero in all of them.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "micro_steps",
            "The optimiser reports a learning rate of {found:14} in {step}, and the schedule gives "
            "{wanted:14}. It is "
            "wrong in {wrong_steps:step}. The schedule counts micro-batches, not optimiser steps.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "skipped_steps",
            "The optimiser reports a learning rate of {found:14} in {step}, and the schedule gives "
            "{wanted:14}. It is "
            "wrong in {wrong_steps:step}. The schedule also advances on steps that were skipped.",
            kExactSchedule},
    Wording{"SCHEDULE.LR",
            "never_falls",
            "The optimiser reports a learning rate of {found:14} in {step}, and the schedule gives "
            "{wanted:14}. It is "
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
        "{Quantity} that the ranks report does not fall: {first_quarter_nats:5} nats over the "
        "first quarter of the steps, {last_quarter_nats:5} over the last.",
        "The scatter of single steps is not the cause: {noise_nats:2} nats are allowed for it."},
    Wording{
        "LOSS.NOT_FALLING",
        "above_floor",
        "The loss that the ranks report falls, but it ends {above_floor_nats:3} nats above the "
        "floor of its source. "
        "It must come within {reach_nats} nats.",
        "The draw of the tokens is not the cause: the floor is that of the same tokens.",
        "Look at what the loss compares first: `step_is_oracle` judges labels and mean. Then look "
        "whether the model sees what the source draws on, and at the learning rate and the "
        "number of steps."},
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
            "point",
            "Between its two steps, point {point} of the sweep holds {found:MiB} of tensors. "
            "Weights, moments and masters of its model are {wanted:MiB}.",
            "The allocator is not the cause: bytes of tensors were counted.",
            "Look for gradients that are not dropped after a step, and for a graph that is kept."},
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
    Wording{"MEM.EXPONENT",
            "largest",
            "From one to the next of the three largest sizes, memory grows with {op} to the power "
            "of {low:3} to {high:3}. At most {most} was expected.",
            "The smaller sizes are not the cause: only the three largest were compared.",
            "",
            "exponent"},
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
