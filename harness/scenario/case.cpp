#include "harness/scenario/case.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "harness/scenario/bisect.h"
#include "harness/scenario/case_json.h"
#include "harness/scenario/overrides.h"
#include "harness/scenario/scenario_read.h"
#include "nsa/base/corpus.h"
#include "nsa/base/file.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::Location;
using nsa::YamlNode;

// With its text escaped a case must stay below what the YAML reader takes, since that reads its JSON back.
constexpr std::int64_t kMaxScenarioBytes = std::int64_t{256} << 10;
constexpr std::size_t kMaxCaseJsonBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxCases = 10'000;

using Point = std::vector<std::size_t>;  // index of the value of each axis

void check_product(const std::vector<Axis>& axes, const std::string& path) {
  std::size_t product = 1;
  for (const Axis& axis : axes) {
    product *= axis.values.size();
    if (product > kMaxCases) {
      throw Error(Location{path}, "axes: found more than " + std::to_string(kMaxCases) + " cases");
    }
  }
}

// The next point, the last axis turning fastest; false after the last one.
bool advance(Point& point, const std::vector<Axis>& axes) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (++point[i] < axes[i].values.size()) return true;
    point[i] = 0;
  }
  return false;
}

Case case_at(const ScenarioFile& file, const Point& point, const ReadContext& context) {
  Case the_case;
  YamlNode root = file.root;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Axis& axis = file.axes[i];
    const auto& [text, node] = axis.values[point[i]];
    nsa::set_yaml_path(root, axis.path, node);
    the_case.point.emplace_back(axis.path, text);
  }
  the_case.scenario = read_scenario(root, context);
  the_case.scenario.profile = file.profile;
  return the_case;
}

// Profiles that this machine does not choose are read as well: a mistake in them is found here, not on the other machine.
void check_other_profiles(const YamlNode& document,
                          const std::string& chosen,
                          const ReadContext& context) {
  ScenarioOptions plain = *context.options;
  plain.sets.clear();
  plain.seed.reset();
  std::vector<std::string> names = profiles_of(document);
  names.emplace_back();
  for (const std::string& name : names) {
    const bool seen = name == chosen && context.options->sets.empty();
    if (seen) continue;
    const ScenarioFile file = resolve_file(document, name, plain);
    (void)case_at(file, Point(file.axes.size(), 0), context);
  }
}

class CorpusSizes {
 public:
  std::int64_t of(const std::vector<std::string>& text) {
    const auto known = sizes_.find(text);
    if (known != sizes_.end()) return known->second;
    return sizes_[text] = nsa::find_corpus(text).bytes;
  }

 private:
  std::map<std::vector<std::string>, std::int64_t> sizes_;
};

// Ranks take disjoint windows: the text must hold them all.
void check_corpus(const Scenario& scenario, const YamlNode& root, CorpusSizes& sizes) {
  const nsa::TrainingConfig& training = scenario.training;
  if (training.data.source != nsa::DataConfig::Source::text) return;
  const YamlNode* node = nsa::find_yaml_path(root, "training.data");
  if (node == nullptr) node = root.find("training");
  std::int64_t bytes = 0;
  try {
    bytes = sizes.of(training.data.text);
  } catch (const Error& error) {
    throw Error(node->where, std::string("training.data: ") + error.what());
  }
  const double wanted =
      static_cast<double>(training.steps) * static_cast<double>(training.accumulate) *
      static_cast<double>(scenario.parallel.ranks) * static_cast<double>(training.batch_size) *
      static_cast<double>(training.seq_len);
  if (static_cast<double>(bytes) < wanted) {
    throw Error(node->where,
                "training.data: found " + std::to_string(bytes) +
                    " bytes of text, wanted at least " + nsa::to_text(wanted, 15) +
                    " (steps x accumulate x ranks x batch_size x seq_len)");
  }
}

// Every trial must be a case that can be read: all candidates, none, and each alone.
void check_bisect(const Case& the_case, const ScenarioFile& file) {
  const BisectConfig& bisect = the_case.scenario.bisect;
  if (bisect.over.empty()) return;
  const YamlNode& node = *file.root.find("bisect");
  for (const Axis& axis : file.axes) {
    if (axis.path == bisect.over || axis.path.starts_with(bisect.over + ".") ||
        bisect.over.starts_with(axis.path + ".")) {
      throw Error(node.where,
                  "bisect.over: found " + bisect.over + " beside the axis " + axis.path +
                      ", wanted another value");
    }
  }
  std::vector<std::vector<std::string>> subsets = {bisect.candidates, {}};
  for (const std::string& candidate : bisect.candidates) subsets.push_back({candidate});
  for (const std::vector<std::string>& subset : subsets) {
    try {
      (void)subset_of(trial_of(the_case, subset));
    } catch (const Error& error) {
      throw Error(node.where,
                  "bisect: with " + bisect.over + " " + subset_text(subset) + ": " + error.what());
    }
  }
}

void tell_expired(const ScenarioFile& file, const ScenarioOptions& options) {
  if (!options.on_note) return;
  for (const std::string& line : expired_known(file.root, options.today)) options.on_note(line);
}

}  // namespace

std::string Case::label() const {
  if (point.empty()) return scenario.name;
  std::vector<std::string> parts;
  for (const auto& [axis, value] : point) parts.push_back(axis + "=" + value);
  return scenario.name + "[" + nsa::join(parts, ",") + "]";
}

bool has_profile(const std::string& path, const std::string& name) {
  const std::string text = nsa::read_file(path, kMaxScenarioBytes);
  const std::vector<std::string> names = profiles_of(nsa::parse_yaml(text, path));
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<Case> load_cases(const std::string& path,
                             const ScenarioOptions& options,
                             const Manifest& manifest) {
  namespace fs = std::filesystem;
  const std::string text = nsa::read_file(path, kMaxScenarioBytes);
  const YamlNode document = nsa::parse_yaml(text, path);
  const ReadContext context{fs::absolute(path).lexically_normal().string(), &options, &manifest};
  const std::string profile = choose_profile(document, options);
  ScenarioFile file = resolve_file(document, profile, options);
  keep_only(file.axes, options.only, path);
  check_product(file.axes, path);
  check_other_profiles(document, profile, context);
  tell_expired(file, options);

  std::vector<Case> cases;
  std::set<std::string> ids;
  CorpusSizes sizes;
  Point point(file.axes.size(), 0);
  do {
    Case the_case = case_at(file, point, context);
    the_case.scenario.text = text;
    const Scenario& scenario = the_case.scenario;
    if (fs::path(path).filename() != scenario.name + ".yaml") {
      throw Error(document.find("scenario")->where,
                  "scenario: found \"" + scenario.name + "\" in the file " +
                      fs::path(path).filename().string() + ", wanted " + scenario.name + ".yaml");
    }
    check_corpus(scenario, file.root, sizes);
    check_bisect(the_case, file);
    the_case.id = case_id(the_case);
    if (!ids.insert(the_case.id).second) {
      throw Error(Location{path}, "axes: found the case " + the_case.label() + " a second time");
    }
    if (case_to_json(the_case).size() > kMaxCaseJsonBytes) {
      throw Error(Location{path}, "found a scenario too long to hand to a rank, wanted less text");
    }
    cases.push_back(std::move(the_case));
  } while (advance(point, file.axes));
  return cases;
}

}  // namespace harness
