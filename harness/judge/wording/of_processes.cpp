#include <array>

#include "harness/judge/wording/find_wording.h"

namespace harness {
namespace {

constexpr std::string_view kNotTheController =
    "The controller did not do it: its record holds no signal to this process.";

constexpr std::string_view kNotSlow =
    "[It is not slow: between two looks no counter moved, and they show {seen}.][ What {unread} "
    "waited in could not be read, so a wait with a time limit cannot be told from one without.]";

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): only literals can be joined into one
#define NSA_ONLY_ITS_WORDS                                                                       \
  "[ Only the words \"{words}\" of the message tell what kind of error it is: neither its type " \
  "nor its origin does.]"

constexpr std::array kProcessWords = {
    // process_clean
    Wording{"CRASH.SIGNAL",
            "signal",
            "{Ranks} {ranks?was|were} ended by {signal}[ in {step}][, phase {phase}].[ The kernel "
            "{core}.][ The kernel {memory}, and nothing tells which: memory may be the cause.]"
            "[ {ranks?It|They} had entered collective {sequence} and not left it.]",
            kNotTheController},
    Wording{"CRASH.SIGNAL",
            "teardown",
            "The controller ended {ranks}[ with {signal}].",
            "",
            "Read why the controller ended the case: see the finding of `progress`."},
    Wording{"CRASH.SIGNAL",
            "launcher",
            "{Ranks} {ranks?was|were} ended[ by {signal}] after another rank, or the command, had "
            "ended."},
    Wording{"CRASH.SIGNAL",
            "command_signal",
            "The command was ended by {signal}, although no rank had failed by itself.",
            kNotTheController},
    Wording{
        "OOM.HOST",
        "killed",
        "The kernel killed {ranks} for memory[ in {step}][, phase {phase}].",
        "It was no signal of another process: the kernel's count of kills for memory rose, and the "
        "ranks of this case held more than half of the memory."},
    Wording{"OOM.HOST",
            "raised",
            "{Ranks} could not allocate host memory[ in {step}][, phase {phase}][, in {op} of "
            "{layers}]. The message is \"{message}\"." NSA_ONLY_ITS_WORDS,
            "",
            "",
            "raised_by told_by"},
    Wording{"OOM.DEVICE",
            "raised",
            "{Ranks} could not allocate device memory[ in {step}][, phase {phase}][, in {op} of "
            "{layers}]. The message is \"{message}\"." NSA_ONLY_ITS_WORDS,
            "",
            "",
            "raised_by told_by device_code"},
    Wording{"CRASH.DEVICE",
            "raised",
            "The device of {ranks} reported an error[ in {step}][, phase {phase}][, in {op} of "
            "{layers}]. The message is \"{message}\"." NSA_ONLY_ITS_WORDS,
            "",
            "",
            "raised_by told_by device_code"},
    Wording{"CRASH.EXCEPTION",
            "raised",
            "{Ranks} raised an exception[ in {step}][, phase {phase}][, in {op} of {layers}]. The "
            "message is \"{message}\".",
            "",
            "",
            "raised_by"},
    Wording{"CRASH.EXCEPTION",
            "reducer",
            "The reducer of gradients raised an error on {ranks}[ in {step}][, phase {phase}]. The "
            "message is \"{message}\"." NSA_ONLY_ITS_WORDS,
            "",
            "Compare what the loss reaches on each rank (`gradients_arrived`), and how often each "
            "parameter becomes ready.",
            "raised_by told_by"},
    Wording{"CRASH.EXCEPTION",
            "communication",
            "{Ranks} raised an error of communication[ in {step}][, phase {phase}]. The message "
            "is \"{message}\"." NSA_ONLY_ITS_WORDS,
            "[It is no error of its own: {peers} had ended before or at the same time.]",
            "[Read how {peers} ended. ]Then compare what the ranks were sending: see "
            "`collectives_agree`.",
            "raised_by told_by"},
    Wording{"CRASH.EXCEPTION",
            "exit",
            "{Ranks} exited with code {exit_code}[ in {step}][, phase {phase}] and did not say "
            "why."},
    Wording{"CRASH.EXCEPTION",
            "exit_early",
            "{Ranks} exited with code 0[ in {step}][, phase {phase}] before the work was done, "
            "and did not say why."},
    Wording{"CRASH.EXCEPTION",
            "left",
            "{Ranks} exited with code 0[ in {step}][, phase {phase}] while {peers} still "
            "communicated.",
            "It is no error of {peers}: no process had failed before the connection was closed.",
            "Find out why {ranks} ended so early: fewer batches than the others have, a return, an "
            "exit that hides an error. With `nsa_harness.train.watch` the step is known."},
    Wording{"CRASH.EXCEPTION",
            "exit_late",
            "{Ranks} reported that all was done, and then exited with code {exit_code}."},
    Wording{"CRASH.EXCEPTION",
            "exit_short",
            "{Ranks} reported that all was done after {step}. No later one was begun, and {steps} "
            "were asked for."},
    Wording{"CRASH.EXCEPTION",
            "command",
            "The command exited with code {exit_code}, although no rank had failed by itself."},
    // progress
    Wording{"HANG.HOST",
            "stopped",
            "{Ranks} {ranks?was|were} stopped: the process state was T in two samples.[ {Waiting} "
            "waited for {ranks?it|them}.]",
            "It is not slow: a stopped process runs no instruction.",
            "Find out who sent SIGSTOP: a debugger, a job scheduler or a terminal. SIGCONT lets "
            "the process go on.",
            "stacks"},
    Wording{"HANG.HOST",
            "standing",
            "{Ranks} stood still outside any collective[ in {step}][, phase {phase}][, "
            "{layers}].[ {Waiting} waited in a collective.][ PyTorch's flight recorder tells what "
            "they wait in: {flight}.][ What it wrote last could not be read: {unread_flight}.]",
            kNotSlow,
            "Read the stack: what does this rank wait for on the host (a lock, a file, a queue, a "
            "child)?",
            "stacks"},
    Wording{
        "HANG.HOST",
        "outlasted",
        "{Ranks} waited[ in {step}][, phase {phase}][, {layers}], in a call with a time limit, "
        "until the case was out of its budget of time.[ {Waiting} waited in a collective.][ "
        "PyTorch's flight recorder tells what they wait in: {flight}.][ What it wrote last could "
        "not be read: {unread_flight}.]",
        kNotSlow,
        "Read the stack: what does this rank wait for on the host, and why so long?",
        "stacks"},
    Wording{"HANG.KERNEL",
            "resident",
            "{Ranks} waited {still_ms} ms for a kernel[ in {step}][, phase {phase}][, {layers}]: "
            "in two looks it ran on the card, and it did not end.[ {Waiting} waited meanwhile.]",
            "It is not slow: before that, nothing in this phase had stood for longer than "
            "{longest_gap_ms} ms. "
            "It is no collective: none was under way on {ranks}.",
            "",
            "stacks"},
    Wording{"HANG.INIT",
            "absent",
            "{Ranks} never joined the rendezvous.",
            "It is no collective of the training: none had been issued.",
            "",
            "stacks"},
    Wording{"HANG.INIT",
            "together",
            "{Ranks} waited in the rendezvous.",
            "It is no collective of the training: none had been issued.",
            "",
            "stacks"},
    Wording{
        "HANG.INIT",
        "connecting",
        "{Ranks} met at the rendezvous, and NCCL had not connected them when the case's time was "
        "over.",
        "It is no collective of the training: none had been issued. No rank is missing: all are "
        "inside NCCL.",
        "Run the case again with NCCL_DEBUG=INFO: which network interface and which transport "
        "does NCCL choose? Then change one thing at a time: NCCL_SOCKET_IFNAME, "
        "NCCL_P2P_DISABLE=1, NCCL_CUMEM_ENABLE=0.",
        "stacks"},
    Wording{"HANG.COLLECTIVE",
            "waiting",
            "Every live rank waited inside a collective: {waits}.[ PyTorch's flight recorder tells "
            "so: {flight}.][ What it wrote last could not be read: {unread_flight}.]",
            kNotSlow,
            "",
            "stacks"},
    Wording{"HANG.COLLECTIVE",
            "unsaid",
            "Every live rank waited in a call whose time limit is minutes away, as libraries of "
            "communication set it.",
            kNotSlow,
            "Let ranks record their collectives: the two lines of nsa_harness.train in a script, "
            "observe 1 in a scenario. Then the collective and the rank that did not enter it are "
            "named.",
            "stacks"},
    Wording{"SLOW.HOST",
            "busy",
            "No counter moved, but {ranks} computed until the controller ended the case[ in "
            "{step}][, phase {phase}][, {layers}].[ The last two looks show {seen}.]",
            "It is not a hang: processor time was used until the end.",
            "Read the stack: a long operation, or a loop on the host that never ends.",
            "stacks unread"},
    Wording{"SLOW.HOST",
            "child",
            "No counter moved, but {ranks} had children that computed until the controller ended "
            "the case[ in {step}][, phase {phase}][, {layers}].[ The children are "
            "{children}.]",
            "It is not a hang: the processor time of the children moved until the end.",
            "Find out what the child does. A compiler needs more time, or a cache that is kept.",
            "stacks unread seen"},
    Wording{"SLOW.COMPILE",
            "child",
            "No counter moved, but {ranks} waited for compilers until the controller ended the "
            "case[ in {step}][, phase {phase}][, {layers}].[ The children are {children}.]",
            "It is not a hang: the processor time of the compilers moved until the end.",
            {},
            "stacks unread seen"},
    Wording{"SLOW.HOST",
            "disk",
            "No counter moved, but {ranks} read from or wrote to a disk until the controller "
            "ended the case[ in {step}][, phase {phase}][, {layers}].",
            "It is not a hang: the bytes read and written moved until the end.",
            "Look at which file is that large, or which disk is that slow.",
            "stacks unread seen"},
    Wording{"SLOW.HOST",
            "asleep",
            "{Ranks} waited for {still_ms} ms[ in {step}][, phase {phase}][, {layers}], in a call "
            "with a time limit, and then moved on. No counter of any rank moved meanwhile.",
            "It is not a hang: the rank moved on by itself. It is no long computation: two looks "
            "show it {seen}.",
            "Read the stack: what does this rank wait for on the host?",
            "stacks"},
    Wording{"SLOW.HOST",
            "computed",
            "{Ranks} computed for {still_ms} ms[ in {step}][, phase {phase}][, {layers}] without "
            "any counter moving. The twin did the same work and never needed more than {twin_ms} "
            "ms for one operation.",
            "It is not a hang: the rank moved on by itself. It is no busy machine: two looks show "
            "it {seen}.",
            "Read the stack: which operation or loop on the host does this rank run?",
            "stacks"},
    Wording{
        "SLOW.HOST",
        "budget",
        "The case used up its budget of time after {after_ms} ms[ in {step}][, phase {phase}].",
        "It is not a hang: a counter of {ranks} had moved {since_movement_ms} ms before the end.",
        "",
        "stacks"},
    Wording{
        "SLOW.SYNC_STORM",
        "more_than_twin",
        "On {ranks}, {op} of {layers} made the host wait for the device {host_waits_per_step:3} "
        "{host_waits_per_step?time|times} more in each step than on the twin.",
        "The implementation does not need these waits: on the twin it ran on the same batches "
        "without them."},
    Wording{"OBSERVER.EFFECT",
            "end",
            "At observe {observe} the case {end}. At observe {other} it {other_end}.",
            "Options, data and seed are not the cause: the cases differ in `observe` alone."},
    Wording{"OBSERVER.EFFECT",
            "loss",
            "At observe {observe} the loss of {step} is {loss}. At observe {other} it is "
            "{other_loss}.",
            "Options, data and seed are not the cause: the cases differ in `observe` alone."},
    Wording{"OBSERVER.EFFECT",
            "state",
            "At observe {observe} the parameters of {ranks} after {step} are not those that they "
            "are at observe {other}.",
            "Options, data and seed are not the cause: the cases differ in `observe` alone. No "
            "loss that both recorded differs."},
    Wording{"SLOW.DATA",
            "late",
            "By its own clock, {ranks} waited {waited_ms} ms for the batch of {step}. The longest "
            "computation of a step took {longest_computation_ms} ms.",
            "It is not a hang: the batch came, and the case ended by itself."},
    Wording{"SLOW.DATA",
            "always",
            "By its own clock, {ranks} waited {waited_ms} ms for the batches of a step, and "
            "{computed_ms} "
            "ms for all the rest of it. Both are medians of {steps:step}.",
            "The batches come slower than the training takes them, from step to step."},
};

#undef NSA_ONLY_ITS_WORDS

}  // namespace

std::span<const Wording> words_of_processes() {
  return kProcessWords;
}

}  // namespace harness
