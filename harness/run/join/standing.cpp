#include "harness/run/join/standing.h"

#include <array>
#include <utility>

#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::array kNames = {std::pair{"RANK", "WORLD_SIZE"},
                               std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               std::pair{"PMI_RANK", "PMI_SIZE"},
                               std::pair{"SLURM_PROCID", "SLURM_NTASKS"}};

std::int64_t number_in(const GetVariable& variable, const char* name, std::int64_t low) {
  constexpr std::int64_t kMostRanks = 1 << 20;
  const char* text = variable(name);
  const auto number = text != nullptr ? nsa::parse_int(text) : std::nullopt;
  if (!number || *number < low || *number > kMostRanks) {
    throw nsa::Error(std::string(name) + ": found " +
                     (text != nullptr ? "\"" + std::string(text) + "\"" : "nothing") +
                     ", wanted a whole number");
  }
  return *number;
}

}  // namespace

Standing standing_of(const GetVariable& variable) {
  for (const auto& [rank_name, world_name] : kNames) {
    if (variable(rank_name) == nullptr) continue;
    const std::int64_t world = number_in(variable, world_name, 1);
    const std::int64_t rank = number_in(variable, rank_name, 0);
    if (rank >= world) {
      throw nsa::Error(std::string(rank_name) + ": found " + std::to_string(rank) +
                       ", wanted less than " + std::to_string(world) + " (" + world_name + ")");
    }
    return {static_cast<int>(rank), static_cast<int>(world)};
  }
  throw nsa::Error(
      "the launcher does not say which rank this is: found none of RANK, OMPI_COMM_WORLD_RANK, "
      "PMI_RANK, SLURM_PROCID in the environment");
}

}  // namespace harness
