#include <array>

#include "nsa/kernels/common/kernels.h"

namespace nsa::kernels {

#define NSA_INSTANCE(name) MatrixKernels name();
#include "nsa_kernel_instances.inc"
#undef NSA_INSTANCE

// The narrowest that has room: rows are filled up with zeros.
const MatrixKernels* find_matrix_kernels(Element element, int d_k, int d_v, Family family) {
  static const std::array kTables{
#define NSA_INSTANCE(name) name(),
#include "nsa_kernel_instances.inc"
#undef NSA_INSTANCE
  };
  const MatrixKernels* best = nullptr;
  for (const MatrixKernels& table : kTables) {
    if (table.element != element || table.family != family) continue;
    if (table.k_columns < d_k || table.v_columns < d_v) continue;
    if (best != nullptr && best->k_columns + best->v_columns <= table.k_columns + table.v_columns) {
      continue;
    }
    best = &table;
  }
  return best;
}

}  // namespace nsa::kernels
