// LibTorch's cos and sin on a CPU call MKL's vector functions. When the first call of a process comes from several threads at
// once, one of them may compute with a lower accuracy (seen on an Intel Xeon with 8 threads a process and 4 runs at once: one run
// in four had other last bits in one thread's eighth of the rotation table). Nothing would then be equal bit by bit.
#pragma once

namespace harness {

// Makes the first calls on this thread alone. Before any tensor is computed.
void prepare_vector_math();

}  // namespace harness
