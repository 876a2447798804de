// Any bytes as a scenario file and as the JSON of a case: a value or an nsa::Error, never anything else; and a scenario that
// was read goes to JSON and back unchanged. Built with clang++ and NSA_FUZZ; seeds: scenarios/ and scenarios/faults/.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harness/scenario/case.h"
#include "harness/scenario/case_json.h"
#include "harness/scenario/overrides.h"
#include "harness/scenario/scenario_read.h"
#include "nsa/base/error.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/where.h"

namespace {

using harness::Case;

const harness::Manifest kManifest = fakes::manifest();

void require(bool law) {
  if (!law) std::abort();
}

void read_as_case(const std::string& text) {
  try {
    const Case the_case = harness::case_from_json(text, "case.json");
    const std::string json = harness::case_to_json(the_case);
    require(harness::case_to_json(harness::case_from_json(json, "again.json")) == json);
  } catch (const nsa::Error& error) {
    require(!std::string(error.what()).starts_with("again.json"));
  }
}

void read_as_scenario(const std::string& text) {
  harness::ScenarioOptions options = fakes::scenario_options(fakes::tree());
  options.gpus = static_cast<int>(text.size() % 3);
  const harness::ReadContext context{"/s.yaml", &options, &kManifest};
  Case the_case;
  try {
    const nsa::YamlNode document = nsa::parse_yaml(text, "s.yaml");
    const std::string profile = harness::choose_profile(document, options);
    const harness::ScenarioFile file = harness::resolve_file(document, profile, options);
    the_case.scenario = harness::read_scenario(file.root, context);
  } catch (const nsa::Error&) {
    return;
  }
  the_case.id = harness::case_id(the_case);
  require(harness::case_from_json(harness::case_to_json(the_case), "case.json") == the_case);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_as_scenario(text);
  read_as_case(text);
  return 0;
}
