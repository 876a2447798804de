#include "harness/cli/running/room.h"

#include <filesystem>

#include "harness/cli/output.h"

namespace harness::cli {
namespace {

constexpr std::int64_t kLeastFree = std::int64_t{64}
                                    << 20;  // events, logs and the database's own growth

}  // namespace

std::int64_t room_wanted(const Scenario& scenario) {
  if (!scenario.has_twin()) return kLeastFree;
  // Of each rank: its own gradients, the reduced ones, and the twin's, each a float32 for each parameter; and in the first step
  // what the optimiser had and made: weights, masters, both moments, before and after.
  constexpr std::int64_t kBytesOfAParameter = (3 + 8) * 4;
  return kLeastFree +
         kBytesOfAParameter * scenario.parallel.ranks * scenario.model.parameter_count();
}

std::string too_little_room(const std::string& folder, const Scenario& scenario) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) return "";  // a file system that does not tell is no reason to refuse
  const auto free = static_cast<std::int64_t>(space.available);
  const std::int64_t wanted = room_wanted(scenario);
  if (free >= wanted) return "";
  return "too little room on the disk: " + folder + " has " + megabytes(free) +
         " left, this case may write " + megabytes(wanted);
}

}  // namespace harness::cli
