#include "harness/evidence/rows.h"

#include <cmath>

#include "harness/evidence/tensor_classes.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {

std::string process_name(int process) {
  if (process == kTwin) return "twin";
  if (process == kController) return "controller";
  if (process == kLauncher) return "launcher";
  return "rank " + std::to_string(process);
}

std::string digest_of(const StepDigest& digest, const TensorClass& of) {
  return of.digest != nullptr ? digest.*of.digest : nsa::join(digest.gradients);
}

void to_json(nlohmann::json& json, const Real& real) {
  if (std::isfinite(real.value)) {
    json = real.value;
  } else {
    json = nsa::to_text(real.value);
  }
}

void from_json(const nlohmann::json& json, Real& real) {
  if (json.is_number()) {
    real.value = json.get<double>();
    return;
  }
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const bool known = text == "NaN" || text == "Infinity" || text == "-Infinity";
  if (!known) {
    throw nsa::Error("found " + std::string(json.type_name()) +
                     ", wanted a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  }
  real.value = *nsa::parse_double(text);
}

void to_json(nlohmann::json& json, const Reach& reach) {
  if (reach == Reach::unknown) {
    json = "unknown";
  } else {
    json = reach == Reach::yes;
  }
}

void from_json(const nlohmann::json& json, Reach& reach) {
  if (json.is_boolean()) {
    reach = json.get<bool>() ? Reach::yes : Reach::no;
    return;
  }
  if (!json.is_string() || json.get<std::string>() != "unknown") {
    throw nsa::Error("found " + std::string(json.type_name()) +
                     ", wanted true, false or \"unknown\"");
  }
  reach = Reach::unknown;
}

}  // namespace harness
