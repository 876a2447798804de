// `run --launcher`: a launcher of the user's starts the ranks, on this host or on several.
#pragma once

#include <string>
#include <vector>

#include "harness/run/runner.h"

namespace CLI {
class App;
}

namespace harness::cli {

struct LaunchOptions {
  std::string launcher;  // "": ranks are started here
  std::string listen;    // ADDRESS[:PORT]; "": loopback
  double join_seconds = 60.0;
};

// The options are filled when the command line is read; `options` must live until then.
void add_launch_options(CLI::App& command, LaunchOptions& options);

// Words as a shell would take them, but for variables, patterns and escapes: quotes of both kinds hold words together.
// Throws: nsa::Error where a quote is not closed, or there is no word.
[[nodiscard]] std::vector<std::string> launcher_words(const std::string& text);

// Without words where no launcher was asked for. Throws: nsa::Error.
[[nodiscard]] Launch launch_of(const LaunchOptions& options);

}  // namespace harness::cli
