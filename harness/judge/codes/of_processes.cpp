#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::array kProcessCodes = {
    Code{
        {"CRASH.SIGNAL", Family::process, 10, Outcome::crash},
        {.meaning = "A signal that the controller did not send ended the process of a rank.",
         .confirmed_by =
             "The exit status names the signal, and the controller has no record that it sent one.",
         .next_action = "Read the end of the rank's stderr file and the kernel log (dmesg) at that "
                        "time. Find out who sends the signal, or which code aborts.",
         .witness = "The kernel, through the exit status that the controller reads. It shares "
                    "nothing with the rank."}},
    Code{{"CRASH.DEVICE", Family::process, 20, Outcome::crash},
         {.meaning = "The device reported an error, for example an illegal address in a kernel.",
          .confirmed_by = "The same operator fails again with CUDA_LAUNCH_BLOCKING=1, or "
                          "compute-sanitizer reports it.",
          .next_action = "Run the case again with CUDA_LAUNCH_BLOCKING=1. Then run the operator "
                         "that fails alone under compute-sanitizer.",
          .witness = "The exception that the rank raised: the error number of the device's "
                     "runtime, or the exception's type. Where neither tells it, the words of the "
                     "message do, and the finding says so."}},
    Code{{"OOM.HOST", Family::process, 30, Outcome::oom},
         {.meaning =
              "An allocation of host memory failed, or the kernel killed the rank for its memory.",
          .confirmed_by = "The memory limit of the machine or container is below the peak that the "
                          "report shows.",
          .next_action = "Compare the peak memory in the report with what the machine has. Reduce "
                         "batch size, sequence length or the number of ranks.",
          .witness =
              "The kernel's count of out-of-memory kills together with the peak memory of the "
              "case's ranks, which is more than half of what there is; or the exception that the "
              "rank raised: its type, or the words of its message, and then the finding says so."}},
    Code{{"OOM.DEVICE", Family::process, 40, Outcome::oom},
         {.meaning = "An allocation of device memory failed.",
          .confirmed_by = "The same case runs with a smaller batch or a shorter sequence.",
          .next_action = "Reduce batch size or sequence length, or checkpoint layers. `nsa-harness "
                         "run scenarios/sb_sweep.yaml` shows how memory grows.",
          .witness = "The exception that the rank raised: its type, or the error number of the "
                     "device's runtime. Where neither tells it, the words of the message do, and "
                     "the finding says so."}},
    Code{
        {"CRASH.EXCEPTION", Family::process, 560, Outcome::crash},
        {.meaning = "A rank raised an exception, or ended before its work was done.",
         .confirmed_by =
             "The rank's stderr file holds the same message, and the step and phase agree with it.",
         .next_action = "Read the message and the rank's stderr file. Step and phase say where in "
                        "the run it happened.",
         .witness = "The exit status that the controller reads, and the exception: its type and "
                    "the function that raised it. The words of its message decide only where these "
                    "tell nothing, and the finding says so."}},
};

}  // namespace

std::span<const Code> codes_of_processes() {
  return kProcessCodes;
}

}  // namespace harness
