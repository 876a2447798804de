// A branch that takes its keys tile by tile, or in parts that are merged afterwards, and puts the parts together wrongly. Rows
// whose keys lie in one tile are right. How the keys are divided is the implementation's choice: it is tried.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace oracles {

// All of them, and the one of a name: nullptr if none has it.
std::span<const Law> tiled_laws();
const Law* tiled_law(std::string_view name);

// "tiles of 16 of the branch's keys", "2 parts of the row's keys": the ways to divide them that are tried.
std::vector<std::string> tiled_forms();

// What a law gives with one of these forms. Throws std::invalid_argument for another one.
Tensor tiled_output(std::string_view law, std::string_view form, const Stages& in, Branch branch);

// Of the branch's output the laws for which `gives_all` says that they give it, with the forms that do.
using OutputOf = std::function<Tensor(const Stages&)>;
std::vector<LawFit> fitting_tiled_laws(Stage stage,
                                       const std::function<bool(const OutputOf&)>& gives_all);

}  // namespace oracles
