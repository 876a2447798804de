# Writes all_checks() to OUT: the functions `Check name() {` of the sources below FOLDER, in the order of their files.
file(GLOB_RECURSE files ${FOLDER}/*.cpp)
foreach(file ${files})
  file(STRINGS ${file} lines REGEX "^Check [a-z_]+\\(\\) {")
  foreach(line ${lines})
    string(REGEX REPLACE "^Check ([a-z_]+).*" "\\1" name "${line}")
    string(APPEND declared "Check ${name}();\n")
    string(APPEND listed "      checks::${name}(),\n")
  endforeach()
endforeach()
set(text "// Written by list_of_checks.cmake.
#include \"harness/checks/list.h\"

namespace harness {
namespace checks {
${declared}}  // namespace checks

const std::vector<Check>& all_checks() {
  static const std::vector<Check> kChecks = {
${listed}  };
  return kChecks;
}

}  // namespace harness
")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
