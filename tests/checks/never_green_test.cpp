// No check is green on nothing. Every planted pass is judged again with its evidence taken away in five ways: no rows, no number
// that is finite, no hash, two sides that have no step in common, files that hold no finite number. What a check does not read may
// be taken from it: kReadsNone says which, and what it reads.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "harness/evidence/event.h"
#include "tests/checks/evidence_rows.h"
#include "tests/checks/planted.h"

namespace {

using fixtures::Planted;
using harness::Evidence;
using harness::Verdict;
using nlohmann::json;

// Changes the body of one row; false: the row goes.
using Change = std::function<bool(int process, const std::string& kind, json& body)>;

template <typename Row>
void change_rows(harness::Rows<Row>& rows, const Change& change) {
  harness::Rows<Row> left;
  for (const auto& row : rows) {
    json body = row.row;
    if (change(row.process, Row::kKind, body))
      left.push_back({row.process, row.t_ms, body.template get<Row>()});
  }
  rows = std::move(left);
}

// The same case, folder and files; every row as `change` leaves it.
Evidence changed(Evidence evidence, const Change& change) {
  fixtures::each_kind(evidence, [&](std::string_view kind, auto& rows) {
    if (kind != harness::kRejectedKind) change_rows(rows, change);
  });
  return evidence;
}

// By its name in the row: planted hashes are any words.
void empty_hashes(json& body) {
  for (auto& [key, value] : body.items()) {
    static const std::set<std::string> kHashes = {"scores",
                                                  "blocks",
                                                  "blocks_forward",
                                                  "parameters",
                                                  "frozen",
                                                  "buffers",
                                                  "own_buffers",
                                                  "states",
                                                  "inputs"};
    const bool is_hash = key.find("hash") != std::string::npos || kHashes.count(key) > 0;
    if (is_hash && value.is_string()) value = "";
  }
}

// A real number of a row is a JSON number with a fraction, or the name of one that is none.
bool is_real(const json& value) {
  return value.is_number_float() ||
         (value.is_string() && (value == "NaN" || value == "Infinity" || value == "-Infinity"));
}

template <typename Which>
void replace_leaves(json& value, const Which& is_it, const json& by) {
  if (is_it(value)) {
    value = by;
  } else if (value.is_structured()) {
    for (json& inner : value) replace_leaves(inner, is_it, by);
  }
}

// Every floating number of the file becomes a NaN.
void write_nans(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const std::map<std::string, std::string> nan_of = {
      {"F64", std::string("\0\0\0\0\0\0\xf8\x7f", 8)},
      {"F32", std::string("\0\0\xc0\x7f", 4)},
      {"BF16", std::string("\xc0\x7f", 2)},
      {"F16", std::string("\0\x7e", 2)}};
  const json tensors = json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    const auto nan = nan_of.find(tensor.value("dtype", ""));
    if (name == "__metadata__" || nan == nan_of.end()) continue;
    const auto begin = tensor.at("data_offsets")[0].get<std::uint64_t>();
    const auto end = tensor.at("data_offsets")[1].get<std::uint64_t>();
    std::string bytes;
    while (bytes.size() < end - begin) bytes += nan->second;
    file.seekp(static_cast<std::streamoff>(sizeof length + length + begin));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

void write_nans_into_files(const Evidence& evidence) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(evidence.folder)) {
    if (entry.path().extension() == ".safetensors") write_nans(entry.path().string());
  }
}

enum class Taken { rows, numbers, hashes, overlap, files };
constexpr std::array kTaken = {
    Taken::rows, Taken::numbers, Taken::hashes, Taken::overlap, Taken::files};
constexpr std::array<const char*, 5> kNames = {"rows", "numbers", "hashes", "overlap", "files"};
std::string name_of(Taken taken) {
  return kNames.at(static_cast<std::size_t>(taken));
}

Evidence without(Taken taken, const Evidence& evidence) {
  return changed(evidence, [&](int process, const std::string& kind, json& body) {
    if (taken == Taken::rows) return false;
    if (taken == Taken::numbers) replace_leaves(body, &is_real, "NaN");
    if (taken == Taken::hashes) empty_hashes(body);
    // The twin's rows, and those of rank 1, are of other steps.
    const bool other_side = process == harness::kTwin || process == 1;
    if (taken == Taken::overlap && other_side && body.contains("step") && kind != "phase") {
      body["step"] = body["step"].get<std::int64_t>() + 1000;
    }
    return true;
  });
}

std::string text_of(const Evidence& evidence) {
  std::string text;
  (void)changed(evidence, [&](int process, const std::string& kind, json& body) {
    text += std::to_string(process) + kind + body.dump();
    return true;
  });
  return text;
}

bool has_lost_something(Taken taken, const Evidence& before, const Evidence& after) {
  if (taken != Taken::files) return text_of(before) != text_of(after);
  return std::any_of(before.artefacts.begin(), before.artefacts.end(), [](const auto& row) {
    return row.row.path.ends_with(".safetensors");
  });
}

// What checks pass without, since they read none of it, and what they read in its place.
struct Exempt {
  Taken taken;
  const char* reads;
  std::set<std::string> checks;
};
const std::vector<Exempt> kReadsNone = {
    {Taken::numbers,
     "hashes, states and counts",
     {"buckets_as_asked",
      "checkpoint_equal",
      "collectives_agree",
      "data_distinct",
      "decisions_agree",
      "exercised",
      "gradients_agree",
      "gradients_arrived",
      "machine_sound",
      "matches_twin",
      "parameters_agree",
      "process_clean",
      "progress",
      "ran_route",
      "resume_equal",
      "steps_agree",
      "unmutated"}},
    {Taken::numbers,
     "files",
     {"close_to_oracle",
      "close_to_reference",
      "equals_joint_batch",
      "kernel_causal",
      "kernel_is_oracle",
      "repeats_equal",
      "selection_valid"}},
    {Taken::files,
     "rows",
     {"buckets_as_asked",  "checkpoint_equal",  "collectives_agree", "data_distinct",
      "decisions_agree",   "exercised",         "gate_alive",        "gradients_agree",
      "gradients_arrived", "levels_agree",      "loss_falls",        "loss_floor",
      "machine_sound",     "measured_as_asked", "memory_scaling",    "optimizer_sound",
      "parameters_agree",  "process_clean",     "progress",          "ran_route",
      "reads_count",       "repeats_equal",     "resume_equal",      "same_losses",
      "steps_agree",       "unmutated",         "within_budget"}},
    {Taken::hashes,
     "numbers, states and counts",
     {"buckets_as_asked",
      "collectives_agree",
      "exercised",
      "finite",
      "gate_alive",
      "gradients_arrived",
      "levels_agree",
      "loss_falls",
      "loss_floor",
      "measured_as_asked",
      "memory_scaling",
      "optimizer_sound",
      "process_clean",
      "progress",
      "ran_route",
      "steps_agree",
      "within_budget"}},
    {Taken::hashes, "losses; with a graph hashes too", {"same_losses"}},
    {Taken::hashes,
     "files",
     {"close_to_oracle", "equals_joint_batch", "kernel_causal", "kernel_is_oracle"}},
    {Taken::hashes, "of no checkpointed layer nothing", {"checkpoint_equal"}},
    {Taken::overlap, "of no checkpointed layer nothing", {"checkpoint_equal"}},
    {Taken::overlap,
     "of one rank nothing beside its own rows",
     {"gradients_agree", "kernel_causal", "kernel_is_oracle"}},
    {Taken::overlap, "sequence numbers, in any step", {"collectives_agree"}},
    {Taken::overlap,
     "each rank by itself",
     {"exercised",
      "finite",
      "gate_alive",
      "loss_falls",
      "loss_floor",
      "machine_sound",
      "measured_as_asked",
      "memory_scaling",
      "process_clean",
      "progress",
      "ran_route",
      "within_budget"}},
};

bool reads_none(const Planted& planted, Taken taken) {
  // With a graph the last parameters are compared by their hashes.
  if (planted.check == "same_losses" && taken == Taken::hashes &&
      planted.name.find("graph") != std::string::npos)
    return false;
  return std::any_of(kReadsNone.begin(), kReadsNone.end(), [&](const Exempt& exempt) {
    return exempt.taken == taken && exempt.checks.count(planted.check) > 0;
  });
}

class NeverGreen : public testing::TestWithParam<std::tuple<std::size_t, Taken>> {};

TEST_P(NeverGreen, NoCheckPassesWithoutItsEvidence) {
  const auto& [index, taken] = GetParam();
  const Planted& planted = fixtures::all_planted()[index];
  fixtures::Healthy healthy(planted.ranks, planted.steps, planted.kind);
  planted.spoil(healthy);
  const Evidence left = without(taken, healthy.evidence);
  if (taken == Taken::files) write_nans_into_files(left);
  if (!has_lost_something(taken, healthy.evidence, left)) return;
  const harness::CheckResult result = fixtures::run(planted.check, left);
  if (reads_none(planted, taken)) return;
  EXPECT_NE(result.verdict, Verdict::pass)
      << "NOTGREEN " << planted.check << " " << name_of(taken) << ": " << result.reason;
}

// Of a check that computes with the oracle one pass a way: each takes seconds.
std::vector<std::tuple<std::size_t, Taken>> passes() {
  std::vector<std::tuple<std::size_t, Taken>> all;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < fixtures::all_planted().size(); ++i) {
    const Planted& planted = fixtures::all_planted()[i];
    if (planted.verdict != Verdict::pass) continue;
    if (!seen.insert(planted.check).second && fixtures::asks_the_oracle(planted.check)) continue;
    for (const Taken taken : kTaken) all.emplace_back(i, taken);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Passes, NeverGreen, testing::ValuesIn(passes()), [](const auto& at) {
  const Planted& planted = fixtures::all_planted()[std::get<0>(at.param)];
  std::string name =
      planted.check + "_" + planted.name + "_without_" + name_of(std::get<1>(at.param));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

}  // namespace
