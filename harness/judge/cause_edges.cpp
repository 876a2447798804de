#include "harness/judge/cause_edges.h"

#include <algorithm>
#include <array>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

constexpr std::array kEdges = {
    // How a process ended, and what its peers make of it.
    Edge{"CRASH.SIGNAL", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.DEVICE", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"OOM.", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/raised", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/raised", "GRAD.NOT_REDUCED", Tie::same_step},
    Edge{"CRASH.EXCEPTION/reducer", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/exit", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/exit_early", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/left", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"CRASH.EXCEPTION/exit_late", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"process", "HANG.COLLECTIVE", Tie::peer},
    Edge{"process", "HANG.INIT", Tie::peer},
    Edge{"process", "DESYNC.MISSING_RANK", Tie::same_rank},
    Edge{"HANG.HOST", "CRASH.EXCEPTION/communication", Tie::peer},
    Edge{"HANG.HOST", "DESYNC.MISSING_RANK", Tie::same_rank},
    Edge{"HANG.COLLECTIVE", "CRASH.EXCEPTION/communication", Tie::same_sequence},
    Edge{"OBSERVER.EFFECT/end", "HANG.", Tie::whole_run},
    Edge{"OBSERVER.EFFECT/end", "process", Tie::whole_run},
    Edge{"MEM.BUDGET/tensors", "OOM.", Tie::same_rank},
    Edge{"MEM.BUDGET/resident", "OOM.HOST", Tie::same_rank},
    // A transport that adds up wrong spoils the gradients that go through it, and what is made of them.
    Edge{"INFRA.COMM_CORRUPT", "NUMERIC.GRADIENT/sum", Tie::same_step},
    Edge{"INFRA.COMM_CORRUPT", "NUMERIC.GRADIENT/mean", Tie::same_step},
    Edge{"INFRA.COMM_CORRUPT", "GRAD.NOT_REDUCED", Tie::same_step},
    Edge{"INFRA.COMM_CORRUPT", "NUMERIC.GRADIENT/twin", Tie::later_step},
    Edge{"INFRA.COMM_CORRUPT", "STATE.DIVERGED", Tie::same_rank},
    // Ranks that do not do the same: a back end may abort one of them, or wait.
    Edge{"DESYNC.+collective", "CRASH.SIGNAL/signal", Tie::same_sequence},
    Edge{"DESYNC.+collective", "CRASH.EXCEPTION/communication", Tie::same_sequence},
    Edge{"DESYNC.+collective", "CRASH.EXCEPTION/reducer", Tie::same_sequence},
    Edge{"DESYNC.+collective", "HANG.COLLECTIVE", Tie::same_sequence},
    Edge{"DESYNC.+collective", "reduction", Tie::same_step},
    Edge{"DESYNC.+collective", "NUMERIC.GRADIENT/sum", Tie::same_step},
    Edge{"DESYNC.+collective", "NUMERIC.GRADIENT/mean", Tie::same_step},
    Edge{"DESYNC.+collective", "STATE.DIVERGED", Tie::same_rank},
    // A resumed run that is another one.
    Edge{"RESUME.TORN", "RESUME.DIVERGED", Tie::same_rank},
    Edge{"RESUME.TORN", "SCALER.WRONG/reported", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "data", Tie::same_rank},
    // The rate depends on nothing else of what is read back. It moves the weights alone: of what else was not read back, the
    // moments of that step would tell.
    Edge{"SCHEDULE.LR", "RESUME.DIVERGED/diverged!schedule!moments", Tie::same_rank},
    Edge{"RESUME.DIVERGED/scratch", "SCHEDULE.LR", Tie::same_fact},
    // Of a step that is done twice the files are those of the second time, and what is told is of both.
    Edge{"RESUME.DIVERGED/other_step", "update", Tie::same_rank},
    Edge{"RESUME.DIVERGED#schedule", "SCHEDULE.LR", Tie::same_fact},
    Edge{"RESUME.DIVERGED", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "STATE.DIVERGED", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "OPT.UPDATE_WRONG", Tie::same_rank},
    Edge{"RESUME.DIVERGED#moments", "OPT.UPDATE_WRONG/optimizer", Tie::same_fact},
    Edge{"RESUME.DIVERGED", "SCALER.WRONG", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "NAN.ORIGIN@optimizer", Tie::same_rank},
    Edge{"RESUME.DIVERGED", "LOSS.BELOW_FLOOR", Tie::whole_run},
    Edge{"RESUME.DIVERGED", "LOSS.NOT_FALLING", Tie::whole_run},
    // Other data gives other gradients.
    Edge{"data", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"data", "GRAD.SCALE/twin", Tie::same_rank},
    Edge{"data", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"data", "LOSS.BELOW_FLOOR", Tie::whole_run},
    Edge{"data", "LOSS.NOT_FALLING", Tie::whole_run},
    // Of another sequence, other documents: what is in them is judged by the borders of the right one.
    Edge{"DATA.WRONG#documents", "forward", Tie::same_fact},
    Edge{"DATA.WRONG#documents", "backward", Tie::same_fact},
    Edge{"DATA.RNG", "NUMERIC.FORWARD@dropout", Tie::same_step},
    Edge{"DATA.RNG", "NUMERIC.GRADIENT@dropout", Tie::same_step},
    Edge{"CKPT.GRADIENT", "NUMERIC.GRADIENT@dropout", Tie::same_step},
    // A head that is no longer the embedding gives other logits, and gives the embedding no gradient.
    Edge{"STATE.DIVERGED/tie", "NUMERIC.FORWARD@lm_head", Tie::same_rank},
    Edge{"STATE.DIVERGED/tie", "NUMERIC.GRADIENT@embed", Tie::same_step},
    Edge{"STATE.DIVERGED/tie", "NUMERIC.GRADIENT@lm_head", Tie::same_rank},
    Edge{"STATE.DIVERGED/tie", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"STATE.DIVERGED/tie", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"STATE.DIVERGED/tie", "STATE.DIVERGED/majority", Tie::one_side},
    Edge{"STATE.DIVERGED/tie", "STATE.DIVERGED/no_majority", Tie::one_side},
    // A layer that begins with zeros multiplies the gradients of its other parameters by them.
    Edge{"INIT.WRONG", "GRAD.ZERO", Tie::same_layer},
    Edge{"INIT.WRONG", "GATE.DEAD", Tie::same_layer},
    Edge{"INIT.WRONG", "GATE.COLLAPSED", Tie::same_layer},
    Edge{"DATA.SOURCE/source", "DATA.SOURCE/tokens", Tie::same_rank},
    // The twin, or another rank, finds what the oracle finds.
    Edge{"DATA.SOURCE", "DATA.WRONG", Tie::same_fact},
    Edge{"DATA.DUPLICATE", "DATA.WRONG", Tie::same_fact},
    Edge{"DATA.SOURCE/sources", "DATA.SOURCE/tokens", Tie::same_rank},
    // Another implementation than the one that was asked for.
    Edge{"ROUTE.MISMATCH/other", "forward", Tie::same_tensors},
    Edge{"ROUTE.MISMATCH/never", "forward", Tie::same_tensors},
    Edge{"ROUTE.MISMATCH/other", "backward", Tie::same_tensors},
    Edge{"ROUTE.MISMATCH/other", "NUMERIC.GRADIENT/twin", Tie::gradient_path},
    Edge{"ROUTE.MISMATCH/other", "ROUTE.MISMATCH/kernels", Tie::same_seam},
    Edge{"ROUTE.MISMATCH", "memory", Tie::same_tensor},
    Edge{"ROUTE.MISMATCH", "SLOW.SYNC_STORM", Tie::same_seam},
    Edge{"ROUTE.MISMATCH@checkpoint", "CKPT.", Tie::same_layer},
    Edge{"ROUTE.MISMATCH@grad_sync", "reduction", Tie::same_rank},
    Edge{"ROUTE.MISMATCH@grad_sync", "collective", Tie::same_rank},
    Edge{"ROUTE.MISMATCH@grad_sync", "NUMERIC.GRADIENT/sum", Tie::same_rank},
    Edge{"ROUTE.MISMATCH@optimizer", "update", Tie::same_rank},
    Edge{"ROUTE.MISMATCH@data", "data", Tie::same_rank},
    Edge{"GATE.OVERRIDE", "NUMERIC.FORWARD", Tie::downstream},
    // Forward. An oracle judges each operation from its recorded inputs: only what is written over, or is not a number, makes
    // later operations wrong in its eyes.
    Edge{"ALIAS.MUTATED", "forward", Tie::downstream},
    Edge{"ALIAS.MUTATED", "backward", Tie::same_layer},
    Edge{"ALIAS.MUTATED", "NUMERIC.GRADIENT/kernel", Tie::same_tensor},
    Edge{"ALIAS.MUTATED", "SLOW.SYNC_STORM", Tie::same_seam},
    // A copy that comes late writes into memory that others got meanwhile.
    Edge{"RACE.STREAM", "ALIAS.MUTATED", Tie::same_layer},
    Edge{"RACE.STREAM", "forward", Tie::downstream},
    Edge{"RACE.STREAM", "backward", Tie::same_layer},
    Edge{"NAN.", "forward", Tie::downstream},
    // It compares as unequal with itself; but it writes nothing over, and changes no type.
    Edge{"NAN.", "NUMERIC.GRADIENT", Tie::same_rank},
    Edge{"NAN.", "GRAD.ZERO", Tie::same_rank},
    Edge{"NAN.", "CKPT.GRADIENT", Tie::same_rank},
    Edge{"NAN.", "CKPT.SELECTION_FLIP", Tie::same_rank},
    Edge{"NAN.", "GRAD.NOT_REDUCED", Tie::same_step},
    // The rate of the schedule is computed from no tensor, and a number that became NaN is no lost update: it changed.
    Edge{"NAN.", "OPT.SKIPPED", Tie::same_rank},
    Edge{"NAN.", "OPT.UPDATE_WRONG", Tie::same_rank},
    Edge{"NAN.", "CLIP.WRONG", Tie::same_rank},
    Edge{"NAN.", "SCALER.WRONG/unscale", Tie::same_rank},
    Edge{"NAN.", "SCALER.WRONG/reported", Tie::same_rank},
    // A step that overflowed is taken: its gradient makes NaN of the state, and nothing of it arrives.
    Edge{"SCALER.WRONG/scaler", "NAN.ORIGIN@optimizer", Tie::same_rank},
    Edge{"SCALER.WRONG/scaler", "OPT.UPDATE_LOST", Tie::same_rank},
    // Counts that are told of a step are compared with whether it moved anything.
    Edge{"SCALER.WRONG/scaler", "SCALER.WRONG/reported", Tie::same_rank},
    Edge{"NAN.", "CRASH.EXCEPTION/raised", Tie::same_rank},
    Edge{"MASK.", "CAUSALITY.LEAK", Tie::same_tensor},
    Edge{"MASK.", "NUMERIC.FORWARD", Tie::same_tensor},
    Edge{"OVERFLOW.INDEX", "CAUSALITY.LEAK", Tie::same_tensor},
    Edge{"OVERFLOW.INDEX", "NUMERIC.FORWARD", Tie::same_tensor},
    Edge{"RANGE.INVALID", "SELECTION.WRONG", Tie::same_tensor},
    Edge{"RANGE.INVALID", "NUMERIC.FORWARD", Tie::same_tensor},
    Edge{"RANGE.INVALID", "CAUSALITY.LEAK", Tie::downstream},
    Edge{"RANGE.INVALID", "CRASH.", Tie::same_rank},
    Edge{"SELECTION.WRONG/list", "CRASH.", Tie::same_rank},
    Edge{"CAUSALITY.LEAK/forward", "SELECTION.WRONG", Tie::same_tensor},
    Edge{"CAUSALITY.LEAK/forward", "NUMERIC.FORWARD/plain", Tie::same_tensor},
    Edge{"CAUSALITY.LEAK/backward", "NUMERIC.GRADIENT/layer", Tie::same_tensor},
    Edge{"CAUSALITY.LEAK/kernel_forward", "SELECTION.WRONG", Tie::same_tensor},
    Edge{"CAUSALITY.LEAK/kernel_forward", "NUMERIC.FORWARD/kernel", Tie::same_tensor},
    Edge{"CAUSALITY.LEAK/kernel_backward", "NUMERIC.GRADIENT/kernel", Tie::same_tensor},
    Edge{"NUMERIC.FORWARD/law", "CAUSALITY.LEAK/forward", Tie::same_tensor},
    Edge{"NUMERIC.FORWARD/law", "NUMERIC.FORWARD", Tie::same_seam},
    Edge{"NUMERIC.FORWARD/plain", "NUMERIC.FORWARD", Tie::same_seam},
    // One of several calls is wrong: where it is the first, the oracle finds that one wrong.
    Edge{"NUMERIC.FORWARD/calls", "NUMERIC.FORWARD", Tie::same_tensor},
    Edge{"NUMERIC.FORWARD/calls", "CAUSALITY.LEAK/forward", Tie::same_tensor},
    Edge{"DETERMINISM.SELECTION", "SELECTION.WRONG", Tie::same_tensor},
    Edge{"DETERMINISM.SELECTION", "CAUSALITY.LEAK/forward", Tie::same_tensor},
    Edge{"NAN.", "DETERMINISM.", Tie::same_tensor},
    Edge{"DESYNC.SELECTION", "SELECTION.WRONG", Tie::same_tensor},
    Edge{"NUMERIC.FORWARD", "NUMERIC.FORWARD/reference", Tie::same_tensor},
    Edge{"NUMERIC.FORWARD", "NUMERIC.FORWARD/whole", Tie::downstream},
    Edge{"NUMERIC.FORWARD", "GRAD.MISSING", Tie::same_path},
    // A decoded token differs from the whole sequence first at one operation: a wrong whole sequence is the cause there alone.
    Edge{"forward", "DECODE.MISMATCH", Tie::same_tensor},
    // Keys are counted by the recorded blocks: only a mask, a list that is none, or another number of tokens held changes it.
    Edge{"MASK.", "READS.MISMATCH", Tie::same_tensor},
    Edge{"RANGE.INVALID", "READS.MISMATCH", Tie::same_path},
    Edge{"SELECTION.WRONG/list", "READS.MISMATCH", Tie::same_path},
    Edge{"DECODE.MISMATCH", "READS.MISMATCH", Tie::same_path},
    // Forward to the gradients of the same path. Those that an oracle judges go back through the recorded forward, and are not
    // judged where a wrong stage is in their way: a wrong forward makes none of them wrong.
    Edge{"forward", "NUMERIC.GRADIENT/reference", Tie::same_path},
    // A residual that takes the attention's input gives that input a gradient besides the attention's.
    Edge{"NUMERIC.FORWARD@residual", "NUMERIC.GRADIENT/layer", Tie::same_layer},
    Edge{"forward", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"forward", "GRAD.SCALE/twin", Tie::same_rank},
    Edge{"forward", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"forward", "GRAD.ZERO", Tie::same_path},
    Edge{"forward", "SLOW.SYNC_STORM", Tie::same_seam},
    Edge{"forward", "LOSS.NOT_FALLING", Tie::whole_run},
    Edge{"MASK.", "LOSS.BELOW_FLOOR", Tie::whole_run},
    Edge{"RANGE.INVALID", "LOSS.BELOW_FLOOR", Tie::whole_run},
    Edge{"CAUSALITY.LEAK", "LOSS.BELOW_FLOOR", Tie::whole_run},
    // The loss is downstream of everything forward, and every gradient of its rank is downstream of it.
    Edge{"LOSS.BELOW_FLOOR", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"LOSS.BELOW_FLOOR", "GRAD.SCALE/twin", Tie::same_rank},
    Edge{"LOSS.WRONG", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"LOSS.WRONG", "GRAD.SCALE/twin", Tie::same_rank},
    // Micro-batches that count too much or too little.
    Edge{"GRAD.SCALE/tokens", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"GRAD.SCALE/tokens", "GRAD.SCALE/twin", Tie::same_rank},
    Edge{"GRAD.SCALE/tokens", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"LOSS.WRONG", "LOSS.BELOW_FLOOR", Tie::same_rank},
    Edge{"LOSS.WRONG", "LOSS.NOT_FALLING", Tie::same_rank},
    // A parameter that the loss does not reach, or reaches twice.
    Edge{"graph", "ROUTE.MISMATCH/no_backward", Tie::same_layer},
    Edge{"graph", "GRAD.NOT_REDUCED", Tie::same_param},
    Edge{"graph", "CRASH.EXCEPTION/reducer", Tie::same_step},
    Edge{"graph", "CRASH.EXCEPTION/communication", Tie::same_step},
    Edge{"graph", "CRASH.SIGNAL/signal", Tie::same_sequence},
    Edge{"graph", "DESYNC.+collective", Tie::same_step},
    Edge{"graph", "HANG.COLLECTIVE", Tie::same_step},
    Edge{"graph", "NUMERIC.GRADIENT/layer", Tie::same_layer},
    Edge{"GRAD.MISSING", "NUMERIC.GRADIENT/layer", Tie::same_param},
    Edge{"graph", "NUMERIC.GRADIENT/twin", Tie::gradient_path},
    Edge{"graph", "NUMERIC.GRADIENT/sum", Tie::same_param},
    Edge{"graph", "CKPT.GRADIENT/gradient", Tie::gradient_path},
    Edge{"graph", "STATE.DIVERGED", Tie::same_param},
    Edge{"graph", "GATE.DEAD", Tie::same_tensor},
    Edge{"graph", "LOSS.NOT_FALLING", Tie::whole_run},
    Edge{"GRAD.HOOK_LOST", "GRAD.ZERO", Tie::same_param},
    // Inside the backward of a rank.
    Edge{"INPLACE.MODIFIED", "forward", Tie::same_layer},
    Edge{"INPLACE.MODIFIED", "CRASH.EXCEPTION/raised", Tie::same_rank},
    Edge{"INPLACE.MODIFIED", "GRAD.NOT_REDUCED", Tie::same_rank},
    Edge{"INPLACE.MODIFIED", "NUMERIC.GRADIENT", Tie::gradient_path},
    Edge{"INPLACE.MODIFIED", "CKPT.GRADIENT", Tie::gradient_path},
    Edge{"CKPT.DTYPE", "CKPT.GRADIENT", Tie::gradient_path},
    Edge{"CKPT.DTYPE", "CKPT.SELECTION_FLIP", Tie::same_layer},
    Edge{"CKPT.SELECTION_FLIP", "CKPT.GRADIENT", Tie::gradient_path},
    Edge{"CKPT.", "NUMERIC.GRADIENT/layer", Tie::same_layer},
    Edge{"CKPT.", "NUMERIC.GRADIENT/between", Tie::same_layer},
    Edge{"CKPT.", "ROUTE.MISMATCH/no_backward", Tie::same_layer},
    Edge{"CKPT.DTYPE", "NUMERIC.GRADIENT/twin", Tie::same_rank},  // the forward may be the odd one
    Edge{"CKPT.", "NUMERIC.GRADIENT/twin", Tie::gradient_path},
    // Every gradient of the rank holds what was left in it, in this step and in all later ones.
    Edge{"NUMERIC.GRADIENT/kept", "NUMERIC.GRADIENT/layer", Tie::same_rank},
    Edge{"NUMERIC.GRADIENT/kept", "NUMERIC.GRADIENT/mean", Tie::same_rank},
    Edge{"NUMERIC.GRADIENT/kept", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"NUMERIC.GRADIENT/kept", "GRAD.SCALE/twin", Tie::same_rank},
    Edge{"NUMERIC.GRADIENT/kept", "CKPT.GRADIENT/gradient", Tie::same_rank},
    // What a rank's micro-batches left before the last one is in its local gradient of the last one.
    Edge{"NUMERIC.GRADIENT@accumulate", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"NUMERIC.GRADIENT@accumulate", "CKPT.GRADIENT/gradient", Tie::same_rank},
    Edge{"GRAD.ZERO", "NUMERIC.GRADIENT", Tie::same_param},
    Edge{"GRAD.ZERO", "NUMERIC.GRADIENT", Tie::gradient_path},
    Edge{"GRAD.ZERO", "CKPT.GRADIENT/gradient", Tie::gradient_path},
    Edge{"GATE.DEAD", "GRAD.ZERO", Tie::same_tensor},
    Edge{"NUMERIC.GRADIENT/layer", "NUMERIC.GRADIENT/reference", Tie::same_layer},
    Edge{"NUMERIC.GRADIENT/layer", "NUMERIC.GRADIENT/twin", Tie::gradient_path},
    Edge{"NUMERIC.GRADIENT/layer", "CKPT.GRADIENT/gradient", Tie::gradient_path},
    Edge{"NUMERIC.GRADIENT/layer", "SLOW.SYNC_STORM", Tie::same_seam},
    Edge{"NUMERIC.GRADIENT/twin", "CKPT.GRADIENT/gradient", Tie::gradient_path},
    // One pass over all sequences is made by a process that is well: whatever made a gradient of this step wrong before it was
    // compared, on any rank, makes it differ.
    Edge{"data", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"data", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"forward", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"forward", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"LOSS.WRONG", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"LOSS.WRONG", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"graph", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"CKPT.", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"GRAD.SCALE/tokens", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"GRAD.SCALE/tokens", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"GRAD.SCALE/twin", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"GRAD.SCALE/twin", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"GRAD.SCALE/sum", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"GRAD.SCALE/sum", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"GRAD.NOT_REDUCED", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"GRAD.NOT_REDUCED", "GRAD.SCALE/joint", Tie::same_step},
    Edge{"COMM.DTYPE", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"DESYNC.+collective", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/layer", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/between", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/kept", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/twin", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/mean", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"NUMERIC.GRADIENT/sum", "NUMERIC.GRADIENT/joint", Tie::same_step},
    Edge{"backward", "GATE.DEAD", Tie::same_tensor},
    Edge{"backward", "LOSS.NOT_FALLING", Tie::whole_run},
    // Reduction, update, state of the parameters.
    // Reductions that are too many on some ranks alone are missing on the others. They make no order wrong.
    Edge{"COMM.BUCKETS", "DESYNC.SIZE/plan", Tie::one_side},
    Edge{"COMM.DTYPE/record", "COMM.DTYPE/values", Tie::same_step},
    Edge{"COMM.DTYPE", "NUMERIC.GRADIENT/mean", Tie::same_step},
    Edge{"COMM.DTYPE", "NUMERIC.GRADIENT/sum", Tie::same_step},
    Edge{"COMM.DTYPE", "NUMERIC.GRADIENT/twin", Tie::later_step},
    Edge{"COMM.DTYPE", "STATE.DIVERGED", Tie::one_side},
    Edge{"COMM.EXTRA", "DESYNC.SIZE/extra", Tie::same_step},
    Edge{"COMM.EXTRA", "DESYNC.OP/extra", Tie::same_step},
    Edge{"COMM.EXTRA", "GRAD.SCALE/sum", Tie::same_step},
    Edge{"COMM.EXTRA", "GRAD.NOT_REDUCED", Tie::same_step},
    Edge{"COMM.EXTRA", "NUMERIC.GRADIENT", Tie::same_rank},
    Edge{"COMM.EXTRA", "STATE.DIVERGED", Tie::one_side},
    Edge{"GRAD.SCALE/sum", "GRAD.NOT_REDUCED", Tie::same_step},
    // Two checks look at the mean over ranks where a step has several micro-batches.
    Edge{"GRAD.SCALE/sum", "NUMERIC.GRADIENT/mean@grad_sync", Tie::same_fact},
    Edge{"NUMERIC.GRADIENT/mean@grad_sync", "NUMERIC.GRADIENT/sum", Tie::same_fact},
    Edge{"GRAD.NOT_REDUCED", "NUMERIC.GRADIENT/sum", Tie::same_param},
    Edge{"GRAD.NOT_REDUCED", "NUMERIC.GRADIENT=rank_alone", Tie::same_fact},
    Edge{"GRAD.NOT_REDUCED", "CRASH.EXCEPTION/reducer", Tie::same_step},
    Edge{"GRAD.NOT_REDUCED", "COMM.EXTRA", Tie::later_step},
    Edge{"GRAD.NOT_REDUCED", "STATE.DIVERGED", Tie::same_param},
    Edge{"GRAD.SCALE", "STATE.DIVERGED", Tie::one_side},
    Edge{"NUMERIC.GRADIENT/sum", "STATE.DIVERGED", Tie::one_side},
    Edge{"reduction", "NUMERIC.GRADIENT/twin", Tie::later_step},
    // A scale that is too large overflows, and the step is left out. What is counted wrong is only told wrong.
    Edge{"SCALER.WRONG/scale", "OPT.SKIPPED/steps", Tie::same_rank},
    Edge{"SCALER.WRONG/reported", "OPT.SKIPPED/steps", Tie::same_rank},
    // Whoever leaves a step out past the scaler leaves its scale and its counts as they were.
    Edge{"OPT.SKIPPED/uncounted", "SCALER.WRONG", Tie::same_rank},
    Edge{"OPT.SKIPPED", "OPT.UPDATE_WRONG=step_skipped", Tie::same_fact},
    Edge{"OPT.UPDATE_WRONG/reported", "OPT.SKIPPED", Tie::same_rank},
    Edge{"OPT.UPDATE_WRONG/reported", "OPT.UPDATE_LOST", Tie::same_rank},
    Edge{"OPT.SKIPPED", "SCHEDULE.LR", Tie::same_rank},
    Edge{"OPT.UPDATE_LOST", "NUMERIC.GRADIENT/twin", Tie::same_rank},
    Edge{"OPT.UPDATE_LOST", "OPT.UPDATE_WRONG/optimizer", Tie::same_rank},
    Edge{"OPT.UPDATE_LOST", "OPT.UPDATE_WRONG=update_lost", Tie::same_fact},
    Edge{"OPT.UPDATE_LOST", "OPT.UPDATE_WRONG=p_kept_narrow", Tie::same_fact},
    Edge{"SCHEDULE.LR/zero", "OPT.UPDATE_WRONG=update_lost", Tie::same_fact},
    Edge{"OPT.UPDATE_LOST/left_out", "OPT.UPDATE_LOST/updates", Tie::same_param},
    Edge{"OPT.SKIPPED", "OPT.UPDATE_WRONG/optimizer", Tie::same_rank},
    Edge{"OPT.SKIPPED", "SCALER.WRONG/scaler", Tie::same_rank},
    Edge{"SCHEDULE.LR/rate", "SCHEDULE.LR/applied", Tie::same_fact},
    Edge{"SCHEDULE.LR/zero", "SCHEDULE.LR/applied", Tie::same_fact},
    Edge{"SCHEDULE.LR/micro_steps", "SCHEDULE.LR/applied", Tie::same_fact},
    Edge{"SCHEDULE.LR/skipped_steps", "SCHEDULE.LR/applied", Tie::same_fact},
    Edge{"SCHEDULE.LR/never_falls", "SCHEDULE.LR/applied", Tie::same_fact},
    Edge{"update", "NUMERIC.GRADIENT/twin", Tie::later_step},
    Edge{"update", "CKPT.GRADIENT/gradient", Tie::later_step},
    Edge{"update", "STATE.DIVERGED", Tie::one_side},
    Edge{"update", "STATE.DIVERGED", Tie::each_its_own},
    Edge{"update", "GATE.DEAD", Tie::same_rank},
    Edge{"update", "LOSS.NOT_FALLING", Tie::whole_run},
    Edge{"STATE.DIVERGED", "NUMERIC.GRADIENT/twin", Tie::later_step},
    Edge{"STATE.DIVERGED", "CKPT.GRADIENT/gradient", Tie::later_step},
    // Time and memory.
    Edge{"SLOW.DATA", "SLOW.HOST", Tie::same_rank},
    Edge{"SLOW.SYNC_STORM", "SLOW.HOST", Tie::same_rank},
    Edge{"MEM.BUDGET/operator", "MEM.BUDGET/prediction", Tie::whole_run},
    Edge{"MEM.BUDGET/operator", "MEM.EXPONENT", Tie::whole_run},
    Edge{"MEM.EXPONENT", "MEM.BUDGET/prediction", Tie::whole_run},
    // One defect that shows on several ranks or sizes.
    Edge{"NUMERIC.GRADIENT/twin", "NUMERIC.GRADIENT/twin", Tie::gradient_path},
    Edge{"MEM.BUDGET/prediction", "MEM.BUDGET/prediction", Tie::whole_run}};

bool fits_code(std::string_view pattern, const Finding& finding) {
  const std::size_t slash = pattern.find('/');
  const std::string_view code = pattern.substr(0, slash);
  if (slash != std::string_view::npos) {
    return finding.code == code && finding.variant == pattern.substr(slash + 1);
  }
  return std::string_view(finding.code).substr(0, code.size()) == code;
}

bool names_part(const Finding& finding, std::string_view part) {
  const nlohmann::json& detail = finding.site.detail;
  if (!detail.is_object() || !detail.contains("parts")) return false;
  const nlohmann::json& parts = detail.at("parts");
  return std::any_of(parts.begin(), parts.end(), [&](const nlohmann::json& one) {
    return one.is_string() && one.get_ref<const std::string&>() == part;
  });
}

}  // namespace

std::span<const Edge> all_edges() {
  return kEdges;
}

bool fits(std::string_view pattern, const Finding& finding) {
  const std::size_t both = pattern.find('+');
  if (both != std::string_view::npos) {
    return fits(pattern.substr(0, both), finding) && fits(pattern.substr(both + 1), finding);
  }
  const std::size_t at = pattern.find('@');
  if (at != std::string_view::npos) {
    return finding.site.op == pattern.substr(at + 1) && fits_code(pattern.substr(0, at), finding);
  }
  const std::size_t law = pattern.find('=');
  if (law != std::string_view::npos) {
    const nlohmann::json& detail = finding.site.detail;
    return detail.is_object() && detail.value("law", std::string()) == pattern.substr(law + 1) &&
           fits_code(pattern.substr(0, law), finding);
  }
  const std::size_t other = pattern.rfind('!');
  if (other != std::string_view::npos) {
    return !names_part(finding, pattern.substr(other + 1)) &&
           fits(pattern.substr(0, other), finding);
  }
  const std::size_t part = pattern.find('#');
  if (part != std::string_view::npos) {
    return names_part(finding, pattern.substr(part + 1)) &&
           fits_code(pattern.substr(0, part), finding);
  }
  const Code* code = find_code(finding.code);
  const bool family = !pattern.empty() && pattern[0] >= 'a' && pattern[0] <= 'z';
  if (family) return code != nullptr && pattern == name_of(code->family);
  return fits_code(pattern, finding);
}

}  // namespace harness
