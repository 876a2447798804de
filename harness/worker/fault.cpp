#include "harness/worker/fault.h"

#include <algorithm>
#include <cmath>

#include "harness/scenario/experiment.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): enough to decorrelate seeds and purposes.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t key_of(std::int64_t seed, std::string_view purpose, std::int64_t index) {
  std::uint64_t key = mix(static_cast<std::uint64_t>(seed));
  for (const char c : purpose) {
    key = mix(key ^ static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  }
  return mix(key ^ static_cast<std::uint64_t>(index));
}

}  // namespace

TrainingPoints& FaultContext::needed_training() const {
  if (training == nullptr) {
    throw nsa::Error("fault: found '" + request.name + "' in kind " +
                     session.the_case().scenario.kind + ", wanted kind training");
  }
  return *training;
}

void FaultContext::lacks(const std::string& what_and_wanted) const {
  if (!is_experiment(session.the_case())) throw nsa::Error("fault: " + what_and_wanted);
}

void Fired::operator()(std::int64_t times) {
  if (times > 0 && times_.fetch_add(times) == 0) {
    channel_.write(FaultFired{times});
  }
}

void Fired::write_total() {
  if (times_ > 0) {
    channel_.write(FaultFired{times_});
  }
}

double draw_unit(std::int64_t seed, std::string_view purpose, std::int64_t index) {
  return std::ldexp(static_cast<double>(key_of(seed, purpose, index) >> 11U), -53);
}

int draw_index(std::int64_t seed, std::string_view purpose, int count) {
  return std::min(count - 1, static_cast<int>(draw_unit(seed, purpose) * count));
}

std::vector<int> fault_layers(const FaultRequest& request, int n_layers) {
  if (request.layers.empty()) return {draw_index(request.seed, "layer", n_layers)};
  std::vector<int> layers = request.layers;
  std::erase_if(layers, [&](int layer) { return layer >= n_layers; });
  return layers;
}

std::string fault_form(const FaultRequest& request, const std::vector<std::string>& forms) {
  const int drawn = draw_index(request.seed, "form", static_cast<int>(forms.size()));
  return request.form.empty() ? forms[static_cast<std::size_t>(drawn)] : request.form;
}

bool fault_on_rank(const FaultRequest& request, int rank) {
  return request.all_ranks || !request.rank || *request.rank == rank;
}

bool fault_on_one_rank(const FaultRequest& request, int rank, int world) {
  return request.all_ranks ||
         rank == request.rank.value_or(draw_index(request.seed, "rank", world));
}

torch::Tensor draw_rows(const FaultRequest& request,
                        int layer,
                        std::int64_t step,
                        std::int64_t batch,
                        std::int64_t groups,
                        std::int64_t rows) {
  auto mask_BGS = torch::zeros({batch, groups, rows}, torch::kBool);
  auto mask = mask_BGS.accessor<bool, 3>();
  const std::string purpose =
      "rows of layer " + std::to_string(layer) + " step " + std::to_string(step);
  bool any = false;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t t = 1; t < rows; ++t) {
        const bool set =
            draw_unit(request.seed, purpose, (b * groups + g) * rows + t) < request.strength;
        mask[b][g][t] = set;
        any = any || set;
      }
    }
  }
  if (!any && rows > 1) {
    mask[draw_index(request.seed, "batch", static_cast<int>(batch))]
        [draw_index(request.seed, "group", static_cast<int>(groups))]
        [1 + draw_index(request.seed, "row", static_cast<int>(rows) - 1)] = true;
  }
  return mask_BGS;
}

}  // namespace harness
