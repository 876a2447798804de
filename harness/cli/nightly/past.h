// What earlier nights say of tonight's cases: how long they took, and that the machine could run them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/scenario/case.h"
#include "harness/store/store.h"

namespace harness::cli {

inline constexpr const char* kAcceptMachine = "accept-machine";

class Past {
 public:
  // Nothing is known where there is no database yet. Throws: nsa::Error.
  explicit Past(const std::string& database);

  // The run in which the machine could still do it; "" where none is known, or the machine was accepted as it is since.
  [[nodiscard]] std::string could_in(const std::string& history_id) const;

  // What the case took when it last ran; else a quarter of what its scenario allows, or all of that where it is to stand still.
  [[nodiscard]] double expected_seconds(const Case& the_case, const std::string& history_id) const;
  // What must be left of the budget to begin it: a quarter more than it took when it last ran, and at most what its scenario
  // allows; else as expected.
  [[nodiscard]] double most_seconds(const Case& the_case, const std::string& history_id) const;

 private:
  [[nodiscard]] double taken(const Case& the_case, const std::string& history_id) const;

  std::unique_ptr<Store> store_;
  std::int64_t accepted_ms_ = 0;
};

}  // namespace harness::cli
