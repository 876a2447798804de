#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::array kGradientWords = {
    // gradients_arrived
    Wording{"GRAD.MISSING",
            "unreachable",
            "The loss does not lead to {count} of {total:parameter} ({params}) on {ranks} in "
            "{step}[ and {later_steps:later step}].",
            "The reduction is not the cause: the graph was walked before any backward ran."},
    Wording{"GRAD.MISSING",
            "none",
            "{count} of {total:parameter} ({params}) got no gradient on {ranks} in {step}[ and "
            "{later_steps:later step}], although the loss leads to {count?it|them}.[ Their "
            "gradients are handed on by the {op} of their layers.]",
            "A cut in the graph is not the cause: the walk from the loss arrives there.",
            "Look for a backward that returns an undefined gradient for this input, or an error "
            "that ended the backward."},
    // kernel_is_oracle
    Wording{"GRAD.MISSING",
            "kernel",
            "With the inputs {trial}, no {tensors} came back: for automatic differentiation the "
            "output does not depend on this input. The oracle's gradient is not zero.",
            "The forward is not the cause: it is the oracle's in these trials.",
            "Look for a detach(), a torch.no_grad(), a copy made of numbers, or a backward that "
            "returns None for this input."},
    Wording{"GRAD.NOT_FINALIZED",
            "unreachable_here",
            "On {ranks}, the loss does not lead to {count} of {total:parameter} ({params}) in "
            "{step}[ and {later_steps:later step}]. Other ranks reach {count?it|them}.",
            "The code of the model is not the only cause: other ranks reach the same parameters in "
            "the same step."},
    Wording{"GRAD.ZERO",
            "zero",
            "{count} of {total:parameter} ({params}) got a gradient that is zero in every element, "
            "on {ranks} in {step}[ and {later_steps:later step}].",
            "The gradient is not missing: the parameters were reached and became ready."},
    Wording{"GRAD.DOUBLE_READY",
            "twice",
            "{count} of {total:parameter} ({params}) became ready more than once in one backward, "
            "on {ranks} in {step}[ and {later_steps:later step}].",
            "Accumulation is not the cause: only the micro-batch that synchronises was counted."},
    Wording{"GRAD.HOOK_LOST",
            "lost",
            "{count} of {total:parameter} ({params}) lost the hook that starts the reduction, on "
            "{ranks} in {step}[ and {later_steps:later step}].",
            "They are not unused: the graph reaches them, through another accumulator than the one "
            "that was hooked."},
    // matches_twin
    Wording{
        "NUMERIC.GRADIENT",
        "twin",
        "On {ranks}, the local gradients of {differing} of {total:parameter} differ from the "
        "twin's in {step}. The backward reaches {params} first[, with a relative error of "
        "{error:3}].",
        "The reduction is not the cause: the gradients differ before it. No constant factor "
        "explains them.",
        "[Look at {layers}: `close_to_oracle` tells whether forward or backward is wrong there. "
        "]Compare the batches (`data_distinct`) and the parameters after earlier steps."},
    Wording{"GRAD.SCALE",
            "twin",
            "On {ranks}, the local gradients of {differing} of {total:parameter} are {factor:4} "
            "times the twin's in {step}.",
            "It is no rounding and no single operation: one factor explains every element.",
            "Look for a loss that is scaled, or averaged over another number of tokens, on this "
            "rank."},
    Wording{
        "NUMERIC.GRADIENT",
        "sum",
        "The reduced gradient of {differing:parameter} ({params}) on {where} is not the mean of "
        "the ranks' local gradients in {step}. The error is {bound:3} times the bound.",
        "It is no rounding: adding these numbers cannot lose so much. No constant factor "
        "explains it.",
        "Compare what each rank put into the bucket with its own local gradient, and look at "
        "the operation of the all-reduce."},
    Wording{
        "GRAD.SCALE",
        "tokens",
        "In {step}, the backward of {ranks} counts a micro-batch {factor:4} times as much as it "
        "should: {own_tokens} of the {tokens} tokens that the step scores are its own.[ This "
        "explains every wrong share: {known}.][ Each of these mistakes explains every wrong "
        "share: {laws}.]",
        "The loss of the micro-batch is not the cause: it is the mean over its own scored tokens.",
        "Divide the sum of the token losses by the number of scored tokens of all micro-batches "
        "and all ranks."},
    Wording{"GRAD.SCALE",
            "sum",
            "The reduced gradient on {where} is {factor:4} times the mean of the ranks' local "
            "gradients in {step}.",
            "It is no rounding: one factor explains every element. The local gradients are not the "
            "cause: the mean was taken of the recorded ones."},
    // equals_joint_batch
    Wording{
        "NUMERIC.GRADIENT",
        "joint",
        "In {step}, the reduced gradients of {differing} of {total:parameter} are not those of one "
        "pass over all sequences. The backward reaches {params} first, with a relative error "
        "of {error:3}.",
        "It is no rounding: both are computed in float64. No constant factor explains them.",
        "Look at what depends on how sequences are put into batches: the accumulation of "
        "micro-batches, the weights of their means, the reduction, and operators whose result "
        "depends on the size of the batch."},
    Wording{"GRAD.SCALE",
            "joint",
            "In {step}, the reduced gradients are {factor:4} times those of one pass over all "
            "sequences.",
            "It is no rounding and no single operation: one factor explains every element.",
            "Look at what the sum over micro-batches and ranks is divided by."},
    // close_to_oracle, close_to_reference
    Wording{"NUMERIC.GRADIENT",
            "layer",
            "In {layers} on {ranks}, {tensors} {tensors?differs|differ} from the oracle. The "
            "relative error is {error:3}[ {measure}], the limit {limit:3}.[ It is what the law "
            "{law} gives.][ "
            "This law: \"{about}\".][ Each of these laws gives it: {laws}.]",
            "The forward is not the cause: the oracle went back through the recorded one. The "
            "incoming gradient is not the cause: the oracle got the recorded one.[ The backward of "
            "the weights is not the cause: all gradients but {only} agree.]",
            "[Look at what else takes the input of this layer's attention, such as the residual: "
            "its gradient is part of {only}. ]Compare the backward of this part with its "
            "equation, head by head, on the recorded tensors.",
            "row_count rows_in_all"},
    Wording{"NUMERIC.GRADIENT",
            "reference",
            "In {layers}, {tensor} is {found:3} away from the oracle {measure}, the plain "
            "implementation {plain:3}. This is {share_of_budget:3} times what is allowed.",
            "Data type and device are not the cause: the plain implementation ran with the same "
            "input and weights on both.",
            "Look at where this back end rounds: accumulators, probabilities, the order of sums."},
    // checkpoint_equal
    Wording{"CKPT.DTYPE",
            "dtype",
            "{Layers} {layers?was|were} recomputed in another data type on {ranks}: {dtypes}.",
            "The inputs are not the cause: the layer got what it had got forward. It is no "
            "rounding: operators put out another data type."},
    Wording{"CKPT.SELECTION_FLIP",
            "blocks",
            "{Layers} chose other blocks when recomputed on {ranks}, in {row_count} of "
            "{rows_in_all} rows. The gradient belongs to another function.",
            "Another data type is not the cause: both computations put out the same."},
    Wording{"CKPT.GRADIENT",
            "output",
            "Layer {first} put out other numbers when it was recomputed on {ranks}.[ {Others} did "
            "so too, and the backward reaches layer {first} first.]",
            "Data type and chosen blocks are not the cause: both are the same in the "
            "recomputation."},
    Wording{"CKPT.GRADIENT",
            "gradient",
            "Layer {first} has other gradients on {ranks} than without checkpointing.[ {Others} "
            "put out other numbers when recomputed.]",
            "Later layers are not the cause: their gradients are the twin's. The forward is not "
            "the cause: it was recomputed bit by bit.",
            "Look at the gradients that the recomputation returns, and their order. The backward "
            "of the layer itself may be wrong: `close_to_oracle` tells."},
    Wording{"CKPT.GRADIENT",
            "exchanged",
            "Gradients of layer {first} are exchanged between parameters on {ranks}: each of "
            "{params} has, bit for bit, the gradient that another one has without "
            "checkpointing.[ {Others} put out other numbers when recomputed.]",
            "The backward of the layer is not the cause: its numbers are right, and go to the "
            "wrong parameters. The forward is not the cause: it was recomputed bit by bit.",
            "Look at the order in which the recomputation returns its gradients."},
    Wording{"INPLACE.MODIFIED",
            "tensor",
            "{Tensor}[ of {layers}] was overwritten on {ranks} after the forward saved it for the "
            "backward[, in {elements:element}].[ Autograd reports \"{message}\".]",
            "The forward itself is not the cause: the values were right when they were saved."},
    Wording{"INPLACE.MODIFIED",
            "autograd",
            "A tensor that the backward needs was overwritten on {ranks}. Autograd reports "
            "\"{message}\"."},
    Wording{
        "NUMERIC.GRADIENT",
        "between",
        "In {step}, the gradient of a stage between the attention layers ({op}[, in block "
        "{layers}]) on {ranks} is not the one of the oracle.[ This explains every wrong number: "
        "{known}.][ Each of these mistakes explains every wrong number: {laws}.]",
        "The attention and the forward are not the cause: the recorded forward is right, and "
        "the gradients that enter the stage are on record.",
        "Compare the backward of {op} with its equation."},
    Wording{"NUMERIC.GRADIENT",
            "kept",
            "In {step}, the gradients on {ranks} are not those of the oracle. This explains every "
            "wrong "
            "number: {known}, times {factor:4}.",
            "The backward is not the cause: what it adds is right.",
            "Look at what sets gradients to zero, or drops them, between two steps."},
    Wording{"NUMERIC.GRADIENT",
            "mean",
            "In {step}, {count:gradient} on {ranks} ({params}) {count?is|are} not the mean over "
            "micro-batches and ranks.[ This explains every wrong number: {known}.][ Each of these "
            "mistakes explains every wrong number: {laws}.]",
            "No micro-batch is the cause: its gradients are on record, and this is not their mean.",
            "Look at what sums and divides gradients: accumulation, buckets and the reduction."},
    Wording{
        "NUMERIC.GRADIENT",
        "kernel",
        kOfKernel,
        "The forward is not the cause: it is the oracle's in these trials. The incoming gradient "
        "is not the cause: the oracle got the same one.",
        "Compare the backward of {op} with its equation on the trial's tensors, head by head.",
        "row_count rows_in_all call"}};

}  // namespace

std::span<const Wording> words_of_gradients() {
  return kGradientWords;
}

}  // namespace harness
