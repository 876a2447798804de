// Kind `training`: optimiser steps of the NSA language model on every rank, everything recorded on the way; and its twin,
// which runs the ranks' micro-batches one after the other in one process, without fault or peers.
#pragma once

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] Kind training();

}  // namespace harness
