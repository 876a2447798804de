#include "harness/worker/vector_math.h"

#include "nsa/torch.h"

namespace harness {

void prepare_vector_math() {
  for (const torch::ScalarType type : {torch::kDouble, torch::kFloat}) {
    const torch::Tensor one = torch::ones({1}, type);
    one.cos();
    one.sin();
    one.exp();
    one.log();
  }
}

}  // namespace harness
