// Planted cases that are data: one YAML file for each check, in tests/checks/planted (README.md there tells the format).
#pragma once

#include <string>
#include <vector>

#include "nsa/base/yaml.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

// Of every file in the folder, in the order of their names. Throws: nsa::Error "file:line: what was found, what was wanted".
// Where a change finds no row at all, only the case's `spoil` throws.
std::vector<Planted> planted_in_data();
std::vector<Planted> planted_in_file(const std::string& path);

// The changes of a list, one after the other. Throws: as above.
std::function<void(Healthy&)> changes_of(const nsa::YamlNode& list);

// A fixture in C++ that a case may `use`, with its arguments. Throws: nsa::Error where there is none of this name.
std::function<void(Healthy&)> fixture_named(const nsa::YamlNode& name,
                                            const nsa::YamlNode* arguments);

}  // namespace fixtures
