#include "harness/cli/selftest/cases.h"

#include <array>
#include <filesystem>

#include "harness/scenario/case_json.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness::cli {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// The large model takes most of a minute a case.
constexpr std::int64_t kLargeParameters = 10'000'000;
constexpr std::array kSmallModel = {std::pair{"model.use", "toy"},
                                    std::pair{"model.n_layers", "3"}};
// Shares of the rows that a fault spoils.
constexpr std::array kStrengths = {"1.0", "0.3", "0.1", "0.03"};

// Draws of one file and number. Each purpose has its own, so that a new one changes no other.
class FileDraws {
 public:
  FileDraws(std::uint64_t seed, const std::string& file, int number)
      : base_(std::to_string(seed) + "/" + std::filesystem::path(file).stem().string() + "/" +
              std::to_string(number) + "/") {}

  [[nodiscard]] std::int64_t below(const std::string& purpose, std::int64_t count) const {
    constexpr int kHexDigits = 12;  // 48 bits: the remainder is even enough for any count here
    const std::string hex = nsa::hash_hex(base_ + purpose).substr(0, kHexDigits);
    return std::stoll(hex, nullptr, 16) % count;
  }

 private:
  std::string base_;
};

std::string list_of(std::int64_t value) {
  return "[" + std::to_string(value) + "]";
}

// Where a file names a layer, a rank or a step, any other would do as well; what it leaves open stays the fault's own draw.
Sets draw_place(const Case& written, const FaultInfo& info, const FileDraws& draws) {
  const Scenario& scenario = written.scenario;
  const FaultRequest& fault = *scenario.fault;
  const Site& site = scenario.expect->site;
  Sets sets;
  if (info.heeds("layers") && fault.layers.size() == 1) {
    const std::int64_t choice = scenario.model.n_layers - (info.needs_layer_above ? 1 : 0);
    const std::string layer = list_of(draws.below("layer", std::max<std::int64_t>(choice, 1)));
    sets.emplace_back("fault.layers", layer);
    if (!site.layers.empty()) sets.emplace_back("expect.site.layers", layer);
  }
  if (info.heeds("rank") && fault.rank) {
    const std::int64_t rank = draws.below("rank", scenario.parallel.ranks);
    sets.emplace_back("fault.rank", std::to_string(rank));
    if (!site.ranks.empty()) sets.emplace_back("expect.site.ranks", list_of(rank));
  }
  if (info.heeds("step") && fault.step > 1) {
    const std::int64_t step =
        fault.step + draws.below("step", scenario.training.steps - fault.step + 1);
    sets.emplace_back("fault.step", std::to_string(step));
    if (site.step) sets.emplace_back("expect.site.step", std::to_string(step));
  }
  return sets;
}

Sets draw(const Case& written, const FaultInfo& info, const FileDraws& draws) {
  constexpr std::int64_t kSeeds = 1000;
  Sets sets = draw_place(written, info, draws);
  if (info.heeds("strength") && written.scenario.fault->strength == 1.0) {
    const std::string strength = kStrengths.at(draws.below("strength", kStrengths.size()));
    sets.emplace_back("fault.strength", strength);
    // The file names rows of the full strength; which of them a share spoils is the fault's own draw.
    const bool names_rows = !written.scenario.expect->site.rows.empty();
    if (names_rows && strength != kStrengths.front()) sets.emplace_back("expect.site.rows", "[]");
  }
  sets.emplace_back("fault.seed", std::to_string(draws.below("fault.seed", kSeeds)));
  sets.emplace_back("seed", std::to_string(draws.below("seed", kSeeds)));
  return sets;
}

Case without_fault(Case the_case) {
  the_case.scenario.fault.reset();
  the_case.scenario.expect.reset();
  the_case.point.emplace_back("fault", "none");
  the_case.id = case_id(the_case);
  return the_case;
}

void name_draws(Case& the_case, const Sets& sets) {
  for (const auto& [path, value] : sets) {
    if (!path.starts_with("expect.")) the_case.point.emplace_back(path, value);
  }
}

void refuse_what_plants_nothing(const std::string& file, const Case& written) {
  if (!written.scenario.fault || !written.scenario.expect) {
    throw nsa::Error(nsa::Location{file},
                     "a self-test needs a planted fault: found no " +
                         std::string(written.scenario.fault ? "expect" : "fault") +
                         ", wanted both fault and expect");
  }
}

// Sizes that make a self-test quick, where the file's do not. The layer that it names may not be there in fewer layers.
Sets smaller_sizes(const Case& written, const SelftestRequest& request) {
  const bool large = written.scenario.model.parameter_count() > kLargeParameters;
  if (!large || request.full_size) return {};
  Sets sets(kSmallModel.begin(), kSmallModel.end());
  if (!written.scenario.fault->layers.empty()) sets.emplace_back("fault.layers", "[0]");
  return sets;
}

void add_file(const std::string& file,
              const SelftestRequest& request,
              ScenarioOptions options,
              const Manifest& manifest,
              std::vector<Case>& cases) {
  Case written = load_cases(file, options, manifest).front();
  refuse_what_plants_nothing(file, written);
  if (const Sets sizes = smaller_sizes(written, request); !sizes.empty()) {
    options.sets.insert(options.sets.end(), sizes.begin(), sizes.end());
    written = load_cases(file, options, manifest).front();
  }
  const FaultInfo& info = manifest.fault_named(written.scenario.fault->name);
  for (int number = 1; number <= request.draws; ++number) {
    const Sets drawn = draw(written, info, FileDraws(request.seed, file, number));
    ScenarioOptions here = options;
    here.sets.insert(here.sets.end(), drawn.begin(), drawn.end());
    for (Case& planted : load_cases(file, here, manifest)) {
      name_draws(planted, drawn);
      cases.push_back(planted);
      cases.push_back(without_fault(std::move(planted)));
    }
  }
}

bool is_in_part(const std::string& file, const SelftestRequest& request) {
  return FileDraws(request.seed, file, 0).below("part", request.parts) + 1 == request.part;
}

}  // namespace

std::vector<Case> selftest_cases(const SelftestRequest& request,
                                 const ScenarioOptions& options,
                                 const Manifest& manifest) {
  std::vector<Case> cases;
  for (const std::string& file : request.files) {
    if (is_in_part(file, request)) add_file(file, request, options, manifest, cases);
  }
  return cases;
}

}  // namespace harness::cli
