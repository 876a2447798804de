#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::array kMachineWords = {
    // machine_sound
    Wording{"INFRA.STALE_BUILD",
            "sources",
            "{Who} ran a program that was built from the sources {found}. This program is built "
            "from {wanted}.",
            "It is no change of this moment: both hashes were compiled in."},
    Wording{"INFRA.GPU_BUSY",
            "others",
            "Somebody else used the card of {ranks}.[ While the rank let it rest, kernels ran in "
            "{busy} % of the time.][ Before the rank had anything there, {held_bytes:MiB} of its "
            "memory were in use.][ Between two steps {came_bytes:MiB} came that are not the "
            "rank's.][ The driver lists {processes:other process} there.]",
            "The model is not the cause: the rank had nothing on the card, or the memory is not "
            "that of its allocator."},
    Wording{"INFRA.COMM_CORRUPT",
            "known_sum",
            "After {step}, {ranks} {ranks?holds|hold} a wrong sum over the ranks, of "
            "{elements:element} ({dtype}).[ By its own count {wrong} of them are wrong on the "
            "worst rank.][ Element {element} is {found} and must be {wanted}.] This concerns "
            "{sizes:bucket} of that step and {steps:step} of the run.",
            "Neither model nor reducer is the cause: the addends are integers drawn from the seed, "
            "and this sum goes past the reducer. No rounding is: every partial sum is exact."},
};

}  // namespace

std::span<const Wording> words_of_machine() {
  return kMachineWords;
}

}  // namespace harness
