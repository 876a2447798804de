// The verbs there are, in the order of --help. A new one is one file in verbs/ and one line in verbs.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace harness::cli {

// What runs when the command line was understood; gives the exit code. Throws: nsa::Error for what the user must mend.
using Action = std::function<int()>;

struct Verb {
  const char* name;
  const char* about;
  const char* example;               // real, shown by --help
  Action (*add)(CLI::App& command);  // declares the verb's options
};

[[nodiscard]] const std::vector<Verb>& verbs();

[[nodiscard]] Action add_run(CLI::App& command);
[[nodiscard]] Action add_attach(CLI::App& command);
[[nodiscard]] Action add_join(CLI::App& command);
[[nodiscard]] Action add_list(CLI::App& command);
[[nodiscard]] Action add_report(CLI::App& command);
[[nodiscard]] Action add_judge(CLI::App& command);
[[nodiscard]] Action add_explain(CLI::App& command);
[[nodiscard]] Action add_bundle(CLI::App& command);
[[nodiscard]] Action add_replay(CLI::App& command);
[[nodiscard]] Action add_diagnose(CLI::App& command);
[[nodiscard]] Action add_golden(CLI::App& command);
[[nodiscard]] Action add_selftest(CLI::App& command);
[[nodiscard]] Action add_nightly(CLI::App& command);
[[nodiscard]] Action add_compare(CLI::App& command);
[[nodiscard]] Action add_history(CLI::App& command);
[[nodiscard]] Action add_baseline(CLI::App& command);
[[nodiscard]] Action add_bisect(CLI::App& command);
[[nodiscard]] Action add_db(CLI::App& command);
[[nodiscard]] Action add_doctor(CLI::App& command);
[[nodiscard]] Action add_version(CLI::App& command);
[[nodiscard]] Action add_completion(CLI::App& command);

// "nsa-harness 0.1.0, sources 5001ce"
[[nodiscard]] std::string version_line();

// The whole program: parses, runs the verb, turns every error into one line on stderr and an exit code.
[[nodiscard]] int run_command_line(int argc, char** argv);

// The words that the program was started with, for the record.
[[nodiscard]] const std::vector<std::string>& command_words();

}  // namespace harness::cli
