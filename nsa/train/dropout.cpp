#include "nsa/train/dropout.h"

#include "nsa/train/counter_random.h"

namespace nsa {

torch::Tensor Dropout::kept(const DropoutPlace& place, std::int64_t width) const {
  constexpr std::uint64_t kOfDropout = 0x8000000000000000U;
  auto kept_BSE = torch::empty({shape_.batch_size, shape_.seq_len, width}, torch::kBool);
  bool* out = kept_BSE.data_ptr<bool>();
  for (std::int64_t row = 0; row < shape_.batch_size; ++row) {
    const std::uint64_t number =
        sequence_number(shape_, place.step, place.micro, place.rank, world_, row);
    const auto part = static_cast<std::uint64_t>(2 * place.layer + place.site);
    const std::uint64_t key = draw(draw(seed_ ^ kOfDropout, number), part);
    for (std::int64_t i = 0; i < shape_.seq_len * width; ++i) {
      *out++ = unit(draw(key, static_cast<std::uint64_t>(i))) >= p_;
    }
  }
  return kept_BSE;
}

torch::Tensor Dropout::dropped(const torch::Tensor& branch_BSE,
                               const torch::Tensor& kept_BSE) const {
  const auto scaled_BSE = branch_BSE * (1.0 / (1.0 - p_));
  return torch::where(kept_BSE.to(branch_BSE.device()), scaled_BSE, torch::zeros_like(scaled_BSE));
}

}  // namespace nsa
