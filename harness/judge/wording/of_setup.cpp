#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::array kSetupWords = {
    // resume_equal
    Wording{"RESUME.DIVERGED",
            "scratch",
            "{Ranks} started from scratch: step 1 was done again although a snapshot was there.",
            "The interruption did not come before the first snapshot: the record shows that one "
            "had been written.",
            "Look at how the newest snapshot is found: its folder, its name, and what happens when "
            "it cannot be read."},
    Wording{"RESUME.DIVERGED",
            "diverged",
            "After the resume from step {resumed_after_step}, {ranks} {ranks?differs|differ} from "
            "the uninterrupted twin from {step} on. These parts differ first: {parts}.[ Then "
            "{count:parameter} {count?differs|differ} ({params}).]",
            "The training itself is not the cause: every hash was the twin's until the "
            "interruption."},
    Wording{"RESUME.DIVERGED",
            "read_back",
            "After the resume from step {resumed_after_step}, {ranks} {ranks?differs|differ} from "
            "the uninterrupted twin. These parts differ as they were read back: {parts}.[ Then "
            "{count:parameter} {count?differs|differ} ({params}).]",
            "The training itself is not the cause: every hash was the twin's until the "
            "interruption, and these differ before a step is made."},
    Wording{"RESUME.DIVERGED",
            "other_step",
            "After the resume from step {resumed_after_step}, {ranks} went on with step {found}, "
            "not with step {wanted}.",
            "It is no state that was not read back: the first step that was begun after the "
            "snapshot had been read is another one."},
    Wording{"RESUME.TORN",
            "torn",
            "The snapshot of {step} on {ranks} holds {count} of {total:tensor} ({tensors}) as they "
            "were not when it was asked for. These parts are of another step: {parts}.",
            "Reading it back is not the cause: the file itself was compared."},
    // data_distinct
    Wording{"DATA.SOURCE",
            "source",
            "{Ranks} did not read the source that was asked for.",
            "It is no other place in the same data: the hash of the source itself differs."},
    Wording{"DATA.SOURCE", "sources", "The ranks did not read the same source."},
    Wording{"DATA.SOURCE",
            "tokens",
            "{Ranks} trained on other tokens than seed, step and rank give, in {places:sequence}. "
            "The first is {first}.",
            "It is no duplicate: the hashes are those of no other rank and of no earlier batch."},
    Wording{"DATA.DUPLICATE",
            "ranks",
            "{Ranks} read the same sequence in {places:place}. The first is {first}.",
            "[The text does not repeat itself there: the twin's batches for these ranks "
            "{twin}.]"},
    Wording{"DATA.DUPLICATE",
            "again",
            "{Ranks} trained again on a sequence that it had before, in {places:place}. The first "
            "is {first}, which repeats {before}.",
            "The text does not repeat itself there: the twin's batches for these places differ.",
            "Look at what advances the loader of this rank: its step, epoch or iterator."},
    Wording{"DATA.RNG",
            "masks",
            "{Ranks} drop the same numbers of the residual stream, from {step} on.",
            "It is no coincidence: the twin's masks for these ranks differ."},
    // ran_route
    Wording{"ROUTE.REFUSED",
            "refused",
            "For {op}, {requested} was asked for. It refused: it cannot do {reason}.",
            "It is no fallback: no other implementation of {op} counted a run of its own.",
            "Ask for another implementation of {op} in `route`, or change what the reason names."},
    Wording{"ROUTE.MISMATCH",
            "other",
            "For {op}, {requested} was asked for. What ran calls itself {effective}, on {ranks}[, "
            "{layers}]; this is its own statement."},
    Wording{"ROUTE.MISMATCH",
            "never",
            "{requested} was asked for in {op}, and it never ran on {ranks}[, {layers}]: its own "
            "counter "
            "stayed at zero."},
    Wording{"ROUTE.MISMATCH",
            "no_backward",
            "For {op}, {requested} ran forward on {ranks}[, {layers}], and counted no backward of "
            "its own.",
            "",
            "Look at `gradients_arrived`: something between this seam and the loss is cut out of "
            "the graph."},
    Wording{"ROUTE.MISMATCH",
            "precision",
            "The precision of the case makes {requested} of what a linear map gives. What W_Q gave "
            "is {effective}, on {ranks}[, {layers}].",
            "It does not rest on what an implementation says of itself: it is the type of the "
            "recorded queries.",
            "Follow training.precision to the forward: a cast or an autocast that is not there."},
    Wording{"ROUTE.MISMATCH",
            "graph",
            "{wanted:step} should have been launched as one CUDA graph. {Ranks} counted "
            "{runs:run} of {ranks?its own|their own}.",
            "It does not rest on the configuration: a launch is counted where it is made.",
            "Look at what decides between a launch and a step of the host."},
    Wording{"ROUTE.MISMATCH",
            "map_missing",
            "The Reducer of {ranks} was asked for static_graph {static_graph} and find_unused "
            "{find_unused}. Asked so it reduces a map of used parameters in this step. By "
            "{ranks?its own|their own} record of collectives it did not.",
            "It does not rest on the configuration: it is what was reduced.",
            "Follow parallel.ddp to the constructor of DistributedDataParallel."},
    Wording{"ROUTE.MISMATCH",
            "map_unasked",
            "The Reducer of {ranks} was asked for static_graph {static_graph} and find_unused "
            "{find_unused}. Asked so it reduces no map of used parameters in this step. By "
            "{ranks?its own|their own} record of collectives it did.",
            "It does not rest on the configuration: it is what was reduced.",
            "Follow parallel.ddp to the constructor of DistributedDataParallel."},
    Wording{"ROUTE.MISMATCH",
            "not_broadcast",
            "{Ranks} trained without the values of rank 0: by {ranks?its own|their own} record of "
            "collectives {found} of {wanted:parameter} were broadcast before the first step.",
            "Equal values are no evidence against it: equal seeds give them, until a seed differs.",
            "Look at what wraps the model: it broadcasts the parameters of rank 0 before the "
            "first step."},
    Wording{"ROUTE.MISMATCH",
            "view_missing",
            "Gradients of {ranks} were asked to be views of the Reducer's buckets. By {ranks?its "
            "own|their own} record they lie in memory of their own.",
            "It does not rest on the configuration: it is where the gradients lie.",
            "Follow parallel.ddp to the constructor of DistributedDataParallel."},
    Wording{"ROUTE.MISMATCH",
            "view_unasked",
            "By {ranks?its own|their own} record gradients of {ranks} are views of the Reducer's "
            "buckets, and nobody asked for it.",
            "It does not rest on the configuration: it is where the gradients lie.",
            "Follow parallel.ddp to the constructor of DistributedDataParallel."},
    Wording{"ROUTE.MISMATCH",
            "kernels",
            "The device ran {kernel} of FlashAttention-2 {runs:time}. {asked} should have launched "
            "it {wanted:time}.",
            "It does not rest on what an implementation says of itself: it is the trace of the "
            "device.",
            "Look at what the implementation calls, and at what that call dispatches to."},
    Wording{"ROUTE.MISMATCH",
            "kernels_unasked",
            "The device ran {kernel} of FlashAttention-2 {runs:time}, and nobody had asked for it.",
            "It does not rest on what an implementation says of itself: it is the trace of the "
            "device.",
            "Look at what the implementation calls, and at what that call dispatches to."},
    Wording{"DATA.WRONG",
            "data",
            "From {step} on, the tokens of {batches?a batch|several batches} on {ranks} are not "
            "those of the "
            "source.[ This explains every wrong number: {known}.][ Each of these mistakes explains "
            "every wrong number: {laws}.]",
            "The record of the loader is not the cause: every token that entered the model was "
            "computed again."},
    Wording{"DATA.WRONG",
            "point",
            "{found} tokens entered the model at point {point} of the sweep. Its sizes ask for "
            "{wanted}.",
            "The report is not the cause: the tokens were counted where they enter the model.",
            "Look at what draws the tokens of a point."},
    Wording{"INIT.WRONG",
            "initial_values",
            "On {ranks}, {count:parameter} ({params}) {count?does|do} not begin with values of "
            "{count?its|their} law.[ This explains every wrong number: {known}.][ Each of these "
            "mistakes explains every wrong number: {laws}.]",
            "Chance is not the cause: the tests fail one healthy model in 10^9."},
    Wording{
        "GATE.OVERRIDE",
        "learned",
        "In {layers} on {ranks}, the gates of {row_count} of {rows_in_all} rows are the learned "
        "ones, although constant gates were asked for.",
        "The gate network is not the cause: its values are exactly those of the recorded "
        "queries."}};

}  // namespace

std::span<const Wording> words_of_setup() {
  return kSetupWords;
}

}  // namespace harness
