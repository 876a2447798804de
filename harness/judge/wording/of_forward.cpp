#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::string_view kWrongByLaw =
    "In {layers} on {ranks}, {tensors} {tensors?differs|differ} from the oracle in {row_count} of "
    "{rows_in_all} rows. The relative error is {error:3}[ {measure}], the limit {limit:3}.[ Every "
    "wrong row is "
    "what the law {law} gives.][ This law: \"{about}\".][ Each of these laws gives every wrong "
    "row: "
    "{laws}.]";

constexpr std::string_view kOnlyThisLaw =
    "It is no rounding: the limit covers it.[ It is no other mistake that the oracle knows: only "
    "{law} gives all wrong rows from the recorded inputs.][ It is no mistake of another kind that "
    "the oracle knows: only {laws} give all wrong rows from the recorded inputs.]";

constexpr std::string_view kOfKernel =
    "With the inputs {trial}, {tensors} {tensors?differs|differ} from the oracle[ in {row_count} "
    "of "
    "{rows_in_all} rows]. The relative error is {error:3}[ {measure}], the limit {limit:3}.[ Two "
    "calls with the same inputs gave different outputs, in {varying:number}.][ It is wrong in "
    "{call} alone.][ It is what the law {law} gives.][ This law: \"{about}\".][ Each of "
    "these laws gives it: {laws}.]";

constexpr std::string_view kOfKernelOnly =
    "It is no rounding: the limit covers it. The inputs are not the cause: the oracle got the same "
    "ones.";

constexpr std::string_view kEmptySlots =
    "Leave out the slots behind the last block of a list, whatever they hold: in the softmax and "
    "in "
    "its backward.";

constexpr std::array kForwardWords = {
    // kernel_is_oracle, kernel_causal
    Wording{"MASK.ALIGNMENT", "kernel", kOfKernel, kOfKernelOnly},
    Wording{"MASK.POLARITY", "kernel", kOfKernel, kOfKernelOnly},
    Wording{"MASK.ABSENT", "kernel", kOfKernel, kOfKernelOnly},
    Wording{"OVERFLOW.INDEX", "kernel", kOfKernel, kOfKernelOnly},
    Wording{"RANGE.INVALID", "kernel", kOfKernel, kOfKernelOnly, kEmptySlots},
    Wording{
        "NUMERIC.FORWARD",
        "kernel",
        kOfKernel,
        kOfKernelOnly,
        "Compare {op} with its equation on the trial's tensors, in the first row that is wrong."},
    Wording{"NAN.ORIGIN",
            "kernel",
            "With the inputs {trial}, {tensors} {tensors?is|are} not finite[ in {row_count} of "
            "{rows_in_all} rows].[ It is wrong in {call} alone.][ Of these rows it is known: "
            "{about}.]",
            "The inputs are not the cause: they are finite, and the oracle gives finite numbers "
            "from them. Nothing else is wrong.",
            "Give rows without any key zeros instead of a softmax over nothing, in the backward "
            "too; look for an overflow and a division by zero."},
    Wording{"SELECTION.WRONG",
            "kernel_score",
            "With the inputs {trial}, the scores of {row_count} of {rows_in_all} rows are not what "
            "the queries and compressed keys give.[ It is wrong in {call} alone.][ It is what the "
            "law {law} gives.][ This law: \"{about}\".][ Each of these laws gives it: {laws}.]",
            "It is no rounding: the error is above a strict bound on it. The inputs are not the "
            "cause: the oracle got the same ones.",
            "Look at the overlap map, the mask and the precision of the scores."},
    Wording{"SELECTION.WRONG",
            "kernel_select",
            "With the inputs {trial}, {row_count} of {rows_in_all} rows chose other blocks than "
            "the scores demand.[ In {tie_rows} of them, blocks of equal score were taken in "
            "another order.][ It is wrong in {call} alone.][ It is what the law {law} gives.][ "
            "This law: \"{about}\".][ Each of these laws gives it: {laws}.]",
            "Scores and near ties are not the cause: the oracle chose by the same scores.",
            "Look at the choice: forced blocks, score descending, index ascending among equal "
            "scores."},
    Wording{"SELECTION.WRONG",
            "kernel_list",
            "With the inputs {trial}, {row_count} of {rows_in_all} rows hold no valid list of "
            "blocks: ascending, each block once, then the sentinel.[ It is wrong in {call} alone.]",
            "The scores are not the cause: no scores give such a list.",
            "Look at how the list is sorted, and at duplicates of forced blocks."},
    Wording{"RANGE.INVALID",
            "kernel_blocks",
            "With the inputs {trial}, {row_count} of {rows_in_all} rows chose a block that lies "
            "after the query or outside the sequence.[ It is wrong in {call} alone.]",
            "The scores are not the cause: no score may choose a block that the query cannot see."},
    Wording{
        "CAUSALITY.LEAK",
        "kernel_forward",
        "With the inputs {trial}, {tensor} before position {perturbed_from} changed when only the "
        "inputs from there on changed, in {places}.[ Two calls with the same inputs differ by at "
        "most {noise:3}, and this is more than eight times as much.]",
        "It is no rounding and no chance: all that these rows may see has the same bits in both "
        "trials."},
    Wording{
        "CAUSALITY.LEAK",
        "kernel_backward",
        "With the inputs {trial}, no gradient came in from position {perturbed_from} on, but "
        "{tensor} is not zero there, in {places}.",
        "The forward is not the cause: what comes before the position has the same bits in both "
        "trials.",
        "Look at the mask in the backward of {op}."},
    // close_to_oracle, selection_valid
    Wording{"RANGE.INVALID",
            "blocks",
            "In {layers} on {ranks}, {row_count} of {rows_in_all} rows chose a block that lies "
            "after the query or outside the sequence.",
            "The scores are not the cause: no score may choose a block that the query cannot see."},
    Wording{"SELECTION.WRONG",
            "score",
            "In {layers} on {ranks}, the scores of {row_count} of {rows_in_all} rows are not what "
            "the recorded queries and compressed keys give.[ Every wrong row is what the law {law} "
            "gives.][ This law: \"{about}\".][ Each of these laws gives every wrong row: {laws}.]",
            "It is no rounding: the error is above a strict bound on it. Queries and compressed "
            "keys are not the cause: the oracle used the recorded ones.",
            "Look at the overlap map, the mask and the precision of the scores."},
    Wording{
        "SELECTION.WRONG",
        "select",
        "In {layers} on {ranks}, {row_count} of {rows_in_all} rows chose other blocks than the "
        "recorded scores demand.[ In {tie_rows} of them, blocks of equal score were taken in "
        "another order.][ Every wrong row is what the law {law} gives.][ This law: \"{about}\".][ "
        "Each of these laws gives every wrong row: {laws}.]",
        "The scores and near ties are not the cause: the choice was compared with the recorded "
        "scores themselves.",
        "Look at the choice: forced blocks, score descending, index ascending among equal "
        "scores."},
    Wording{"SELECTION.WRONG",
            "list",
            "In {layers} on {ranks}, {row_count} of {rows_in_all} rows hold no valid list of "
            "blocks: ascending, each block once, then -1.",
            "The scores are not the cause: no scores give such a list.",
            "Look at how the list is sorted, and at duplicates of forced blocks."},
    Wording{"MASK.ALIGNMENT", "law", kWrongByLaw, kOnlyThisLaw},
    Wording{"MASK.POLARITY", "law", kWrongByLaw, kOnlyThisLaw},
    Wording{"MASK.ABSENT", "law", kWrongByLaw, kOnlyThisLaw},
    Wording{"OVERFLOW.INDEX", "law", kWrongByLaw, kOnlyThisLaw},
    Wording{"RANGE.INVALID", "law", kWrongByLaw, kOnlyThisLaw, kEmptySlots},
    Wording{"NUMERIC.FORWARD",
            "law",
            kWrongByLaw,
            kOnlyThisLaw,
            "Look at {op} for exactly this mistake."},
    Wording{"NUMERIC.FORWARD",
            "plain",
            "In {layers} on {ranks}, {tensors} {tensors?differs|differ} from the oracle[ in "
            "{row_count} of {rows_in_all} rows]. The relative error is {error:3}[ {measure}], the "
            "limit "
            "{limit:3}.[ Each of these laws gives every wrong row: {laws}.]",
            "It is no rounding: the limit covers it. Earlier operations are not the cause: the "
            "oracle used the recorded inputs."},
    Wording{
        "NUMERIC.FORWARD",
        "whole",
        "In {layers} on {ranks}, {tensors} {tensors?differs|differ} from what the oracle gives "
        "from the layer's input. The relative error is {error:3}[ {measure}], the limit {limit:3}.",
        "No single operation is the cause: each one is right for the inputs that were recorded "
        "for it.",
        "Look at what lies between the recorded tensors: copies, conversions and reshapes."},
    Wording{"NUMERIC.FORWARD",
            "reference",
            "In {layers}, {tensor} is {found:3} away from the oracle {measure}, the plain "
            "implementation {plain:3}. This is {share_of_budget:3} times what is allowed.",
            "Data type and device are not the cause: the plain implementation ran with the same "
            "input and weights on both.",
            "Look at where this back end rounds: accumulators, probabilities, the order of sums."},
    // repeats_equal
    Wording{
        "NUMERIC.FORWARD",
        "calls",
        "In {layers}, {tensor} of {op} is not the same when it is called again on equal inputs: "
        "{row_count:row} {row_count?differs|differ}.[ Call {call} is the one that differs from "
        "the two others.]",
        "The inputs and their shapes are not the cause: they are the same, bit by bit.",
        "Look at what one call does and another one does not: a tuner that runs on the live "
        "buffer, an output that is added to, a workspace that is not cleared."},
    Wording{
        "DETERMINISM.SELECTION",
        "calls",
        "In {layers}, {tensor} of {op} is not the same when it is called again on equal inputs: "
        "{row_count:row} {row_count?differs|differ}.[ Call {call} is the one that differs from "
        "the two others.]",
        "The inputs and their shapes are not the cause: they are the same, bit by bit."},
    Wording{"DESYNC.SELECTION",
            "picks",
            "In {layers}, ranks with the same inputs chose other blocks in {step}.[ {Ranks} "
            "{ranks?is|are} not with the others.]",
            "The inputs are not the cause: the scores have the same bits on all ranks."},
    Wording{"RACE.STREAM",
            "forward",
            "In {layers}, {tensor} of {op} depends on which stream of the card comes first: "
            "{row_count:row} {row_count?differs|differ} where {late} from the calls in which "
            "operators waited for each other.",
            "The operations are not the cause: one after the other they gave equal bits, twice."},
    Wording{"RACE.STREAM",
            "backward",
            "In {layers}, gradients depend on which stream of the card comes first: {tensors} "
            "differ where {late} from the calls in which operators waited for each other.",
            "The operations are not the cause: one after the other they gave equal bits, twice. "
            "Nor is the forward: it is the same in all calls."},
    Wording{"RACE.STREAM",
            "reduced",
            "In {step}, {count:reduced gradient} ({params}) on {ranks} {count?depends|depend} on "
            "which stream of the card comes first. Where {late}, {count?it differs|they differ} "
            "from the backward in which operators waited for each other.",
            "Forward and operations are not the cause: one after the other, the same step gave "
            "equal bits twice.",
            "Look at what makes these gradients on another stream than that of the backward: a "
            "hook, a scaling, a check. The reduction must wait for an event of that stream."},
    Wording{"DETERMINISM.BATCH",
            "placed",
            "In {layers}, {tensor} of {op} is not the same for one sequence where it is computed "
            "{placed}: "
            "{row_count:row} {row_count?differs|differ}.",
            "It is no rounding: another order of sums cannot do as much. Earlier operations are "
            "not the cause: what they gave is the same."},
    // causal
    Wording{"CAUSALITY.LEAK",
            "forward",
            "In {layers}, {tensor} before position {perturbed_from} changed when only the input "
            "from there on changed, in {places}.[ {Follow} changed with it.]",
            "It is no rounding and no chance: all inputs of this stage have the same bits in both "
            "passes."},
    Wording{"CAUSALITY.LEAK",
            "backward",
            "In {layers}, the gradient of the first {perturbed_from} positions reaches later rows: "
            "{places}.",
            "The forward is not the cause: the prefix has the same bits in both passes. The "
            "incoming gradient is zero in these rows.",
            "Look at the mask in the backward of the attention branches."},
    // close_to_oracle
    Wording{"CAUSALITY.LEAK",
            "document",
            "In {layers} on {ranks}, {op} of packed documents crosses their border: {about}. "
            "{tensors} {tensors?differs|differ} from the oracle in {row_count} of {rows_in_all} "
            "rows. The relative error is {error:3}[ {measure}], the limit "
            "{limit:3}.",
            "It is no rounding: the limit covers it. Earlier operations are not the cause: with "
            "what was recorded of all documents, this mistake gives every wrong row.",
            "Look at where {op} is told the lengths of documents (cu_seqlens): offsets and counts "
            "of its keys must be those of the query's own document."},
    // unmutated
    Wording{"ALIAS.MUTATED",
            "written",
            "The implementation of {written_by} wrote into {tensor} that it was given, in "
            "{elements:element}[, {layers}], on {ranks}. Seen by: {seen_by}.",
            "Later code is not the cause: the tensor was compared directly before and after the "
            "call."},
    Wording{"ALIAS.MUTATED",
            "touched",
            "The implementation of {written_by} raised the version counter of {tensor} that it was "
            "given[, {layers}], on {ranks}. No number of it is another one.",
            "It is no wrong result that has this cause: all numbers were compared before and after "
            "the call. Autograd may refuse the tensor."},
    // finite
    Wording{
        "NAN.UNINIT",
        "operator",
        "A number that is not finite came from memory that nobody wrote, {direction}[, in "
        "{elements:element}][, in {seam}][ of {layers}], on {ranks} in {step}.[ It is first seen "
        "in {seen}.]",
        "It is no arithmetic: no operator made a number that is not finite out of finite "
        "inputs."},
    Wording{"NAN.UNINIT",
            "recorded",
            "The first number that is not finite is in the record: {seen}, on {ranks} in {step}.[ "
            "{later:later place} {later?is|are} not finite either.]",
            "It is no arithmetic: memory was poisoned with NaN, and no operator made this one."},
    Wording{"NAN.ORIGIN",
            "operator",
            "Operator {operator} made the first number that is not finite out of finite inputs, "
            "{direction}[, in {elements:element}][, in {seam}][ of {layers}], on {ranks} in "
            "{step}.[ It is first seen in {seen}.]",
            "[No earlier operator is the cause: the inputs of this one were finite (the largest is "
            "{largest_input:3}).]"},
    Wording{"NAN.ORIGIN",
            "infinite",
            "Operator {operator} made the first NaN out of an infinity that it was given, "
            "{direction}[, in {elements:element}][, in {seam}][ of {layers}], "
            "on {ranks} in {step}.[ It is first seen in {seen}.]",
            "",
            "Find where the infinity comes from: an overflow, a loss scale that is too large, or a "
            "row whose scores are all masked. A step whose gradients overflow must be skipped."},
    Wording{
        "NAN.ORIGIN",
        "written",
        "Operator {operator} wrote a NaN that it was given as a number, {direction}[, in "
        "{elements:element}][, in {seam}][ of {layers}], on {ranks} in {step}.[ It is first "
        "seen in {seen}.]",
        "It is no arithmetic and no memory that nobody wrote: the tensors that the operator was "
        "given held no NaN, and the number was one.",
        "Find who passes NaN as a number here: a fill, a constant, or a division on the host."},
    Wording{
        "NAN.ORIGIN",
        "keyless",
        "Operator {operator} made the first number that is not finite, {direction}[, in {seam}][ "
        "of {layers}], on {ranks} in {step}. Its rows have no key.[ It is first seen in {seen}.]",
        "[No earlier operator is the cause: the inputs of this one were finite (the largest is "
        "{largest_input:3}).]",
        "Give rows without any key zeros instead of a softmax over nothing, in the backward "
        "too.",
        "elements"},
    Wording{"NAN.ORIGIN",
            "recorded",
            "The first number that is not finite is in the record: {seen}, on {ranks} in {step}.[ "
            "{later:later place} {later?is|are} not finite either.]",
            "No earlier place in the record is the cause: everything before it is finite."},
    // decode_equal, reads_count
    Wording{"DECODE.MISMATCH",
            "position",
            "Position {position} of {layers}, decoded alone after a prompt of {prompt_tokens} "
            "tokens, differs from the whole sequence.[ The relative error is {error:3}, the limit "
            "{limit:3}.][ It chose other blocks: {other}.][ In the layer, {op} differs "
            "first.][ {later:later layer} {later?differs|differ} too.]",
            "No earlier layer is the cause: those agree in every position."},
    Wording{"DECODE.MISMATCH",
            "position_too",
            "In {layers}, {op} of tokens decoded alone after a prompt of {prompt_tokens} tokens "
            "differs from the whole sequence too.",
            "What else differs in the layer is not the cause: nothing that {op} is made of "
            "differs, or, of a cache, it does not hold what was appended to it."},
    Wording{"READS.MISMATCH",
            "count",
            "Branch {branch} reports {found:token} read for position {position}. The keys that it "
            "may see are {wanted}. {wrong:counter} {wrong?is|are} wrong in {layers}.[ At the end, "
            "the cache of the branch holds {held}.][ All of them are those of {elsewhere}.]",
            "Another choice of blocks is not the cause: the keys were counted in the blocks that "
            "were recorded for this position."},
    // gate_alive
    Wording{
        "GATE.DEAD",
        "steps",
        "The gates of {layers} on {ranks} have the same bits in all steps, from step {first_step} "
        "to step {last_step}.",
        "Equal inputs are not the cause: every step reads other tokens."},
    Wording{
        "GATE.DEAD",
        "weights",
        "In {step}, no weight of the gates of {layers} on {ranks} has a gradient other than zero: "
        "they cannot move.",
        "The optimiser is not the cause: it has no gradient to follow here."},
    Wording{"GATE.DEAD",
            "rows",
            "The gates of {layers} on {ranks} are the same for all rows, from step {first_step} to "
            "step {last_step}.",
            "Equal inputs are not the cause: the rows hold different tokens."},
    Wording{"GATE.COLLAPSED",
            "branch",
            "The gates of {layers} on {ranks} give branch {branch} everything, from step "
            "{first_step} to step {last_step}.",
            "A few rows are not the cause: the gates hardly differ between rows."},
    Wording{"NUMERIC.FORWARD",
            "between",
            "In {step}, a stage between the attention layers ({op}[, after {layers}]) on "
            "{ranks} is not the one of the oracle.[ This explains every wrong number: {known}.][ "
            "Each of these mistakes explains every wrong number: {laws}.][ {reader} made what it "
            "makes of the right numbers: what is wrong is the record, or a copy.]",
            "The attention is not the cause: the stream was computed from the outputs of the "
            "attention layers that are on record.",
            "Compare {op} with its equation."}};

}  // namespace

std::span<const Wording> words_of_forward() {
  return kForwardWords;
}

}  // namespace harness
