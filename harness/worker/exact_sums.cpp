#include "harness/worker/exact_sums.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "harness/worker/record/tensor_file.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "nsa/train/counter_random.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr std::int64_t kPeriod = 65521;
constexpr std::int64_t kPeriodsAtOnce =
    16;  // a million numbers: no second copy of a large bucket is needed
constexpr int kMostRanks = 255;
constexpr std::int64_t kMostPlaces = 64;

struct Drawn {
  std::vector<int> own;  // addends of this rank
  std::vector<int> sum;
};

Drawn drawn_for(
    std::int64_t seed, std::int64_t step, int bucket, int rank, int world, std::int64_t count) {
  constexpr std::uint64_t kOfSums = std::uint64_t{1} << 62U;
  const std::int64_t largest = kMostRanks / world;
  const auto count_of_values = static_cast<std::uint64_t>(2 * largest + 1);
  const std::uint64_t of_step =
      nsa::draw(static_cast<std::uint64_t>(seed) ^ kOfSums, static_cast<std::uint64_t>(step));
  const std::uint64_t of_bucket = nsa::draw(of_step, static_cast<std::uint64_t>(bucket));
  const auto length = static_cast<std::size_t>(std::min(count, kPeriod));
  Drawn drawn{std::vector<int>(length), std::vector<int>(length)};
  for (int one = 0; one < world; ++one) {
    const std::uint64_t key = nsa::draw(of_bucket, static_cast<std::uint64_t>(one));
    for (std::size_t i = 0; i < length; ++i) {
      const int addend =
          static_cast<int>(nsa::draw(key, i) % count_of_values) - static_cast<int>(largest);
      drawn.sum[i] += addend;
      if (one == rank) drawn.own[i] = addend;
    }
  }
  return drawn;
}

torch::ScalarType type_named(const std::string& name) {
  static const std::map<std::string, torch::ScalarType> kTypes = {{"Float", torch::kFloat},
                                                                  {"Double", torch::kDouble},
                                                                  {"Half", torch::kHalf},
                                                                  {"BFloat16", torch::kBFloat16}};
  const auto at = kTypes.find(name);
  if (at == kTypes.end()) throw nsa::Error("bucket of type " + name + ": no type of gradients");
  return at->second;
}

// Some periods of them one after the other, or what one holds where that is not all of a period.
Tensor repeated(const std::vector<int>& values, const torch::TensorOptions& options) {
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor once = torch::tensor(values, torch::kInt).to(options.dtype().toScalarType());
  return once.to(options.device()).repeat({count < kPeriod ? 1 : kPeriodsAtOnce});
}

// Calls `each` with a piece of `all` and as many of `pattern`.
template <typename Each>
void piece_by_piece(const Tensor& all, const Tensor& pattern, const Each& each) {
  for (std::int64_t begin = 0; begin < all.numel(); begin += pattern.numel()) {
    const std::int64_t count = std::min(pattern.numel(), all.numel() - begin);
    each(begin, all.narrow(0, begin, count), pattern.narrow(0, 0, count));
  }
}

void note_wrong(ExactSum& row, std::int64_t begin, const Tensor& found, const Tensor& wanted) {
  const Tensor places = (found != wanted).nonzero().flatten().cpu();  // a NaN equals nothing
  row.wrong += places.numel();
  const auto room = kMostPlaces - static_cast<std::int64_t>(row.places.size());
  for (std::int64_t i = 0; i < std::min(room, places.numel()); ++i) {
    const auto place = places[i].item<std::int64_t>();
    row.places.push_back(begin + place);
    row.values.push_back(nsa::to_text(found[place].item<double>()));
  }
}

}  // namespace

ExactSums::ExactSums(Session& session, nsa::Communicator& communicator, const torch::Device& device)
    : session_(session),
      communicator_(communicator),
      device_(device),
      asked_(session.wants_check("machine_sound") && session.observe() >= kWatchValues &&
             communicator.world() > 1 && communicator.world() <= kMostRanks) {}

void ExactSums::take(std::int64_t step, const std::vector<nsa::BucketPlan>& plans) {
  if (!asked_ || !ExactSum::is_due(step, session_.the_case().scenario.training.steps)) return;
  session_.enter("known_sums", step);
  for (const nsa::BucketPlan& plan : plans) take_one(step, plan);
}

void ExactSums::take_one(std::int64_t step, const nsa::BucketPlan& plan) {
  const torch::NoGradGuard no_grad;
  const Scenario& scenario = session_.the_case().scenario;
  const bool compressed = scenario.parallel.compress == "bf16";
  ExactSum row{step, plan.bucket, plan.elements, compressed ? "BFloat16" : plan.dtype, "", 0};
  const auto options = torch::dtype(type_named(row.dtype)).device(device_);
  const Drawn drawn = drawn_for(
      scenario.seed, step, plan.bucket, communicator_.rank(), communicator_.world(), plan.elements);
  Tensor held = torch::empty({plan.elements}, options);
  piece_by_piece(held,
                 repeated(drawn.own, options),
                 [](std::int64_t /*begin*/, const Tensor& piece, const Tensor& addends) {
                   piece.copy_(addends);
                 });
  std::vector<Tensor> tensors = {held};
  communicator_.group()->allreduce(tensors)->wait();
  piece_by_piece(held,
                 repeated(drawn.sum, options),
                 [&row](std::int64_t begin, const Tensor& piece, const Tensor& sums) {
                   note_wrong(row, begin, piece, sums);
                 });
  row.hash = nsa::hash_hex(bytes_of(held.cpu()));
  session_.channel().write(row);
}

}  // namespace harness
