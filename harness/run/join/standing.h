// Which rank a process is, as the launcher that started it says in its environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace harness {

struct Standing {
  int rank = 0;
  int world = 1;
};

using GetVariable = std::function<const char*(const char* name)>;  // as getenv()

// The first pair of names that is there: RANK and WORLD_SIZE (torchrun, env://), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI),
// PMI_RANK and PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID and SLURM_NTASKS (srun). Inside a Slurm job the last pair is there for
// every process, so it is asked last. Throws: nsa::Error where there is none, or one that is none.
[[nodiscard]] Standing standing_of(const GetVariable& variable);

}  // namespace harness
