#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::array kMachineCodes = {
    Code{
        {"INFRA.STALE_BUILD", Family::machine, 4},
        {.meaning = "A process ran a program that was built from other sources than this one. What "
                    "it shows says nothing of these sources.",
         .confirmed_by = "The hash of the sources that is compiled into the process is not that "
                         "of the program that started it.",
         .next_action = "Build again, and copy the new build to every machine that takes part. "
                        "Then run the case once more before anything else is concluded from it.",
         .witness = "The hash that each program carries since it was compiled, told by the "
                    "process when it begins, and compared by the controller with its own."}},
    Code{{"INFRA.GPU_BUSY", Family::machine, 6},
         {.meaning = "Somebody else used the card while the times of this case were taken. The "
                     "times are not to be judged.",
          .confirmed_by = "While the rank let its card rest, the driver told of kernels, of memory "
                          "that is not the rank's, or of other processes.",
          .next_action = "List the processes on the card with nvidia-smi, on the host if this is a "
                         "container. End those that are left over from earlier runs, or wait. Then "
                         "measure again.",
          .witness = "The driver's own figures of the whole card, asked by the rank. Which process "
                     "it is cannot be told where a container hides the others."}},
    Code{{"INFRA.COMM_CORRUPT", Family::machine, 8},
         {.meaning = "What carries numbers between the ranks gave back a wrong sum, although its "
                     "inputs were right.",
          .confirmed_by = "After a step the ranks add up integers that are drawn from the seed. "
                          "What a rank holds of that sum has other bits than the sum.",
          .next_action = "Repeat such a sum on the same cards and links with another program "
                         "(all_reduce_perf of nccl-tests with -c 1), of this size and type. Change "
                         "one thing at a time: NCCL_PROTO, NCCL_ALGO, NCCL_P2P_DISABLE, the "
                         "library's version, the card.",
          .witness = "The controller, which computes the sum from the seed by itself. It shares "
                     "no code with the ranks, and nothing of the model enters these sums. That the "
                     "ranks gave the right addends is their own word."}},
};

}  // namespace

std::span<const Code> codes_of_machine() {
  return kMachineCodes;
}

}  // namespace harness
