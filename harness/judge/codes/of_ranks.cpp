#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::string_view kRecord =
    "Each rank's own record of every collective, written before it is handed to the back end. It "
    "does not depend on what the back end makes of it.";

constexpr std::array kRankCodes = {
    Code{{"DESYNC.SIZE", Family::collective, 420},
         {.meaning =
              "Ranks issued a collective of different size at the same place in their sequence.",
          .confirmed_by =
              "The records of the ranks differ at this sequence number and agree before it.",
          .next_action = "Look at what these ranks do differently at this point: a condition on "
                         "rank, data or sizes.",
          .witness = kRecord}},
    Code{{"DESYNC.OP", Family::collective, 430},
         {.meaning = "Ranks issued different operations at the same place in their sequence of "
                     "collectives.",
          .confirmed_by =
              "The records of the ranks differ at this sequence number and agree before it.",
          .next_action = "Look at what these ranks do differently at this point: a condition on "
                         "rank, data or sizes.",
          .witness = kRecord}},
    Code{{"DESYNC.ORDER", Family::collective, 440},
         {.meaning = "Two ranks issued the same collectives in a different order.",
          .confirmed_by = "In one step both ranks issued each operation equally often, or equally "
                          "often but for what a finding beside this one calls extra; or sums of "
                          "two parameters are exchanged between ranks.",
          .next_action = "Compare the order in which these ranks make and reduce their gradients. "
                         "Hooks that depend on timing must not issue collectives.",
          .witness = kRecord}},
    Code{{"DESYNC.MISSING_RANK", Family::collective, 450},
         {.meaning = "A rank never issued a collective that the others issued.",
          .confirmed_by =
              "Its record ends earlier, although the rank ended well or was still alive.",
          .next_action = "Look for a loop that ends earlier on this rank: fewer batches, a stop "
                         "condition or an early return.",
          .witness = kRecord}},
    Code{{"COMM.EXTRA", Family::collective, 455},
         {.meaning =
              "Gradients were reduced more often than once for each bucket and optimiser step.",
          .confirmed_by =
              "The record of a step holds more all-reduces of gradients than the bucket plan.",
          .next_action =
              "Reduce only in the last micro-batch of a step, and put no_sync around the others.",
          .witness = kRecord}},
    Code{{"COMM.BUCKETS", Family::collective, 457},
         {.meaning = "Gradients were reduced in buckets of another size than was asked for.",
          .confirmed_by =
              "A bucket of the reducer's plan holds more without its largest gradient, or several "
              "hold less, than parallel.ddp.bucket_mb.",
          .next_action = "Follow parallel.ddp.bucket_mb from the scenario to the reducer.",
          .witness = "The reducer's plan as each rank recorded it in the step, and the sizes of "
                     "the recorded gradients."}},
    Code{{"COMM.DTYPE", Family::collective, 458},
         {.meaning = "Gradients travelled between ranks with fewer digits than were asked for, or "
                     "in another type.",
          .confirmed_by = "The recorded type of an all-reduce is not that of its bucket, or the "
                          "sums have the digits of bfloat16 alone.",
          .next_action = "Look for a communication hook, an autocast region or a default of the "
                         "wrapper that converts gradients before the all-reduce. Compare with "
                         "parallel.ddp.compress.",
          .witness = "Each rank's own record of the type, written before the back end gets the "
                     "tensor, and beside it the values: recorded gradients before and after the "
                     "reduction."}},
    Code{{"GRAD.NOT_REDUCED", Family::reduction, 470},
         {.meaning = "Gradients were not averaged over the ranks: they differ between ranks, or no "
                     "all-reduce ran.",
          .confirmed_by = "The hashes after the reduction differ, or the record of the step holds "
                          "no all-reduce.",
          .next_action = "Check that the forward goes through the wrapper that prepares the "
                         "reducer and that the step synchronises. With a static graph, check that "
                         "the delayed all-reduce is queued.",
          .witness = "Hashes of the gradients on all ranks and each rank's own record of its "
                     "collectives."}},
    Code{
        {"STATE.DIVERGED", Family::state, 520},
        {.meaning =
             "Parameters differ between ranks after an optimiser step, or a tied head is not the "
             "embedding.",
         .confirmed_by =
             "The hashes of the parameters differ after this step and agree before it. Of a "
             "tie: those of the two places on one rank differ.",
         .next_action = "If the reduced gradients agree (gradients_agree), compare optimiser, clip "
                        "norm and learning rate of the ranks. Otherwise mend the reduction first.",
         .witness =
             "Hashes of the parameters on all ranks. An error that all ranks share is not seen."}},
};

}  // namespace

std::span<const Code> codes_of_ranks() {
  return kRankCodes;
}

}  // namespace harness
