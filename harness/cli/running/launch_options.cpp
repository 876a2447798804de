#include "harness/cli/running/launch_options.h"

#include <arpa/inet.h>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "harness/cli/machine/environment.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

// Agents are told this very address, so one that stands for all interfaces would send them nowhere.
void set_listen(const std::string& text, Launch& launch) {
  const std::size_t colon = text.find(':');
  launch.address = text.substr(0, colon);
  in_addr address{};
  const bool numeric = inet_pton(AF_INET, launch.address.c_str(), &address) == 1;
  constexpr int kMostPort = 65535;
  const auto port = colon == std::string::npos ? std::optional<std::int64_t>(0)
                                               : nsa::parse_int(text.substr(colon + 1));
  if (!numeric || address.s_addr == htonl(INADDR_ANY) || !port || *port < 0 || *port > kMostPort) {
    throw nsa::Error(
        "--listen: found \"" + text +
        "\", wanted the IPv4 address of one interface in numbers, and :PORT if you like");
  }
  launch.port = static_cast<int>(*port);
}

}  // namespace

void add_launch_options(CLI::App& command, LaunchOptions& options) {
  command.add_option(
      "--launcher",
      options.launcher,
      "A command that starts the ranks, such as 'mpirun -n {ranks}', 'srun -n {ranks}'");
  command.add_option("--listen",
                     options.listen,
                     "With --launcher on several hosts: ADDRESS[:PORT] that they reach (default: "
                     "loopback, this host only)");
  command
      .add_option("--join-within",
                  options.join_seconds,
                  "With --launcher: seconds until all ranks must have joined")
      ->check(CLI::Range(1.0, 86400.0));
}

std::vector<std::string> launcher_words(const std::string& text) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : text) {
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += c;
    }
  }
  if (quote != 0) throw nsa::Error("--launcher: found a quote that is not closed: " + text);
  if (words.empty()) throw nsa::Error("--launcher: found no word, wanted a command");
  return words;
}

Launch launch_of(const LaunchOptions& options) {
  Launch launch;
  if (options.launcher.empty()) {
    if (!options.listen.empty()) throw nsa::Error("--listen: found no --launcher beside it");
    return launch;
  }
  launch.words = launcher_words(options.launcher);
  std::error_code error;
  launch.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) throw nsa::Error("cannot tell where this program is: " + error.message());
  launch.environment = as_texts(own_variables());
  if (!options.listen.empty()) set_listen(options.listen, launch);
  launch.join_deadline_ms = static_cast<std::int64_t>(options.join_seconds * 1000.0);
  return launch;
}

}  // namespace harness::cli
