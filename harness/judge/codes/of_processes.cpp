#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::string_view kSupervision =
    "The controller, from outside: it reads states, waits and processor time in /proc. Counters in "
    "heartbeats and the frames of stacks come from the rank.";

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
              "case's ranks, which is more than half of what there is. Or the exception that the "
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
    Code{
        {"OBSERVER.EFFECT", Family::progress, 405},
        {.meaning = "The same case ends otherwise, or computes other numbers, when it is watched "
                    "less closely.",
         .confirmed_by = "The cases differ in `observe` alone. Repeat each level some times: what "
                         "comes at one level only depends on the watching.",
         .next_action = "Look for what the close watching hides: a read before the device is done, "
                        "a missing event between streams, a wake-up that comes too early. Look "
                        "with the level that shows it.",
         .witness = "Two cases of one run. The controller sees how their processes ended; losses "
                    "and hashes come from the ranks."}},
    Code{{"HANG.HOST", Family::progress, 410, Outcome::hang},
         {.meaning =
              "A rank stands still on the host, outside any collective. Its peers may wait for it.",
          .confirmed_by = "No counter of any rank moved. Two looks from outside show no processor "
                          "time and a wait without a time limit, or wake-ups that moved nothing.",
          .next_action = "Read the rank's stack: what does it wait for on the host (a lock, a "
                         "file, a queue, a child)? If it was stopped, find out who sent SIGSTOP.",
          .witness = kSupervision}},
    Code{
        {"HANG.KERNEL", Family::progress, 412, Outcome::hang},
        {.meaning = "A kernel runs on the card and does not end. Its rank waits for it.",
         .confirmed_by = "No counter moved for 20 times as long as ever before, and at least 30 s. "
                         "In two looks the rank waits inside the driver at the same place, in no "
                         "collective, and the driver says that a kernel runs all the time.",
         .next_action =
             "Run the implementation of this layer alone, with the same sizes and inputs, "
             "under compute-sanitizer (synccheck). Look for what a block waits for: a "
             "barrier that not all threads reach, a tile or flag that nobody writes, "
             "such as that of a row without keys.",
         .witness = "The driver's own figure of how busy the card is, and the stacks of the rank. "
                    "Another process on the card would show in that figure too: `doctor` lists "
                    "those there are."}},
    Code{{"HANG.INIT", Family::progress, 415, Outcome::hang},
         {.meaning = "The ranks never began: at least one did not join the rendezvous, or NCCL did "
                     "not connect those that had met.",
          .confirmed_by = "All ranks stand still before the first collective.",
          .next_action = "Check that as many processes were started as the group expects, and that "
                         "they use the same address and port.",
          .witness = kSupervision}},
    Code{{"HANG.COLLECTIVE", Family::progress, 530, Outcome::hang},
         {.meaning = "Every live rank waits inside a collective that does not complete.",
          .confirmed_by = "No counter moved, and each rank's record holds a collective that it "
                          "entered and did not leave.",
          .next_action = "Look at `collectives_agree`: do all ranks issue the same operation? If "
                         "they do, look at the transport.",
          .witness = kSupervision}},
    Code{{"SLOW.HOST", Family::progress, 540, Outcome::slow},
         {.meaning = "The case was slow, not stuck: it worked until it was ended, or nothing moved "
                     "for a long time and then it moved on.",
          .confirmed_by = "Counters moved, or processor time, disk or children did; or a wait with "
                          "a time limit ended.",
          .next_action = "Raise budget.seconds, or look for a loop on the host (per token, per "
                         "block) in this phase.",
          .witness = kSupervision}},
    Code{{"SLOW.COMPILE", Family::progress, 542, Outcome::slow},
         {.meaning = "A rank waited for a compiler until the case was ended. It is no hang.",
          .confirmed_by = "No counter moved, and the only children of the rank that used the "
                          "processor between two looks are compilers, assemblers or linkers.",
          .next_action = "Let one process compile before the others start, and keep its cache: "
                         "TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR. Or "
                         "raise budget.seconds, and the time limit of the group.",
          .witness = "The names and the processor time of the rank's children, which the kernel "
                     "tells the controller."}},
    Code{{"SLOW.SYNC_STORM", Family::progress, 545, Outcome::slow},
         {.meaning =
              "An operator makes the host wait for the device much more often than on the twin.",
          .confirmed_by = "The count of host waits for each call is higher than the twin's for the "
                          "same operator.",
          .next_action = "Look for .item(), nonzero or a printed statistic in this operator. Keep "
                         "such values on the device and read them once a step.",
          .witness = "A count of the operators that LibTorch tags as reading a tensor's numbers, "
                     "and of copies from a device to the host, in the rank and in the twin. A back "
                     "end that waits by calling the device's runtime itself is not seen."}},
    Code{
        {"SLOW.DATA", Family::progress, 550, Outcome::slow},
        {.meaning = "A rank waited for its batch much longer than any computation of a step takes.",
         .confirmed_by = "The data phase took more than three seconds and more than five times the "
                         "longest computation.",
         .next_action = "Look at the loader of this rank: storage, decoding, a cold cache. "
                        "Prefetch the next batch.",
         .witness = "The times at which the rank entered its phases: its own statement, stamped by "
                    "the rank."}}};

}  // namespace

std::span<const Code> codes_of_processes() {
  return kProcessCodes;
}

}  // namespace harness
