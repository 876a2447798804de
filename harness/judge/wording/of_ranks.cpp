#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::string_view kOtherOperation =
    "Collective {sequence} of group {group} was not the same on all ranks. {issued}.";

constexpr std::string_view kNotTheTransport =
    "The transport is not the cause: each rank wrote its record before it handed the operation "
    "over.[ The {agreed:collective} before it agree.][ PyTorch's flight recorder, which shares "
    "nothing with these records, shows it too: {second}.]";

constexpr std::string_view kOtherFlight =
    "Collective {sequence} of group {group}, as PyTorch counts them, was not the same on all "
    "ranks. "
    "{issued}.";

constexpr std::string_view kNotTheScript =
    "It is no claim of the script: PyTorch's flight recorder took it down when each rank handed "
    "the operation over.[ The {agreed:collective} before it that it still holds agree.]";

constexpr std::string_view kCompareRanks =
    "[Look at what {ranks} {ranks?does|do} differently here: a condition on rank, data or sizes. "
    "]Compare the code of the ranks at this point. Without a majority, either may be wrong.";

constexpr std::string_view kOneMore =
    "{More} issued {extra:collective}[ in {step}] that {fewer} did not issue. The first one is "
    "collective {sequence} of group {group} ({operation}).";

constexpr std::string_view kWithoutIt =
    "A crossed order is not the cause of this: without what is extra, both issued each operation "
    "equally often in this step, as far as their records go.";

constexpr std::string_view kWhoIsWrong =
    "Find out which of the two is wrong: does {more} do something twice, or does {fewer} leave it "
    "out?";

constexpr std::string_view kOtherPlan =
    "The plan of {bucket} in {step} was not the same on all ranks. {plans}.";

constexpr std::string_view kComparePlans =
    "Register parameters in the same order and with the same shapes on every rank. Compare the "
    "models.";

constexpr std::array kRankWords = {
    // collectives_agree
    Wording{"DESYNC.SIZE", "collective", kOtherOperation, kNotTheTransport, kCompareRanks},
    Wording{"DESYNC.OP", "collective", kOtherOperation, kNotTheTransport, kCompareRanks},
    Wording{"DESYNC.SIZE", "flight", kOtherFlight, kNotTheScript, kCompareRanks},
    Wording{"DESYNC.OP", "flight", kOtherFlight, kNotTheScript, kCompareRanks},
    Wording{"DESYNC.ORDER", "collective", kOtherOperation, kNotTheTransport},
    Wording{"DESYNC.SIZE", "extra", kOneMore, kWithoutIt, kWhoIsWrong},
    Wording{"DESYNC.OP", "extra", kOneMore, kWithoutIt, kWhoIsWrong},
    Wording{"DESYNC.SIZE", "plan", kOtherPlan, "", kComparePlans},
    Wording{"DESYNC.ORDER", "plan", kOtherPlan, "", kComparePlans},
    Wording{"DESYNC.MISSING_RANK",
            "absent",
            "{Ranks} never issued collective {sequence} of group {group} ({operation}). {Others} "
            "did.",
            "A crash of {ranks} is not the cause: {ranks?it|they} ended well or {ranks?was|were} "
            "still alive."},
    Wording{
        "COMM.DTYPE",
        "record",
        "In {step}, {ranks} summed gradients in {found} ({all_reduces:all-reduce}). {asked} was "
        "asked for.",
        "The gradients themselves are not the cause: their buckets hold {asked}."},
    // matches_twin
    Wording{
        "COMM.DTYPE",
        "values",
        "The reduced gradient of {differing:parameter} ({params}) on {where} has lost digits in "
        "{step}: its {narrowed} are numbers of bfloat16. The error is {bound:3} times the "
        "bound of what was asked for.",
        "It is no other error: as {narrowed} of bfloat16 every number is right."},
    // gradients_agree
    Wording{"DESYNC.ORDER",
            "crossed",
            "All-reduces of one size were crossed in {step}[, on {ranks}]: the sum that one rank "
            "holds for one parameter is, bit for bit, another rank's sum for another one. This "
            "concerns {params}.",
            "A wrong gradient of one rank is not the cause: no rank would then hold the sum of "
            "another parameter.",
            "",
            "params"},
    Wording{"COMM.EXTRA",
            "extra",
            "{Ranks} reduced gradients {all_reduces:time} in {step}, for {buckets:bucket}.[ "
            "{before_the_last_micro_batch} of these ran before the last micro-batch.]",
            "Another bucket plan is not the cause: the plan is the one recorded in this step. Maps "
            "of unused parameters were not counted."},
    Wording{
        "GRAD.NOT_REDUCED",
        "gradients",
        "The gradients of {step} were not reduced.[ {differing} of {total} differ between ranks "
        "after the reduction ({params}).][ The reducer did not finish: {unfinished}.][ {Silent} "
        "recorded no all-reduce of gradients.]",
        "[It is no rounding: {differing:hash} differ, and a reduced gradient has the same bits "
        "on every rank.]"},
    // buckets_as_asked
    Wording{"COMM.BUCKETS",
            "too_large",
            "In {step}, {bucket} of {ranks} holds {found_bytes:MiB} of gradients. Buckets of "
            "{asked_bytes:MiB} were asked for.",
            "A large gradient is not the cause: without its largest one ({largest_bytes:MiB}) the "
            "bucket would have been full before."},
    Wording{"COMM.BUCKETS",
            "too_small",
            "In {step}, {bucket} of {ranks} holds {found_bytes:MiB} of gradients. Buckets of "
            "{asked_bytes:MiB} were asked for.",
            "What is left over at the end is not the cause: a larger bucket of the step is not "
            "full either."},
    // parameters_agree
    Wording{"STATE.DIVERGED",
            "tie",
            "After {step}, the tied head of {ranks} is not the {tie}: the head multiplies with a "
            "tensor "
            "of its own.",
            "The update is not the cause: there is one parameter, and it was updated once.",
            "Look for what copies the weight after the two were tied: a load, a move to another "
            "device, "
            "a conversion, a wrapper."},
    Wording{"STATE.DIVERGED",
            "majority",
            "After {step}, {count} of {total:parameter} differ between ranks ({params}). {Ranks} "
            "{ranks?is|are} not with the majority.",
            "[An earlier step is not the cause: all parameters agreed after step {agreed_after}.]"},
    Wording{"STATE.DIVERGED",
            "no_majority",
            "After {step}, {count} of {total:parameter} differ between ranks ({params}). Without a "
            "majority, the wrong rank is not known.",
            "[An earlier step is not the cause: all parameters agreed after step {agreed_after}.]"},
};

}  // namespace

std::span<const Wording> words_of_ranks() {
  return kRankWords;
}

}  // namespace harness
